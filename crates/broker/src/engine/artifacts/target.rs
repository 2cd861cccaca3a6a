//! The words in which those who build speak with those who save.

use std::sync::Arc;

use beam_base::AbsPath;
use beam_project::SaveError;
use serde::{Deserialize, Serialize};

/// How Lake begins when a file's imports cannot be built.
pub(in crate::engine) const FAILED_TO_BUILD: &str = "Failed to build module dependencies.";

/// What became of a document's imports.
#[derive(Debug, Default)]
pub(in crate::engine) struct ImportsBuilt {
    /// The artifacts are of the texts that are there now.
    pub(in crate::engine) vouches: bool,
    pub(in crate::engine) problem: Option<String>,
    pub(in crate::engine) refused: Vec<String>,
}

impl ImportsBuilt {
    /// They cannot be built. Lake's words first: what comes after them is a failure to build, whoever failed.
    pub(super) fn failed(text: impl std::fmt::Display) -> Self {
        Self { problem: Some(format!("{FAILED_TO_BUILD}\n{text}")), ..Self::default() }
    }
}

/// The text that is to be saved.
#[derive(Debug, Clone)]
pub(in crate::engine) struct SaveSource {
    pub(in crate::engine) path: AbsPath,
    /// The path as people see it.
    pub(in crate::engine) shown: String,
    pub(in crate::engine) text: Arc<str>,
    /// Lean's hash of the text.
    pub(in crate::engine) hash: u64,
}

/// Where a module's artifacts go, and what is known about how they are made.
#[derive(Debug, Clone)]
pub(in crate::engine) struct SaveTarget {
    /// Lean module name.
    pub(in crate::engine) module: String,
    /// By the names of Lean's reply.
    pub(in crate::engine) outputs: ArtifactPaths,
    pub(in crate::engine) trace: AbsPath,
    /// Arguments that only a batch compile gets; with any, what the worker holds is not what a build would make.
    pub(in crate::engine) batch_only_args: Vec<String>,
}

/// Every file that Lean may write for a module.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::engine) struct ArtifactPaths {
    pub(super) olean: AbsPath,
    pub(super) ilean: AbsPath,
    pub(super) olean_server: AbsPath,
    pub(super) olean_private: AbsPath,
    pub(super) ir: AbsPath,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ir_sig: Option<AbsPath>,
    pub(super) c: AbsPath,
}

/// Why the artifacts of a document are not, or not wholly, replaced.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArtifactError {
    #[error("`{path}` is no module of this project: {why}; only modules have artifacts")]
    NotModule { path: String, why: String },
    #[error(
        "something that `{path}` is built from would have to be built first: {what}; {hint}, then refresh and save again"
    )]
    Stale { path: String, what: String, hint: &'static str },
    #[error("the project's configuration cannot be used: {0}")]
    Configuration(String),
    #[error("`{path}` is not saved: {error}")]
    Refused { path: String, error: SaveError },
    #[error("the trace of `{path}` cannot be replaced: {error}; no artifact was changed")]
    TraceStays { path: String, error: std::io::Error },
    #[error("the artifacts of `{path}` are written, but their trace is not: {error}; the next build makes them anew")]
    NoTrace { path: String, error: String },
    /// A thread of ours ended otherwise than by its work.
    #[error("{what} failed: {error}")]
    Defect { what: &'static str, error: String },
}
