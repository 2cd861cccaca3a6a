//! Shapes of `stats` and `open_docs` (broker protocol section 12).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::field::fields;
use crate::observed::Progress;

fields! {
    /// List the documents that are open, and whether they match the disk.
    ListDocs {}
    /// Counters of sessions and operations.
    ReadStats {}
    /// Set all counters to zero.
    ResetStats {}
}

/// Counters of one operation, or of a backend's operations together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpStats {
    /// Requests ended.
    pub count: u64,
    /// With `ok:true`.
    pub success_count: u64,
    /// With `ok:false`.
    pub error_count: u64,
    /// Of those: `requestCancelled`.
    pub cancelled_count: u64,
    /// Of those: `workerExited`.
    pub worker_exited_count: u64,
    /// Of those: `invalidParams`.
    pub invalid_params_count: u64,
    /// Mean latency, whole milliseconds.
    pub avg_latency_ms: u64,
    /// Longest, milliseconds.
    pub max_latency_ms: u64,
    /// Last, milliseconds.
    pub last_latency_ms: u64,
}

/// Counters of one backend in one workspace.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackendStats {
    /// Sessions started.
    pub session_starts: u64,
    /// Workers replaced after a death or a refused cancel.
    pub session_restarts: u64,
    /// Tracked requests ended.
    pub request_count: u64,
    /// With `ok:true`.
    pub success_count: u64,
    /// With `ok:false`.
    pub error_count: u64,
    /// Cancelled.
    pub cancelled_count: u64,
    /// Lost to a dead worker.
    pub worker_exited_count: u64,
    /// Refused.
    pub invalid_params_count: u64,
    /// By operation.
    pub ops: BTreeMap<String, OpStats>,
}

/// One session's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum SessionStats {
    /// Running.
    #[serde(rename_all = "camelCase")]
    Active {
        /// Always true.
        active: bool,
        /// Workspace.
        workspace_id: String,
        /// Canonical root.
        root: String,
        /// Generation, from 1.
        epoch: u64,
        /// Documents in the mirror.
        open_doc_count: u64,
        /// Live continuation handles in the session's workers, as far as this session minted and did not see them end.
        handle_count: u64,
        /// The project's configuration is no longer the one that the session was started with; only there when so.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        config_changed: bool,
    },
    /// Not running.
    Inactive {
        /// Always false.
        active: bool,
    },
}

/// A value per backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PerBackend<T> {
    /// Lean.
    pub lean: T,
    /// Rocq.
    pub rocq: T,
}

/// `stats` of one workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceStats {
    /// Workspace id.
    pub id: String,
    /// Canonical root.
    pub root: String,
    /// Sessions.
    pub sessions: PerBackend<SessionStats>,
    /// Counters.
    pub by_backend: PerBackend<BackendStats>,
    /// Since start or reset, milliseconds; only on the scoped form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime_ms: Option<u64>,
}

/// How a tracked document relates to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DiskStatus {
    /// Same content.
    MatchesTracked,
    /// Other content.
    DiffersFromTracked,
    /// No such file.
    Missing,
    /// Cannot be read.
    Unknown,
}

/// One open document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenDoc {
    /// Document URI.
    pub uri: String,
    /// Tracked version.
    pub version: u64,
    /// Against the disk, now.
    pub disk_status: DiskStatus,
    /// Status matches and this very version was saved by this session.
    pub checkpointed: bool,
    /// For `file:` URIs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_progress: Option<Progress>,
}

/// A backend's open documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct OpenDocs {
    /// Whether a session runs.
    pub active: bool,
    /// Its documents, by path.
    pub files: Vec<OpenDoc>,
}

/// Open documents of one workspace, or of all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum OpenDocsAnswer {
    /// Of the one that was named.
    One(WorkspaceDocs),
    /// Of all.
    All {
        /// By workspace id.
        workspaces: BTreeMap<String, RootDocs>,
    },
}

/// Open documents of a named workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceDocs {
    /// The workspace.
    pub workspace_id: String,
    /// Canonical root.
    pub root: String,
    /// By prover.
    pub sessions: PerBackend<OpenDocs>,
}

/// Open documents of a workspace whose id is the key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RootDocs {
    /// Canonical root.
    pub root: String,
    /// By prover.
    pub sessions: PerBackend<OpenDocs>,
}

/// Statistics of one workspace, or of all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum StatsAnswer {
    /// Of the one that was named.
    One(Box<WorkspaceStats>),
    /// Of all.
    All {
        /// Since start or reset, milliseconds.
        #[serde(rename = "uptimeMs")]
        uptime_ms: u64,
        /// By workspace id.
        workspaces: BTreeMap<String, WorkspaceStats>,
    },
}

/// The counters are zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reset {
    /// Always true.
    pub reset: bool,
}
