//! Every way in which a request can fail inside the engine. What becomes of them outside is decided in one other place, `edge`.

use std::io;

use beam_base::AbsPath;
use beam_session::{RequestFailure, SessionError};
use beam_wire::sync::BlockingDiagnostic;
use beam_wire::{Handle, Op, Progress, SyncResult};

use super::admission::AdmissionRefused;
use super::artifacts::target::ArtifactError;
use super::disk::DiskSilent;
use super::history::StaleDep;
use super::registry::OpenError;
use super::source::SourceError;
use super::workspace::SetupFailure;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    #[error(transparent)]
    Admission(#[from] AdmissionRefused),
    #[error(transparent)]
    Selector(#[from] SelectorError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Setup(#[from] SetupFailure),
    #[error(transparent)]
    Disk(#[from] DiskSilent),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    #[error(transparent)]
    Version(#[from] VersionMismatch),
    #[error(transparent)]
    Handle(#[from] HandleError),
    #[error(transparent)]
    Worker(#[from] Box<WorkerFailure>),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Answer(#[from] AnswerError),
    #[error(transparent)]
    Incomplete(#[from] Box<IncompleteBarrier>),
    #[error(transparent)]
    Save(#[from] SaveRefusal),
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    #[error(transparent)]
    Cancelled(#[from] RequestCancelled),
    #[error(transparent)]
    Defect(#[from] Defect),
}

/// Which workspace a request is about cannot be told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SelectorError {
    #[error("the handle belongs to workspace \"{handle}\", the request names \"{named}\"")]
    HandleOfAnother { handle: String, named: String },
    #[error("{}: missing field `workspaceId`", .0.name())]
    Missing(Op),
    #[error("there is no workspace \"{0}\"")]
    Unknown(String),
    #[error("the root `{given}` does not resolve: {error}")]
    Root { given: String, error: io::Error },
    #[error("the root `{given}` is not the workspace's root `{root}`")]
    OtherRoot { given: AbsPath, root: AbsPath },
}

/// A field whose value no type can refuse.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ParameterError {
    #[error("`{}` is not available for Rocq in this version", .0.name())]
    NoRocq(Op),
    #[error("init_workspace: `rocqCmd` is of no use in this version, which has no Rocq; leave it out")]
    RocqCommand,
    #[error("goals: `text` is not for Lean; use run_at to see the goals after a text")]
    GoalsText,
    #[error("`{path}`: {error}")]
    Position { path: String, error: beam_base::pos::OutOfRange },
    #[error("code_action_resolve: the action has no `data`; pass it exactly as todo returned it")]
    ActionWithoutData,
    #[error("code_action_resolve: the action's `data` is not Lean's: {0}")]
    ActionData(serde_json::Error),
    #[error("code_action_resolve: the action is about {uri}, not about `{path}`")]
    ActionOfAnother { uri: String, path: String },
    #[error("search: nothing to look for; give `name`, `constants` or `pattern`")]
    SearchForNothing,
    #[error("code_actions: `endLine` {last} is before `line` {first}")]
    LinesReversed { first: u32, last: u32 },
    #[error("code_actions: there is no line {line}; the last one is {last}, counted from 0")]
    NoSuchLine { line: u32, last: u32 },
    #[error("try: {given} texts; give 1 to {most}")]
    Candidates { given: usize, most: usize },
    #[error("try: give either `handle`, or `version`, `line` and `character`")]
    HandleOrPosition,
}

/// A request to the worker of the document shown as `path` failed.
#[derive(Debug, thiserror::Error)]
#[error("{failure}")]
pub(crate) struct WorkerFailure {
    pub(crate) failure: RequestFailure,
    pub(crate) path: String,
}

/// The request is about another version than the document's.
#[derive(Debug, thiserror::Error)]
#[error("`{path}` is at version {accepted}, the request is about version {expected}")]
pub(crate) struct VersionMismatch {
    pub(crate) expected: u64,
    pub(crate) accepted: u64,
    pub(crate) uri: String,
    pub(crate) path: String,
}

/// A handle that cannot be used, or be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandleError {
    #[error("the handle is stale: no session is running")]
    NoSession,
    #[error("the handle is stale: it belongs to another backend")]
    OtherBackend,
    #[error("the handle is stale: the session that made it is gone")]
    OtherSession,
    #[error(
        "the handle was used up by a linear continuation; go on from the handle that one gave, or make a new one with run_at"
    )]
    Consumed,
    /// With the oldest one, which would be the first to release.
    #[error("`{path}` has {limit} handles, which is as many as are kept for a document at one version")]
    TooMany { path: String, limit: usize, oldest: Option<Box<Handle>> },
}

/// The worker answered something that its request does not promise.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error("Lean's answer to {method} cannot be understood: {error}")]
    Undecodable { method: &'static str, error: serde_json::Error },
    #[error("Lean's text of `{path}` is not the one that was read from disk")]
    OtherText { path: String, uri: String, expected: String, actual: String },
    #[error("Lean saved version {} of {} with the text {}, not version {} of {} with {}",
        .saved.version, .saved.module, .saved.hash, .wanted.version, .wanted.module, .wanted.hash)]
    OtherSave { saved: SaveIdentity, wanted: SaveIdentity },
}

/// What was saved.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SaveIdentity {
    pub(crate) version: u64,
    pub(crate) module: String,
    /// Lean's hash of the text, as sixteen hexadecimal digits.
    pub(crate) hash: String,
}

/// A barrier that cannot be believed, with everything a caller needs to get out of it.
#[derive(Debug, thiserror::Error)]
#[error("the diagnostics of {uri} version {version} are not complete ({progress})")]
pub(crate) struct IncompleteBarrier {
    pub(crate) path: String,
    pub(crate) uri: String,
    pub(crate) version: u64,
    pub(crate) progress: Progress,
    /// Direct imports that moved on, in header order.
    pub(crate) deps: Vec<StaleDep>,
    pub(crate) evidence: Vec<BlockingDiagnostic>,
    /// Whether `lake build` means anything here.
    pub(crate) has_lake: bool,
}

/// A document that may not be saved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SaveRefusal {
    #[error("`{path}` is built with arguments that the server does not get (moreLeanArgs is set to {args:?})")]
    BatchOnlyArgs { path: String, args: Vec<String>, sync: Box<SyncResult> },
    #[error("`{path}` has errors and cannot be saved ({}, {} blocking)", .sync.readiness.reason, .sync.readiness.blocking_error_count)]
    Errors { path: String, sync: Box<SyncResult> },
    /// Found before anything was written, or after: then the trace is withdrawn.
    #[error("`{path}` is not saved: {} changed on disk after it was loaded", .moved.join(", "))]
    ImportsMoved { path: String, moved: Vec<String> },
}

/// The client's cancellation came first.
#[derive(Debug, thiserror::Error)]
#[error("the request was cancelled")]
pub(crate) struct RequestCancelled;

/// A defect of ours.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Defect {
    #[error("a defect of lean-beam ended this request: {0}")]
    Panic(String),
    #[error("the request was aborted because the runtime is ending")]
    Aborted,
    #[error("`{}` is not run this way", .0.name())]
    NotDispatched(Op),
    #[error("a defect of lean-beam ended a part of this request: {0}")]
    Task(String),
    #[error("the answer cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}
