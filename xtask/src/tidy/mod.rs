//! House rules as code: layer arrows, no circle of files, file and function length, two layouts of unit tests, module docs, printing only where it is allowed,
//! invariants named by tests, a coverage table that tells the truth, and words that must not appear. Each check is a function from
//! the file list to complaints, and its own tests plant what it must see.

mod agents;
mod arrows;
mod circles;
mod coverage;
mod layout;
mod named;
mod source;
mod tree;

use std::path::{Path, PathBuf};

pub use tree::File;

/// The repository this crate was built in.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Runs every check; each complaint names a place and a rule.
#[must_use]
pub fn check(root: &Path) -> Vec<String> {
    let files = tree::read(root);
    let mut out = Vec::new();
    out.extend(arrows::check(&files));
    out.extend(circles::check(&files));
    for file in &files {
        if file.path.ends_with(".rs") {
            out.extend(source::check(file));
            out.extend(layout::check(file));
        }
        out.extend(words(file));
    }
    let tests = named::Tests::of(&files);
    out.extend(named::invariants(&files, &tests));
    out.extend(coverage::check(&files, &tests));
    out.extend(agents::check(&files, &tests));
    out
}

/// Words that tie the project to somebody's machine, or to a host that its users may not use.
fn words(file: &File) -> Vec<String> {
    // Spelled in pieces, so that this file passes its own check.
    let banned = [
        concat!("/work", "/main"),
        concat!("/work", "/shared"),
        concat!("/tmp", "/lw"),
        concat!("registry.", "npmjs"),
        concat!("static.", "crates.io"),
        concat!("shared", "/spec"),
        concat!("shared", "/conformance"),
    ];
    let mut out = Vec::new();
    for (n, line) in file.text.lines().enumerate() {
        for word in banned.iter().filter(|w| line.contains(**w)) {
            out.push(format!("{}:{}: says `{word}`", file.path, n + 1));
        }
    }
    out
}
