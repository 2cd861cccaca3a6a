//! Planted circles are found, each by every way of naming a file; what is none is left alone.

use super::check;
use crate::tidy::tree::{File, file};

fn tree(files: &[(&str, &str)]) -> Vec<File> {
    files.iter().map(|(path, text)| file(&format!("crates/x/src/{path}"), text)).collect()
}

fn complaints(files: &[(&str, &str)]) -> Vec<String> {
    check(&tree(files))
}

/// `a.rs` needs `b.rs` by an ordinary import; each form in which `b.rs` can need `a.rs` makes the circle.
#[test]
fn a_circle_is_found_in_every_form() {
    for back in [
        "use crate::a::A;",
        "use super::a::A;",
        "use super::a::{self, A as Other};",
        "use super::a; fn f() -> a::A { a::A }",
        "use super::*; fn f() -> A { todo() }",
        "use crate::A;",
        "fn f(x: super::a::A) {}",
        "fn f() { crate::a::run(); }",
        "fn f() { use crate::a::run as go; go(); }",
        "fn f() { format!(\"{}\", crate::a::run()); }",
        "fn f() { select! { x = wait(super::a::run()) => {} } }",
        "struct S { #[serde(with = \"super::a\", default = \"super::a::run\")] f: u8 }",
        "fn f() { shout!(1); }",
        "impl super::a::A { fn f() {} }",
        "fn f<T: crate::a::Tr>() {}",
        "mod inner { use super::super::a::A; }",
        "pub use super::a::A; fn f(x: A) {}",
        "use crate::a::MADE_BY_A_MACRO;",
    ] {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use a::A;\n"),
            (
                "a.rs",
                "use crate::b::B;\npub struct A;\npub trait Tr {}\npub fn run() {}\nmacro_rules! shout { () => {} }\n",
            ),
            ("b.rs", &format!("{back}\npub struct B;\n")),
        ];
        let found = complaints(&files);
        assert_eq!(found.len(), 1, "{back}: {found:?}");
        assert!(found[0].starts_with("crates/x: a circle of 2 files; the shortest way round: "), "{found:?}");
        assert!(found[0].contains("a.rs → b.rs (`crate::b::B`, line 1)"), "{found:?}");
        assert!(found[0].contains("b.rs → a.rs"), "{found:?}");
    }
}

#[test]
fn what_is_no_need_is_no_edge() {
    for back in [
        "#[cfg(test)]\nmod tests { use crate::a::A; }",
        "#[cfg(test)]\nuse crate::a::A;",
        "fn f() {} #[cfg(test)] fn t() { crate::a::run(); }",
        "pub use super::a::A;",
        "use std::a::A;",
        "use ::a::A;",
        "/// [`crate::a::A`]\nfn f() { let run = 1; format!(\"crate::a::run\"); run.run(); }",
        "use super::a;",
    ] {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use a::A;\n"),
            ("a.rs", "use crate::b::B;\npub struct A;\npub fn run() {}\n"),
            ("b.rs", &format!("{back}\npub struct B;\n")),
        ];
        assert_eq!(complaints(&files), Vec::<String>::new(), "{back}");
    }
}

/// A re-export is followed to the file that defines the item: siblings that meet through their parent are no circle with it.
#[test]
fn a_parent_that_only_gathers_is_in_no_circle() {
    let files = [
        ("lib.rs", "pub mod engine;\npub use engine::Engine;\n"),
        ("engine/mod.rs", "mod core;\nmod ops;\npub use core::Engine;\npub use ops::run;\n"),
        ("engine/core.rs", "pub struct Engine;\n"),
        ("engine/ops.rs", "use super::Engine;\npub fn run(e: &Engine) {}\n"),
    ];
    assert_eq!(complaints(&files), Vec::<String>::new());
}

#[test]
fn a_parent_that_defines_what_its_children_use_and_uses_them_is_a_circle() {
    let files = [
        ("lib.rs", "pub mod engine;\n"),
        ("engine/mod.rs", "mod ops;\npub use ops::run;\npub struct Engine;\npub fn go(e: &Engine) { run(e); }\n"),
        ("engine/ops.rs", "use super::Engine;\npub fn run(e: &Engine) {}\n"),
    ];
    let found = complaints(&files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("engine/mod.rs → engine/ops.rs (`run`, line 4)"), "{found:?}");
    // Without its own use of `run`, the parent only gathers.
    let quiet = [files[0], (files[1].0, "mod ops;\npub use ops::run;\npub struct Engine;\n"), files[2]];
    assert_eq!(complaints(&quiet), Vec::<String>::new());
}

/// The shortest way is told, not the first that is found, and each knot by itself.
#[test]
fn each_knot_is_told_by_its_shortest_circle() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d; mod e; mod f;\n"),
        ("a.rs", "use crate::b::B;\npub struct A;\n"),
        ("b.rs", "use crate::c::C;\npub struct B;\n"),
        ("c.rs", "use crate::a::A;\nuse crate::d::D;\npub struct C;\n"),
        ("d.rs", "use crate::c::C;\npub struct D;\n"),
        ("e.rs", "use crate::f::F;\nuse crate::a::A;\npub struct E;\n"),
        ("f.rs", "use crate::e::E;\npub struct F;\n"),
    ];
    let found = complaints(&files);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("a circle of 4 files; the shortest way round: c.rs → d.rs"), "{found:?}");
    assert!(found[1].contains("a circle of 2 files; the shortest way round: e.rs → f.rs"), "{found:?}");
}

#[test]
fn each_executable_and_crate_is_looked_at() {
    let circle = |root: &str| {
        let mut files = tree(&[("a.rs", "use crate::b::B; pub struct A;"), ("b.rs", "use crate::a::A; pub struct B;")]);
        files.push(file(root, "#[path = \"../src/a.rs\"] mod a;\n#[path = \"../src/b.rs\"] mod b;\n"));
        files
    };
    // Paths are joined as written, so the executable's files are given the names that it uses.
    let mut files = circle("crates/x/src/main.rs");
    for f in &mut files[..2] {
        f.path = f.path.replace("src/", "src/../src/");
    }
    assert_eq!(check(&files).len(), 1);
    let lib = [
        ("lib.rs", "mod a { pub mod deep; }\nmod b;"),
        ("a/deep.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::a::deep::A; pub struct B;"),
    ];
    assert_eq!(complaints(&lib).len(), 1);
    assert_eq!(complaints(&[("lib.rs", "fn f( {")]).len(), 1, "a file that cannot be read is told");
}

/// Imports that name each other come to an end.
#[test]
fn imports_in_a_ring_end() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "pub use crate::b::X;\npub use crate::b::*;\nfn f(x: X, y: Y) {}\n"),
        ("b.rs", "pub use crate::a::X;\npub use crate::a::*;\nfn f(x: X, y: Y) {}\n"),
    ];
    // Neither defines anything; an item that is nowhere is nobody's.
    assert_eq!(complaints(&files), Vec::<String>::new());
}
