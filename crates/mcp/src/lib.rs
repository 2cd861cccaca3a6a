//! MCP over stdio: the protocol's state machine, the coordinator of concurrent calls, and the projection of operations to tools.
//!
//! Must never hold workspace state in the protocol layer, and never print: the streams are the caller's.
//!
//! Invariants:
//! * **M1** one writer on stdout.
//! * **M2** the family is decided once; discovery is neutral.
//! * **M3** request metadata is not kept.
//! * **M4** no reply after an honoured cancel.
//! * **M5** stdin EOF cancels and drains admitted work; the process and its children are gone within two seconds.

pub mod self_check;
#[allow(dead_code, unused_imports, reason = "the coordinator that calls it comes next")]
mod tools;
