//! Our promises to others: the operation table, requests, responses, stream messages, error codes.
//!
//! Must never touch files, the clock or a runtime: this crate is data and its spelling.
//!
//! Invariants:
//! * **W1** unknown fields are refused everywhere but in the open bags: `error.data`, raw LSP answers, `codeAction`, the inside of a handle's `raw`.
//! * **W2** codes are stable ([`FailureCode`]); messages are for people and nobody parses them.
//! * **W3** one table ([`operation::OPERATIONS`], with the verbs of [`verb::VERBS`]) yields the typed requests and answers, the request
//!   checks, CLI verbs and options, help, MCP arguments and schemas.

pub mod answer;
pub mod ask;
pub mod backend;
pub mod control;
pub mod document;
pub mod error;
pub mod field;
pub mod navigate;
pub mod observed;
pub mod operation;
pub mod project;
pub mod request;
pub mod response;
pub mod run;
pub mod stats;
pub mod stream;
pub mod sync;
pub mod todo;
pub mod verb;
pub mod workspace;

pub use answer::Answer;
pub use backend::Backend;
pub use error::{ErrorBody, FailureCode};
pub use observed::{Progress, StreamDiagnostic};
pub use operation::{Op, OpSpec, Operation, Scope};
pub use request::Request;
pub use response::Response;
pub use run::{Goal, Goals, Handle, Hypothesis, RunResult, Severity};
pub use stream::StreamMessage;
pub use sync::{SaveResult, SyncResult};
