//! Embeds the Lean extension's sources (`lean/**/*.lean` of the repository) into the crate, sorted by path.
//!
//! Which of them are compiled, and in which order, is read from their `import` lines at run time.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let root = manifest.join("../../lean");
    println!("cargo:rerun-if-changed=build.rs");
    // A folder is watched with all it contains, so an added file is seen as well.
    println!("cargo:rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &root, &mut files);
    files.sort();
    let mut out = String::from("&[\n");
    for (name, path) in &files {
        println!("cargo:rerun-if-changed={}", path.display());
        writeln!(out, "    ({name:?}, include_str!({:?})),", path.display().to_string()).expect("a String takes all");
    }
    out.push_str("]\n");
    let to = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join("extension_sources.rs");
    fs::write(to, out).expect("OUT_DIR is writable");
}

/// Every `.lean` file below `dir`, but nothing hidden (`.lake` holds build results).
fn collect(root: &Path, dir: &Path, out: &mut Vec<(String, PathBuf)>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, out);
        } else if path.extension().is_some_and(|e| e == "lean") {
            let rel = path.strip_prefix(root).expect("below the root");
            let rel = rel.components().map(|c| c.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/");
            let path = fs::canonicalize(&path).unwrap_or(path);
            out.push((rel, path));
        }
    }
}
