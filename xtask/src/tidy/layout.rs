//! Where unit tests stand: inline in `mod tests` while they are few, and beside the module in `<module>_tests.rs` (or, with files of
//! their own, `<module>_tests/mod.rs`) from then on. Two layouts, so that nobody searches.

use syn::visit::Visit;

use super::circles::elsewhere;
use super::source::{line_of, only_in_tests};
use super::tree::File;

/// Longest inline test module, in lines.
const INLINE_LINES: usize = 250;

/// What is wrong with one Rust file.
pub(super) fn check(file: &File) -> Vec<String> {
    let Some((_, inside)) = file.path.split_once("/src/") else {
        return Vec::new();
    };
    if is_tests(inside) {
        return Vec::new();
    }
    if inside.ends_with("/tests.rs") || inside == "tests.rs" || inside.contains("tests/") {
        return vec![format!(
            "{}: unit tests of a file of their own stand in `<module>_tests.rs` beside it",
            file.path
        )];
    }
    // What cannot be parsed is told by the check of sources.
    let Ok(parsed) = syn::parse_file(&file.text) else {
        return Vec::new();
    };
    let stem = inside.rsplit('/').next().and_then(|name| name.strip_suffix(".rs")).unwrap_or_default();
    let mut look = Look { path: &file.path, stem, depth: 0, out: Vec::new() };
    look.visit_file(&parsed);
    look.out
}

/// Whether a file below `src` holds nothing but tests.
fn is_tests(inside: &str) -> bool {
    inside.ends_with("_tests.rs") || inside.contains("_tests/")
}

struct Look<'a> {
    path: &'a str,
    stem: &'a str,
    /// How many modules named `tests` are around.
    depth: usize,
    out: Vec<String>,
}

impl Look<'_> {
    fn complain(&mut self, line: usize, what: &str) {
        self.out.push(format!("{}:{line}: {what}", self.path));
    }
}

impl<'a> Visit<'a> for Look<'_> {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        let line = line_of(&module.mod_token);
        if module.ident != "tests" {
            return syn::visit::visit_item_mod(self, module);
        }
        if !only_in_tests(&module.attrs) {
            self.complain(line, "`mod tests` without `#[cfg(test)]`");
        }
        let Some((braces, _)) = &module.content else {
            let stem = self.stem;
            let places = [format!("{stem}_tests.rs"), format!("{stem}_tests/mod.rs")];
            if !elsewhere(&module.attrs).is_some_and(|place| places.contains(&place)) {
                self.complain(line, &format!("`mod tests;` needs `#[path = \"{}\"]`", places[0]));
            }
            return;
        };
        let lines = braces.span.close().end().line.saturating_sub(line) + 1;
        if lines > INLINE_LINES {
            let stem = self.stem;
            self.complain(
                line,
                &format!("{lines} lines of inline tests, more than {INLINE_LINES}; move them to `{stem}_tests.rs`"),
            );
        }
        self.depth += 1;
        syn::visit::visit_item_mod(self, module);
        self.depth -= 1;
    }

    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        let is_test = function.attrs.iter().any(|a| a.path().segments.last().is_some_and(|s| s.ident == "test"));
        if is_test && self.depth == 0 {
            self.complain(
                line_of(&function.sig.fn_token),
                &format!("`{}` stands outside of `mod tests`", function.sig.ident),
            );
        }
        syn::visit::visit_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::file;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check(&file(path, text))
    }

    #[test]
    fn the_two_layouts_pass() {
        let inline = "//! x\n#[cfg(test)]\npub(crate) mod tests {\n    #[test]\n    fn t() {}\n}\n";
        let beside = "//! x\n#[cfg(test)]\n#[path = \"x_tests.rs\"]\nmod tests;\n";
        let folder = "//! x\n#[cfg(test)]\n#[path = \"x_tests/mod.rs\"]\nmod tests;\n";
        for text in [inline, beside, folder] {
            assert_eq!(complaints("crates/a/src/b/x.rs", text), Vec::<String>::new());
        }
        for path in ["crates/a/src/b/x_tests.rs", "crates/a/src/x_tests/mod.rs", "crates/a/tests/x/main.rs"] {
            assert_eq!(complaints(path, "//! x\n#[test]\nfn t() {}\n"), Vec::<String>::new());
        }
    }

    #[test]
    fn every_other_layout_is_seen() {
        let seen = |path: &str, text: &str, what: &str| {
            let complaints = complaints(path, text);
            assert!(complaints.len() == 1 && complaints[0].ends_with(what), "{complaints:?}");
        };
        let x = "crates/a/src/x.rs";
        seen(x, "#[cfg(test)]\nmod tests;\n", "x.rs:2: `mod tests;` needs `#[path = \"x_tests.rs\"]`");
        seen(x, "#[cfg(test)]\n#[path = \"y_tests.rs\"]\nmod tests;\n", "needs `#[path = \"x_tests.rs\"]`");
        seen(x, "mod tests {}\n", "x.rs:1: `mod tests` without `#[cfg(test)]`");
        seen(
            x,
            "#[cfg(test)]\nmod checks {\n    #[tokio::test]\n    async fn t() {}\n}\n",
            "`t` stands outside of `mod tests`",
        );
        seen(x, "#[test]\nfn t() {}\n", "x.rs:2: `t` stands outside of `mod tests`");
        let long = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    const A: u8 = 1;\n".repeat(INLINE_LINES));
        seen(x, &long, "move them to `x_tests.rs`");
        for path in ["crates/a/src/x/tests.rs", "crates/a/src/x/tests/mod.rs", "crates/a/src/tests.rs"] {
            seen(path, "//! x\n", "stand in `<module>_tests.rs` beside it");
        }
    }
}
