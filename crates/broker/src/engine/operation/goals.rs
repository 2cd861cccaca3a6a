//! The goals at a position.

use beam_base::Utf16Pos;
use beam_session::RequestSpec;
use beam_wire::stream::Event;
use beam_wire::todo::{GoalsAt, GoalsMode};
use beam_wire::{Answer, Goals, Progress};
use serde_json::json;
use tokio::sync::mpsc;

use crate::engine::document::{Document, decode, progress_of};
use crate::engine::error::{EngineError, ParameterError};
use crate::engine::observe::Shown;
use crate::engine::workspace::Workspace;

/// `goals`.
pub(super) async fn goals(
    workspace: &Workspace,
    op: &GoalsAt,
    events: mpsc::Sender<Event>,
) -> Result<(Answer, Option<Progress>), EngineError> {
    if op.text.is_some() {
        return Err(ParameterError::GoalsText.into());
    }
    let method = match op.mode.unwrap_or(GoalsMode::After) {
        GoalsMode::Before => "$/lean/goalsPrev",
        GoalsMode::After => "$/lean/goalsAfter",
    };
    let doc = Document::at_version(workspace, &op.path, op.version).await?;
    let at = Utf16Pos { line: op.line, character: op.character };
    let params = json!({ "textDocument": doc.versioned(), "position": at });
    let mut observer = doc.observer(Shown::Nothing, events);
    let reply = doc.ask(RequestSpec::new(method, params), &mut observer).await?;
    let goals: Goals = decode(method, &reply)?;
    Ok((goals.into(), progress_of(&reply)))
}
