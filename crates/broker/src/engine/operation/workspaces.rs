//! Workspaces come, are replaced, and go (broker protocol section 11).

#![allow(clippy::disallowed_methods, reason = "runs on the blocking threads of `Disk`")]

use std::path::Path;
use std::time::Duration;

use beam_base::AbsPath;
use beam_toolchain::Choice;

use beam_wire::workspace::{InitWorkspace, WorkspaceDrop, WorkspaceInit, WorkspaceMode};
use beam_wire::{Answer, Operation, Request};

use crate::engine::core::EngineCore;
use crate::engine::error::{Defect, EngineError, ParameterError, SelectorError};
use crate::engine::registry::{Dropped, OpenError};
use crate::engine::source::path_not_utf8;

/// How long the workers of a workspace that is dropped may take to end by themselves.
const DROP_GRACE: Duration = Duration::from_secs(2);

/// `init_workspace` and `drop_workspace`.
pub(in crate::engine) async fn run(core: &EngineCore, request: &Request) -> Result<Answer, EngineError> {
    let id = request.workspace_id.as_deref().ok_or_else(|| SelectorError::Missing(request.op()))?;
    match &request.operation {
        Operation::InitWorkspace(op) => Ok(init(core, id, op).await?.into()),
        Operation::DropWorkspace(_) => {
            let Dropped { dropped, invalidated_handles } = drop_workspace(core, id).await;
            let reason = (!dropped).then(|| "notFound".to_owned());
            Ok(WorkspaceDrop { workspace_id: id.to_owned(), dropped, invalidated_handles, reason }.into())
        }
        _ => Err(Defect::NotDispatched(request.op()).into()),
    }
}

/// Forgets a workspace and ends its sessions. Goes on when the future is dropped: half a drop is none.
pub(in crate::engine) async fn drop_workspace(core: &EngineCore, id: &str) -> Dropped {
    let Some(workspace) = core.workspaces.remove(id) else {
        return Dropped { dropped: false, invalidated_handles: false };
    };
    drop(tokio::spawn(async move { workspace.shut_down(DROP_GRACE).await }).await);
    Dropped { dropped: true, invalidated_handles: true }
}

async fn init(core: &EngineCore, id: &str, op: &InitWorkspace) -> Result<WorkspaceInit, EngineError> {
    if op.rocq_cmd.is_some() {
        return Err(ParameterError::RocqCommand.into());
    }
    let root = root_of(core, op.root.clone()).await?;
    let choice = match op.lean_cmd.as_deref() {
        None => core.common.settings.choice.clone(),
        Some("embedded") => Choice::Embedded,
        Some(path) => Choice::Lean(AbsPath::resolve(&root, path)),
    };
    let mode = op.workspace_mode.unwrap_or(WorkspaceMode::Set);
    let (opened, displaced) = core.workspaces.open(id, root, choice, mode, &core.common)?;
    if let Some(old) = displaced {
        drop(tokio::spawn(async move { old.shut_down(DROP_GRACE).await }).await);
    }
    Ok(WorkspaceInit {
        workspace_id: id.to_owned(),
        root: opened.root.to_string(),
        initialized: true,
        mode,
        runtime_reused: opened.reused,
        invalidated_handles: opened.replaced.is_some(),
        previous_root: opened.replaced.map(|root| root.to_string()),
    })
}

/// The canonical folder; nothing is registered for a root that is none.
async fn root_of(core: &EngineCore, given: String) -> Result<AbsPath, EngineError> {
    let resolve = move || {
        let root = match AbsPath::canonical(Path::new(&given)) {
            Ok(root) => root,
            Err(e) if path_not_utf8(&e) => return Err(OpenError::RootNotUtf8(given)),
            Err(error) => return Err(OpenError::Root { given, error }),
        };
        if root.is_dir() { Ok(root) } else { Err(OpenError::NotFolder(root)) }
    };
    Ok(core.disk.need(resolve).await??)
}
