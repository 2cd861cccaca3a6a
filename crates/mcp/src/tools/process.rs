//! Answers about the process itself.

use serde_json::{Map, Value, json};

use super::output::ToolOutput;
use super::truncate::{self, OutputLimits};

/// Name that the server gives itself.
pub const SERVER_NAME: &str = "lean-beam-mcp";
/// Product version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The revision we prefer. Not what a connection negotiated.
pub const PREFERRED_REVISION: &str = "2026-07-28";

/// `beam_version`, and the identity in a feedback report. `runtime_active`: some workspace has a runtime.
pub(crate) fn version_object(runtime_active: bool) -> Value {
    let mut out = Map::new();
    out.insert("name".into(), SERVER_NAME.into());
    out.insert("version".into(), VERSION.into());
    out.insert("mcp_protocol".into(), PREFERRED_REVISION.into());
    if let Ok(program) = std::env::current_exe() {
        out.insert("server_binary".into(), program.display().to_string().into());
    }
    out.insert("runtime_active".into(), runtime_active.into());
    Value::Object(out)
}

/// `beam_stats`; `None` before there is anything to count.
pub(crate) fn stats(stats: Option<Value>, limits: &OutputLimits) -> ToolOutput {
    let structured = stats.unwrap_or_else(|| json!({ "uptimeMs": 0, "workspaces": {} }));
    truncate::to_limit(ToolOutput { structured, is_error: false }, limits)
}
