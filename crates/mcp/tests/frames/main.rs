//! Raw frames against the server in this process: every sentence of the contract about protocol, errors, concurrency and progress.
//! The broker is scripted; real Lean has tests of its own.

#[path = "../support/mod.rs"]
mod support;

mod calls;
mod concurrency;
mod envelopes;
mod families;
mod progress;
mod storm;
