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
    params.insert("textDocument".to_owned(), doc.versioned());
    if let Some(range) = range(op) {
        params.insert("range".to_owned(), json!(range));
    }
    let mut observer = doc.observer(Shown::Nothing, events);
    let reply = doc.ask(RequestSpec::new(METHOD, Value::Object(params)), &mut observer).await?;
    let mut result: TodoResult = decode(METHOD, &reply)?;
    result.stale_imports = doc.stale_imports(&reply).await;
    Ok((result.into(), progress_of(&reply)))
}

/// The range that is asked for; `None` means the whole file. What of it is left out reaches as far as it can: Lean moves an end that is
/// behind a line, or behind the file, to where it is.
fn range(op: &TodoIn) -> Option<Utf16Range> {
    const FAR: u32 = i32::MAX.unsigned_abs();
    let given = [op.line, op.character, op.end_line, op.end_character];
    given.iter().any(Option::is_some).then(|| Utf16Range {
        start: Utf16Pos { line: op.line.unwrap_or(0), character: op.character.unwrap_or(0) },
        end: Utf16Pos { line: op.end_line.unwrap_or(FAR), character: op.end_character.unwrap_or(FAR) },
    })
}
