//! The broker's answer to a tool's result: closed shapes in snake case with the workspace's echo in front (mcp section 5).
//!
//! What is Lean's own (goals, LSP answers, code actions, an error's data) passes unchanged. Broker request ids never get here.

use beam_broker::Dropped;
use beam_wire::sync::{BlockingDiagnostic, BlockingMessage, Readiness};
use beam_wire::{Goals, Progress, Response, SaveResult, StreamDiagnostic, SyncResult};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::decode::Call;
use super::descriptor::DropTarget;
use super::schema::snake;
use super::shapes::{Close, CloseSave, CodeAction, Run, Todo, TodoItem, Update};
use super::table::{Output, Tool};
use super::truncate::{self, OutputLimits};
use super::{ToolError, ToolOutput};

/// Makes the result of a call.
pub(crate) fn project(tool: &Tool, call: &Call, response: Response, limits: &OutputLimits) -> ToolOutput {
    let output = match response.outcome {
        Err(e) => ToolError { code: e.code, message: e.message, data: e.data }.into(),
        Ok(result) => match shape(tool, call, result, response.file_progress) {
            Ok(body) => {
                ToolOutput { structured: Value::Object(with_workspace(&call.workspace.echo(), body)), is_error: false }
            }
            Err(e) => e.into(),
        },
    };
    truncate::to_limit(output, limits)
}

/// Result of `lean_drop_workspace`.
pub(crate) fn dropped(target: &DropTarget, done: &Dropped) -> ToolOutput {
    let mut out = Map::new();
    out.insert("workspace".into(), target.echo());
    out.insert("dropped".into(), done.dropped.into());
    out.insert("invalidated_handles".into(), done.invalidated_handles.into());
    if !done.dropped {
        out.insert("reason".into(), "notFound".into());
    }
    ToolOutput { structured: Value::Object(out), is_error: false }
}

fn with_workspace(echo: &Value, body: Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::with_capacity(body.len() + 1);
    out.insert("workspace".into(), echo.clone());
    out.extend(body.into_iter().filter(|(key, _)| key != "workspace"));
    out
}

fn shape(tool: &Tool, call: &Call, result: Value, progress: Option<Progress>) -> Result<Map<String, Value>, ToolError> {
    let Some(operation) = tool.operation else {
        return Err(ToolError::invalid_result(format!("{} is not an operation of the broker", tool.name)));
    };
    let mut body = match operation.output {
        Output::Lsp => lsp(result),
        Output::Null => match result {
            Value::Null => lsp(Value::Null),
            other => return Err(not_promised(tool, format!("expected null, got {}", brief(&other)))),
        },
        Output::Run => run(read(tool, result)?),
        Output::Goals => goals(&read::<Goals>(tool, result)?),
        Output::Todo => todo(read(tool, result)?),
        Output::CodeAction => code_action(read(tool, result)?),
        Output::Update => {
            let Update { version, changed } = read(tool, result)?;
            object([("version", version.into()), ("changed", changed.into())])
        }
        Output::Sync => {
            let sync: SyncResult = read(tool, result)?;
            let asked = call.request.args.diagnostics_in_result.unwrap_or(false);
            if sync.diagnostics.items.is_some() && !asked {
                return Err(not_promised(tool, "diagnostic items that nobody asked for"));
            }
            sync_object(&sync)
        }
        Output::Save => save(tool, &read(tool, result)?)?,
        Output::CloseSave => {
            let done: CloseSave = read(tool, result)?;
            let saved = save(tool, &done.saved)?;
            object([("closed", closed(tool, done.closed)?), ("saved", saved.into())])
        }
        Output::Close => {
            let done: Close = read(tool, result)?;
            object([("closed", closed(tool, done.closed)?)])
        }
    };
    if matches!(operation.output, Output::Sync | Output::Save | Output::CloseSave)
        && let Some(progress) = progress
    {
        body.insert("document_progress".into(), progress_object(&progress));
    }
    Ok(body)
}

fn read<T: DeserializeOwned>(tool: &Tool, result: Value) -> Result<T, ToolError> {
    serde_json::from_value(result).map_err(|e| not_promised(tool, e.to_string()))
}

fn not_promised(tool: &Tool, why: impl std::fmt::Display) -> ToolError {
    let message = format!(
        "{}: the broker's answer is not what it promises ({why}); this is a defect of Beam, report it with beam_feedback_report",
        tool.name
    );
    ToolError::invalid_result(message)
}

fn brief(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}

fn object<const N: usize>(entries: [(&str, Value); N]) -> Map<String, Value> {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Lean's own answer; what is not an object is wrapped into one.
fn lsp(result: Value) -> Map<String, Value> {
    match result {
        Value::Object(map) => map,
        other => object([("result", other)]),
    }
}

fn run(result: Run) -> Map<String, Value> {
    let messages: Vec<_> =
        result.messages.into_iter().map(|m| json!({ "severity": m.severity, "text": m.text })).collect();
    object([
        ("success", result.success.into()),
        ("messages", messages.into()),
        ("traces", result.traces.into()),
        ("proof_state", result.proof_state.as_ref().map_or(Value::Null, |g| goals(g).into())),
        ("next_handle", json!(result.handle)),
    ])
}

/// Goals and hypotheses keep their spelling.
fn goals(goals: &Goals) -> Map<String, Value> {
    object([("goals", json!(goals.goals))])
}

fn todo(result: Todo) -> Map<String, Value> {
    let items: Vec<Value> = result.items.into_iter().map(|item| todo_item(item).into()).collect();
    object([("version", result.version.into()), ("range", json!(result.range)), ("items", items.into())])
}

fn todo_item(item: TodoItem) -> Map<String, Value> {
    let mut out =
        object([("kind", item.kind.into()), ("range", json!(item.range)), ("run_at_position", item.run_at_position)]);
    let optional = [
        ("run_at_text", item.run_at_text.map(Value::from)),
        ("message", item.message.map(Value::from)),
        ("severity", item.severity.map(Value::from)),
        ("diagnostic", item.diagnostic),
        ("code_action", item.code_action),
        ("proof_state", item.proof_state),
    ];
    out.extend(optional.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    out
}

fn code_action(result: CodeAction) -> Map<String, Value> {
    object([("version", result.version.into()), ("code_action", result.code_action)])
}

fn sync_object(sync: &SyncResult) -> Map<String, Value> {
    let mut diagnostics = object([("counts", json!(sync.diagnostics.counts))]);
    if let Some(items) = &sync.diagnostics.items {
        diagnostics.insert("items".into(), items.iter().map(diagnostic_data).collect());
    }
    object([
        ("path", sync.path.clone().into()),
        ("version", sync.version.into()),
        ("diagnostics", diagnostics.into()),
        ("readiness", readiness(&sync.readiness)),
    ])
}

fn readiness(r: &Readiness) -> Value {
    let diagnostic = |d: &BlockingDiagnostic| {
        json!({
            "range": d.range,
            "severity": severity(d.severity),
            "message": d.message,
            "save_blocking": d.save_blocking,
            "completion_blocking": d.completion_blocking,
        })
    };
    let message = |m: &BlockingMessage| json!({ "message": m.message, "save_blocking": m.save_blocking, "completion_blocking": m.completion_blocking });
    json!({
        "save_ready": r.save_ready,
        "reason": r.reason,
        "blocking_error_count": r.blocking_error_count,
        "blocking_diagnostics": r.blocking_diagnostics.iter().map(diagnostic).collect::<Vec<_>>(),
        "blocking_messages": r.blocking_messages.iter().map(message).collect::<Vec<_>>(),
    })
}

/// The wire's closed struct in snake case, with the barrier's result in this front's shape.
fn save(tool: &Tool, saved: &SaveResult) -> Result<Map<String, Value>, ToolError> {
    if saved.path != saved.sync.path || saved.version != saved.sync.version {
        return Err(not_promised(tool, "the checkpoint and the barrier it stands on are about different texts"));
    }
    if saved.sync.diagnostics.items.is_some() {
        return Err(not_promised(tool, "diagnostic items that nobody asked for"));
    }
    let Value::Object(map) = json!(saved) else {
        return Err(not_promised(tool, "a checkpoint that is no object"));
    };
    Ok(map
        .into_iter()
        .map(|(key, value)| if key == "sync" { (key, sync_object(&saved.sync).into()) } else { (snake(&key), value) })
        .collect())
}

fn closed(tool: &Tool, closed: bool) -> Result<Value, ToolError> {
    if closed { Ok(true.into()) } else { Err(not_promised(tool, "success without having closed")) }
}

fn progress_object(p: &Progress) -> Value {
    let mut out = object([("updates", p.updates.into()), ("done", p.done.into())]);
    for (key, line) in [("range_start_line", p.range_start_line), ("range_end_line", p.range_end_line)] {
        if let Some(line) = line {
            out.insert(key.into(), line.into());
        }
    }
    out.into()
}

/// A diagnostic as results and `lean.diagnostic` logs show it.
pub(crate) fn diagnostic_data(d: &StreamDiagnostic) -> Value {
    let mut out = object([
        ("path", d.path.clone().into()),
        ("uri", d.uri.clone().into()),
        ("severity", severity(d.severity).into()),
        ("range", json!(d.range)),
        ("message", d.message.clone().into()),
        ("completion_blocking", d.completion_blocking.into()),
    ]);
    if let Some(blocking) = d.save_blocking {
        out.insert("save_blocking".into(), blocking.into());
    }
    if let Some(version) = d.version {
        out.insert("version".into(), version.into());
    }
    out.into()
}

fn severity(number: Option<u8>) -> &'static str {
    match number {
        Some(1) => "error",
        Some(2) => "warning",
        Some(3) => "information",
        Some(4) => "hint",
        _ => "unknown",
    }
}

#[cfg(test)]
#[path = "project_tests.rs"]
mod tests;
