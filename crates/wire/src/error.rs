//! Failures on the wire: a closed set of codes of our own, and the names of a backend's JSON-RPC codes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Codes of failures that Beam itself makes (broker protocol section 8). Stable: W2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureCode {
    /// Bad request shape, unknown workspace, bad position, duplicate active id, unknown, consumed or foreign handle.
    InvalidParams,
    /// The client's cancellation won.
    RequestCancelled,
    /// Version mismatch, document changed or closed while pending, stale handle.
    ContentModified,
    /// The process that worked on the request died.
    WorkerExited,
    /// The diagnostics barrier could not complete.
    SyncBarrierIncomplete,
    /// Lake says an input would have to be rebuilt first.
    SaveTraceStale,
    /// The module has batch-only `moreLeanArgs`.
    SaveUnsupportedSetup,
    /// The path is not a module of the workspace.
    SaveTargetNotModule,
    /// The daemon has as many connections as it takes; asking again later helps.
    Busy,
    /// Anything else.
    InternalError,
}

impl FailureCode {
    /// Every code.
    pub const ALL: [Self; 10] = [
        Self::InvalidParams,
        Self::RequestCancelled,
        Self::ContentModified,
        Self::WorkerExited,
        Self::SyncBarrierIncomplete,
        Self::SaveTraceStale,
        Self::SaveUnsupportedSetup,
        Self::SaveTargetNotModule,
        Self::Busy,
        Self::InternalError,
    ];

    /// The spelling on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidParams => "invalidParams",
            Self::RequestCancelled => "requestCancelled",
            Self::ContentModified => "contentModified",
            Self::WorkerExited => "workerExited",
            Self::SyncBarrierIncomplete => "syncBarrierIncomplete",
            Self::SaveTraceStale => "saveTraceStale",
            Self::SaveUnsupportedSetup => "saveUnsupportedSetup",
            Self::SaveTargetNotModule => "saveTargetNotModule",
            Self::Busy => "busy",
            Self::InternalError => "internalError",
        }
    }
}

/// The `error` member of a failed response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorBody {
    /// A [`FailureCode`] or a backend's code name; see [`backend_code_name`].
    pub code: String,
    /// For people: what happened and what to do next.
    pub message: String,
    /// The open bag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl ErrorBody {
    /// A failure of Beam's own.
    #[must_use]
    pub fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self { code: code.as_str().to_owned(), message: message.into(), data: None }
    }

    /// Attaches data.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Whether the code is this one.
    #[must_use]
    pub fn is(&self, code: FailureCode) -> bool {
        self.code == code.as_str()
    }
}

/// The name of a backend's JSON-RPC error number; an unknown number is its decimal text (broker protocol section 8).
#[must_use]
pub fn backend_code_name(code: i64) -> String {
    let name = match code {
        -32700 => "parseError",
        -32600 => "invalidRequest",
        -32601 => "methodNotFound",
        -32602 => "invalidParams",
        -32603 => "internalError",
        -32002 => "serverNotInitialized",
        -32001 => "unknownErrorCode",
        -32801 => "contentModified",
        -32800 => "requestCancelled",
        -32900 => "rpcNeedsReconnect",
        -32901 => "workerExited",
        -32902 => "workerCrashed",
        other => return other.to_string(),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W2: the spellings are a promise.
    #[test]
    fn w2_codes_are_stable() {
        let all: Vec<_> = FailureCode::ALL.iter().map(|c| c.as_str()).collect();
        expect_test::expect![[r#"
            ["invalidParams", "requestCancelled", "contentModified", "workerExited", "syncBarrierIncomplete", "saveTraceStale", "saveUnsupportedSetup", "saveTargetNotModule", "busy", "internalError"]"#]]
        .assert_eq(&format!("{all:?}"));
        assert_eq!(backend_code_name(-32801), "contentModified");
        assert_eq!(backend_code_name(17), "17");
    }
}
