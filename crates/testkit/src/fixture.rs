//! Texts with cursor marks in them, so that a test shows the place it means instead of counting columns.

use beam_base::{ByteOffset, LineIndex, Utf16Pos};

/// One or more files with marks taken out.
///
/// A line `-- file: NAME` starts a file; text before the first such line (if any) is a file named `Main.lean`. `‹name›` marks a
/// place and is removed from the text: `‹0›`, `‹goal›`. The brackets are not used by Lean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fixture {
    files: Vec<(String, String)>,
    marks: Vec<Mark>,
}

/// A marked place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// What stands between the brackets.
    pub name: String,
    /// The file it is in.
    pub file: String,
    /// Where, in the text without marks.
    pub at: Utf16Pos,
}

impl Fixture {
    /// Reads a fixture.
    ///
    /// # Panics
    /// On a mark that is not closed or a name used twice: a test with such a fixture means nothing.
    #[must_use]
    pub fn parse(source: &str) -> Self {
        let mut raw: Vec<(String, String)> = Vec::new();
        for line in source.split_inclusive('\n') {
            if let Some(name) = line.strip_prefix("-- file: ") {
                raw.push((name.trim().to_owned(), String::new()));
                continue;
            }
            if raw.is_empty() {
                raw.push(("Main.lean".to_owned(), String::new()));
            }
            if let Some((_, text)) = raw.last_mut() {
                text.push_str(line);
            }
        }
        let mut fixture = Self { files: Vec::new(), marks: Vec::new() };
        for (file, text) in raw {
            let clean = fixture.take_marks(&file, &text);
            fixture.files.push((file, clean));
        }
        fixture
    }

    fn take_marks(&mut self, file: &str, text: &str) -> String {
        let mut clean = String::new();
        let mut places = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('‹') {
            let (name, after) =
                after.split_once('›').unwrap_or_else(|| panic!("`{file}` has a mark that is not closed"));
            clean.push_str(before);
            places.push((name.to_owned(), clean.len()));
            rest = after;
        }
        clean.push_str(rest);
        let index = LineIndex::new(&clean);
        for (name, offset) in places {
            assert!(self.marks.iter().all(|mark| mark.name != name), "the mark `{name}` is there twice");
            let at = index.to_utf16(&clean, ByteOffset(offset));
            self.marks.push(Mark { name, file: file.to_owned(), at });
        }
        clean
    }

    /// Files in order: name, text.
    #[must_use]
    pub fn files(&self) -> &[(String, String)] {
        &self.files
    }

    /// The text of the only file, or of `Main.lean`.
    ///
    /// # Panics
    /// If there is neither.
    #[must_use]
    pub fn text(&self) -> &str {
        match self.files.as_slice() {
            [(_, text)] => text,
            files => {
                let main = files.iter().find(|(name, _)| name == "Main.lean");
                main.map_or_else(|| panic!("the fixture has several files and no Main.lean"), |(_, text)| text)
            }
        }
    }

    /// The marked place of this name.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn mark(&self, name: &str) -> &Mark {
        self.marks.iter().find(|mark| mark.name == name).unwrap_or_else(|| panic!("no mark `{name}`"))
    }

    /// Where the mark of this name is.
    #[must_use]
    pub fn at(&self, name: &str) -> Utf16Pos {
        self.mark(name).at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_taken_out_and_counted_in_utf16() {
        let fixture = Fixture::parse("def a := 1\n-- 😀‹0›x\n‹end›");
        assert_eq!(fixture.text(), "def a := 1\n-- 😀x\n");
        assert_eq!(fixture.at("0"), Utf16Pos { line: 1, character: 5 });
        assert_eq!(fixture.at("end"), Utf16Pos { line: 2, character: 0 });
    }

    #[test]
    fn several_files() {
        let fixture = Fixture::parse("-- file: A.lean\ndef ‹a›a := 1\n-- file: Main.lean\nimport A\n#eval ‹use›a\n");
        assert_eq!(fixture.files()[0], ("A.lean".into(), "def a := 1\n".into()));
        assert_eq!(fixture.text(), "import A\n#eval a\n");
        assert_eq!(fixture.mark("a").file, "A.lean");
        assert_eq!(fixture.at("use"), Utf16Pos { line: 1, character: 6 });
    }

    #[test]
    #[should_panic(expected = "twice")]
    fn a_mark_has_one_place() {
        drop(Fixture::parse("‹a›‹a›"));
    }
}
