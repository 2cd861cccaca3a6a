//! The engine: takes a request, runs it to its one end, and answers. The fronts (daemon, MCP) differ only in how they carry the frames.
//!
//! Floors, from the ground up; a file imports only what is below it:
//! * what stands alone: settings, admissions, the disk, source files, history, counters, handles, diagnostics;
//! * `artifacts`: who builds what a text imports, and where its artifacts go;
//! * a workspace and its session; a document whose mirror holds what is on disk now; the barrier;
//! * `operation`: one function for each operation;
//! * this file: admission, cancellation, the one end of each request.
//!
//! Failures are [`error::EngineError`] up to here; `edge` gives them their code, message and data.

mod admission;
mod artifacts;
mod barrier;
mod common;
mod core;
pub(crate) mod diagnostics;
mod disk;
mod document;
mod edge;
mod error;
mod handles;
mod history;
mod import_looks;
mod live;
mod metrics;
mod observe;
mod operation;
mod registry;
mod save_locks;
mod settings;
mod source;
mod staleness;
mod workspace;

use std::sync::Arc;
use std::time::{Duration, Instant};

use beam_base::AbsPath;
use beam_wire::request::Decoded;
use beam_wire::stream::Event;
use beam_wire::workspace::WorkspaceMode;
use beam_wire::{Answer, Backend, ErrorBody, Operation, Request, Response};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

use self::core::EngineCore;
use admission::Admission;
use error::{Defect, EngineError, RequestCancelled};
use operation::Completed;
pub use registry::{Dropped, Opened};
pub use settings::{BuildPolicy, EngineConfig, EngineSettings};
pub use workspace::SetupFailure;
use workspace::Workspace;

/// The engine. Clones share it.
#[derive(Debug, Clone)]
pub struct Engine(Arc<EngineCore>);

impl Engine {
    /// An engine with one workspace. Starts nothing.
    #[must_use]
    pub fn new(config: EngineConfig) -> Self {
        let choice = config.settings.choice.clone();
        let engine = Self::empty(config.settings);
        engine.0.workspaces.first(&config.workspace_id, config.root, choice, &engine.0.common);
        engine
    }

    /// An engine without a workspace.
    #[must_use]
    pub fn empty(settings: EngineSettings) -> Self {
        Self(Arc::new(EngineCore::new(settings)))
    }

    /// Runs one request to its one end. Events go out, in order, before it returns (R4). A panic inside fails this request alone (R5).
    /// Dropping the future cancels the request, down to Lean.
    pub async fn run(&self, request: Decoded, events: mpsc::Sender<Event>) -> Response<Answer> {
        self.0.touch();
        let core = Arc::clone(&self.0);
        // A task of its own: a panic becomes a value here, and dropping the handle aborts it.
        let response = match AbortOnDropHandle::new(tokio::spawn(
            async move { admit_and_run(&core, request, events).await },
        ))
        .await
        {
            Ok(response) => response,
            Err(e) => Response::failed(EngineError::from(ended(e)).into()),
        };
        self.0.touch();
        response
    }

    /// Resolves once `shutdown` was asked. The response to that request has not gone out yet.
    pub async fn shutdown_asked(&self) {
        self.0.shutdown.cancelled().await;
    }

    /// Tracked requests in flight.
    #[must_use]
    pub fn active_requests(&self) -> usize {
        self.0.admissions.active()
    }

    /// When a request last began or ended.
    #[must_use]
    pub fn last_activity(&self) -> Instant {
        self.0.last_activity()
    }

    /// Stops admitting, cancels, waits up to `grace` for requests and workers to end, kills what is left (R7).
    pub async fn drain(&self, grace: Duration) {
        self.0.admissions.close();
        // What looks for a toolchain or builds runs on threads that nobody can abort; its children can be ended.
        self.0.common.settings.env.end_children();
        self.0.workspaces.close(grace).await;
    }

    /// The workspace `id` over `root`, made if it is not there. Starts nothing.
    ///
    /// # Errors
    /// The id has another root, the root another id, or the engine is ending.
    pub fn open_workspace(&self, id: &str, root: AbsPath) -> Result<Opened, ErrorBody> {
        let choice = self.0.common.settings.choice.clone();
        let (opened, _) = self.0.workspaces.open(id, root, choice, WorkspaceMode::Set, &self.0.common)?;
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
        operation::workspaces::drop_workspace(&self.0, id).await
    }

    /// What `stats` answers, for all workspaces or for one; `None` for an id that is unknown.
    pub async fn stats_value(&self, id: Option<&str>) -> Option<Value> {
        let one = match id {
            Some(id) => Some(self.0.workspaces.get(id)?),
            None => None,
        };
        Some(Answer::from(operation::statistics::stats(&self.0, one.as_deref()).await).to_value())
    }

    /// What `open_docs` answers for one workspace; `None` for an id that is unknown.
    pub async fn open_docs_value(&self, id: &str) -> Option<Value> {
        let one = self.0.workspaces.get(id)?;
        Some(Answer::from(operation::statistics::open_docs(&self.0, Some(&one)).await).to_value())
    }
}

async fn admit_and_run(core: &EngineCore, request: Decoded, events: mpsc::Sender<Event>) -> Response<Answer> {
    let started = Instant::now();
    let request = match request {
        Ok(request) => request,
        Err(rejected) => {
            if let Some((id, op)) = &rejected.about
                && op.spec().tracked
                && let Some(workspace) = core.workspaces.get(id)
            {
                workspace.metrics(Backend::Lean).record(*op, Err(&rejected.error), started.elapsed());
            }
            return Response::failed(rejected.error);
        }
    };
    if !request.op().spec().tracked {
        return respond(operation::process::run(core, &request).await.map(Completed::from));
    }
    // A workspace that is made or dropped is counted where it is there: before, or after.
    let changes = matches!(request.operation, Operation::InitWorkspace(_) | Operation::DropWorkspace(_));
    let before = if changes {
        request.workspace_id.as_deref().and_then(|id| core.workspaces.get(id))
    } else {
        match core.workspace_of(&request).await {
            Ok(workspace) => Some(workspace),
            Err(e) => return respond(Err(e)),
        }
    };
    let response = match core.admissions.admit(request.client_request_id.as_deref()) {
        Err(e) => respond(Err(e.into())),
        // Never left half done by a cancellation.
        Ok(_admission) if changes => respond(operation::workspaces::run(core, &request).await.map(Completed::from)),
        Ok(admission) => match &before {
            Some(workspace) => respond(until_cancelled(workspace, &request, &admission, events).await),
            None => respond(Err(Defect::NotDispatched(request.op()).into())),
        },
    };
    let after = request.workspace_id.as_deref().filter(|_| changes).and_then(|id| core.workspaces.get(id));
    if let Some(workspace) = after.or(before) {
        let outcome = response.outcome.as_ref().map(|_| ());
        workspace.metrics(request.backend).record(request.op(), outcome, started.elapsed());
    }
    response
}

/// Runs an admitted request; a cancellation that comes first wins at any point where it waits.
async fn until_cancelled(
    workspace: &Arc<Workspace>,
    request: &Request,
    admission: &Admission,
    events: mpsc::Sender<Event>,
) -> Result<Completed, EngineError> {
    tokio::select! {
        biased;
        // Dropping the other branch drops its pending backend requests, and those cancel themselves at the worker.
        () = admission.cancelled().cancelled() => Err(RequestCancelled.into()),
        outcome = operation::run(workspace, request, events) => outcome,
    }
}

/// The one end of a request.
fn respond(outcome: Result<Completed, EngineError>) -> Response<Answer> {
    match outcome {
        Ok(Completed { answer, progress }) => Response::ok(answer).with_progress(progress),
        Err(e) => Response::failed(e.into()),
    }
}

fn ended(e: JoinError) -> Defect {
    match e.try_into_panic() {
        Ok(panic) => Defect::Panic(
            panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message")
                .to_owned(),
        ),
        Err(_) => Defect::Aborted,
    }
}
