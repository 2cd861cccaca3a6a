//! What a tool call ends with.

use serde_json::{Map, Value, json};

/// What a tool call ends with; the envelope (`content`, `isError`) is made from it elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolOutput {
    /// `structuredContent`: always an object.
    pub structured: Value,
    /// `isError`
    pub is_error: bool,
}

/// A call that failed in a way that the model can do something about.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolError {
    /// `invalidInput`, `invalidResult`, `outputTooLarge`, `tooManyCalls`, or a broker code.
    pub code: String,
    /// What happened and what to do next.
    pub message: String,
    /// The broker's own data, in this front's language.
    pub data: Option<Value>,
}

impl ToolError {
    fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), data: None }
    }

    /// Arguments that mean nothing.
    pub(crate) fn invalid_input(message: impl Into<String>) -> Self {
        Self::new("invalidInput", message)
    }

    /// An answer of the broker's that is not what was promised.
    pub(crate) fn invalid_result(message: impl Into<String>) -> Self {
        Self::new("invalidResult", message)
    }

    /// A result that does not fit and cannot be cut.
    pub(crate) fn output_too_large(message: impl Into<String>) -> Self {
        Self::new("outputTooLarge", message)
    }

    /// More calls than the server keeps.
    pub(crate) fn too_many_calls(limit: usize) -> Self {
        let message = format!(
            "{limit} calls are waiting for their answers, and no more are taken; wait for some of them or cancel them, then send this \
             one again"
        );
        Self { data: Some(json!({ "limit": limit })), ..Self::new("tooManyCalls", message) }
    }
}

impl From<ToolError> for ToolOutput {
    fn from(e: ToolError) -> Self {
        let mut map = Map::new();
        map.insert("code".into(), e.code.into());
        map.insert("message".into(), e.message.into());
        if let Some(data) = e.data {
            map.insert("data".into(), data);
        }
        Self { structured: Value::Object(map), is_error: true }
    }
}
