//! What goes wrong with a message, and the JSON-RPC error it becomes. The only place that knows the numbers.

use serde::Serialize;
use serde_json::{Value, json};

use crate::tools::PREFERRED_REVISION;

/// The revision whose requests carry their metadata themselves.
pub(crate) const MODERN: &str = PREFERRED_REVISION;
/// The revision that begins with `initialize`.
pub(crate) const LEGACY: &str = "2025-11-25";

/// Why a message is answered with a JSON-RPC error. Failures of a known tool's work are not errors of this kind.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum RpcError {
    /// The line is not JSON in UTF-8.
    #[error("the line is not JSON: {0}")]
    NotJson(String),
    /// JSON, but not a request or notification.
    #[error("not a JSON-RPC request or notification: {0}")]
    Envelope(String),
    /// Right in itself, wrong on this stream or at this time.
    #[error("{0}")]
    OutOfPlace(&'static str),
    /// The workspace's runtime could not be made ready.
    #[error("could not set up the Lean Beam MCP runtime: {0}")]
    SetUp(String),
    /// No such method.
    #[error("unknown method `{0}`")]
    UnknownMethod(String),
    /// Parameters or metadata that are none.
    #[error("{0}")]
    Params(String),
    /// A revision that is not served.
    #[error("protocol version `{0}` is not served per request; use {MODERN}, or start with `initialize` for {LEGACY}")]
    Version(String),
    /// A defect of ours.
    #[error("a defect of lean-beam ended this request: {0}")]
    Defect(String),
}

/// The `error` member of a response.
#[derive(Debug, Serialize)]
pub(crate) struct ErrorObject {
    code: i32,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

impl RpcError {
    fn code(&self) -> i32 {
        match self {
            Self::NotJson(_) => -32700,
            Self::Envelope(_) | Self::OutOfPlace(_) | Self::SetUp(_) => -32600,
            Self::UnknownMethod(_) => -32601,
            Self::Params(_) => -32602,
            Self::Version(_) => -32022,
            Self::Defect(_) => -32603,
        }
    }

    /// As it goes out.
    pub(crate) fn object(&self) -> ErrorObject {
        let data = match self {
            Self::Version(requested) => Some(json!({ "supported": [MODERN], "requested": requested })),
            _ => None,
        };
        ErrorObject { code: self.code(), message: self.to_string(), data }
    }
}
