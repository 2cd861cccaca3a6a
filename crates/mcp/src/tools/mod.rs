//! The tools: what `tools/list` says, how arguments become a request, how an answer becomes a result.
//!
//! Everything about the Lean tools' arguments comes from the operation table of `beam_wire` (W3); the small table beside it
//! ([`table`]) adds what only MCP has: names, hints, descriptions, which events may occur. Must never hold state: all of this is functions
//! of their arguments (and, for a workspace descriptor, of the file system).

mod decode;
mod descriptor;
mod feedback;
mod process;
mod project;
mod schema;
mod shapes;
mod table;
#[cfg(test)]
mod testing;
mod truncate;

pub(crate) use decode::{Call, Decoded, decode};
pub(crate) use descriptor::DropTarget;
pub(crate) use feedback::{FeedbackCall, RuntimeContext};
pub use process::{PREFERRED_REVISION, SERVER_NAME};
pub(crate) use process::{VERSION, stats, version_object};
pub(crate) use project::{diagnostic_data, dropped, project};
pub(crate) use schema::list_json;
pub(crate) use table::{Tool, ToolKind, find};
pub(crate) use truncate::OutputLimits;

use serde_json::{Map, Value, json};

pub(crate) use beam_broker::is_setup_line;

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
    /// `invalidInput`, `invalidResult`, `outputTooLarge`, `runtimeSetup`, or a broker code.
    pub code: String,
    /// What happened and what to do next.
    pub message: String,
    /// The broker's own data, unchanged.
    pub data: Option<Value>,
}

impl ToolError {
    /// Arguments that mean nothing.
    pub(crate) fn invalid_input(message: impl Into<String>) -> Self {
        Self { code: "invalidInput".to_owned(), message: message.into(), data: None }
    }

    /// More calls than the server keeps.
    pub(crate) fn too_many_calls(limit: usize) -> Self {
        let message = format!(
            "{limit} calls are waiting for their answers, and no more are taken; wait for some of them or cancel them, then send this \
             one again"
        );
        Self { code: "tooManyCalls".to_owned(), message, data: Some(json!({ "limit": limit })) }
    }

    /// An answer of the broker's that is not what was promised.
    pub(crate) fn invalid_result(message: impl Into<String>) -> Self {
        Self { code: "invalidResult".to_owned(), message: message.into(), data: None }
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
