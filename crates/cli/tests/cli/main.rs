//! Process-level tests.
fn main() {}
