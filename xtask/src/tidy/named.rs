//! Which functions are tests, and that each numbered invariant is named by one.
//!
//! A test is a function with a test attribute, one inside of `proptest!`, or one that a harness of its own is given by name: in a
//! `trials![..]` or `tests!{..}` table, or as the text of `Trial::test("..", ..)`. A helper that happens to stand in a test file
//! is none.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

use super::tree::File;

/// The tests of the repository, and the invariants that they name.
#[derive(Debug, Default)]
pub(super) struct Tests {
    /// Names of functions that run as tests.
    pub(super) names: BTreeSet<String>,
    /// Ids of invariants, from the tests' names and documentation.
    invariants: BTreeSet<String>,
}

impl Tests {
    /// Reads all Rust files; one that cannot be parsed has no tests, and is told by another check.
    pub(super) fn of(files: &[File]) -> Self {
        let mut found = Found::default();
        for file in files.iter().filter(|f| f.path.ends_with(".rs")) {
            if let Ok(parsed) = syn::parse_file(&file.text) {
                found.crate_name = file.path.split('/').take(2).collect::<Vec<_>>().join("/");
                found.visit_file(&parsed);
            }
        }
        let mut it = Self::default();
        for function in found.functions {
            if function.attributed || found.registered.contains(&(function.crate_name, function.name.clone())) {
                let by_name = function.name.split('_').map(str::to_ascii_uppercase).take_while(|w| is_id(w));
                it.invariants.extend(by_name);
                let words = function.doc.split(|c: char| !c.is_ascii_alphanumeric());
                it.invariants.extend(words.filter(|w| is_id(w)).map(str::to_owned));
                it.names.insert(function.name);
            }
        }
        it
    }
}

struct Function {
    crate_name: String,
    name: String,
    doc: String,
    attributed: bool,
}

#[derive(Default)]
struct Found {
    crate_name: String,
    functions: Vec<Function>,
    registered: BTreeSet<(String, String)>,
}

impl Found {
    fn register(&mut self, name: &impl ToString) {
        self.registered.insert((self.crate_name.clone(), name.to_string()));
    }

    fn function(&mut self, name: &syn::Ident, attributes: &[syn::Attribute], in_proptest: bool) {
        let is_test = |a: &syn::Attribute| a.path().segments.last().is_some_and(|s| s.ident == "test");
        let doc = attributes.iter().filter_map(|a| match &a.meta {
            syn::Meta::NameValue(syn::MetaNameValue {
                path,
                value: syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }),
                ..
            }) if path.is_ident("doc") => Some(text.value()),
            _ => None,
        });
        let doc = doc.collect::<Vec<_>>().join("\n");
        let attributed = in_proptest || attributes.iter().any(is_test);
        self.functions.push(Function { crate_name: self.crate_name.clone(), name: name.to_string(), doc, attributed });
    }

    /// `proptest!` holds functions in almost Rust: attributes, `fn name(x in strategy) { .. }`.
    fn properties(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut from = 0;
        for (n, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Ident(word) if word == "fn" => {
                    if let Some(TokenTree::Ident(name)) = tokens.get(n + 1) {
                        let above: TokenStream = tokens[from..n].iter().cloned().collect();
                        let attributes =
                            syn::parse::Parser::parse2(syn::Attribute::parse_outer, above).unwrap_or_default();
                        self.function(name, &attributes, true);
                    }
                }
                TokenTree::Group(group) if group.delimiter() == proc_macro2::Delimiter::Brace => from = n + 1,
                _ => {}
            }
        }
    }
}

impl<'a> Visit<'a> for Found {
    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.function(&function.sig.ident, &function.attrs, false);
        syn::visit::visit_item_fn(self, function);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        let Some(name) = call.path.segments.last().map(|s| s.ident.to_string()) else {
            return;
        };
        match name.as_str() {
            "proptest" => self.properties(call.tokens.clone()),
            "trials" | "tests" => {
                for token in call.tokens.clone() {
                    if let TokenTree::Ident(name) = token {
                        self.register(&name);
                    }
                }
            }
            _ => {}
        }
    }

    fn visit_expr_call(&mut self, call: &'a syn::ExprCall) {
        if let syn::Expr::Path(function) = &*call.func
            && function.path.segments.iter().map(|s| s.ident.to_string()).collect::<Vec<_>>() == ["Trial", "test"]
            && let Some(syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(name), .. })) = call.args.first()
        {
            self.register(&name.value());
        }
        syn::visit::visit_expr_call(self, call);
    }
}

/// Every invariant (`* **X1** …` in a crate's documentation) is named by a test: `fn x1_…`, or in a test's documentation.
pub(super) fn invariants(files: &[File], tests: &Tests) -> Vec<String> {
    let mut ids: BTreeMap<&str, String> = BTreeMap::new();
    for file in files.iter().filter(|f| f.path.ends_with(".rs")) {
        for (n, line) in file.text.lines().enumerate() {
            if let Some(rest) = line.strip_prefix("//! * **")
                && let Some((id, _)) = rest.split_once("**")
                && is_id(id)
            {
                ids.entry(id).or_insert_with(|| format!("{}:{}", file.path, n + 1));
            }
        }
    }
    ids.iter()
        .filter(|(id, _)| !tests.invariants.contains(**id))
        .map(|(id, place)| format!("{place}: no test names invariant {id}"))
        .collect()
}

fn is_id(id: &str) -> bool {
    let mut chars = id.chars();
    chars.next().is_some_and(|c| c.is_ascii_uppercase()) && id.len() > 1 && chars.all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::file;

    fn names(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> = files.iter().map(|(path, text)| file(path, text)).collect();
        Tests::of(&files).names.into_iter().collect()
    }

    #[test]
    fn an_invariant_without_a_test_is_seen() {
        let docs = file("crates/base/src/lib.rs", "//! x\n//! * **B1** a.\n//! * **B2** b.\n//! * **B3** c.\n");
        let tests = file(
            "crates/base/tests/t.rs",
            "//! t\n/// B1 holds.\n#[test]\nfn some() {}\n#[test]\nfn b2_holds() {}\n/// B3.\nfn b3_is_no_test() {}\n",
        );
        let files = [docs, tests];
        let complaints = invariants(&files, &Tests::of(&files));
        assert_eq!(complaints, ["crates/base/src/lib.rs:4: no test names invariant B3"]);
    }

    #[test]
    fn a_helper_is_no_test_wherever_it_stands() {
        let text = "fn helper() {}\n#[cfg(test)]\nmod tests { fn other() {} #[test] fn real() {} #[tokio::test(x = 1)] async fn too() {} }\n";
        assert_eq!(names(&[("crates/a/src/x.rs", text), ("crates/a/tests/y.rs", "fn there() {}")]), ["real", "too"]);
    }

    #[test]
    fn a_harness_names_its_tests() {
        let main = "fn main() { let t = trials![one, two,]; Trial::test(\"three\", || go(four)); }";
        let rest = "tests! { five }\nfn five() {}\nasync fn one() {}\nfn two() {}\nfn three() {}\nfn four() {}\n";
        let files = [("crates/a/tests/m.rs", main), ("crates/a/tests/n.rs", rest), ("crates/b/tests/n.rs", rest)];
        // A function of the same name in another crate is not registered there.
        assert_eq!(names(&files[..2]), ["five", "one", "three", "two"]);
        assert_eq!(names(&[files[0], files[2]]), ["five"]);
    }

    #[test]
    fn properties_are_tests_and_name_invariants() {
        let text = "//! * **B1** a.\nproptest! {\n    /// B1.\n    #[test]\n    fn round(x in 0..3) { fn_call(); }\n    #[test]\n    fn trip(x in 0..3) {}\n}\nfn none() {}\n";
        let files = [file("crates/a/src/x.rs", text)];
        let tests = Tests::of(&files);
        assert_eq!(tests.names.iter().collect::<Vec<_>>(), ["round", "trip"]);
        assert!(invariants(&files, &tests).is_empty());
    }
}
