//! Progress bookkeeping of one document (broker-protocol section 10, last paragraph). Pure.

use serde::Serialize;

/// A line range as far as progress cares: half-open at `end_line` when `end_character` is 0. Lines are 0-based.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineRange {
    pub(crate) start_line: u64,
    pub(crate) end_line: u64,
    pub(crate) end_character: u64,
}

impl LineRange {
    /// The range's last line, 1-based: a range that ends at column 0 does not reach into its end line.
    pub(crate) fn end_bound(&self) -> u64 {
        if self.end_character == 0 && self.end_line > 0 { self.end_line } else { self.end_line + 1 }
    }
}

/// What Lean last said about how far it is; lines are 1-based.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Notifications seen for the tracked version.
    pub updates: u64,
    /// Nothing is being processed.
    pub done: bool,
    /// First line being processed; absent when done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_start_line: Option<u64>,
    /// Upper bound of the last processing ranges; kept when done. Not the file's length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_end_line: Option<u64>,
}

impl Progress {
    /// The state after one more notification with these processing ranges.
    pub(crate) fn advance(previous: Option<Self>, processing: &[LineRange]) -> Self {
        let before = previous.unwrap_or_default();
        let done = processing.is_empty();
        let start = processing.iter().map(|r| r.start_line + 1).min();
        let end = processing.iter().map(LineRange::end_bound).max();
        Self {
            updates: before.updates + 1,
            done,
            range_start_line: if done { None } else { start },
            range_end_line: end.or(before.range_end_line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(start_line: u64, end_line: u64, end_character: u64) -> LineRange {
        LineRange { start_line, end_line, end_character }
    }

    /// Each notification of a document's life, and what is known after it.
    #[test]
    fn bookkeeping() {
        let steps: [(&[LineRange], Progress); 5] = [
            // The whole file, ending before line 9 (0-based): nine lines.
            (
                &[lines(0, 9, 0)],
                Progress { updates: 1, done: false, range_start_line: Some(1), range_end_line: Some(9) },
            ),
            // The smallest start and the largest bound need not be of the same range.
            (
                &[lines(5, 6, 0), lines(3, 5, 2), lines(4, 8, 0)],
                Progress { updates: 2, done: false, range_start_line: Some(4), range_end_line: Some(8) },
            ),
            // A range that ends inside a line reaches into it.
            (
                &[lines(7, 8, 1)],
                Progress { updates: 3, done: false, range_start_line: Some(8), range_end_line: Some(9) },
            ),
            // An empty range at the very start is on line 1.
            (
                &[lines(0, 0, 0)],
                Progress { updates: 4, done: false, range_start_line: Some(1), range_end_line: Some(1) },
            ),
            (&[], Progress { updates: 5, done: true, range_start_line: None, range_end_line: Some(1) }),
        ];
        let mut progress = None;
        for (processing, expected) in steps {
            let next = Progress::advance(progress, processing);
            assert_eq!(next, expected);
            progress = Some(next);
        }
    }

    #[test]
    fn done_at_once_has_no_lines() {
        let done = Progress::advance(None, &[]);
        assert_eq!(serde_json::to_string(&done).unwrap(), r#"{"updates":1,"done":true}"#);
    }
}
