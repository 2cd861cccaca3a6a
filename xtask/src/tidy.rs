//! House rules as code: layer arrows, file and function length, module docs, printing only where it is allowed, invariants named by
//! tests, and words that must not appear. Each check is a function from the file list to complaints.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Longest source file, in lines.
const FILE_LINES: usize = 800;
/// Longest function outside tests, in lines.
const FUNCTION_LINES: usize = 90;

/// Which crate may depend on which of ours.
const ARROWS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("lean", &["beam-base"]),
    ("wire", &["beam-base"]),
    ("process", &["beam-base"]),
    ("toolchain", &["beam-base", "beam-process"]),
    ("project", &["beam-base", "beam-lean", "beam-process", "beam-toolchain"]),
    ("embedded", &["beam-base", "beam-process", "beam-toolchain"]),
    ("session", &["beam-base", "beam-lean"]),
    (
        "broker",
        &["beam-base", "beam-lean", "beam-process", "beam-project", "beam-session", "beam-toolchain", "beam-wire"],
    ),
    ("mcp", &["beam-base", "beam-broker", "beam-wire"]),
    ("cli", &["beam-base", "beam-broker", "beam-embedded", "beam-mcp", "beam-process", "beam-toolchain", "beam-wire"]),
    ("testkit", &["beam-base"]),
];

/// Where printing to the standard streams is somebody's job.
const PRINTERS: &[&str] = &["crates/cli/", "crates/testkit/src/bin/", "xtask/", "bench/", "/examples/"];

/// A file of the repository.
#[derive(Debug)]
pub struct File {
    /// Path relative to the repository, with forward slashes.
    pub path: String,
    /// Content.
    pub text: String,
}

/// The repository this crate was built in.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Runs every check; each complaint names a place and a rule.
#[must_use]
pub fn check(root: &Path) -> Vec<String> {
    let files = read_tree(root);
    let mut out = Vec::new();
    out.extend(arrows(&files));
    for file in &files {
        if file.path.ends_with(".rs") {
            out.extend(rust_file(file));
        }
        out.extend(words(file));
    }
    out.extend(invariants(&files));
    out.extend(coverage(&files));
    out
}

fn read_tree(root: &Path) -> Vec<File> {
    let mut out = Vec::new();
    let mut queue = vec![root.to_path_buf()];
    while let Some(dir) = queue.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                if !matches!(name.as_str(), "target" | ".git" | ".beam" | "node_modules") {
                    queue.push(path);
                }
            } else if let (Ok(text), Ok(rel)) = (std::fs::read_to_string(&path), path.strip_prefix(root)) {
                out.push(File { path: rel.to_string_lossy().into_owned(), text });
            }
        }
    }
    out.sort_by(|a, b| a.path.cmp(&b.path));
    out
}

/// Dependencies between our crates, from the manifests.
fn arrows(files: &[File]) -> Vec<String> {
    let mut out = Vec::new();
    for file in files {
        let Some(name) = file.path.strip_prefix("crates/").and_then(|p| p.strip_suffix("/Cargo.toml")) else {
            continue;
        };
        let Some((_, allowed)) = ARROWS.iter().find(|(n, _)| *n == name) else {
            out.push(format!("{}: a crate that the layering in xtask/src/tidy.rs does not know", file.path));
            continue;
        };
        let mut section = "";
        for line in file.text.lines() {
            if let Some(header) = line.strip_prefix('[') {
                section = header.trim_end_matches(']');
            }
            let dep = line.split(['.', ' ', '=']).next().unwrap_or_default();
            let ours = dep.starts_with("beam-") || dep == "testkit" || dep == "lean-beam";
            // Tests may use anything below them, and the kit.
            if ours && section == "dependencies" && !allowed.contains(&dep) {
                out.push(format!("{}: `{dep}` is not below `{name}`", file.path));
            }
        }
    }
    out
}

fn rust_file(file: &File) -> Vec<String> {
    let mut out = Vec::new();
    let lines: Vec<&str> = file.text.lines().collect();
    if lines.len() > FILE_LINES {
        out.push(format!("{}: {} lines, more than {FILE_LINES}; where is the seam?", file.path, lines.len()));
    }
    let first = lines.iter().find(|l| !l.trim().is_empty() && !l.starts_with("#!["));
    if !first.is_some_and(|l| l.starts_with("//!")) {
        out.push(format!("{}: does not open with `//!`", file.path));
    }
    let tests_from = lines.iter().position(|l| l.trim() == "#[cfg(test)]").unwrap_or(lines.len());
    let is_test_file = file.path.contains("/tests/");
    for (n, line) in lines.iter().enumerate().take(tests_from) {
        if !is_test_file
            && !PRINTERS.iter().any(|p| file.path.starts_with(p) || (p.starts_with('/') && file.path.contains(p)))
            && !file.path.ends_with("build.rs")
            && prints(line)
        {
            out.push(format!("{}:{}: prints; only the front ends may", file.path, n + 1));
        }
    }
    if !is_test_file {
        out.extend(functions(file, &lines[..tests_from]));
    }
    out
}

fn prints(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["println!", "print!", "eprintln!", "eprint!", "io::stdout()", "io::stderr()"]
        .iter()
        .any(|call| code.contains(call))
}

/// Functions that are too long. The formatter guarantees that a function ends at a brace of its own indentation.
fn functions(file: &File, lines: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let Some(name) = function_name(line.trim_start()) else {
            continue;
        };
        let close = format!("{}}}", " ".repeat(indent));
        let Some(len) = lines[n..].iter().position(|l| *l == close) else {
            continue;
        };
        if len + 1 > FUNCTION_LINES {
            out.push(format!("{}:{}: `{name}` has {} lines, more than {FUNCTION_LINES}", file.path, n + 1, len + 1));
        }
    }
    out
}

fn function_name(line: &str) -> Option<&str> {
    let mut rest = line;
    loop {
        let before = rest;
        for word in ["pub(crate) ", "pub(super) ", "pub ", "const ", "async ", "unsafe "] {
            rest = rest.strip_prefix(word).unwrap_or(rest);
        }
        if rest == before {
            break;
        }
    }
    rest.strip_prefix("fn ")?.split(['(', '<']).next()
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

/// Every invariant (`* **X1** …` in a crate's documentation) is named by a test: `fn x1_…`, or a doc comment right above one.
fn invariants(files: &[File]) -> Vec<String> {
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    let mut named = std::collections::BTreeSet::new();
    for file in files.iter().filter(|f| f.path.ends_with(".rs")) {
        for (n, line) in file.text.lines().enumerate() {
            if let Some(rest) = line.strip_prefix("//! * **")
                && let Some((id, _)) = rest.split_once("**")
                && is_id(id)
            {
                ids.entry(id.to_owned()).or_insert_with(|| format!("{}:{}", file.path, n + 1));
            }
        }
        named.extend(named_by_tests(file));
    }
    ids.iter()
        .filter(|(id, _)| !named.contains(*id))
        .map(|(id, place)| format!("{place}: no test names invariant {id}"))
        .collect()
}

fn is_id(id: &str) -> bool {
    let mut chars = id.chars();
    chars.next().is_some_and(|c| c.is_ascii_uppercase()) && id.len() > 1 && chars.all(|c| c.is_ascii_digit())
}

fn named_by_tests(file: &File) -> Vec<String> {
    let text = &file.text;
    // Functions in test files may be registered by hand, without an attribute; so may those inside `proptest!`.
    let all = file.path.contains("/tests/") || text.contains("proptest!");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut out = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        // Attributes and documentation directly above the function.
        let above: Vec<&&str> =
            lines[..n].iter().rev().take_while(|l| l.starts_with('#') || l.starts_with("///")).collect();
        if !all && !above.iter().any(|l| l.contains("test]") || l.contains("test(")) {
            continue;
        }
        let doc = above
            .iter()
            .filter_map(|l| l.strip_prefix("///"))
            .flat_map(|l| l.split(|c: char| !c.is_ascii_alphanumeric()));
        out.extend(doc.filter(|w| is_id(w)).map(str::to_owned));
        out.extend(name.split('_').take_while(|w| is_id(&w.to_ascii_uppercase())).map(str::to_ascii_uppercase));
    }
    out
}

/// Every test that the coverage table names exists.
fn coverage(files: &[File]) -> Vec<String> {
    let Some(table) = files.iter().find(|f| f.path == "docs/coverage.md") else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for (n, line) in table.text.lines().enumerate().filter(|(_, l)| l.starts_with("| R-")) {
        let shown_by = line.trim_end().trim_end_matches('|').rsplit(" | ").next().unwrap_or_default();
        for name in shown_by.split('`').skip(1).step_by(2).filter(|name| is_test_name(name)) {
            let exists = match name.strip_prefix("case ") {
                Some(case) => files.iter().any(|f| f.path == format!("tests/conformance/{case}.json")),
                None => {
                    let function = name.rsplit("::").next().unwrap_or(name);
                    files.iter().any(|f| {
                        f.path.ends_with(".rs")
                            && (f.text.contains(&format!("fn {function}("))
                                || f.text.contains(&format!("fn {function}<")))
                    })
                }
            };
            if !exists {
                out.push(format!("docs/coverage.md:{}: there is no test `{name}`", n + 1));
            }
        }
    }
    out
}

/// A case, or a function's name of several words; commands and options are quoted, too.
fn is_test_name(name: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == ':';
    name.starts_with("case ") || (name.contains('_') && name.chars().all(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_wrong_arrow_is_seen() {
        let toml = "[dependencies]\nbeam-wire.workspace = true\n[dev-dependencies]\ntestkit.workspace = true\n";
        assert_eq!(
            arrows(&[file("crates/session/Cargo.toml", toml)]),
            ["crates/session/Cargo.toml: `beam-wire` is not below `session`"]
        );
        assert!(arrows(&[file("crates/broker/Cargo.toml", toml)]).is_empty());
    }

    #[test]
    fn printing_and_missing_docs_are_seen() {
        let bad = file("crates/base/src/x.rs", "fn f() {\n    println!(\"x\");\n}\n");
        assert_eq!(
            rust_file(&bad),
            [
                "crates/base/src/x.rs: does not open with `//!`",
                "crates/base/src/x.rs:2: prints; only the front ends may"
            ]
        );
    }

    #[test]
    fn long_functions_are_seen() {
        let body = "    f();\n".repeat(FUNCTION_LINES);
        let text = format!("//! x\npub async fn long() {{\n{body}}}\n");
        assert_eq!(rust_file(&file("crates/base/src/x.rs", &text)).len(), 1);
    }

    #[test]
    fn an_invariant_without_a_test_is_seen() {
        let docs = file("crates/base/src/lib.rs", "//! x\n//! * **B1** a.\n//! * **B2** b.\n//! * **B3** c.\n");
        let tests = file(
            "crates/base/src/t.rs",
            "//! t\n/// B1 holds.\n#[test]\nfn some() {}\n#[test]\nfn b2_holds() {}\nfn b3_is_no_test() {}\n",
        );
        assert_eq!(invariants(&[docs, tests]), ["crates/base/src/lib.rs:4: no test names invariant B3"]);
    }

    #[test]
    fn a_coverage_row_must_name_a_test_that_exists() {
        let table =
            file("docs/coverage.md", "| R-001 | the `text` | `is_there`, `is_gone`, `case gone`, `--option` |\n");
        let tests = file("crates/base/src/t.rs", "fn is_there() {}");
        let want = ["is_gone", "case gone"].map(|name| format!("docs/coverage.md:1: there is no test `{name}`"));
        assert_eq!(coverage(&[table, tests]), want);
    }
}
