//! What a session tells about itself, for people.

use std::time::SystemTime;

use beam_base::AbsPath;
use serde::Serialize;

use crate::error::WorkerExit;
use crate::observation::StrayOutput;
use crate::progress::Progress;
use crate::worker_message::DirectImport;

/// Counters since the session began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Worker processes started, spares included.
    pub worker_starts: u64,
    /// Workers started for a document that had one before, whatever happened to it.
    pub worker_restarts: u64,
    /// Workers lost: crashed, killed for what they did, or never ready. Header changes and closings are not losses.
    pub worker_losses: u64,
    /// Workers replaced because they ignored a cancellation.
    pub refused_cancels: u64,
    /// Requests sent to a worker.
    pub requests: u64,
    /// Results of requests that had been cancelled, which nobody was waiting for any more.
    pub late_replies: u64,
    /// Incidents: answers under an id that this session never gave away, or gave away once and had answered. Lean sends none; code in
    /// a worker that wants its own answer believed does. They are dropped.
    pub unknown_answers: u64,
    /// Workers replaced because the elaboration of an earlier text did not stop.
    pub abandoned_elaborations: u64,
    /// Bytes that workers wrote to their output and that were no message.
    pub stray_bytes: u64,
}

/// An open document, for people.
#[derive(Debug, Clone)]
pub struct DocumentInfo {
    /// Its path as given to [`crate::Session::apply`].
    pub path: AbsPath,
    /// Its URI.
    pub uri: String,
    /// Tracked version.
    pub version: u64,
    /// [`beam_lean::lean_text_hash`] of the tracked text.
    pub hash: u64,
    /// Modification time of the file when it was last read.
    pub mtime: Option<SystemTime>,
    /// What Lean last said about how far it is.
    pub progress: Option<Progress>,
    /// Modules its header imports, once a worker has told.
    pub direct_imports: Vec<DirectImport>,
    /// Requests whose caller waits.
    pub pending: usize,
    /// What its own code has written to the worker's output.
    pub stray_output: Option<StrayOutput>,
    /// Its worker.
    pub worker: WorkerSummary,
}

/// Where a document's worker is, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum WorkerState {
    /// No process; the next use starts one.
    None,
    /// No process yet: its imports are being built.
    Preparing,
    /// Started, silent so far.
    Starting,
    /// It has spoken.
    Running,
}

/// A document's worker, for people.
#[derive(Debug, Clone)]
pub struct WorkerSummary {
    /// Where it is.
    pub state: WorkerState,
    /// Process id while there is a process.
    pub pid: Option<u32>,
    /// Workers started for this document since it was opened.
    pub starts: u64,
    /// How the last one that was lost ended.
    pub last_exit: Option<WorkerExit>,
}
