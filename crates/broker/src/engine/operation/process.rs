//! Operations that are neither cancellable nor counted: about the process, or about all workspaces.

use std::sync::Arc;

use beam_wire::control::{Cancelled, ShutdownAnswer};
use beam_wire::stats::Reset;
use beam_wire::workspace::{WorkspaceRow, Workspaces};
use beam_wire::{Answer, Operation, Request};

use super::statistics;
use crate::engine::core::EngineCore;
use crate::engine::error::{Defect, EngineError};
use crate::engine::workspace::Workspace;

/// Runs one.
pub(in crate::engine) async fn run(core: &EngineCore, request: &Request) -> Result<Answer, EngineError> {
    let one = match request.workspace_id {
        Some(_) => Some(core.workspace_of(request).await?),
        None => None,
    };
    Ok(match &request.operation {
        Operation::Cancel(op) => Cancelled { cancelled: core.admissions.cancel(&op.cancel_request_id) }.into(),
        Operation::Stats(_) => statistics::stats(core, one.as_deref()).await.into(),
        Operation::OpenDocs(_) => statistics::open_docs(core, one.as_deref()).await.into(),
        Operation::ResetStats(_) => {
            core.reset_counters();
            Reset { reset: true }.into()
        }
        Operation::ListWorkspaces(_) => list(core).into(),
        Operation::Shutdown(_) => {
            core.shutdown.cancel();
            ShutdownAnswer { shutdown: true }.into()
        }
        _ => return Err(Defect::NotDispatched(request.op()).into()),
    })
}

fn list(core: &EngineCore) -> Workspaces {
    let row = |w: &Arc<Workspace>| WorkspaceRow {
        workspace_id: w.id().to_owned(),
        root: w.root().to_string(),
        lean_active: w.running().is_some(),
        rocq_active: false,
    };
    Workspaces { workspaces: core.workspaces.all().iter().map(row).collect() }
}
