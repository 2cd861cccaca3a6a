//! The few JavaScript snippets of the package's `lean.js` that matter, and how they are found.
//!
//! The module calls JavaScript snippets by their address in its memory. Nearly all are debug prints; a handful tell the host when to
//! do something. Their addresses are read from the table at the head of `lean.js`; the rest of that file (89 MB) is not needed.

use std::io::{self, Read};

use serde::Serialize;

/// Where the table begins.
const TABLE: &[u8] = b"var ASM_CONSTS={";
/// How much of the table is looked at; all of ours are within.
const WINDOW: u64 = 64 * 1024;

/// Addresses, under the names by which the host knows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Snippets {
    /// Asks for an environment variable.
    pub asm_getenv: u32,
    /// `initialize_Init` is done: the moment to switch off the port's import level.
    pub asm_init_done: u32,
    /// Lean's main has done its work; only tear-down is left.
    pub asm_shell_done: u32,
    /// An assertion failed.
    pub asm_assert: u32,
    /// `main` ended with an error.
    pub asm_io_error: u32,
    /// Lean's main threw.
    pub asm_threw: Vec<u32>,
    /// Asks for the program's path.
    pub asm_app_path: u32,
}

/// `lean.js` lacks a snippet.
#[derive(Debug, thiserror::Error)]
pub enum SnippetError {
    /// Nothing was found for this purpose.
    #[error("lean.js is not what it should be: no snippet for {0}")]
    Missing(&'static str),
    /// The stream failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Snippets {
    /// Reads the stream up to the end of the window behind the table's head; the rest is left unread.
    pub fn read(js: &mut impl Read) -> Result<Self, SnippetError> {
        let text = window(js)?.ok_or(SnippetError::Missing("anything"))?;
        let one = |what, key: &str| find(&text, key, |_| true).next().ok_or(SnippetError::Missing(what));
        Ok(Self {
            asm_getenv: one("getenv", ":$0=>{var envVar=UTF8ToString($0)")?,
            asm_init_done: one(
                "the end of initialize_Init",
                ":()=>{console.log(\"[DEBUG:INIT] initialize_Init() done",
            )?,
            asm_shell_done: one("the end of main", ":()=>{console.log(\"[DEBUG:G] lean_shell_main returned")?,
            asm_assert: one("assertions", ":($0,$1,$2)=>{console.log(\"[DEBUG:ASSERT] ASSERTION VIOLATION")?,
            asm_io_error: one("errors of main", ":$0=>{console.log(\"[DEBUG:IO_ERROR] IO result error: \"+")?,
            asm_threw: find(&text, ":$0=>{console.log(\"[DEBUG:F] run_shell_main threw", |_| true).collect(),
            asm_app_path: find(&text, ":()=>{var isNode=", |rest| {
                // The path is declared before any inner block.
                rest.split(['{', '}']).next().is_some_and(|head| head.contains(";var path;"))
            })
            .next()
            .ok_or(SnippetError::Missing("the program's path"))?,
        })
    }
}

/// The addresses (decimal, before `key`) of the snippets that begin with `key` and whose rest is accepted.
fn find<'a>(text: &'a str, key: &'a str, accept: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = u32> + 'a {
    text.match_indices(key).filter_map(move |(at, _)| {
        let head = &text[..at];
        let digits = head.len() - head.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (before, address) = head.split_at(at - digits);
        (before.ends_with(['{', ',']) && accept(&text[at + key.len()..])).then(|| address.parse().ok())?
    })
}

/// The text behind the table's head, at most [`WINDOW`] bytes; bytes that are not ASCII do not matter and become `?`.
fn window(js: &mut impl Read) -> io::Result<Option<String>> {
    let mut seen: Vec<u8> = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let n = js.read(&mut chunk)?;
        if n == 0 {
            return Ok(None);
        }
        seen.extend_from_slice(&chunk[..n]);
        if let Some(at) = seen.windows(TABLE.len()).position(|w| w == TABLE) {
            // The brace stays: it stands before the first address.
            let mut table = seen.split_off(at + TABLE.len() - 1);
            js.take(WINDOW.saturating_sub(table.len() as u64)).read_to_end(&mut table)?;
            let ascii = |b: u8| if b.is_ascii() { char::from(b) } else { '?' };
            return Ok(Some(table.into_iter().map(ascii).collect()));
        }
        // A head may lie across the boundary.
        let keep = seen.len().min(TABLE.len() - 1);
        seen.drain(..seen.len() - keep);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const JS: &str = concat!(
        "var x=1;var ASM_CONSTS={11:()=>{console.log(\"[DEBUG:A] é\")},",
        "12:$0=>{var envVar=UTF8ToString($0);return 0},",
        "13:()=>{console.log(\"[DEBUG:INIT] initialize_Init() done\")},",
        "14:()=>{console.log(\"[DEBUG:G] lean_shell_main returned\")},",
        "15:($0,$1,$2)=>{console.log(\"[DEBUG:ASSERT] ASSERTION VIOLATION\")},",
        "16:$0=>{console.log(\"[DEBUG:IO_ERROR] IO result error: \"+$0)},",
        "17:$0=>{console.log(\"[DEBUG:F] run_shell_main threw 1\")},",
        "18:$0=>{console.log(\"[DEBUG:F] run_shell_main threw 2\")},",
        "19:()=>{var isNode=1;if(isNode){var path;}},",
        "20:()=>{var isNode=1;var path;if(isNode){}}};rest"
    );

    #[test]
    fn addresses_are_found_wherever_the_table_begins() {
        let want = Snippets {
            asm_getenv: 12,
            asm_init_done: 13,
            asm_shell_done: 14,
            asm_assert: 15,
            asm_io_error: 16,
            asm_threw: vec![17, 18],
            asm_app_path: 20,
        };
        // Across every boundary of the chunks in which the stream is read.
        for pad in [0, 65536 - 8, 65536 - 15, 65536 - 16, 200_000] {
            let js = " ".repeat(pad) + JS;
            assert_eq!(Snippets::read(&mut js.as_bytes()).unwrap(), want, "{pad}");
        }
    }

    #[test]
    fn a_missing_snippet_is_named() {
        let js = JS.replace("envVar", "other");
        let e = Snippets::read(&mut js.as_bytes()).unwrap_err().to_string();
        assert!(e.ends_with("no snippet for getenv"), "{e}");
        assert!(Snippets::read(&mut &b"nothing"[..]).is_err());
    }
}
