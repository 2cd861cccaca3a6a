//! `cargo xtask mutants`: which changes of the product its tests would not notice.
//!
//! [cargo-mutants](https://mutants.rs) changes one thing at a time and runs the tests. A mutant that no test notices is either a promise
//! without a test, which gets one, or a change that no promise is about, which gets a row with a reason in the table. Hours of work for
//! a machine, so CI does not run it.
//!
//! Owns what is mutated, the form of the table and the counts; must never judge: a survivor without a row is a complaint, and so is a
//! row about a mutant that is caught.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// The table of judged survivors, relative to the repository.
pub const TABLE: &str = "xtask/mutants.toml";

/// A part of the product that is mutated by itself.
#[derive(Debug)]
struct Scope {
    name: &'static str,
    package: &'static str,
    files: &'static str,
    /// Which of the package's tests need no Lean: what runs for each mutant unless all are wanted. None named: all of them.
    tests: &'static [&'static str],
}

const SCOPES: &[Scope] = &[
    Scope { name: "base", package: "beam-base", files: "crates/base/src/**", tests: &[] },
    Scope { name: "engine", package: "beam-broker", files: "crates/broker/src/engine/**", tests: &["--lib"] },
    Scope {
        name: "session",
        package: "beam-session",
        files: "crates/session/src/**",
        tests: &[
            "--lib",
            "--test",
            "deaths",
            "--test",
            "mirror",
            "--test",
            "navigation",
            "--test",
            "processes",
            "--test",
            "requests",
            "--test",
            "setup",
        ],
    },
    Scope {
        name: "mcp",
        package: "beam-mcp",
        files: "crates/mcp/src/**",
        tests: &["--lib", "--test", "frames", "--test", "tools"],
    },
    Scope { name: "wire", package: "beam-wire", files: "crates/wire/src/**", tests: &[] },
];

/// The scopes whose survivors all have to be judged; `base` can be asked for.
const BY_DEFAULT: &[&str] = &["engine", "session", "mcp", "wire"];

/// How a survivor was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Judgement {
    /// The changed program does the same.
    Equivalent,
    /// It differs in what no promise is about: a log line, a time within its bounds, the words of a message.
    NoPromise,
    /// A test outside of the scope notices it: real Lean, the process tests, the peers.
    ShownElsewhere,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// A mutant as it is listed, without line and column; `*` stands for any text.
    mutant: String,
    judgement: Judgement,
    reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    survivor: Vec<Row>,
}

/// What became of the mutants of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Per crate: caught, missed, judged, unviable.
    counts: BTreeMap<String, [usize; 4]>,
    /// What has to be mended: survivors without a row, rows without a survivor, rows without a reason.
    complaints: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Outcomes {
    outcomes: Vec<Outcome>,
}

#[derive(Debug, Deserialize)]
struct Outcome {
    scenario: Scenario,
    summary: String,
}

#[derive(Debug, Deserialize)]
enum Scenario {
    Baseline,
    Mutant(Mutant),
}

#[derive(Debug, Deserialize)]
struct Mutant {
    name: String,
    file: String,
}

/// Runs the scopes of these names (`--all-tests`: with all tests of their packages, real Lean included; `--out DIR`: where reports go) and
/// returns the complaints. `--report DIR` judges a run that is there already.
#[must_use]
pub fn run(root: &Path, args: &[String]) -> Vec<String> {
    match try_run(root, args) {
        Ok(complaints) => complaints,
        Err(complaint) => vec![complaint],
    }
}

fn try_run(root: &Path, args: &[String]) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let (mut all_tests, mut out, mut reports) = (false, root.join("target/mutants"), Vec::new());
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--all-tests" => all_tests = true,
            "--out" => out = rest.next().ok_or("--out needs a folder")?.into(),
            "--report" => reports.push(Path::new(rest.next().ok_or("--report needs a folder")?).to_path_buf()),
            name => names.push(name),
        }
    }
    if reports.is_empty() {
        for scope in scopes(if names.is_empty() { BY_DEFAULT } else { &names })? {
            let folder = out.join(scope.name);
            mutate(root, scope, all_tests, &folder)?;
            reports.push(folder);
        }
    }
    let mut outcomes = Vec::new();
    for folder in &reports {
        let path = folder.join("mutants.out/outcomes.json");
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let read: Outcomes = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        outcomes.extend(read.outcomes);
    }
    let table = std::fs::read_to_string(root.join(TABLE)).map_err(|e| format!("{TABLE}: {e}"))?;
    let report = judge(&outcomes, &table)?;
    eprint!("{}", report.table());
    Ok(report.complaints)
}

fn scopes(names: &[&str]) -> Result<Vec<&'static Scope>, String> {
    let known = || SCOPES.iter().map(|s| s.name).collect::<Vec<_>>().join(", ");
    names
        .iter()
        .map(|name| {
            SCOPES.iter().find(|s| s.name == *name).ok_or_else(|| format!("no scope `{name}`; there are {}", known()))
        })
        .collect()
}

fn mutate(root: &Path, scope: &Scope, all_tests: bool, out: &Path) -> Result<(), String> {
    std::fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["mutants", "--jobs", "1", "--package", scope.package, "--file", scope.files]);
    command.arg("--output").arg(out);
    if !all_tests {
        command.arg("--").args(scope.tests);
    }
    let status = command.status().map_err(|e| format!("cargo cannot be started: {e}"))?;
    match status.code() {
        // All caught; some missed; some too slow.
        Some(0 | 2 | 3) => Ok(()),
        // 101 is what cargo says to a subcommand that it does not know.
        Some(101) => {
            Err("cargo-mutants is not installed; install it with: cargo install cargo-mutants --locked".to_owned())
        }
        Some(4) => Err(format!("the tests of {} fail without any mutant", scope.package)),
        _ => Err(format!("cargo mutants ended with {status}")),
    }
}

fn judge(outcomes: &[Outcome], table: &str) -> Result<Report, String> {
    let table: Table = toml::from_str(table).map_err(|e| format!("{TABLE}: {e}"))?;
    let mut report = Report::default();
    let mut used = vec![false; table.survivor.len()];
    let mut files = std::collections::BTreeSet::new();
    for outcome in outcomes {
        let Scenario::Mutant(mutant) = &outcome.scenario else {
            continue;
        };
        files.insert(mutant.file.as_str());
        let crate_of = mutant.file.split('/').nth(1).unwrap_or_default();
        let [caught, missed, judged, unviable] = report.counts.entry(crate_of.to_owned()).or_default();
        match outcome.summary.as_str() {
            // One that hangs is noticed.
            "CaughtMutant" | "Timeout" => *caught += 1,
            "Unviable" => *unviable += 1,
            "MissedMutant" => {
                let name = without_place(&mutant.name);
                let mut found = false;
                for (row, used) in table.survivor.iter().zip(&mut used) {
                    if matches(&row.mutant, &name) {
                        (found, *used) = (true, true);
                    }
                }
                if found {
                    *judged += 1;
                } else {
                    *missed += 1;
                    report.complaints.push(format!("no test notices, and nobody has judged: {}", mutant.name));
                }
            }
            other => return Err(format!("cargo mutants says `{other}` of {}; is it of a newer version?", mutant.name)),
        }
    }
    for (row, used) in table.survivor.iter().zip(used) {
        let file = row.mutant.split(": ").next().unwrap_or_default();
        if !used && files.iter().any(|f| matches(file, f)) {
            report.complaints.push(format!("{TABLE}: `{}` is judged, and is not among the survivors", row.mutant));
        }
        if row.reason.trim().is_empty() {
            report.complaints.push(format!("{TABLE}: `{}` is judged {:?} without a reason", row.mutant, row.judgement));
        }
    }
    Ok(report)
}

/// `crates/x/src/a.rs:8:29: replace * with +` as `crates/x/src/a.rs: replace * with +`: a row outlives edits above it.
fn without_place(name: &str) -> String {
    let Some((place, what)) = name.split_once(": ") else {
        return name.to_owned();
    };
    format!("{}: {what}", place.split(':').next().unwrap_or(place))
}

/// Whether the text is the pattern, in which `*` stands for any text; `\*` is the sign itself.
fn matches(pattern: &str, text: &str) -> bool {
    let pattern = pattern.replace("\\*", "\u{1}");
    let mut parts = pattern.split('*').map(|part| part.replace('\u{1}', "*"));
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first.as_str())) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part.as_str());
        }
        match rest.find(part.as_str()) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

impl Report {
    fn table(&self) -> String {
        let mut out =
            String::from("| crate | caught | missed | judged | unviable |\n| --- | --- | --- | --- | --- |\n");
        for (name, [caught, missed, judged, unviable]) in &self.counts {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "| {name} | {caught} | {missed} | {judged} | {unviable} |");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(rows: &[(&str, &str)]) -> Vec<Outcome> {
        let scenario = |name: &str| serde_json::json!({ "Mutant": { "name": name, "package": "p", "file": name.split(':').next(), "genre": "FnValue" } });
        let mut all = vec![serde_json::json!({ "scenario": "Baseline", "summary": "Success", "log_path": "x" })];
        all.extend(
            rows.iter().map(|(name, summary)| serde_json::json!({ "scenario": scenario(name), "summary": summary })),
        );
        serde_json::from_value::<Outcomes>(serde_json::json!({ "outcomes": all, "missed": 1 })).unwrap().outcomes
    }

    const RUN: &[(&str, &str)] = &[
        ("crates/a/src/x.rs:1:2: replace f -> u8 with 0", "CaughtMutant"),
        ("crates/a/src/x.rs:3:9: replace f -> u8 with 1", "MissedMutant"),
        ("crates/a/src/x.rs:4:9: replace * with + in g", "MissedMutant"),
        ("crates/a/src/x.rs:5:9: replace h with ()", "Timeout"),
        ("crates/b/src/y.rs:5:9: replace S::h -> S with Default::default()", "Unviable"),
    ];

    fn row(mutant: &str) -> String {
        format!("[[survivor]]\nmutant = '{mutant}'\njudgement = \"no-promise\"\nreason = \"a log line\"\n")
    }

    #[test]
    fn survivors_are_counted_and_told_unless_judged() {
        let report = judge(&outcomes(RUN), "").unwrap();
        assert_eq!(report.counts, BTreeMap::from([("a".into(), [2, 2, 0, 0]), ("b".into(), [0, 0, 0, 1])]));
        assert_eq!(report.complaints.len(), 2);
        assert_eq!(
            report.complaints[0],
            "no test notices, and nobody has judged: crates/a/src/x.rs:3:9: replace f -> u8 with 1"
        );
        let table =
            [row("crates/a/src/x.rs: replace f -> u8 with 1"), row(r"crates/a/*: replace \* with + in g")].concat();
        let report = judge(&outcomes(RUN), &table).unwrap();
        assert_eq!((&report.complaints, report.counts["a"]), (&Vec::new(), [2, 0, 2, 0]));
        assert!(report.table().contains("| a | 2 | 0 | 2 | 0 |\n"), "{}", report.table());
    }

    #[test]
    fn a_judgement_that_judges_nothing_is_told() {
        let run = outcomes(&RUN[..1]);
        let stale = judge(&run, &row("crates/a/src/x.rs: replace f -> u8 with 0")).unwrap();
        assert_eq!(stale.complaints.len(), 1, "{stale:?}");
        // Nothing is said of files that were not part of the run.
        assert_eq!(judge(&run, &row("crates/c/src/x.rs: replace f")).unwrap().complaints, Vec::<String>::new());
        let silent = row("crates/c/src/x.rs: replace f").replace("a log line", " ");
        assert_eq!(judge(&run, &silent).unwrap().complaints.len(), 1);
        assert!(judge(&run, &row("x").replace("no-promise", "fine")).is_err());
        assert!(judge(&outcomes(&[("crates/a/src/x.rs:1:1: f", "Escaped")]), "").is_err());
    }

    #[test]
    fn patterns() {
        for (pattern, text, want) in [
            ("abc", "abc", true),
            ("ab", "abc", false),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c*", "abc", true),
            ("a*x*c", "abc", false),
            (r"a\*c", "abc", false),
            (r"a\*c", "a*c", true),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), want, "{pattern} {text}");
        }
    }

    #[test]
    fn the_table_of_the_repository_is_one_and_the_default_scopes_exist() {
        let table = std::fs::read_to_string(crate::tidy::repository().join(TABLE)).unwrap();
        assert_eq!(judge(&[], &table).unwrap().complaints, Vec::<String>::new());
        assert_eq!(scopes(BY_DEFAULT).unwrap().len(), 4);
        assert!(scopes(&["nowhere"]).unwrap_err().contains("engine"));
    }
}
