//! `AGENTS.md` at the root, and one for each crate with a state machine; the tests that they name exist.

use super::named::Tests;
use super::tree::File;

/// The crates whose rules cannot be read off their types.
const CRATES: &[&str] = &["broker", "mcp", "session", "toolchain"];

pub(super) fn check(files: &[File], tests: &Tests) -> Vec<String> {
    let mut out = Vec::new();
    let wanted = CRATES.iter().map(|name| format!("crates/{name}/AGENTS.md"));
    for path in wanted.chain(["AGENTS.md".to_owned()]) {
        match files.iter().find(|f| f.path == path) {
            Some(file) => out.extend(tables(file, tests)),
            None => out.push(format!("{path} is missing: what to read, what never to do, which tests prove it")),
        }
    }
    out
}

/// The table under `| rule | tests |`: each row says by its last cell which tests prove a rule.
fn tables(file: &File, tests: &Tests) -> Vec<String> {
    let mut rows = file.text.lines().enumerate().skip_while(|(_, line)| *line != "| rule | tests |").skip(2).peekable();
    if rows.peek().is_none() {
        return vec![format!("{}: has no table of rules and tests", file.path)];
    }
    let mut out = Vec::new();
    for (n, line) in rows.take_while(|(_, line)| line.starts_with('|')) {
        let cell = line.trim().trim_matches('|').rsplit('|').next().unwrap_or_default();
        for name in cell.split(',').map(str::trim) {
            let test = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
            if !test.is_some_and(|test| tests.names.contains(test)) {
                out.push(format!("{}:{}: there is no test {name}", file.path, n + 1));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::file;

    #[test]
    fn a_missing_page_and_a_test_that_is_gone_are_seen() {
        let code = file("crates/a/tests/t.rs", "#[test]\nfn real() {}\nfn helper() {}\n");
        let page = |rows: &str| format!("# x\n\n| rule | tests |\n| --- | --- |\n{rows}");
        let all = |text: &str| {
            let mut files: Vec<File> =
                CRATES.iter().map(|c| file(&format!("crates/{c}/AGENTS.md"), &page("| a | `real` |\n"))).collect();
            files.push(file("AGENTS.md", text));
            files.push(file(&code.path, &code.text));
            files
        };
        let complaints = |files: &[File]| check(files, &Tests::of(files));
        assert_eq!(complaints(&all(&page("| a | `real` |\n"))), Vec::<String>::new());
        let wrong = all(&page("| a | `real`, `helper` |\n| b | trust me |\n"));
        assert_eq!(
            complaints(&wrong),
            ["AGENTS.md:5: there is no test `helper`", "AGENTS.md:6: there is no test trust me"]
        );
        assert_eq!(complaints(&all("# x\n")), ["AGENTS.md: has no table of rules and tests"]);
        let one_is_gone = complaints(&all(&page("| a | `real` |\n"))[1..]);
        assert_eq!(one_is_gone.len(), 1, "{one_is_gone:?}");
        assert!(one_is_gone[0].starts_with("crates/broker/AGENTS.md is missing"), "{one_is_gone:?}");
    }
}
