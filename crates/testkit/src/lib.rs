//! What our tests are made of: a scripted LSP peer, fixtures with cursor marks, hermetic project folders, a redactor.
//!
//! A development dependency only, standing on `beam-base` and nothing else of ours; so it can be used to test every crate above
//! that one. It must never contain an answer a product crate could be tempted to use.
//!
//! The peer comes in three sizes:
//!
//! * [`peer::Peer`]: the other end of an LSP connection, driven step by step from a test;
//! * [`worker::FakeWorker`]: a whole fake process around it, over in-memory pipes: stderr, exit status, signals received;
//! * [`script::Script`]: steps and rules as JSON, run by [`script::run`] and by the executable `scripted-peer`
//!   ([`bin::scripted_peer`]), for tests that need a real process.

pub mod bin;
pub mod fixture;
pub mod native;
pub mod peer;
pub mod project;
pub mod redact;
pub mod script;
pub mod worker;

pub use fixture::Fixture;
pub use peer::{Message, Peer, PeerError};
pub use project::TempProject;
pub use redact::Redactor;
pub use worker::FakeWorker;
