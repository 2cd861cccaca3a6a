//! `docs/coverage.md`: every promise has its row, and every row its status.
//!
//! A row is `| R-001 | promise | status | tests | remark |`.
//! * **shown**: the tests show what the promise says. At least one test, and nothing in that cell but names of tests.
//! * **differs**: the product does something else on purpose. The remark says what and why; tests show what it does instead.
//! * **open**: nothing shows it. The remark says what is missing.

use std::collections::BTreeSet;

use super::named::Tests;
use super::tree::File;

/// The table.
const TABLE: &str = "docs/coverage.md";
/// The last row. A promise that is added raises it; one that is gone leaves a gap, and that is a complaint.
const LAST: usize = 271;

/// What is wrong with the table.
pub(super) fn check(files: &[File], tests: &Tests) -> Vec<String> {
    match files.iter().find(|f| f.path == TABLE) {
        Some(table) => rows(&table.text, LAST, &|name| exists(name, files, tests)),
        None => vec![format!("{TABLE} is gone")],
    }
}

/// A function that runs as a test, or a conformance case.
fn exists(name: &str, files: &[File], tests: &Tests) -> bool {
    match name.strip_prefix("case ") {
        Some(case) => files.iter().any(|f| f.path == format!("tests/conformance/{case}.json")),
        None => tests.names.contains(name),
    }
}

fn rows(table: &str, last: usize, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut out = Vec::new();
    let mut missing: BTreeSet<usize> = (1..=last).collect();
    for (n, line) in table.lines().enumerate().filter(|(_, l)| l.starts_with("| R-")) {
        let mut complain = |what: &str| out.push(format!("{TABLE}:{}: {what}", n + 1));
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let &[id, promise, status, shown_by, remark] = cells.as_slice() else {
            complain("a row has five cells: id, promise, status, tests, remark");
            continue;
        };
        let number = id.strip_prefix("R-").filter(|digits| digits.len() == 3).and_then(|digits| digits.parse().ok());
        if !number.is_some_and(|number| missing.remove(&number)) {
            complain(&format!("`{id}` is there twice, or is none of R-001 to R-{last:03}"));
        }
        if promise.is_empty() {
            complain("a row without a promise");
        }
        let names = match test_names(shown_by) {
            Ok(names) => names,
            Err(word) => {
                complain(&format!("`{word}` is no name of a test; remarks stand in the last cell"));
                continue;
            }
        };
        for name in names.iter().filter(|name| !exists(name)) {
            complain(&format!("there is no test `{name}`"));
        }
        match status {
            "shown" if names.is_empty() => complain("shown, but by no test"),
            "differs" if remark.is_empty() => complain("differs, but the remark does not say what and why"),
            "differs" if names.is_empty() => complain("differs, but no test shows what it does instead"),
            "open" if remark.is_empty() => complain("open, but the remark does not say what is missing"),
            "shown" | "differs" | "open" => {}
            _ => complain(&format!("`{status}` is no status; there are `shown`, `differs` and `open`")),
        }
    }
    out.extend(missing.iter().map(|number| format!("{TABLE}: the row R-{number:03} is missing")));
    out
}

/// The tests of a cell: quoted names between commas, and nothing else.
///
/// # Errors
/// What stands there instead.
fn test_names(cell: &str) -> Result<Vec<&str>, &str> {
    if cell.is_empty() {
        return Ok(Vec::new());
    }
    cell.split(',')
        .map(str::trim)
        .map(|quoted| quoted.strip_prefix('`').and_then(|q| q.strip_suffix('`')).ok_or(quoted))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::file;

    fn of(table: &str) -> Vec<String> {
        rows(table, 2, &|name| ["is_there", "case there"].contains(&name))
    }

    const FIRST: &str = "| R-001 | a | shown | `is_there`, `case there` | |\n";

    #[test]
    fn a_true_table_passes() {
        let differs = "| R-002 | the `text` | differs | `is_there` | it is not, because of `x` |\n";
        let open = "| R-002 | b | open | | no Lake here |\n";
        assert_eq!(of(&format!("{FIRST}{differs}")), Vec::<String>::new());
        assert_eq!(of(&format!("{FIRST}{open}")), Vec::<String>::new());
    }

    #[test]
    fn each_untrue_row_is_seen() {
        for (row, want) in [
            ("| R-002 | b | shown | trust me | |", "`trust me` is no name of a test; remarks stand in the last cell"),
            (
                "| R-002 | b | shown | `is_there`; trust me | |",
                "``is_there`; trust me` is no name of a test; remarks stand in the last cell",
            ),
            ("| R-002 | b | shown | | trust me |", "shown, but by no test"),
            ("| R-002 | b | shown | `is_gone` | |", "there is no test `is_gone`"),
            ("| R-002 | b | shown | `case gone` | |", "there is no test `case gone`"),
            ("| R-002 | b | differs | `is_there` | |", "differs, but the remark does not say what and why"),
            ("| R-002 | b | differs | | so it is |", "differs, but no test shows what it does instead"),
            ("| R-002 | b | open | | |", "open, but the remark does not say what is missing"),
            ("| R-002 | b | done | `is_there` | |", "`done` is no status; there are `shown`, `differs` and `open`"),
            ("| R-002 | b | | `is_there` | |", "`` is no status; there are `shown`, `differs` and `open`"),
            ("| R-002 | | open | | x |", "a row without a promise"),
            ("| R-002 | b | `is_there` |", "a row has five cells: id, promise, status, tests, remark"),
        ] {
            let found = of(&format!("{FIRST}{row}\n"));
            assert_eq!(found.first(), Some(&format!("docs/coverage.md:2: {want}")), "{row}: {found:?}");
        }
    }

    #[test]
    fn a_deleted_a_doubled_and_a_new_row_are_seen() {
        assert_eq!(of(FIRST), ["docs/coverage.md: the row R-002 is missing"]);
        assert_eq!(of(&FIRST.replace("001", "002")), ["docs/coverage.md: the row R-001 is missing"]);
        let twice = of(&format!("{FIRST}{FIRST}"));
        assert_eq!(twice[0], "docs/coverage.md:2: `R-001` is there twice, or is none of R-001 to R-002");
        let more = of(&[FIRST, &FIRST.replace("001", "002"), &FIRST.replace("001", "003")].concat());
        assert_eq!(more, ["docs/coverage.md:3: `R-003` is there twice, or is none of R-001 to R-002"]);
    }

    #[test]
    fn a_function_that_is_no_test_shows_nothing() {
        let row = |n: usize| format!("| R-{n:03} | a | shown | `helper` | |\n");
        let table: String = (1..=LAST).map(row).collect();
        let code = "fn helper() {}\n#[test]\nfn real() {}\n";
        let files = [file(TABLE, &table), file("crates/a/tests/t.rs", code)];
        let complaints = check(&files, &Tests::of(&files));
        assert_eq!(complaints.len(), LAST);
        assert_eq!(complaints[0], "docs/coverage.md:1: there is no test `helper`");
        let files = [file(TABLE, &table.replace("helper", "real")), file("crates/a/tests/t.rs", code)];
        assert_eq!(check(&files, &Tests::of(&files)), Vec::<String>::new());
        assert_eq!(check(&[], &Tests::default()), ["docs/coverage.md is gone"]);
    }
}
