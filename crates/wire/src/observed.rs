//! What is observed of a document while a request is under way (broker protocol section 6).

use beam_base::Utf16Range;
use serde::{Deserialize, Serialize};

/// What is known of Lean's progress through the current version of a document. Lines are 1-based.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Progress {
    /// Notifications seen for this version.
    pub updates: u64,
    /// Nothing is being processed.
    pub done: bool,
    /// First line in work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_start_line: Option<u32>,
    /// Upper bound of Lean's ranges, not the length of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_end_line: Option<u32>,
}

impl std::fmt::Display for Progress {
    /// `range=3..13 updates=4 done=false`, or `rangeEndLine=13 updates=5 done=true`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.range_start_line, self.range_end_line) {
            (Some(start), Some(end)) => write!(f, "range={start}..{end} ")?,
            (None, Some(end)) => write!(f, "rangeEndLine={end} ")?,
            _ => {}
        }
        write!(f, "updates={} done={}", self.updates, self.done)
    }
}

/// A diagnostic as it passes by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct StreamDiagnostic {
    /// Relative to the root inside it, else absolute, else the raw URI.
    pub path: String,
    /// Document.
    pub uri: String,
    /// Version it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// LSP number 1 to 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<u8>,
    /// The untruncated range where Lean gives one.
    pub range: Utf16Range,
    /// Lean's words.
    pub message: String,
    /// It keeps the document from being saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub save_blocking: Option<bool>,
    /// It keeps the barrier from completing.
    #[serde(default)]
    pub completion_blocking: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_text() {
        let mut p = Progress { updates: 4, done: false, range_start_line: Some(3), range_end_line: Some(13) };
        assert_eq!(p.to_string(), "range=3..13 updates=4 done=false");
        p.range_start_line = None;
        p.done = true;
        assert_eq!(p.to_string(), "rangeEndLine=13 updates=4 done=true");
    }
}
