//! Arguments of a call to what is asked for. Order of checks: undeclared keys, workspace descriptor, typed arguments (mcp section 3).

#![allow(clippy::disallowed_methods, reason = "arguments are read on blocking threads")]

use beam_base::{AbsPath, uri};
use beam_wire::field::FieldType;
use beam_wire::{Handle, Request};
use serde_json::{Map, Value};

use super::arguments::{Argument, ArgumentType, FULL_MESSAGES, MAX_OUTPUT_BYTES, arguments};
use super::defaults::Defaults;
use super::descriptor::{DropTarget, Workspace};
use super::feedback::FeedbackCall;
use super::output::ToolError;
use super::table::{Tool, ToolKind, ToolOperation};
use super::truncate::OutputLimits;

/// What is asked for.
#[derive(Debug)]
pub(crate) enum DecodedCall {
    /// `beam_version`
    Version,
    /// `beam_stats`
    Stats,
    /// `beam_feedback_report`
    Feedback(Box<FeedbackCall>),
    /// `lean_drop_workspace`
    Drop(DropTarget),
    /// An operation of the broker.
    Operation(Box<OperationCall>),
}

/// An operation that is asked for.
#[derive(Debug)]
pub(crate) struct OperationCall {
    /// Where.
    pub workspace: Workspace,
    /// What the broker is asked, with the workspace's id. It filters diagnostics by the scope in it, also those that pass by.
    pub request: Request,
    /// How much of the result is shown.
    pub limits: OutputLimits,
    /// The file it is about lies outside of the workspace's root.
    pub outside: bool,
}

/// Reads the arguments of a call. Looks at the file system for the workspace descriptor and the file's place, so it may block.
pub(crate) fn decode(
    tool: &Tool,
    mut given: Map<String, Value>,
    defaults: &Defaults,
    limits: &OutputLimits,
) -> Result<DecodedCall, ToolError> {
    let declared = arguments(tool);
    undeclared(tool, &declared, &given)?;
    match (tool.kind, tool.operation) {
        (ToolKind::Version, _) => Ok(DecodedCall::Version),
        (ToolKind::Stats, _) => Ok(DecodedCall::Stats),
        (ToolKind::DropWorkspace, _) => Ok(DecodedCall::Drop(DropTarget::read(tool.name, &given)?)),
        (ToolKind::Operation, Some(operation)) => {
            let workspace = Workspace::read(tool.name, &given)?;
            given.remove("workspace");
            let limits = output_limits(tool, &mut given, limits)?;
            defaults.fill_in(&declared, &mut given);
            let outside = plain_path(&mut given).is_some_and(|path| is_outside(&workspace, &path));
            let request = request(tool, operation, &declared, &workspace, given)?;
            Ok(DecodedCall::Operation(Box::new(OperationCall { workspace, request, limits, outside })))
        }
        // The table has an operation for every tool of that kind: a test sees to it.
        (ToolKind::Operation, None) => Err(ToolError::invalid_input(format!("{}: no operation", tool.name))),
        (ToolKind::Feedback, _) => Ok(DecodedCall::Feedback(Box::new(FeedbackCall::read(tool.name, given)?))),
    }
}

fn undeclared(tool: &Tool, declared: &[Argument], given: &Map<String, Value>) -> Result<(), ToolError> {
    let unknown: Vec<_> =
        given.keys().filter(|k| !declared.iter().any(|a| a.name == **k)).map(|k| format!("`{k}`")).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let known: Vec<_> = declared.iter().map(|a| a.name).collect();
    let takes = if known.is_empty() { "no arguments".to_owned() } else { known.join(", ") };
    Err(ToolError::invalid_input(format!(
        "{}: undeclared argument {}; it takes {takes}",
        tool.name,
        unknown.join(", ")
    )))
}

/// Takes what the caller says of the result's size; the server's limits hold for what is left out.
fn output_limits(
    tool: &Tool,
    given: &mut Map<String, Value>,
    limits: &OutputLimits,
) -> Result<OutputLimits, ToolError> {
    let bad = |name: &str, wanted: &str, value: &Value| {
        ToolError::invalid_input(format!("{}: `{name}` must be {wanted}, not {value}", tool.name))
    };
    let mut limits = *limits;
    if let Some(value) = given.remove(MAX_OUTPUT_BYTES) {
        limits.max_output_bytes = value
            .as_u64()
            .and_then(|n| usize::try_from(n).ok())
            .filter(|n| OutputLimits::RANGE.contains(n))
            .ok_or_else(|| bad(MAX_OUTPUT_BYTES, "a whole number from 4096 to 3145728", &value))?;
    }
    if let Some(value) = given.remove(FULL_MESSAGES) {
        let full = value.as_bool().ok_or_else(|| bad(FULL_MESSAGES, "true or false", &value))?;
        limits.full_messages = full;
    }
    Ok(limits)
}

/// Results name files by `file:` URIs, so a call may, too: they become paths. Gives the path, where there is one.
fn plain_path(given: &mut Map<String, Value>) -> Option<String> {
    let text = given.get("path")?.as_str()?;
    let path = if text.starts_with("file://") { uri::to_path(text)?.to_string() } else { text.to_owned() };
    given.insert("path".to_owned(), path.clone().into());
    Some(path)
}

/// The file is there and lies elsewhere, whatever links lead to it.
fn is_outside(workspace: &Workspace, path: &str) -> bool {
    AbsPath::canonical(workspace.root.join(path)).is_ok_and(|file| file.relative_to(&workspace.root).is_none())
}

/// Types first, then what is missing; then the wire's own check of the whole, which is the same for every front.
fn request(
    tool: &Tool,
    operation: &ToolOperation,
    declared: &[Argument],
    workspace: &Workspace,
    mut given: Map<String, Value>,
) -> Result<Request, ToolError> {
    let bad = |why: String| ToolError::invalid_input(format!("{}: {why}", tool.name));
    let mut wire = Map::new();
    let mut missing = Vec::new();
    for argument in declared {
        let ArgumentType::Operation(field) = argument.ty else { continue };
        match given.remove(argument.name) {
            Some(mut value) => {
                if field.ty == FieldType::Handle {
                    value = handle(value).map_err(|why| bad(format!("`{}` {why}", argument.name)))?;
                }
                if let Some(why) = field.mismatch(&value) {
                    return Err(bad(format!("`{}` {why}", argument.name)));
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

/// A handle as it was returned, or (from clients that quote what they do not know) its JSON as a string.
fn handle(value: Value) -> Result<Value, String> {
    const HOW: &str = "pass a next_handle exactly as returned";
    let object = match &value {
        Value::String(text) => {
            serde_json::from_str(text).map_err(|_| format!("is a string that holds no handle; {HOW}"))?
        }
        _ => value,
    };
    match serde_json::from_value::<Handle>(object.clone()) {
        Ok(_) => Ok(object),
        Err(e) => Err(format!("is not a handle ({e}); {HOW}")),
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
