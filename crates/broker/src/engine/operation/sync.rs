//! A session, and a document's text and verdict.

use beam_wire::control::Ensured;
use beam_wire::document::{DiagnosticScope, RefreshFile, SyncFile, UpdateFile, Updated};
use beam_wire::stream::Event;
use beam_wire::{Answer, Backend, Progress};
use tokio::sync::mpsc;

use crate::engine::barrier::{self, Wanted};
use crate::engine::disk::DiskSilent;
use crate::engine::document::Document;
use crate::engine::error::EngineError;
use crate::engine::source;
use crate::engine::workspace::Workspace;

type Answered = (Answer, Option<Progress>);

/// `ensure`.
pub(super) async fn ensure(workspace: &Workspace) -> Result<Ensured, EngineError> {
    let live = workspace.live().await?;
    live.session.prestart().await?;
    Ok(Ensured {
        workspace_id: workspace.id().to_owned(),
        backend: Backend::Lean,
        root: workspace.root().to_string(),
        epoch: live.session.epoch(),
    })
}

/// `update_file`.
pub(super) async fn update(workspace: &Workspace, op: &UpdateFile) -> Result<Updated, EngineError> {
    let doc = Document::open(workspace, &op.path).await?;
    Ok(Updated { version: doc.applied.version, changed: doc.applied.changed })
}

/// `sync_file`.
pub(super) async fn sync(
    workspace: &Workspace,
    op: &SyncFile,
    events: mpsc::Sender<Event>,
) -> Result<Answered, EngineError> {
    let wanted = Wanted {
        scope: op.diagnostic_scope.unwrap_or(DiagnosticScope::Errors),
        in_result: op.diagnostics_in_result.unwrap_or(false),
    };
    pass(workspace, &op.path, wanted, events).await
}

/// `refresh_file`.
pub(super) async fn refresh(
    workspace: &Workspace,
    op: &RefreshFile,
    events: mpsc::Sender<Event>,
) -> Result<Answered, EngineError> {
    let wanted = Wanted {
        scope: op.diagnostic_scope.unwrap_or(DiagnosticScope::Errors),
        in_result: op.diagnostics_in_result.unwrap_or(false),
    };
    close(workspace, &op.path).await?;
    pass(workspace, &op.path, wanted, events).await
}

async fn pass(
    workspace: &Workspace,
    path: &str,
    wanted: Wanted,
    events: mpsc::Sender<Event>,
) -> Result<Answered, EngineError> {
    let doc = Document::open(workspace, path).await?;
    let passed = barrier::pass(&doc, wanted, events).await?;
    Ok((passed.result.into(), Some(passed.progress)))
}

/// Forgets the document at a path as clients write it; one that is not open is closed already.
pub(super) async fn close(workspace: &Workspace, path: &str) -> Result<(), DiskSilent> {
    let asked = source::locate(workspace.root(), path);
    let named = asked.clone();
    let path = match workspace.disk().need(move || source::canonical_or_gone(&named)).await {
        Ok(path) => path,
        // On a disk that is gone a document can still be closed by the name it has.
        Err(silent) if !Document::is_open(workspace, &asked).await => return Err(silent),
        Err(_) => asked,
    };
    Document::forget(workspace, &path).await;
    Ok(())
}
