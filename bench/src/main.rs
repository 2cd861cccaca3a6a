//! Figures, not tests: how long one probe takes at each level, and what the daemon weighs.
//!
//! `cargo run --release -p beam-bench -- levels [ROUNDS]` after `cargo build --release`: one probe at each level. Each level is asked in
//! turn within one round, so that a noisy machine is noisy to all of them; medians, and differences of medians, are printed.
//! `… -- scale`: what a probe's time depends on, many at once, and memory. `… -- agent`: what a session of an agent costs. The toolchain is the one `lean-beam` would use.

// Printing figures is what this program is for.
#![allow(clippy::print_stdout)]

mod agent;
mod levels;
mod scale;

fn main() -> Result<(), levels::Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] | ["levels"] => levels::levels(100),
        ["levels", rounds] => levels::levels(rounds.parse()?),
        ["scale"] => scale::run(),
        ["agent"] => agent::run(),
        _ => Err("usage: beam-bench levels [ROUNDS] | scale | agent".into()),
    }
}
