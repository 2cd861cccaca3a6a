//! MCP over stdio: the protocol's state machine, the coordinator of concurrent calls, and the projection of operations to tools.
//!
//! Must never hold workspace state in the protocol layer, and never print: the streams are the caller's.
//!
//! ```text
//! stdin ─► lines ─► envelope ─► intake ─► protocol ─┬─ answer ───────────────► outbox ─► stdout
//!                                 │                 ├─ cancel ─► active           ▲
//!                                 └─ cancel ─► active └─ call ──► fence ─► call ──┤
//!                                                               tools ◄──┤        │
//!                                                              service ◄─┴─► report
//! ```
//!
//! Invariants:
//! * **M1** one writer on stdout.
//! * **M2** the family is decided once; discovery is neutral.
//! * **M3** request metadata is not kept.
//! * **M4** no reply after an honoured cancel.
//! * **M5** stdin EOF cancels and drains admitted work; the process and its children are gone within two seconds.
//! * **M6** neither taken places nor answers that nobody reads hold up a cancellation or the end of stdin.

// See `clippy.toml`: what blocks goes to blocking threads, and its module says which.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod active;
mod call;
mod envelope;
mod feedback;
mod fence;
mod id;
mod intake;
mod level;
mod lines;
mod meta;
mod outbox;
mod protocol;
mod reply;
mod report;
mod rpc_error;
pub mod self_check;
mod server;
mod service;
mod tools;

pub use server::{BadVariable, ExitReason, Options, serve};
pub use service::Service;
pub use tools::{Defaults, PREFERRED_REVISION, SERVER_NAME};
