//! Tests as tables of functions, for executables that run them without the standard harness.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// A test and its name.
pub type Test = (&'static str, fn());

/// Runs them.
pub fn run(args: &Arguments, tests: &[Test]) -> ExitCode {
    let trial = |&(name, test): &Test| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    libtest_mimic::run(args, tests.iter().map(trial).collect()).exit_code()
}

/// A table of tests, named as their functions are.
#[macro_export]
macro_rules! tests {
    ($($name:ident)*) => {
        /// The tests of this file.
        pub const TESTS: &[$crate::table::Test] = &[$((stringify!($name), $name as fn())),*];
    };
}
