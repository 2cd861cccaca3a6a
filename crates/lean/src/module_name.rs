//! Names of Lean modules: their parts, how Lean writes them, and which file they mean.

use std::fmt;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

/// A module name, in parts without quotes: `A.«foo bar»` has the parts `A` and `foo bar`. There is at least one part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleName(Vec<String>);

impl ModuleName {
    /// A name of these parts; `None` if there is none.
    #[must_use]
    pub fn from_parts(parts: Vec<String>) -> Option<Self> {
        (!parts.is_empty()).then_some(Self(parts))
    }

    /// Reads a name as Lean writes it, `A.«foo bar».B`; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, rest) = Self::take(text)?;
        rest.is_empty().then_some(name)
    }

    /// Reads as much of the text as is a name; the rest may begin with the `.` that follows the name.
    pub fn take(text: &str) -> Option<(Self, &str)> {
        let (first, mut rest) = take_part(text)?;
        let mut parts = vec![first];
        while let Some((part, after)) = rest.strip_prefix('.').and_then(take_part) {
            parts.push(part);
            rest = after;
        }
        Some((Self(parts), rest))
    }

    /// The name of a configured target: a name as Lean writes it, or else the whole text as one part (`foo-bar`).
    pub fn of_target(text: &str) -> Option<Self> {
        Self::parse(text).or_else(|| Self::from_parts(vec![text.to_owned()]))
    }

    /// The module of a source file, given relative to its source folder: `A/B.lean`. `None` if it is no such file.
    #[must_use]
    pub fn of_path(relative: &Utf8Path) -> Option<Self> {
        let stem = relative.file_name()?.strip_suffix(".lean").filter(|stem| !stem.is_empty())?;
        let mut parts = Vec::new();
        for component in relative.parent()?.components() {
            match component {
                Utf8Component::Normal(part) => parts.push(part.to_owned()),
                Utf8Component::CurDir => {}
                _ => return None,
            }
        }
        parts.push(stem.to_owned());
        Self::from_parts(parts)
    }

    /// The file of this name with this ending (`lean`, `olean.server`), relative to a source or library folder. `None` for names that
    /// mean no file below that folder, such as `«..».A` and `«»`: a source text must not lead us elsewhere.
    #[must_use]
    pub fn path(&self, ending: &str) -> Option<Utf8PathBuf> {
        let plain =
            |part: &String| !part.is_empty() && part != "." && part != ".." && !part.contains(['/', '\\', '\0']);
        if !self.0.iter().all(plain) {
            return None;
        }
        let (last, folders) = self.0.split_last()?;
        let mut path: Utf8PathBuf = folders.iter().collect();
        path.push(format!("{last}.{ending}"));
        Some(path)
    }

    /// The parts.
    #[must_use]
    pub fn parts(&self) -> &[String] {
        &self.0
    }

    /// The first part: by it Lean chooses the folder of its search path.
    #[must_use]
    pub fn root(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    /// Whether the name is `prefix` or lies below it.
    #[must_use]
    pub fn starts_with(&self, prefix: &Self) -> bool {
        self.0.starts_with(&prefix.0)
    }
}

/// As Lean writes it: parts that are no identifiers are in `«»`.
impl fmt::Display for ModuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, part) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str(".")?;
            }
            let mut chars = part.chars();
            let identifier = chars.next().is_some_and(is_id_first) && chars.all(is_id_rest);
            // A part with `»` in it cannot be quoted; Lean writes it bare too.
            if identifier || part.contains('»') {
                f.write_str(part)?;
            } else {
                write!(f, "«{part}»")?;
            }
        }
        Ok(())
    }
}

/// One part at the head of the text, and what follows.
fn take_part(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('«') {
        let (part, rest) = quoted.split_once('»')?;
        return Some((part.to_owned(), rest));
    }
    if !text.starts_with(is_id_first) {
        return None;
    }
    let end = text.find(|c| !is_id_rest(c)).unwrap_or(text.len());
    Some((text[..end].to_owned(), &text[end..]))
}

/// Lean's `isIdFirst`.
pub(crate) fn is_id_first(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || is_letter_like(c)
}

/// Lean's `isIdRest`.
pub(crate) fn is_id_rest(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '\'' | '!' | '?') || is_letter_like(c) || is_subscript(c)
}

/// Lean's `isLetterLike`: Latin with marks, Greek without λ, Π, Σ, Coptic, letter-like symbols, mathematical alphabets.
fn is_letter_like(c: char) -> bool {
    matches!(u32::from(c),
        0xc0..=0xd6 | 0xd8..=0xf6 | 0xf8..=0x17f
        | 0x391..=0x39f | 0x3a1..=0x3a2 | 0x3a4..=0x3a9
        | 0x3b1..=0x3ba | 0x3bc..=0x3fb
        | 0x1f00..=0x1ffe | 0x2100..=0x214f | 0x1d49c..=0x1d59f)
}

/// Lean's `isSubScriptAlnum`.
fn is_subscript(c: char) -> bool {
    matches!(u32::from(c), 0x2080..=0x2089 | 0x2090..=0x209c | 0x1d62..=0x1d6a | 0x2c7c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_as_lean_does() {
        for (text, parts) in [
            ("A", &["A"][..]),
            ("A.B'.C₁", &["A", "B'", "C₁"]),
            ("A.«foo bar».«1x»", &["A", "foo bar", "1x"]),
            ("Größe.α", &["Größe", "α"]),
            ("«foo.bar»", &["foo.bar"]),
            ("A.«»", &["A", ""]),
        ] {
            let name = ModuleName::parse(text).unwrap();
            assert_eq!(name.parts(), parts);
            assert_eq!(name.to_string(), text);
        }
        for text in ["", ".", "A.", "A..B", "1", "A.1", "λ", "a-b", "«a", "A B"] {
            assert_eq!(ModuleName::parse(text), None, "{text}");
        }
        assert_eq!(ModuleName::parse("«A».B").unwrap().to_string(), "A.B");
        assert_eq!(ModuleName::of_target("foo-bar").unwrap().to_string(), "«foo-bar»");
        assert_eq!(ModuleName::of_target("A.B").unwrap().parts().len(), 2);
    }

    #[test]
    fn a_name_means_one_file_and_never_one_elsewhere() {
        let name = ModuleName::parse("A.«foo.bar»").unwrap();
        assert_eq!(name.path("olean.server").unwrap(), Utf8Path::new("A/foo.bar.olean.server"));
        assert_eq!(ModuleName::of_path(Utf8Path::new("./A/foo.bar.lean")), Some(name));
        for text in ["«..».A", "A.«b/c»", "A.«.»", "«»"] {
            assert_eq!(ModuleName::parse(text).unwrap().path("lean"), None, "{text}");
        }
        for path in ["A/B.txt", "../A.lean", "/A.lean", ".lean", "A"] {
            assert_eq!(ModuleName::of_path(Utf8Path::new(path)), None, "{path}");
        }
    }
}
