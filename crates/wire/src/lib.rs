//! Our promises to others: the operation table, requests, responses, stream messages, error codes.
//!
//! Must never touch files, the clock or a runtime: this crate is data and its spelling.
//!
//! Invariants:
//! * **W1** unknown fields are refused everywhere but in the open bags: `error.data`, raw LSP answers, `codeAction`, the inside of a handle's `raw`.
//! * **W2** codes are stable ([`FailureCode`]); messages are for people and nobody parses them.
//! * **W3** one table ([`op::OPERATIONS`], with the verbs of [`verb::VERBS`]) yields the request checks, CLI verbs, help and schema.

pub mod error;
pub mod field;
pub mod op;
pub mod request;
pub mod response;
pub mod run;
pub mod stats;
pub mod stream;
pub mod sync;
pub mod verb;

pub use error::{ErrorBody, FailureCode};
pub use op::{Op, OpSpec, Scope};
pub use request::{Args, Backend, Request};
pub use response::Response;
pub use run::{Goal, Goals, Handle, Hypothesis, RunResult, Severity};
pub use stream::{StreamDiagnostic, StreamMessage};
pub use sync::{Progress, SaveResult, SyncResult};
