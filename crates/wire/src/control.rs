//! Sessions and requests: starting, cancelling, ending.

use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::field::fields;

fields! {
    /// Start the session of a workspace if it is not running.
    Ensure {}
    /// Cancel an active request by its client request id.
    Cancel {
    /// The id of the request to cancel.
    cancel_request_id "cancelRequestId": String,
    }
    /// Stop the daemon and everything it started.
    Shutdown {}
}

/// A session that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ensured {
    /// The workspace.
    pub workspace_id: String,
    /// The prover.
    pub backend: Backend,
    /// Canonical root.
    pub root: String,
    /// Session generation in the workspace, from 1.
    pub epoch: u64,
}

/// Whether there was something to cancel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancelled {
    /// The id named an active request.
    pub cancelled: bool,
}

/// The daemon is ending.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShutdownAnswer {
    /// Always true.
    pub shutdown: bool,
}
