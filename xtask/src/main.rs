//! Checks that the compiler does not make. `cargo xtask tidy`; the same checks run as a test.

use std::process::ExitCode;

use xtask::tidy;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => {
            let complaints = tidy::check(&tidy::repository());
            for line in &complaints {
                eprintln!("{line}");
            }
            if complaints.is_empty() {
                eprintln!("tidy");
                ExitCode::SUCCESS
            } else {
                eprintln!("{} complaints", complaints.len());
                ExitCode::FAILURE
            }
        }
        _ => {
            eprintln!("usage: cargo xtask tidy");
            ExitCode::FAILURE
        }
    }
}
