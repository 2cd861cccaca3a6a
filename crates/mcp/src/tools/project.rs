//! The broker's answer to a tool's result: the answer's own keys in snake case with the workspace's echo in front (mcp section 5).
//!
//! What is spelled here and nowhere else: a run result always has its five keys and names its handle `next_handle`; severities are words;
//! `document_progress` where the barrier was waited for. Everything else is [`Answer::to_snake_case`], so a new field of an answer needs
//! no edit. What is Lean's own (goals, LSP answers, code actions, an error's data) passes unchanged.

use beam_broker::Dropped;
use beam_wire::answer::AnswerType;
use beam_wire::project::snake_keys;
use beam_wire::run::GoalsForm;
use beam_wire::todo::GoalsResult;
use beam_wire::{Answer, ErrorBody, Operation, Progress, Response, SaveResult, StreamDiagnostic};
use serde_json::{Map, Value, json};

use super::decode::OperationCall;
use super::descriptor::DropTarget;
use super::output::{ToolError, ToolOutput};
use super::recovery;
use super::table::Tool;
use super::truncate;

/// Makes the result of a call.
pub(crate) fn project(tool: &Tool, call: &OperationCall, response: Response<Answer>) -> ToolOutput {
    let output = match response.outcome {
        Err(e) => failure(call, e).into(),
        Ok(answer) => match checked(tool, call, answer) {
            Ok(answer) => {
                let structured = with_workspace(call, shape(&answer, response.file_progress));
                ToolOutput { structured: Value::Object(structured), is_error: false }
            }
            Err(e) => e.into(),
        },
    };
    truncate::to_limit(output, &call.limits)
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

fn failure(call: &OperationCall, e: ErrorBody) -> ToolError {
    let mut data = e.data;
    if let Some(data) = &mut data {
        recovery::as_tool_calls(data, &call.workspace);
    }
    ToolError { code: e.code, message: e.message, data }
}

fn with_workspace(call: &OperationCall, body: Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::with_capacity(body.len() + 2);
    out.insert("workspace".into(), call.workspace.echo());
    out.extend(body.into_iter().filter(|(key, _)| key != "workspace"));
    if call.outside {
        out.insert("outside_workspace".into(), true.into());
    }
    out
}

/// The answer, unless it contradicts itself or what was asked: such an answer is not passed on.
fn checked(tool: &Tool, call: &OperationCall, answer: Answer) -> Result<Answer, ToolError> {
    let promised = tool.operation.map(|o| o.op.spec().answer);
    if promised != Some(answer.answer_type()) {
        return Err(not_promised(tool, &format!("it is of another kind: {}", answer.answer_type().name())));
    }
    let why = match (&answer, &call.request.operation) {
        (Answer::Sync(sync), operation) if sync.diagnostics.items.is_some() && !asks_for_items(operation) => {
            Some("diagnostic items that nobody asked for")
        }
        (Answer::Goals(goals), Operation::Goals(asked))
            if *goals == GoalsResult::default() && asked.goals != Some(GoalsForm::None) =>
        {
            Some("it has no goals, and they were not declined")
        }
        (Answer::Saved(saved), _) => contradiction(saved),
        (Answer::Closed(closed), _) if !closed.closed => Some("success without having closed"),
        (Answer::Closed(closed), Operation::Close(asked)) => match &closed.saved {
            Some(_) if asked.save_artifacts != Some(true) => Some("it has `saved`, and nobody asked for a save"),
            None if asked.save_artifacts == Some(true) => Some("it has no `saved`"),
            Some(saved) => contradiction(saved),
            None => None,
        },
        _ => None,
    };
    match why {
        Some(why) => Err(not_promised(tool, why)),
        None => Ok(answer),
    }
}

fn asks_for_items(operation: &Operation) -> bool {
    match operation {
        Operation::SyncFile(sync) => sync.diagnostics_in_result == Some(true),
        Operation::RefreshFile(refresh) => refresh.diagnostics_in_result == Some(true),
        _ => false,
    }
}

fn contradiction(saved: &SaveResult) -> Option<&'static str> {
    if saved.path != saved.sync.path || saved.version != saved.sync.version {
        Some("the checkpoint and the barrier it stands on are about different texts")
    } else if saved.sync.diagnostics.items.is_some() {
        Some("diagnostic items that nobody asked for")
    } else {
        None
    }
}

fn not_promised(tool: &Tool, why: &str) -> ToolError {
    ToolError::invalid_result(format!(
        "{}: the broker's answer is not what it promises ({why}); this is a defect of Beam, report it with beam_feedback_report",
        tool.name
    ))
}

fn shape(answer: &Answer, progress: Option<Progress>) -> Map<String, Value> {
    let mut body = answer.to_snake_case();
    match answer.answer_type() {
        AnswerType::Run => body = five_keys(body),
        AnswerType::Snippet => {
            // Its goals are `lean_goals` with mode both, and that says `expected_type`.
            if let Some(Value::Object(goals)) = body.get_mut("goals")
                && let Some(ty) = goals.remove("expectedType")
            {
                goals.insert("expected_type".to_owned(), ty);
            }
        }
        AnswerType::Diagnostics => {
            if let Some(Value::Array(items)) = body.get_mut("diagnostics") {
                items.iter_mut().for_each(name_severity);
            }
            add_progress(&mut body, progress);
        }
        AnswerType::Sync | AnswerType::Saved | AnswerType::Closed => {
            for value in body.values_mut() {
                name_severities(value);
            }
            let waited = !matches!(answer, Answer::Closed(closed) if closed.saved.is_none());
            add_progress(&mut body, progress.filter(|_| waited));
        }
        _ => {}
    }
    body
}

fn add_progress(body: &mut Map<String, Value>, progress: Option<Progress>) {
    if let Some(progress) = progress {
        body.insert("document_progress".into(), snake_keys(json!(progress)));
    }
}

/// The keys that every run result has, then what else the answer says.
fn five_keys(mut answer: Map<String, Value>) -> Map<String, Value> {
    const KEYS: [(&str, &str); 5] = [
        ("success", "success"),
        ("messages", "messages"),
        ("traces", "traces"),
        ("proof_state", "proof_state"),
        ("handle", "next_handle"),
    ];
    let mut out: Map<String, Value> =
        KEYS.iter().map(|(from, to)| ((*to).to_owned(), answer.shift_remove(*from).unwrap_or(Value::Null))).collect();
    out.extend(answer);
    out
}

/// Severities of diagnostics as words, at whatever depth.
fn name_severities(value: &mut Value) {
    let Value::Object(map) = value else { return };
    for (key, value) in map.iter_mut() {
        match value {
            Value::Array(items) if key == "items" || key == "blocking_diagnostics" => {
                items.iter_mut().for_each(name_severity);
            }
            value => name_severities(value),
        }
    }
}

fn name_severity(diagnostic: &mut Value) {
    if let Value::Object(map) = diagnostic {
        let name = severity(map.get("severity").and_then(Value::as_u64));
        map.insert("severity".to_owned(), name.into());
    }
}

/// A diagnostic as `lean.diagnostic` logs show it: as an item of a result, a long message always cut.
pub(crate) fn diagnostic_data(d: &StreamDiagnostic) -> Value {
    let mut out = snake_keys(json!(d));
    name_severity(&mut out);
    truncate::shortened(out)
}

fn severity(number: Option<u64>) -> &'static str {
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
