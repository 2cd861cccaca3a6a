//! A Rust file without what only its tests see, and the checks of a single file: length, documentation, printing.
//!
//! Everything here works on the parsed file. A check by lines would have to guess where a test module ends: it did, and was
//! blind to all that stood behind an early `#[cfg(test)]`.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::punctuated::Punctuated;
use syn::visit::Visit;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Meta};

use super::tree::File;

/// Longest source file, in lines.
pub(super) const FILE_LINES: usize = 800;
/// Longest function outside tests, in lines.
pub(super) const FUNCTION_LINES: usize = 90;

/// Where printing to the standard streams is somebody's job.
const PRINTERS: &[&str] = &["crates/cli/", "crates/testkit/src/bin/", "xtask/", "bench/", "/examples/"];

/// The file as the product is built from it: everything under `#[cfg(test)]` taken out.
///
/// # Errors
/// A complaint if the file is no Rust.
pub(super) fn product(file: &File) -> Result<syn::File, String> {
    let mut parsed = syn::parse_file(&file.text)
        .map_err(|e| format!("{}:{}: cannot be read: {e}", file.path, e.span().start().line))?;
    WithoutTests.visit_file_mut(&mut parsed);
    Ok(parsed)
}

/// Whether one of the attributes is `#[cfg(test)]`, alone or as a part of `all(..)`. `any(test, ..)` is product code: a feature
/// can switch it on.
pub(super) fn only_in_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|a| match &a.meta {
        Meta::List(list) if list.path.is_ident("cfg") => list.parse_args::<Meta>().is_ok_and(|m| needs_test(&m)),
        _ => false,
    })
}

fn needs_test(meta: &Meta) -> bool {
    match meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, syn::Token![,]>::parse_terminated)
            .is_ok_and(|parts| parts.iter().any(needs_test)),
        _ => false,
    }
}

/// The attributes of an item, whatever its kind.
pub(super) fn attributes(item: &syn::Item) -> &[Attribute] {
    use syn::Item as I;
    match item {
        I::Const(i) => &i.attrs,
        I::Enum(i) => &i.attrs,
        I::ExternCrate(i) => &i.attrs,
        I::Fn(i) => &i.attrs,
        I::ForeignMod(i) => &i.attrs,
        I::Impl(i) => &i.attrs,
        I::Macro(i) => &i.attrs,
        I::Mod(i) => &i.attrs,
        I::Static(i) => &i.attrs,
        I::Struct(i) => &i.attrs,
        I::Trait(i) => &i.attrs,
        I::TraitAlias(i) => &i.attrs,
        I::Type(i) => &i.attrs,
        I::Union(i) => &i.attrs,
        I::Use(i) => &i.attrs,
        _ => &[],
    }
}

struct WithoutTests;

impl VisitMut for WithoutTests {
    fn visit_file_mut(&mut self, file: &mut syn::File) {
        file.items.retain(|i| !only_in_tests(attributes(i)));
        visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        if let Some((_, items)) = &mut module.content {
            items.retain(|i| !only_in_tests(attributes(i)));
        }
        visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, block: &mut syn::ItemImpl) {
        use syn::ImplItem as I;
        block.items.retain(|i| match i {
            I::Const(i) => !only_in_tests(&i.attrs),
            I::Fn(i) => !only_in_tests(&i.attrs),
            I::Type(i) => !only_in_tests(&i.attrs),
            I::Macro(i) => !only_in_tests(&i.attrs),
            _ => true,
        });
        visit_mut::visit_item_impl_mut(self, block);
    }

    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.retain(|s| match s {
            syn::Stmt::Item(i) => !only_in_tests(attributes(i)),
            syn::Stmt::Local(l) => !only_in_tests(&l.attrs),
            syn::Stmt::Macro(m) => !only_in_tests(&m.attrs),
            syn::Stmt::Expr(syn::Expr::Block(b), _) => !only_in_tests(&b.attrs),
            syn::Stmt::Expr(..) => true,
        });
        visit_mut::visit_block_mut(self, block);
    }

    fn visit_fields_named_mut(&mut self, fields: &mut syn::FieldsNamed) {
        fields.named = std::mem::take(&mut fields.named).into_iter().filter(|f| !only_in_tests(&f.attrs)).collect();
        visit_mut::visit_fields_named_mut(self, fields);
    }
}

/// What is wrong with one Rust file.
pub(super) fn check(file: &File) -> Vec<String> {
    let mut out = Vec::new();
    let lines = file.text.lines().count();
    if lines > FILE_LINES {
        out.push(format!("{}: {lines} lines, more than {FILE_LINES}; where is the seam?", file.path));
    }
    let first = file.text.lines().find(|l| !l.trim().is_empty() && !l.starts_with("#!["));
    if !first.is_some_and(|l| l.starts_with("//!")) {
        out.push(format!("{}: does not open with `//!`", file.path));
    }
    if file.path.contains("/tests/") || file.path.contains("_tests/") || file.path.ends_with("_tests.rs") {
        return out;
    }
    let product = match product(file) {
        Ok(product) => product,
        Err(complaint) => {
            out.push(complaint);
            return out;
        }
    };
    let may_print = PRINTERS.iter().any(|p| file.path.starts_with(p) || (p.starts_with('/') && file.path.contains(p)))
        || file.path.ends_with("build.rs");
    if !may_print {
        let mut found = Vec::new();
        prints(product.to_token_stream(), &mut found);
        out.extend(found.iter().map(|line| format!("{}:{line}: prints; only the front ends may", file.path)));
    }
    let mut lengths = Lengths { path: &file.path, out: Vec::new() };
    lengths.visit_file(&product);
    out.extend(lengths.out);
    out
}

/// Lines of the calls that print, also those inside of other macros' arguments.
fn prints(tokens: TokenStream, found: &mut Vec<usize>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is = |n: usize, mark: char| matches!(tokens.get(n), Some(TokenTree::Punct(p)) if p.as_char() == mark);
    for (n, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(name) => {
                let name = name.to_string();
                let printing = match name.as_str() {
                    "println" | "print" | "eprintln" | "eprint" => is(n + 1, '!'),
                    // The handles, however imported; a child's `.stdout(..)` is another thing.
                    "stdout" | "stderr" => {
                        let empty = matches!(tokens.get(n + 1), Some(TokenTree::Group(g)) if g.stream().is_empty());
                        let declared = n > 0 && matches!(&tokens[n - 1], TokenTree::Ident(i) if i == "fn");
                        empty && !(n > 0 && is(n - 1, '.')) && !declared
                    }
                    _ => false,
                };
                if printing {
                    found.push(token.span().start().line);
                }
            }
            TokenTree::Group(group) => prints(group.stream(), found),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

struct Lengths<'a> {
    path: &'a str,
    out: Vec<String>,
}

impl Lengths<'_> {
    fn judge(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (from, to) = (signature.fn_token.span.start().line, block.brace_token.span.close().end().line);
        let length = to.saturating_sub(from) + 1;
        if length > FUNCTION_LINES {
            let name = &signature.ident;
            self.out.push(format!("{}:{from}: `{name}` has {length} lines, more than {FUNCTION_LINES}", self.path));
        }
    }
}

impl<'a> Visit<'a> for Lengths<'_> {
    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.judge(&function.sig, &function.block);
        syn::visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        self.judge(&function.sig, &function.block);
        syn::visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'a syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.judge(&function.sig, block);
        }
        syn::visit::visit_trait_item_fn(self, function);
    }
}

/// The line where something stands.
pub(super) fn line_of(what: &impl syn::spanned::Spanned) -> usize {
    what.span().start().line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::file;

    fn complaints(text: &str) -> Vec<String> {
        check(&file("crates/base/src/x.rs", text))
    }

    #[test]
    fn printing_and_missing_docs_are_seen() {
        assert_eq!(
            complaints("fn f() {\n    println!(\"x\");\n}\n"),
            [
                "crates/base/src/x.rs: does not open with `//!`",
                "crates/base/src/x.rs:2: prints; only the front ends may"
            ]
        );
    }

    #[test]
    fn a_print_behind_an_early_test_module_is_seen() {
        let text = "//! x\n#[cfg(test)]\nmod tests {\n    fn f() { println!(\"fine\"); }\n}\n\nfn g() {\n    eprint!(\"x\");\n}\n";
        assert_eq!(complaints(text), ["crates/base/src/x.rs:8: prints; only the front ends may"]);
    }

    #[test]
    fn a_print_behind_an_early_test_import_or_field_is_seen() {
        let import = "//! x\n#[cfg(test)]\nuse a::{b, c};\nfn g() { print!(\"x\"); }\n";
        let field = "//! x\nstruct S {\n    #[cfg(all(test, unix))]\n    f: u8,\n}\nfn g() { print!(\"x\"); }\n";
        assert_eq!(complaints(import), ["crates/base/src/x.rs:4: prints; only the front ends may"]);
        assert_eq!(complaints(field), ["crates/base/src/x.rs:6: prints; only the front ends may"]);
    }

    #[test]
    fn handles_and_prints_inside_of_macros_are_seen_and_words_are_not() {
        let bad =
            "//! x\nfn g() {\n    select! { _ = a() => println!(\"x\") }\n    write(std::io::stdout(), b\"\");\n}\n";
        assert_eq!(complaints(bad).len(), 2);
        let fine = "//! x\n/// `println!(\"x\")`\nfn g(c: &mut Command) {\n    c.stdout(pipe()).stderr(Stdio::null());\n    \
                    let _ = \"println!()\"; // println!\n}\n#[cfg(test)]\nfn t() { dbg(stdout()); }\n";
        assert_eq!(complaints(fine), Vec::<String>::new());
        let feature = "//! x\n#[cfg(any(test, feature = \"x\"))]\nfn g() { println!(); }\n";
        assert_eq!(complaints(feature).len(), 1);
    }

    #[test]
    fn long_functions_are_seen_in_front_of_and_behind_tests() {
        let body = "    f();\n".repeat(FUNCTION_LINES);
        let long = format!("//! x\npub async fn long() {{\n{body}}}\n");
        assert_eq!(complaints(&long), ["crates/base/src/x.rs:2: `long` has 92 lines, more than 90"]);
        let behind = format!("//! x\n#[cfg(test)]\nmod tests;\nimpl S {{\n    fn long() {{\n{body}    }}\n}}\n");
        assert_eq!(complaints(&behind), ["crates/base/src/x.rs:5: `long` has 92 lines, more than 90"]);
        let test = format!("//! x\n#[cfg(test)]\nmod tests {{\n    fn long() {{\n{body}    }}\n}}\n");
        assert_eq!(complaints(&test), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_rust_is_said() {
        assert_eq!(complaints("//! x\nfn f( {\n").len(), 1);
    }
}
