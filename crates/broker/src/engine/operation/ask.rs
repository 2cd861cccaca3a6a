//! Questions about declarations and texts (see `lean/REQUESTS.md` for Lean's side).

use beam_base::{Utf16Pos, Utf16Range};
use beam_session::RequestSpec;
use beam_wire::ask::{
    Check, CheckResult, CodeActions, CodeActionsResult, DiagnosticsOf, DiagnosticsResult, Search, SearchResult,
    SeverityName, Snippet, SnippetResult,
};
use beam_wire::document::DiagnosticScope;
use beam_wire::stream::Event;
use beam_wire::{Answer, Progress, StreamDiagnostic};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::engine::barrier::{self, Wanted};
use crate::engine::document::{Document, decode, progress_of};
use crate::engine::error::{EngineError, ParameterError};
use crate::engine::observe::Shown;
use crate::engine::workspace::Workspace;

type Answered = (Answer, Option<Progress>);

/// `search`. With a pattern it runs a text of the caller's.
pub(super) async fn search(
    workspace: &Workspace,
    op: &Search,
    mut params: Map<String, Value>,
    events: mpsc::Sender<Event>,
) -> Result<Answered, EngineError> {
    if op.name.is_none() && op.constants.is_none() && op.pattern.is_none() {
        return Err(ParameterError::SearchForNothing.into());
    }
    let doc = Document::at_version(workspace, &op.path, op.version).await?;
    place(&mut params, op.line, op.character);
    let answer: SearchResult = ask(&doc, "$/beam/search", params, op.pattern.is_some(), events).await?;
    Ok((answer.into(), None))
}

/// `check`.
pub(super) async fn check(
    workspace: &Workspace,
    op: &Check,
    mut params: Map<String, Value>,
    events: mpsc::Sender<Event>,
) -> Result<Answered, EngineError> {
    let doc = Document::at_version(workspace, &op.path, op.version).await?;
    place(&mut params, op.line, op.character);
    let answer: CheckResult = ask(&doc, "$/beam/check", params, false, events).await?;
    Ok((answer.into(), None))
}

/// `snippet`.
pub(super) async fn snippet(
    workspace: &Workspace,
    op: &Snippet,
    mut params: Map<String, Value>,
    events: mpsc::Sender<Event>,
) -> Result<Answered, EngineError> {
    let doc = Document::at_version(workspace, &op.path, op.version).await?;
    place(&mut params, op.line, op.character);
    let answer: SnippetResult = ask(&doc, "$/beam/snippet", params, true, events).await?;
    Ok((answer.into(), None))
}

/// `code_actions`.
pub(super) async fn code_actions(
    workspace: &Workspace,
    op: &CodeActions,
    events: mpsc::Sender<Event>,
) -> Result<Answered, EngineError> {
    let doc = Document::at_version(workspace, &op.path, op.version).await?;
    let last = op.end_line.unwrap_or(op.line);
    if last < op.line {
        return Err(ParameterError::LinesReversed { first: op.line, last }.into());
    }
    let lines = doc.applied.text.split('\n').count();
    let limit = u32::try_from(lines.saturating_sub(1)).unwrap_or(u32::MAX);
    if op.line > limit {
        return Err(ParameterError::NoSuchLine { line: op.line, last: limit }.into());
    }
    let end = doc.applied.text.split('\n').nth(last.min(limit) as usize).map_or(0, |line| line.encode_utf16().count());
    let range = Utf16Range {
        start: Utf16Pos { line: op.line, character: 0 },
        end: Utf16Pos { line: last.min(limit), character: u32::try_from(end).unwrap_or(u32::MAX) },
    };
    let params = Map::from_iter([("range".to_owned(), json!(range))]);
    let answer: CodeActionsResult = ask(&doc, "$/beam/codeActions", params, false, events).await?;
    Ok((answer.into(), None))
}

/// `diagnostics`: the barrier's list, filtered. A barrier that cannot complete fails here as it does in `sync`.
pub(super) async fn diagnostics(
    workspace: &Workspace,
    op: &DiagnosticsOf,
    events: mpsc::Sender<Event>,
) -> Result<Answered, EngineError> {
    let doc = Document::at_version(workspace, &op.path, op.version).await?;
    let wanted = Wanted { scope: DiagnosticScope::All, in_result: true };
    let passed = barrier::pass(&doc, wanted, events).await?;
    let total = passed.result.diagnostics.counts.total();
    let all = passed.result.diagnostics.items.unwrap_or_default();
    let diagnostics = all.into_iter().filter(|d| wanted_diagnostic(op, d)).collect();
    let answer = DiagnosticsResult { version: doc.applied.version, total, diagnostics };
    Ok((answer.into(), Some(passed.progress)))
}

fn wanted_diagnostic(op: &DiagnosticsOf, d: &StreamDiagnostic) -> bool {
    let severity = |name: &SeverityName| {
        d.severity
            == Some(match name {
                SeverityName::Error => 1,
                SeverityName::Warning => 2,
                SeverityName::Information => 3,
                SeverityName::Hint => 4,
            })
    };
    op.severities.as_ref().is_none_or(|names| names.iter().any(severity))
        && op.line.is_none_or(|first| d.range.end.line >= first)
        && op.end_line.is_none_or(|last| d.range.start.line <= last)
        && op.contains.as_ref().is_none_or(|text| d.message.contains(text.as_str()))
}

/// A position, if one is given.
fn place(params: &mut Map<String, Value>, line: Option<u32>, character: Option<u32>) {
    if line.is_some() || character.is_some() {
        let at = Utf16Pos { line: line.unwrap_or(0), character: character.unwrap_or(0) };
        params.insert("position".to_owned(), json!(at));
    }
}

/// Asks Lean and reads the answer. What runs a text of the caller's has to stop when it is told to.
async fn ask<T: DeserializeOwned>(
    doc: &Document,
    method: &'static str,
    mut params: Map<String, Value>,
    runs_text: bool,
    events: mpsc::Sender<Event>,
) -> Result<T, EngineError> {
    params.insert("textDocument".to_owned(), doc.versioned());
    let spec = RequestSpec::new(method, Value::Object(params));
    let spec = if runs_text { spec.running_text() } else { spec };
    let mut observer = doc.observer(Shown::Nothing, events);
    let reply = doc.ask(spec, &mut observer).await?;
    let _observed = progress_of(&reply);
    Ok(decode(method, &reply)?)
}
