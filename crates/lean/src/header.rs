//! What a source text imports: Lean's header syntax, read as Lean's own `parseImports'` reads it, which is what Lake builds by.
//!
//! One rule is added for texts being edited: after a syntax error the imports read so far are still reported, with the error.

use super::module_name::{ModuleName, is_id_first, is_id_rest};

/// One `import` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// What is imported.
    pub module: ModuleName,
    /// `import all`.
    pub all: bool,
    /// `public import`, and every import of a file without `module`.
    pub exported: bool,
    /// `meta import`.
    pub meta: bool,
}

/// The head of a source text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// Whether it opens with `module`.
    pub is_module: bool,
    /// Whether it says `prelude`; without it `Init` is imported too, which is not among `imports`.
    pub prelude: bool,
    /// The imports, in order, with repetitions.
    pub imports: Vec<Import>,
    /// Byte offset of the first token that is not part of the header, or of the error.
    pub end: usize,
    /// Why Lean will not accept it, in Lean's words.
    pub error: Option<&'static str>,
}

/// Reads the header.
#[must_use]
pub fn imports_of(text: &str) -> Header {
    let mut reader = Reader { text, pos: 0, header: Header::default() };
    let error = reader.header().err();
    let mut header = reader.header;
    header.end = reader.pos;
    header.error = error;
    header
}

type Step<T = ()> = Result<T, &'static str>;

struct Reader<'a> {
    text: &'a str,
    pos: usize,
    header: Header,
}

impl Reader<'_> {
    fn header(&mut self) -> Step {
        self.whitespace()?;
        self.header.is_module = self.keyword("module")?;
        self.header.prelude = self.keyword("prelude")?;
        loop {
            let start = self.pos;
            // Up to `import` there is a way back: the token may begin the first command.
            let (exported, meta) = match self.modifiers() {
                Ok(Some(modifiers)) => modifiers,
                Ok(None) | Err(_) => {
                    self.pos = start;
                    return Ok(());
                }
            };
            let all = self.keyword("all")?;
            let module = self.module()?;
            if !self.header.is_module && (exported || meta || all) {
                self.pos = start;
                return Err("cannot use 'public', 'meta', or 'all' without 'module'");
            }
            let exported = exported || !self.header.is_module;
            self.header.imports.push(Import { module, all, exported, meta });
            self.whitespace()?;
        }
    }

    /// `public`, `meta` and `import`; `None` if this is no import.
    fn modifiers(&mut self) -> Step<Option<(bool, bool)>> {
        let exported = self.keyword("public")?;
        let meta = self.keyword("meta")?;
        Ok(self.keyword("import")?.then_some((exported, meta)))
    }

    fn rest(&self) -> &str {
        &self.text[self.pos..]
    }

    /// Takes the word, if it is there, and the blanks after it. As in Lean, no blank is demanded.
    fn keyword(&mut self, word: &str) -> Step<bool> {
        if !self.rest().starts_with(word) {
            return Ok(false);
        }
        self.pos += word.len();
        self.whitespace()?;
        Ok(true)
    }

    fn module(&mut self) -> Step<ModuleName> {
        let mut parts = Vec::new();
        loop {
            let rest = self.rest();
            let Some(first) = rest.chars().next() else {
                return Err("unexpected end of input");
            };
            if first == '«' {
                let inner = self.pos + '«'.len_utf8();
                let Some(length) = self.text[inner..].find('»') else {
                    self.pos = self.text.len();
                    return Err("unterminated identifier escape");
                };
                parts.push(self.text[inner..inner + length].to_owned());
                self.pos = inner + length + '»'.len_utf8();
            } else if is_id_first(first) {
                let length = rest.find(|c| !is_id_rest(c)).unwrap_or(rest.len());
                parts.push(rest[..length].to_owned());
                self.pos += length;
            } else {
                return Err("expected identifier");
            }
            let more = self.rest().strip_prefix('.').and_then(|after| after.chars().next());
            if !more.is_some_and(|c| c == '«' || is_id_first(c)) {
                break;
            }
            self.pos += 1;
        }
        ModuleName::from_parts(parts).ok_or("expected identifier")
    }

    /// Blanks and comments. `/--` and `/-!` are tokens: they end the header.
    fn whitespace(&mut self) -> Step {
        loop {
            let rest = self.rest();
            match rest.as_bytes().first() {
                Some(b' ' | b'\r' | b'\n') => self.pos += 1,
                Some(b'\t') => return Err("tabs are not allowed; please configure your editor to expand them"),
                Some(b'-') if rest.starts_with("--") => {
                    self.pos += rest.find('\n').unwrap_or(rest.len());
                }
                Some(b'/') if rest.starts_with("/-") && !rest.starts_with("/--") && !rest.starts_with("/-!") => {
                    // As in Lean, the first character inside is not looked at: `/-/- a -/` is one whole comment.
                    let first = rest[2..].chars().next().map_or(0, char::len_utf8);
                    self.pos += 2 + first;
                    self.block_comment()?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// From within a block comment to behind its end.
    fn block_comment(&mut self) -> Step {
        let bytes = self.text.as_bytes();
        let mut depth = 1;
        while self.pos < bytes.len() {
            match (bytes[self.pos], bytes.get(self.pos + 1)) {
                (b'-', Some(b'/')) => {
                    depth -= 1;
                    self.pos += 2;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                (b'/', Some(b'-')) => {
                    depth += 1;
                    self.pos += 2;
                }
                // As in Lean, the character after a `-` is taken with it, so `--/` does not end a comment.
                (b'-', Some(_)) => {
                    let next = self.text[self.pos + 1..].chars().next().map_or(0, char::len_utf8);
                    self.pos += 1 + next;
                }
                _ => self.pos += 1,
            }
        }
        self.pos = self.text.len();
        Err("unterminated comment")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn show(text: &str) -> String {
        let h = imports_of(text);
        let mut out = String::new();
        for (flag, word) in [(h.is_module, "module "), (h.prelude, "prelude ")] {
            out.push_str(if flag { word } else { "" });
        }
        for i in &h.imports {
            out.push('[');
            for (flag, word) in [(i.exported, "public "), (i.meta, "meta "), (i.all, "all ")] {
                out.push_str(if flag { word } else { "" });
            }
            out.push_str(&format!("{}]", i.module));
        }
        out.push_str(&format!(" then {:?}", &text[h.end..]));
        if let Some(error) = h.error {
            out.push_str(&format!(" error {error}"));
        }
        out
    }

    fn check(text: &str, want: &Expect) {
        want.assert_eq(&show(text));
    }

    #[test]
    fn what_stands_before_the_first_command() {
        check("import A B.C\nimport D\ndef x := 1", &expect![[r#"[public A] then "B.C\nimport D\ndef x := 1""#]]);
        check(
            "-- c\nimport A -- d\r\nimport B /- /- -/ x -/ import C.«d e».F\nimportant",
            &expect![[r#"[public A][public B][public C.«d e».F][public ant] then """#]],
        );
        check("/-! doc -/ import A", &expect![[r#" then "/-! doc -/ import A""#]]);
        check(
            "module prelude\npublic meta import all A import B\nmeta def x",
            &expect![[r#"module prelude [public meta all A][B] then "meta def x""#]],
        );
        check("import A. B", &expect![[r#"[public A] then ". B""#]]);
    }

    #[test]
    fn an_unfinished_header_keeps_what_it_has() {
        check("import A\nimport", &expect![[r#"[public A] then "" error unexpected end of input"#]]);
        check("import A\nimport 1", &expect![[r#"[public A] then "1" error expected identifier"#]]);
        check("import A\nimport «b", &expect![[r#"[public A] then "" error unterminated identifier escape"#]]);
        check("import A /- ", &expect![[r#"[public A] then "" error unterminated comment"#]]);
        check(
            "import A\npublic import B",
            &expect![[
                r#"[public A] then "public import B" error cannot use 'public', 'meta', or 'all' without 'module'"#
            ]],
        );
        check(
            "\timport A",
            &expect![[r#" then "\timport A" error tabs are not allowed; please configure your editor to expand them"#]],
        );
    }

    /// Pieces that headers are made of, and some that break them.
    const PIECES: [&str; 20] = [
        "module", "prelude", "import", "public", "meta", "all", " ", "\n", "\t", "A", ".", "«", "»", "é", "/-", "-/",
        "--", "-", "/", "1",
    ];

    proptest::proptest! {
        /// Whatever is typed, the end lies on a character, and what is after it does not change what is before.
        #[test]
        fn no_text_is_too_strange(pieces in proptest::collection::vec(0..PIECES.len(), 0..24)) {
            let text: String = pieces.iter().map(|&n| PIECES[n]).collect();
            let header = imports_of(&text);
            proptest::prop_assert!(text.is_char_boundary(header.end));
            if header.error.is_none() {
                let again = imports_of(&text[..header.end]);
                proptest::prop_assert_eq!(&again.imports, &header.imports);
            }
        }
    }
}
