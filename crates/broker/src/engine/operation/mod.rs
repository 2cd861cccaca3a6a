//! The operations: one function for each, typed from its fields to its answer.

mod ask;
mod attempt;
mod code_action;
mod goals;
mod navigate;
pub(super) mod process;
mod run;
mod save;
pub(super) mod statistics;
mod sync;
mod todo;
pub(super) mod workspaces;

use std::sync::Arc;

use beam_wire::stream::Event;
use beam_wire::{Answer, Backend, Operation, Progress, Request};
use tokio::sync::mpsc;

use super::error::{Defect, EngineError, ParameterError};
use super::workspace::Workspace;

/// An answer, and the document's progress where it was observed.
#[derive(Debug)]
pub(super) struct Completed {
    pub(super) answer: Answer,
    pub(super) progress: Option<Progress>,
}

impl From<Answer> for Completed {
    fn from(answer: Answer) -> Self {
        Self { answer, progress: None }
    }
}

/// Runs an operation that is about a document, a handle or a session.
pub(super) async fn run(
    workspace: &Arc<Workspace>,
    request: &Request,
    events: mpsc::Sender<Event>,
) -> Result<Completed, EngineError> {
    if request.backend == Backend::Rocq {
        return Err(ParameterError::NoRocq(request.op()).into());
    }
    let own = || request.operation.lean_params();
    let (answer, progress) = match &request.operation {
        Operation::Ensure(_) => (sync::ensure(workspace).await?.into(), None),
        Operation::UpdateFile(op) => (sync::update(workspace, op).await?.into(), None),
        Operation::SyncFile(op) => sync::sync(workspace, op, events).await?,
        Operation::RefreshFile(op) => sync::refresh(workspace, op, events).await?,
        Operation::SaveOlean(op) => save::save_olean(workspace, op, events).await?,
        Operation::Close(op) => save::close(workspace, op, events).await?,
        Operation::RunAt(op) => run::run_at(workspace, op, own(), events).await?,
        Operation::RunWith(op) => run::run_with(workspace, op, own(), events).await?,
        Operation::Release(op) => run::release(workspace, op, events).await?,
        Operation::Goals(op) => goals::goals(workspace, op, own(), events).await?,
        Operation::TryTexts(op) => attempt::attempt(workspace, op, events).await?,
        Operation::Search(op) => ask::search(workspace, op, own(), events).await?,
        Operation::Check(op) => ask::check(workspace, op, own(), events).await?,
        Operation::Snippet(op) => ask::snippet(workspace, op, own(), events).await?,
        Operation::CodeActions(op) => ask::code_actions(workspace, op, events).await?,
        Operation::DiagnosticsOf(op) => ask::diagnostics(workspace, op, events).await?,
        Operation::Todo(op) => todo::todo(workspace, op, own(), events).await?,
        Operation::CodeActionResolve(op) => code_action::resolve(workspace, op, events).await?,
        Operation::Hover(op) => navigate::hover(workspace, op, events).await?,
        Operation::SignatureHelp(op) => navigate::signature_help(workspace, op, events).await?,
        Operation::Definition(op) => navigate::definition(workspace, op, events).await?,
        Operation::References(op) => navigate::references(workspace, op, events).await?,
        Operation::DocumentSymbols(op) => navigate::document_symbols(workspace, op, events).await?,
        Operation::WorkspaceSymbols(op) => (navigate::workspace_symbols(workspace, op).await?, None),
        Operation::OpenDocs(_)
        | Operation::Cancel(_)
        | Operation::Stats(_)
        | Operation::ResetStats(_)
        | Operation::Shutdown(_)
        | Operation::InitWorkspace(_)
        | Operation::ListWorkspaces(_)
        | Operation::DropWorkspace(_) => return Err(Defect::NotDispatched(request.op()).into()),
    };
    Ok(Completed { answer, progress })
}
