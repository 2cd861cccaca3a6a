//! Checks that the compiler does not make. `cargo xtask tidy`, `cargo xtask drift`: the same checks run as tests. `cargo xtask mutants`
//! takes hours and is run by hand.

use std::path::Path;
use std::process::ExitCode;

use xtask::{drift, mutants, tidy};

const USAGE: &str = "usage: cargo xtask tidy [ROOT]
       cargo xtask drift LEAN LIBRARY [--update]
           LEAN     a `lean` with its library, which compiles the extension
           LIBRARY  another Lean's `libleanshared.so`
       cargo xtask mutants [SCOPE...] [--all-tests] [--out DIR]
           SCOPE    engine, session, mcp, wire (all four unless told), base
       cargo xtask mutants --report DIR [--report DIR...]
           judges runs that are there already";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let complaints = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy::check(&tidy::repository()),
        ["tidy", root] => tidy::check(Path::new(root)),
        ["mutants", ..] => mutants::run(&tidy::repository(), &args[1..]),
        ["drift", lean, library] => run_drift(lean, library, false),
        ["drift", lean, library, "--update"] => run_drift(lean, library, true),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    for line in &complaints {
        eprintln!("{line}");
    }
    if complaints.is_empty() {
        eprintln!("{}: nothing to complain about", args[0]);
        ExitCode::SUCCESS
    } else {
        eprintln!("{} complaints", complaints.len());
        ExitCode::FAILURE
    }
}

fn run_drift(lean: &str, library: &str, update: bool) -> Vec<String> {
    let root = tidy::repository();
    let found = match drift::compare(&root, Path::new(lean), Path::new(library)) {
        Ok(found) => found,
        Err(error) => return vec![error],
    };
    eprintln!("{} symbols needed, {} missing", found.needed.len(), found.missing.len());
    let path = root.join(drift::TABLE);
    let mut table = match std::fs::read_to_string(&path) {
        Ok(table) => table,
        Err(error) => return vec![format!("{}: {error}", drift::TABLE)],
    };
    if update {
        table = drift::updated(&found, &table);
        if let Err(error) = std::fs::write(&path, &table) {
            return vec![format!("{}: {error}", drift::TABLE)];
        }
    }
    drift::complaints(&found, &table)
}
