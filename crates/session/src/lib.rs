//! One session: the Lean file workers of one workspace, and everything needed to speak to them.
//!
//! This crate is the watchdog. Lean's own keeps one *file worker* process per open document and routes requests to it;
//! here that part is played by us, in the worker's own protocol (LSP framing, plus a handful of `$/lean/…` messages).
//! It must never see the broker's wire types, never decide what a Lean answer means, and never print.
//!
//! # Theory of operation
//!
//! ```text
//!  Session (handle) ──► router task ──► document task ──► writer task ──► worker's stdin
//!                                            ▲  ▲
//!                                            │  └───────── reader task ◄── worker's stdout
//!                                            └──────────── supervisor  ◄── exit status, stderr
//! ```
//!
//! Handles send closed enums and hold no state. The router knows which document task belongs to which path. A document
//! task owns the mirror of one file, the life of its worker and the table of requests that are pending on it; nobody
//! else touches them, and it never blocks: whatever waits (writing, reading, the process's end) is another task.
//! Both channels are first in, first out, and [`Session::apply`], [`Session::request`] and [`Session::close`] queue
//! *before* they return their future, so what a worker sees is in the order of the calls, polled or not.
//!
//! What Lean's watchdog answers itself is answered here: `textDocument/references` and workspace symbols from the reference data
//! of open documents and built modules, `textDocument/definition` corrected by it, and `$/lean/staleDependency` to importers of
//! a file that changed. To a caller these are requests like any other.
//!
//! # Invariants
//!
//! * **S1** one task owns a worker's stdin, one its stdout.
//! * **S2** every request ends exactly once: reply, server error, cancelled, timed out, document changed, worker or session lost.
//! * **S3** cancel and time-out clear the table and tell the server; late replies are dropped and counted.
//! * **S4** the mirror's text at version *v* is the server's; versions of a path only rise, whatever is closed or replaced meanwhile.
//! * **S5** results carry (epoch, document, version).
//! * **S6** a worker's lifecycle is one enum, changed in one function.
//! * **S7** the whole process group of a worker dies with its owner; its last stderr lines are kept.

// See `clippy.toml`: what blocks goes to blocking threads, and its module says which.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod abandoned;
mod config;
mod document;
mod error;
mod frames;
mod handle;
mod info;
mod library;
mod lifecycle;
mod lsp;
mod message;
mod mirror;
mod navigate;
mod observation;
mod pending;
mod process;
mod progress;
mod reference_index;
mod request;
mod router;
mod session;
mod setup;
mod shared;
mod worker;
mod worker_message;

pub use config::{BuildMode, SessionConfig};
pub use error::{ExitReason, Modified, RequestFailure, SessionError, WorkerExit};
pub use handle::{Canceller, Pending};
pub use info::{Counters, DocumentInfo, WorkerState, WorkerSummary};
pub use library::IndexRoots;
pub use mirror::{Applied, Seq, Snapshot, Versions};
pub use navigate::{Location, Symbol};
pub use observation::{Observation, Observations, Observer, Published, StrayOutput, observer};
pub use process::{
    BoxFuture, CommandSpawn, EndStatus, GroupSignal, Spawn, WorkerCommand, WorkerControl, WorkerProcess,
};
pub use progress::Progress;
pub use request::{Reply, RequestSpec};
pub use session::Session;
pub use setup::{ImportedSource, Setup, SetupLines, SetupReport};
pub use worker_message::DirectImport;
