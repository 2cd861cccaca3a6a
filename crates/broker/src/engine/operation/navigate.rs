//! Standard LSP requests: the answer is Lean's, unchanged.

use beam_base::{LineIndex, Utf16Pos};
use beam_session::RequestSpec;
use beam_wire::navigate::{Definition, DocumentSymbols, Hover, References, SignatureHelp, WorkspaceSymbols};
use beam_wire::stream::Event;
use beam_wire::{Answer, Progress};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::engine::document::{Document, decode, progress_of};
use crate::engine::error::{Defect, EngineError, ParameterError};
use crate::engine::observe::Shown;
use crate::engine::workspace::Workspace;

type Answered = Result<(Answer, Option<Progress>), EngineError>;

/// `hover`.
pub(super) async fn hover(workspace: &Workspace, op: &Hover, events: mpsc::Sender<Event>) -> Answered {
    let place = DocumentPosition::of(&op.path, op.version, op.line, op.character);
    at(workspace, place, "textDocument/hover", json!({}), events).await
}

/// `signature_help`.
pub(super) async fn signature_help(workspace: &Workspace, op: &SignatureHelp, events: mpsc::Sender<Event>) -> Answered {
    let place = DocumentPosition::of(&op.path, op.version, op.line, op.character);
    at(workspace, place, "textDocument/signatureHelp", json!({}), events).await
}

/// `definition`.
pub(super) async fn definition(workspace: &Workspace, op: &Definition, events: mpsc::Sender<Event>) -> Answered {
    let place = DocumentPosition::of(&op.path, op.version, op.line, op.character);
    at(workspace, place, "textDocument/definition", json!({}), events).await
}

/// `references`.
pub(super) async fn references(workspace: &Workspace, op: &References, events: mpsc::Sender<Event>) -> Answered {
    let place = DocumentPosition::of(&op.path, op.version, op.line, op.character);
    let params = json!({ "context": { "includeDeclaration": op.include_declaration.unwrap_or(true) } });
    at(workspace, place, "textDocument/references", params, events).await
}

/// `document_symbols`.
pub(super) async fn document_symbols(
    workspace: &Workspace,
    op: &DocumentSymbols,
    events: mpsc::Sender<Event>,
) -> Answered {
    let doc = Document::at_version(workspace, &op.path, op.version).await?;
    ask(&doc, "textDocument/documentSymbol", json!({ "textDocument": { "uri": doc.uri } }), events).await
}

/// `workspace_symbols`.
pub(super) async fn workspace_symbols(workspace: &Workspace, op: &WorkspaceSymbols) -> Result<Answer, EngineError> {
    let live = workspace.live().await?;
    let symbols = live.session.workspace_symbols(&op.query).await;
    Ok(Answer::Lsp(serde_json::to_value(symbols).map_err(Defect::from)?))
}

/// A position in a version of a document.
struct DocumentPosition<'a> {
    path: &'a str,
    version: u64,
    position: Utf16Pos,
}

impl<'a> DocumentPosition<'a> {
    fn of(path: &'a str, version: u64, line: u32, character: u32) -> Self {
        Self { path, version, position: Utf16Pos { line, character } }
    }
}

/// A request about a position; `params` is an object with what it takes beyond that.
async fn at(
    workspace: &Workspace,
    place: DocumentPosition<'_>,
    method: &'static str,
    mut params: Value,
    events: mpsc::Sender<Event>,
) -> Answered {
    let doc = Document::at_version(workspace, place.path, place.version).await?;
    // Lean answers `null` for a position that does not exist, which reads like "nothing there".
    LineIndex::new(&doc.applied.text)
        .to_byte(&doc.applied.text, place.position)
        .map_err(|error| ParameterError::Position { path: doc.shown(), error })?;
    params["textDocument"] = json!({ "uri": doc.uri });
    params["position"] = json!(place.position);
    ask(&doc, method, params, events).await
}

async fn ask(doc: &Document, method: &'static str, params: Value, events: mpsc::Sender<Event>) -> Answered {
    let mut observer = doc.observer(Shown::Nothing, events);
    let reply = doc.ask(RequestSpec::new(method, params), &mut observer).await?;
    Ok((Answer::Lsp(decode(method, &reply)?), progress_of(&reply)))
}
