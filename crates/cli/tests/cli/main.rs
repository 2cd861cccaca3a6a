//! The CLI and the daemon as processes, hermetic: own home, own control directory, a scripted engine.
//!
//! This executable is two things. Started by cargo it runs the tests. Started with [`env::FAKE`] in its environment it *is* a
//! `lean-beam` whose engine is [`fake::Fake`]; since a client starts its own executable as the daemon, both ends are.
//! The tests in `native` and `real` are different: they run the real product on real Lean.

mod answers;
mod attacks;
mod env;
mod fake;
mod interrupt;
mod lifecycle;
mod local;
mod native;
mod questions;
mod real;
mod table;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    if std::env::var_os(env::FAKE).is_some() {
        return lean_beam::main(std::env::args_os(), &fake::Backstage);
    }
    let tests = [
        answers::TESTS,
        attacks::TESTS,
        lifecycle::TESTS,
        interrupt::TESTS,
        local::TESTS,
        native::TESTS,
        questions::TESTS,
        real::TESTS,
    ]
    .concat();
    table::run(&Arguments::from_args(), &tests)
}
