//! A server over in-memory pipes, seen as raw lines; and a broker with scripted behaviour.

#![allow(dead_code, unused_imports, reason = "each test binary uses its part")]
#![allow(clippy::needless_pass_by_value, reason = "arguments are literals at the call")]

pub mod client;
pub mod fake;
pub mod storm;

pub use client::{Client, call, modern, modern_call};
pub use fake::Fake;

/// A temporary folder that passes for a Lean project, and its canonical root.
pub fn project() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("lean-toolchain"), "leanprover/lean4:v4.28.0\n").unwrap();
    let root = dir.path().canonicalize().unwrap().to_str().unwrap().to_owned();
    (dir, root)
}
