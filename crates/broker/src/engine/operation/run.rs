//! Texts that are run without touching the file, and the handles they leave (run-at semantics; broker protocol section 7).

use std::sync::Arc;

use beam_base::{AbsPath, Utf16Pos};
use beam_session::{Reply, RequestSpec};
use beam_wire::run::{Release, RunAt, RunWith};
use beam_wire::stream::Event;
use beam_wire::{Answer, Backend, Handle, Progress, RunResult};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::engine::document::{Document, progress_of};
use crate::engine::error::{AnswerError, EngineError, HandleError};
use crate::engine::handles::HandlePlace;
use crate::engine::live::LiveSession;
use crate::engine::observe::Shown;
use crate::engine::source;
use crate::engine::workspace::Workspace;

type Answered = (Answer, Option<Progress>);

/// `run_at`. `params` are the operation's own, as Lean gets them.
pub(super) async fn run_at(
    workspace: &Workspace,
    op: &RunAt,
    mut params: Map<String, Value>,
    events: mpsc::Sender<Event>,
) -> Result<Answered, EngineError> {
    const METHOD: &str = "$/lean/runAt";
    let doc = Document::at_version(workspace, &op.path, op.version).await?;
    let place = place(workspace, &doc, op.store_handle, None).await?;
    params.insert("textDocument".to_owned(), doc.versioned());
    params.insert("position".to_owned(), json!(Utf16Pos { line: op.line, character: op.character }));
    let mut observer = doc.observer(Shown::SetupLines, events);
    let spec = RequestSpec::new(METHOD, Value::Object(params)).running_text();
    let reply = doc.ask(spec, &mut observer).await?;
    finish(workspace, &doc, METHOD, &reply, place).await
}

/// `run_with`. `params` are the operation's own, as Lean gets them.
pub(super) async fn run_with(
    workspace: &Workspace,
    op: &RunWith,
    mut params: Map<String, Value>,
    events: mpsc::Sender<Event>,
) -> Result<Answered, EngineError> {
    const METHOD: &str = "$/lean/runWith";
    let checked = check_handle(workspace, &op.path, &op.handle)?;
    let consumed = (op.linear == Some(true)).then_some(&op.handle.raw);
    if let Some(raw) = consumed {
        // Before anything is waited for: from here on it is used up, even if the request is cancelled on its way to Lean. Should Lean
        // refuse the handle instead, it did not hold it either.
        checked.live.handles.consume(&checked.asked, raw);
    }
    let doc = Document::open(workspace, &op.path).await?;
    let place = place(workspace, &doc, op.store_handle, consumed).await?;
    if let Some(raw) = consumed {
        // The same by its canonical path.
        doc.live.handles.consume(&doc.path, raw);
    }
    params.insert("textDocument".to_owned(), json!({ "uri": doc.uri }));
    params.insert("handle".to_owned(), op.handle.raw.clone());
    let mut observer = doc.observer(Shown::SetupLines, events);
    let spec = RequestSpec::new(METHOD, Value::Object(params)).running_text();
    // A worker that replaces another does not know the handle; and a linear continuation must not run twice.
    let reply = doc.ask(spec.once(), &mut observer).await?;
    finish(workspace, &doc, METHOD, &reply, place).await
}

/// `release`.
pub(super) async fn release(
    workspace: &Workspace,
    op: &Release,
    events: mpsc::Sender<Event>,
) -> Result<Answered, EngineError> {
    let doc = open_for(workspace, &op.path, &op.handle).await?;
    let params = json!({ "textDocument": { "uri": doc.uri }, "handle": op.handle.raw });
    let mut observer = doc.observer(Shown::Nothing, events);
    let reply = doc.ask(RequestSpec::new("$/lean/releaseHandle", params).once(), &mut observer).await?;
    doc.live.handles.ended(&doc.path, &op.handle.raw);
    Ok((Answer::Nothing(()), progress_of(&reply)))
}

/// The broker's own checks of a handle, then the file; the rest is Lean's to decide (section 7).
pub(super) async fn open_for(workspace: &Workspace, path: &str, handle: &Handle) -> Result<Document, EngineError> {
    check_handle(workspace, path, handle)?;
    Document::open(workspace, path).await
}

/// A handle of the session that runs.
struct CheckedHandle {
    live: Arc<LiveSession>,
    /// The document as the request names it; links are not resolved yet.
    asked: AbsPath,
}

/// The broker's own checks of a handle; waits for nothing.
fn check_handle(workspace: &Workspace, path: &str, handle: &Handle) -> Result<CheckedHandle, HandleError> {
    let live = workspace.running().ok_or(HandleError::NoSession)?;
    if handle.backend != Backend::Lean {
        return Err(HandleError::OtherBackend);
    }
    if handle.epoch != live.session.epoch() || handle.session != live.session.token() {
        return Err(HandleError::OtherSession);
    }
    let asked = source::locate(workspace.root(), path);
    if live.handles.is_consumed(&asked, &handle.raw) {
        return Err(HandleError::Consumed);
    }
    Ok(CheckedHandle { live, asked })
}

/// A place for the handle that the request is to leave, if it is.
async fn place(
    workspace: &Workspace,
    doc: &Document,
    store: Option<bool>,
    consumed: Option<&Value>,
) -> Result<Option<HandlePlace>, EngineError> {
    if store != Some(true) {
        return Ok(None);
    }
    let (live, version) = (&doc.live, doc.applied.version);
    if let Ok(place) = live.handles.reserve(&doc.path, version, consumed) {
        return Ok(Some(place));
    }
    // A worker that was lost since took its handles with it; that is found out only by asking.
    if let Some(info) = live.session.document(&doc.path).await {
        live.handles.settle(&doc.path, (info.version, info.worker.starts));
    }
    match live.handles.reserve(&doc.path, version, consumed) {
        Ok(place) => Ok(Some(place)),
        Err(full) => {
            let oldest = full.oldest.map(|raw| Box::new(wrap(workspace, live, raw)));
            Err(HandleError::TooMany { path: doc.shown(), limit: full.limit, oldest }.into())
        }
    }
}

async fn finish(
    workspace: &Workspace,
    doc: &Document,
    method: &'static str,
    reply: &Reply,
    place: Option<HandlePlace>,
) -> Result<Answered, EngineError> {
    let mut result = RunResult::from_lean(reply.value.get(), |raw| wrap(workspace, &doc.live, raw))
        .map_err(|error| AnswerError::Undecodable { method, error })?;
    if let (Some(handle), Some(place)) = (&result.handle, place) {
        place.minted((reply.version, reply.worker), &handle.raw);
    }
    result.stale_imports = doc.stale_imports(reply).await;
    Ok((result.into(), progress_of(reply)))
}

/// Lean's handle as callers get it.
fn wrap(workspace: &Workspace, live: &LiveSession, raw: Value) -> Handle {
    Handle {
        workspace_id: workspace.id().to_owned(),
        backend: Backend::Lean,
        epoch: live.session.epoch(),
        session: live.session.token().to_owned(),
        raw,
    }
}
