//! `lean-beam`: see the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    lean_beam::main(std::env::args_os(), &lean_beam::connect::Lean)
}
