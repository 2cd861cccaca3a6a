//! Arguments of a call to what is asked for. Order of checks: undeclared keys, workspace descriptor, typed arguments (mcp section 3).

use beam_wire::field::Kind as FieldKind;
use beam_wire::{Handle, Request};
use serde_json::{Map, Value};

use super::ToolError;
use super::descriptor::{DropTarget, Workspace};
use super::feedback::FeedbackCall;
use super::schema::{self, Argument, Of};
use super::table::{Operation, Tool, ToolKind};

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Decoded {
    /// `beam_version`
    Version,
    /// `beam_stats`
    Stats,
    /// `beam_feedback_report`
    Feedback(Box<FeedbackCall>),
    /// `lean_drop_workspace`
    Drop(DropTarget),
    /// An operation of the broker.
    Operation(Box<Call>),
}

/// An operation that is asked for.
#[derive(Debug)]
pub(crate) struct Call {
    /// Where.
    pub workspace: Workspace,
    /// What the broker is asked, with the workspace's id. It filters diagnostics by the scope in it, also those that pass by.
    pub request: Request,
}

/// Reads the arguments of a call. Looks at the file system for the workspace descriptor, so it may block.
pub(crate) fn decode(tool: &Tool, mut arguments: Map<String, Value>) -> Result<Decoded, ToolError> {
    let declared = schema::arguments(tool);
    undeclared(tool, &declared, &arguments)?;
    match (tool.kind, tool.operation) {
        (ToolKind::Version, _) => Ok(Decoded::Version),
        (ToolKind::Stats, _) => Ok(Decoded::Stats),
        (ToolKind::DropWorkspace, _) => Ok(Decoded::Drop(DropTarget::read(tool.name, &arguments)?)),
        (ToolKind::Operation, Some(operation)) => {
            let workspace = Workspace::read(tool.name, &arguments)?;
            arguments.remove("workspace");
            let request = request(tool, operation, &declared, &workspace, arguments)?;
            Ok(Decoded::Operation(Box::new(Call { workspace, request })))
        }
        // The table has an operation for every tool of that kind: a test sees to it.
        (ToolKind::Operation, None) => Err(ToolError::invalid_input(format!("{}: no operation", tool.name))),
        (ToolKind::Feedback, _) => Ok(Decoded::Feedback(Box::new(FeedbackCall::read(tool.name, arguments)?))),
    }
}

fn undeclared(tool: &Tool, declared: &[Argument], arguments: &Map<String, Value>) -> Result<(), ToolError> {
    let unknown: Vec<_> =
        arguments.keys().filter(|k| !declared.iter().any(|a| a.name == **k)).map(|k| format!("`{k}`")).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let known: Vec<_> = declared.iter().map(|a| a.name.as_str()).collect();
    let takes = if known.is_empty() { "no arguments".to_owned() } else { known.join(", ") };
    Err(ToolError::invalid_input(format!(
        "{}: undeclared argument {}; it takes {takes}",
        tool.name,
        unknown.join(", ")
    )))
}

/// Types first, then what is missing; then the wire's own check of the whole, which is the same for every front.
fn request(
    tool: &Tool,
    operation: &Operation,
    declared: &[Argument],
    workspace: &Workspace,
    mut arguments: Map<String, Value>,
) -> Result<Request, ToolError> {
    let bad = |why: String| ToolError::invalid_input(format!("{}: {why}", tool.name));
    let mut wire = Map::new();
    let mut missing = Vec::new();
    for argument in declared {
        let Of::Field(field) = argument.of else { continue };
        match arguments.remove(&argument.name) {
            Some(value) => {
                if let Some(why) = field.mismatch(&value) {
                    return Err(bad(format!("`{}` {why}", argument.name)));
                }
                if field.kind == FieldKind::Handle
                    && let Err(e) = serde_json::from_value::<Handle>(value.clone())
                {
                    let name = &argument.name;
                    return Err(bad(format!("`{name}` is not a handle ({e}); pass a next_handle exactly as returned")));
                }
                wire.insert(field.name.to_owned(), value);
            }
            None if argument.required => missing.push(format!("`{}`", argument.name)),
            None => {}
        }
    }
    if !missing.is_empty() {
        return Err(bad(format!("missing argument {}", missing.join(", "))));
    }
    wire.extend(operation.fixed.iter().map(|(field, value)| (field.name.to_owned(), Value::Bool(*value))));
    wire.insert("op".to_owned(), operation.op.name().into());
    wire.insert("workspaceId".to_owned(), workspace.id().into());
    Request::from_map(wire).map_err(|rejected| bad(rejected.error.message))
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
