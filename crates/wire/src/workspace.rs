//! Workspaces (broker protocol section 11).

use serde::{Deserialize, Serialize};

use crate::field::{NonEmpty, choices, fields};

choices! {
    /// What `init_workspace` does with an id that is known, or is not.
    WorkspaceMode {
        /// Create it, or reuse one of the same configuration.
        Set = "set",
        /// Reuse one of the same configuration; create nothing.
        Verify = "verify",
        /// Create it, ending what was there.
        Reset = "reset",
    }
}

fields! {
    /// Add a workspace, or check or replace one that is there.
    InitWorkspace {
    /// The workspace's directory.
    root "root": String,
    optional
    /// What to do with an id that is known.
    workspace_mode "workspaceMode": WorkspaceMode [default "\"set\""],
    /// The workspace's `lean`: a path, or `embedded`.
    lean_cmd "leanCmd": NonEmpty,
    /// The workspace's coq-lsp.
    rocq_cmd "rocqCmd": NonEmpty,
    }
    /// The workspaces of this process.
    ListWorkspaces {}
    /// Forget a workspace and end everything that was started for it; its handles are gone.
    DropWorkspace {}
}

/// A workspace that is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceInit {
    /// Its id.
    pub workspace_id: String,
    /// Canonical root.
    pub root: String,
    /// Always true.
    pub initialized: bool,
    /// As asked.
    pub mode: WorkspaceMode,
    /// It was there already.
    pub runtime_reused: bool,
    /// Handles of an earlier one are gone.
    pub invalidated_handles: bool,
    /// Root of the one that was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_root: Option<String>,
}

/// The workspaces of the process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workspaces {
    /// By id.
    pub workspaces: Vec<WorkspaceRow>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceRow {
    /// Its id.
    pub workspace_id: String,
    /// Canonical root.
    pub root: String,
    /// A Lean session runs.
    pub lean_active: bool,
    /// A Rocq session runs.
    pub rocq_active: bool,
}

/// What a drop did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceDrop {
    /// Its id.
    pub workspace_id: String,
    /// It was there.
    pub dropped: bool,
    /// Handles of it are gone.
    pub invalidated_handles: bool,
    /// `notFound` when it was not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
