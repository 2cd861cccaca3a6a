//! What is unfinished in a range.

use beam_base::{Utf16Pos, Utf16Range};
use beam_session::RequestSpec;

use beam_wire::stream::Event;
use beam_wire::todo::{TodoIn, TodoResult};
use beam_wire::{Answer, Progress};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::engine::document::{Document, decode, progress_of};
use crate::engine::error::EngineError;
use crate::engine::observe::Shown;
use crate::engine::workspace::Workspace;

/// `todo`. `params` are the operation's own, as Lean gets them.
pub(super) async fn todo(
    workspace: &Workspace,
    op: &TodoIn,
    mut params: Map<String, Value>,
    events: mpsc::Sender<Event>,
) -> Result<(Answer, Option<Progress>), EngineError> {
    const METHOD: &str = "$/lean/todo";
    let doc = Document::at_version(workspace, &op.path, op.version).await?;
    let start = Utf16Pos { line: op.line, character: op.character };
    let end = Utf16Pos { line: op.end_line, character: op.end_character };
    params.insert("textDocument".to_owned(), doc.versioned());
    params.insert("range".to_owned(), json!(Utf16Range { start, end }));
    let mut observer = doc.observer(Shown::Nothing, events);
    let reply = doc.ask(RequestSpec::new(METHOD, Value::Object(params)), &mut observer).await?;
    let result: TodoResult = decode(METHOD, &reply)?;
    Ok((result.into(), progress_of(&reply)))
}
