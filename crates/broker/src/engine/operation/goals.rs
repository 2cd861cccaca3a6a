//! The goals at a position.

use beam_base::Utf16Pos;
use beam_session::RequestSpec;
use beam_wire::stream::Event;
use beam_wire::todo::{GoalsAt, GoalsMode, GoalsResult};
use beam_wire::{Answer, Progress};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::engine::document::{Document, decode, progress_of};
use crate::engine::error::{EngineError, ParameterError};
use crate::engine::observe::Shown;
use crate::engine::workspace::Workspace;

/// `goals`. `params` are the operation's own, as Lean gets them.
pub(super) async fn goals(
    workspace: &Workspace,
    op: &GoalsAt,
    mut params: Map<String, Value>,
    events: mpsc::Sender<Event>,
) -> Result<(Answer, Option<Progress>), EngineError> {
    if op.text.is_some() {
        return Err(ParameterError::GoalsText.into());
    }
    let method = match op.mode.unwrap_or(GoalsMode::After) {
        GoalsMode::Before => "$/lean/goalsPrev",
        GoalsMode::After => "$/lean/goalsAfter",
        GoalsMode::Both => "$/beam/goals",
    };
    let doc = Document::at_version(workspace, &op.path, op.version).await?;
    let at = Utf16Pos { line: op.line, character: op.character };
    params.insert("textDocument".to_owned(), doc.versioned());
    params.insert("position".to_owned(), json!(at));
    // Asked for always: a hint is told unasked, and says where.
    params.insert("explain".to_owned(), true.into());
    let mut observer = doc.observer(Shown::Nothing, events);
    let reply = doc.ask(RequestSpec::new(method, Value::Object(params)), &mut observer).await?;
    let mut result: GoalsResult = decode(method, &reply)?;
    if op.explain != Some(true) && result.hint.is_none() {
        result.at = None;
    }
    result.stale_imports = doc.stale_imports(&reply).await;
    Ok((result.into(), progress_of(&reply)))
}
