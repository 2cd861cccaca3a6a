//! The broker: workspaces, admission, cancellation, barriers, staleness, readiness shaping, statistics; and the daemon around it.
//!
//! It orders requests and attaches observations; it never invents a semantic verdict. Must never print, and never parse text for control flow
//! (Lake's own texts, which exist in no other form, are recognised in one module).
//!
//! Invariants:
//! * **R1** a file read reserves its sequence number first; an older read never overrides a newer one.
//! * **R2** nothing runs unadmitted.
//! * **R3** cancel names an admission, not a reusable id; a handle is inert once its admission ends.
//! * **R4** events, then exactly one terminal outcome.
//! * **R5** permits and leases return by `Drop`, also on panic; a panicking handler fails one request.
//! * **R6** save readiness is Lean's verdict only.
//! * **R7** shutdown: stop admitting, cancel, drain to a deadline, kill.
//! * **R8** a daemon is alive if it answers, whatever a pid file says.

// See `clippy.toml`: what blocks goes to blocking threads, and its module says which.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub use engine::diagnostics::is_setup_line;
// What a front says to an engine: it needs no arrow to the toolchain crate for that.
pub use beam_toolchain::{Choice, HostEnv, root};

pub mod daemon;
mod engine;
pub mod feedback;
pub mod qualify;
mod worker;

pub use engine::{BuildPolicy, Dropped, Engine, EngineConfig, EngineSettings, Opened, SetupFailure};
pub use worker::worker_command;
