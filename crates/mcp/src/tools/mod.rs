//! The tools: what `tools/list` says, how arguments become an operation, how an answer becomes a result.
//!
//! Arguments, their types and what results are made of come from the operation types of `beam_wire` (W3); the small table beside them
//! ([`table`]) adds what only MCP has: names, hints, descriptions, which events may occur. So a new field of an operation or of its
//! answer needs no edit here. Must never hold state: all of this is functions of their arguments (and, for a workspace descriptor, of
//! the file system).

mod arguments;
mod decode;
mod defaults;
mod descriptor;
mod feedback;
mod output;
mod process;
mod project;
mod recovery;
mod schema;
mod table;
#[cfg(test)]
mod testing;
mod truncate;

pub(crate) use decode::{DecodedCall, OperationCall, decode};
pub use defaults::Defaults;
pub(crate) use descriptor::DropTarget;
pub(crate) use feedback::{FeedbackCall, RuntimeContext};
pub(crate) use output::{ToolError, ToolOutput};
pub use process::{PREFERRED_REVISION, SERVER_NAME};
pub(crate) use process::{VERSION, stats, version_object};
pub(crate) use project::{diagnostic_data, dropped, project};
pub(crate) use schema::{INSTRUCTIONS, list_json};
pub(crate) use table::{Tool, ToolKind, find};
pub(crate) use truncate::OutputLimits;

pub(crate) use beam_broker::is_setup_line;
