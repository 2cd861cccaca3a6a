//! The workspaces of a process: opened, listed, replaced, dropped (broker protocol section 11).
//!
//! A root belongs to one id, and an id to one root. What was dropped or replaced keeps nothing: sessions end, handles and history are gone.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use beam_base::AbsPath;
use beam_toolchain::Choice;
use beam_wire::request::WorkspaceMode;
use beam_wire::{Backend, ErrorBody, FailureCode, Op, Request, Response};
use serde_json::{Value, json};

use super::workspace::{SetupFailure, Workspace};
use super::{Engine, EngineSettings};

/// How long the workers of a workspace that is dropped may take to end by themselves.
const DROP_GRACE: Duration = Duration::from_secs(2);

/// The table. `None` once the engine is going away: nothing can be added then.
#[derive(Debug)]
pub(super) struct Workspaces(Mutex<Option<BTreeMap<String, Arc<Workspace>>>>);

impl Default for Workspaces {
    fn default() -> Self {
        Self(Mutex::new(Some(BTreeMap::new())))
    }
}

/// What became of a workspace that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Canonical root.
    pub root: AbsPath,
    /// It was there already, with the same configuration.
    pub reused: bool,
    /// The root that the id had before, where it was replaced.
    pub replaced: Option<AbsPath>,
}

/// What became of a workspace that was to be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// There was one.
    pub dropped: bool,
    /// Handles of it, if there were any, are no longer accepted.
    pub invalidated_handles: bool,
}

/// Why a workspace was not opened.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error("the root `{given}` does not resolve: {error}")]
    Root { given: String, error: std::io::Error },
    #[error("the root `{0}` is not a folder")]
    NotFolder(AbsPath),
    #[error("there is no workspace \"{0}\" to verify")]
    Unknown(String),
    #[error(
        "the workspace \"{id}\" has another configuration (root `{root}`); use workspaceMode \"reset\" to replace it"
    )]
    Other { id: String, root: AbsPath },
    #[error("the root `{root}` belongs to the workspace \"{owner}\"")]
    Owned { root: AbsPath, owner: String },
    #[error("the process is shutting down")]
    Closing,
}

impl From<OpenError> for ErrorBody {
    fn from(e: OpenError) -> Self {
        let code = match e {
            OpenError::Closing => FailureCode::RequestCancelled,
            _ => FailureCode::InvalidParams,
        };
        Self::new(code, e.to_string())
    }
}

impl Workspaces {
    fn table(&self) -> MutexGuard<'_, Option<BTreeMap<String, Arc<Workspace>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The workspace that an engine begins with.
    pub(super) fn first(&self, id: &str, root: AbsPath, choice: Choice, settings: &EngineSettings) {
        if let Some(table) = &mut *self.table() {
            table.insert(id.to_owned(), Arc::new(Workspace::new(id, root, choice, settings)));
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Workspace>> {
        self.table().as_ref()?.get(id).cloned()
    }

    /// All of them, by id.
    pub(super) fn all(&self) -> Vec<Arc<Workspace>> {
        self.table().iter().flat_map(BTreeMap::values).cloned().collect()
    }

    pub(super) fn list(&self) -> Value {
        let rows: Vec<Value> = self
            .all()
            .iter()
            .map(|w| {
                json!({ "workspace_id": w.id(), "root": w.root(), "lean_active": w.running().is_some(), "rocq_active": false })
            })
            .collect();
        json!({ "workspaces": rows })
    }

    /// Ends every session and lets nothing new in (R7).
    pub(super) async fn close(&self, grace: Duration) {
        let table = self.table().take().unwrap_or_default();
        // At once: the grace is for all of them together.
        let ends: Vec<_> = table
            .into_values()
            .map(|workspace| tokio::spawn(async move { workspace.shut_down(grace).await }))
            .collect();
        for end in ends {
            drop(end.await);
        }
    }

    /// Puts the workspace into the table, by the rules of the mode. Gives what it displaced, whose sessions are still to be ended.
    fn open(
        &self,
        id: &str,
        root: AbsPath,
        choice: Choice,
        mode: WorkspaceMode,
        settings: &EngineSettings,
    ) -> Result<(Opened, Option<Arc<Workspace>>), OpenError> {
        let mut guard = self.table();
        let table = guard.as_mut().ok_or(OpenError::Closing)?;
        if let Some(owner) = table.values().find(|w| *w.root() == root && w.id() != id) {
            return Err(OpenError::Owned { root, owner: owner.id().to_owned() });
        }
        let known = table.get(id).cloned();
        match (&known, mode) {
            (None, WorkspaceMode::Verify) => return Err(OpenError::Unknown(id.to_owned())),
            (Some(w), WorkspaceMode::Set | WorkspaceMode::Verify) => {
                if *w.root() != root || *w.choice() != choice {
                    return Err(OpenError::Other { id: id.to_owned(), root: w.root().clone() });
                }
                return Ok((Opened { root, reused: true, replaced: None }, None));
            }
            (None, _) | (Some(_), WorkspaceMode::Reset) => {}
        }
        table.insert(id.to_owned(), Arc::new(Workspace::new(id, root.clone(), choice, settings)));
        Ok((Opened { root, reused: false, replaced: known.as_ref().map(|w| w.root().clone()) }, known))
    }
}

impl Engine {
    /// The workspace `id` over `root`, made if it is not there. Starts nothing.
    ///
    /// # Errors
    /// The id has another root, the root another id, or the engine is ending.
    pub fn open_workspace(&self, id: &str, root: AbsPath) -> Result<Opened, ErrorBody> {
        let choice = self.0.settings.choice.clone();
        let (opened, _) = self.0.workspaces.open(id, root, choice, WorkspaceMode::Set, &self.0.settings)?;
        Ok(opened)
    }

    /// Sees to it that documents of the workspace can be opened: a toolchain is found, our extension is built and qualified for it. Starts
    /// no Lean process but those. Quick when it has been done before; minutes on a toolchain that was never used. Whoever comes while
    /// somebody else is at it waits for them.
    ///
    /// # Errors
    /// The workspace is unknown, or there is no usable toolchain; the message says what to do.
    pub async fn set_up(&self, id: &str) -> Result<(), SetupFailure> {
        let workspace = self.0.workspaces.get(id).ok_or(SetupFailure::Closing)?;
        workspace.live().await.map(drop)
    }

    /// Whether the workspace has a session: its documents, workers and handles.
    #[must_use]
    pub fn is_set_up(&self, id: &str) -> bool {
        self.0.workspaces.get(id).is_some_and(|w| w.running().is_some())
    }

    /// Ids of all workspaces.
    #[must_use]
    pub fn workspace_ids(&self) -> Vec<String> {
        self.0.workspaces.all().iter().map(|w| w.id().to_owned()).collect()
    }

    /// Forgets a workspace and ends its sessions; requests that are under way there fail as `workerExited`. Not cancelled by dropping the
    /// future once it has begun: half a drop is none.
    pub async fn drop_workspace(&self, id: &str) -> Dropped {
        let found = self.0.workspaces.table().as_mut().and_then(|table| table.remove(id));
        let Some(workspace) = found else {
            return Dropped { dropped: false, invalidated_handles: false };
        };
        drop(tokio::spawn(async move { workspace.shut_down(DROP_GRACE).await }).await);
        Dropped { dropped: true, invalidated_handles: true }
    }

    /// What `stats` answers, for all workspaces or for one; `None` for an id that is unknown.
    pub async fn stats_value(&self, id: Option<&str>) -> Option<Value> {
        let one = match id {
            Some(id) => Some(self.0.workspaces.get(id)?),
            None => None,
        };
        self.stats(one).await.ok()
    }

    /// What `open_docs` answers for one workspace; `None` for an id that is unknown.
    pub async fn open_docs_value(&self, id: &str) -> Option<Value> {
        let one = self.0.workspaces.get(id)?;
        self.open_docs(Some(one)).await.ok()
    }

    /// `init_workspace` and `drop_workspace`: admitted and counted like other operations, but never left half done by a cancellation.
    pub(super) async fn change_workspaces(&self, request: &Request, started: Instant) -> Response {
        let Some(id) = request.workspace_id.as_deref() else {
            let message = format!("{}: missing field `workspaceId`", request.op.name());
            return Response::failed(ErrorBody::new(FailureCode::InvalidParams, message));
        };
        let before = self.0.workspaces.get(id);
        let response = match self.0.admissions.admit(request.client_request_id.as_deref()) {
            Err(e) => Response::failed(e.into()),
            Ok(_admission) if request.op == Op::DropWorkspace => Response::ok(self.drop_answer(id).await),
            Ok(_admission) => self.init_workspace(id, request).await.map_or_else(Response::failed, Response::ok),
        };
        if let Some(workspace) = self.0.workspaces.get(id).or(before) {
            let outcome = response.outcome.as_ref().map(|_| ());
            workspace.metrics(Backend::Lean).record(request.op, outcome, started.elapsed());
        }
        response
    }

    async fn drop_answer(&self, id: &str) -> Value {
        let Dropped { dropped, invalidated_handles } = self.drop_workspace(id).await;
        let mut answer = json!({ "workspace_id": id, "dropped": dropped, "invalidated_handles": invalidated_handles });
        if !dropped {
            answer["reason"] = "notFound".into();
        }
        answer
    }

    async fn init_workspace(&self, id: &str, request: &Request) -> Result<Value, ErrorBody> {
        let given = request.root.clone().unwrap_or_default();
        let root = AbsPath::canonical(Path::new(&given)).map_err(|error| OpenError::Root { given, error })?;
        if !root.is_dir() {
            return Err(OpenError::NotFolder(root).into());
        }
        let choice = match request.args.lean_cmd.as_deref() {
            None => self.0.settings.choice.clone(),
            Some("embedded") => Choice::Embedded,
            Some(path) => Choice::Lean(AbsPath::resolve(&root, path)),
        };
        let mode = request.args.workspace_mode.unwrap_or_default();
        let (opened, displaced) = self.0.workspaces.open(id, root, choice, mode, &self.0.settings)?;
        if let Some(old) = displaced {
            drop(tokio::spawn(async move { old.shut_down(DROP_GRACE).await }).await);
        }
        let mode = serde_json::to_value(mode).unwrap_or_default();
        let mut answer = json!({
            "workspace_id": id,
            "root": opened.root,
            "initialized": true,
            "mode": mode,
            "runtime_reused": opened.reused,
            "invalidated_handles": opened.replaced.is_some(),
        });
        if let Some(old) = opened.replaced {
            answer["previous_root"] = json!(old);
        }
        Ok(answer)
    }
}
