//! Takes out of an output what differs from run to run, so that the rest can be compared as a whole.

/// Replacements made in order, the longest texts first, so that a path inside another does not spoil it.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    replacements: Vec<(String, String)>,
}

impl Redactor {
    /// One that changes nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows every occurrence of `text` as `[name]`. An empty text is ignored.
    #[must_use]
    pub fn hide(mut self, text: impl Into<String>, name: &str) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.replacements.push((text, format!("[{name}]")));
            self.replacements.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        }
        self
    }

    /// The text with everything hidden, and every number directly before a unit of time (`12ms`, `0.4 s`) shown as `[n]`.
    #[must_use]
    pub fn apply(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for (secret, shown) in &self.replacements {
            out = out.replace(secret, shown);
        }
        hide_durations(&out)
    }
}

fn hide_durations(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, tail) = rest.split_at(start);
        out.push_str(before);
        let end = tail.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(tail.len());
        let (number, after) = tail.split_at(end);
        // A number that is a part of a word (`x86`, `v4`) is no duration.
        let in_word = out.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
        out.push_str(if !in_word && starts_with_unit(after) { "[n]" } else { number });
        rest = after;
    }
    out.push_str(rest);
    out
}

fn starts_with_unit(text: &str) -> bool {
    let text = text.strip_prefix(' ').unwrap_or(text);
    ["ms", "µs", "ns", "s"].iter().any(|unit| {
        text.strip_prefix(unit).is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_first_and_durations() {
        let redactor = Redactor::new().hide("/tmp/x", "tmp").hide("/tmp/x/proj", "root").hide("", "nothing");
        assert_eq!(
            redactor.apply("/tmp/x/proj/A.lean took 12.5 ms, /tmp/x 3s; 4 steps, x86s, 7"),
            "[root]/A.lean took [n] ms, [tmp] [n]s; 4 steps, x86s, 7"
        );
    }
}
