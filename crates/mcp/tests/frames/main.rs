//! Raw frames against the server in this process: every sentence of the contract about protocol, errors, concurrency and progress.
//! The broker is scripted; real Lean has tests of its own.

#![allow(clippy::print_stdout, reason = "figures and seeds, for who asks for them")]

#[path = "../support/mod.rs"]
mod support;

mod calls;
mod concurrency;
mod envelopes;
mod families;
mod progress;
mod storm;
