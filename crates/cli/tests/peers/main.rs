//! Other people's MCP clients and judges against the built executable, as `lean-beam-mcp`.
//!
//! * the official npm client in each way it can begin ([`npm`], `tests/mcp-peers/client.mjs`);
//! * the conformance suite for both revisions, through a test-only HTTP bridge ([`npm`], `tests/mcp-peers/bridge.mjs`);
//! * the official Rust client, `rmcp` ([`rust`]).
//!
//! Their versions are pinned in `tests/mcp-peers/package.json` (and its lock file), and for `rmcp` in the workspace's `Cargo.toml`.
//! They run one after the other: each has a Lean of its own, which takes most of a gigabyte.

mod npm;
mod rust;
mod site;
#[path = "../cli/table.rs"]
#[allow(unused_macros, reason = "the tables here are written out")]
mod table;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    args.test_threads = Some(1);
    let tests = [npm::TESTS, rust::TESTS].concat();
    table::run(&args, &tests)
}
