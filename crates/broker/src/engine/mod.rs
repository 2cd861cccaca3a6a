//! The engine: takes a request, runs it to its one end, and answers. The fronts (daemon, MCP) differ only in how they carry the frames.

mod admission;
mod authority;
mod barrier;
pub(crate) mod diagnostics;
mod failure;
mod history;
mod imports;
mod lake;
mod ledger;
mod metrics;
mod observe;
mod ops;
mod save;
mod source;
mod staleness;
mod workspace;
mod workspaces;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use beam_base::AbsPath;
use beam_toolchain::{Choice, HostEnv};
use beam_wire::request::Decoded;
use beam_wire::stream::Event;
use beam_wire::{Backend, ErrorBody, FailureCode, Op, Request, Response, Scope};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use admission::{Admission, Admissions};
pub use workspace::SetupFailure;
use workspace::Workspace;
pub use workspace::worker_command;
use workspaces::Workspaces;
pub use workspaces::{Dropped, Opened};

/// What all workspaces of an engine have in common.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// The environment in which toolchains are looked for.
    pub env: HostEnv,
    /// Which toolchain is wanted, where a workspace does not say.
    pub choice: Choice,
    /// How long a worker may ignore a cancelled probe before it is replaced.
    pub cancel_grace: Duration,
    /// Whether modules that are imported may be built when a document is opened.
    pub build: BuildPolicy,
}

/// Whether what a file imports may be built when it has no artifacts, or old ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BuildPolicy {
    /// Built when a document is opened, as Lean's own default is.
    #[default]
    OnDemand,
    /// Refused, naming what would have to be built.
    Never,
}

impl EngineSettings {
    /// The usual settings: automatic toolchain choice, two seconds of grace unless `BEAM_CANCEL_GRACE_MS` says otherwise, builds on
    /// demand unless `BEAM_BUILD` is `never`.
    #[must_use]
    pub fn new(env: HostEnv) -> Self {
        let grace = env.var("BEAM_CANCEL_GRACE_MS").and_then(|ms| ms.parse().ok()).unwrap_or(2000);
        let cancel_grace = Duration::from_millis(grace);
        let build = if env.var("BEAM_BUILD") == Some("never") { BuildPolicy::Never } else { BuildPolicy::OnDemand };
        Self { env, choice: Choice::Auto, cancel_grace, build }
    }
}

/// What an engine is started with that has a workspace from the beginning.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Canonical root of the workspace.
    pub root: AbsPath,
    /// Its id.
    pub workspace_id: String,
    /// Everything else.
    pub settings: EngineSettings,
}

impl EngineConfig {
    /// The usual settings.
    #[must_use]
    pub fn new(root: AbsPath, workspace_id: impl Into<String>, env: HostEnv) -> Self {
        Self { root, workspace_id: workspace_id.into(), settings: EngineSettings::new(env) }
    }
}

/// The engine. Clones share it.
#[derive(Debug, Clone)]
pub struct Engine(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: EngineSettings,
    workspaces: Workspaces,
    admissions: Admissions,
    shutdown: CancellationToken,
    /// Milliseconds after `epoch` at which the last request began or ended.
    activity: AtomicU64,
    epoch: Instant,
    counting_since: Mutex<Instant>,
}

impl Engine {
    /// An engine with one workspace. Starts nothing.
    #[must_use]
    pub fn new(config: EngineConfig) -> Self {
        let choice = config.settings.choice.clone();
        let engine = Self::empty(config.settings);
        engine.0.workspaces.first(&config.workspace_id, config.root, choice, &engine.0.settings);
        engine
    }

    /// An engine without a workspace.
    #[must_use]
    pub fn empty(settings: EngineSettings) -> Self {
        let now = Instant::now();
        Self(Arc::new(Inner {
            settings,
            workspaces: Workspaces::default(),
            admissions: Admissions::default(),
            shutdown: CancellationToken::new(),
            activity: AtomicU64::new(0),
            epoch: now,
            counting_since: Mutex::new(now),
        }))
    }

    /// Runs one request to its one end. Events go out, in order, before it returns (R4). A panic inside fails this request alone (R5).
    /// Dropping the future cancels the request, down to Lean.
    pub async fn run(&self, request: Decoded, events: mpsc::Sender<Event>) -> Response {
        self.touch();
        let this = self.clone();
        // A task of its own: a panic becomes a value here, and dropping the handle aborts it.
        let response = match AbortOnDropHandle::new(tokio::spawn(
            async move { this.admit_and_run(request, events).await },
        ))
        .await
        {
            Ok(response) => response,
            Err(e) => Response::failed(ErrorBody::new(FailureCode::InternalError, panic_text(e))),
        };
        self.touch();
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
        self.0.epoch + Duration::from_millis(self.0.activity.load(Ordering::Relaxed))
    }

    /// Stops admitting, cancels, waits up to `grace` for requests and workers to end, kills what is left (R7).
    pub async fn drain(&self, grace: Duration) {
        self.0.admissions.close();
        // What looks for a toolchain or builds runs on threads that nobody can abort; its children can be ended.
        self.0.settings.env.end_children();
        self.0.workspaces.close(grace).await;
    }

    fn touch(&self) {
        let ms = u64::try_from(self.0.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.activity.store(ms, Ordering::Relaxed);
    }

    async fn admit_and_run(&self, request: Decoded, events: mpsc::Sender<Event>) -> Response {
        let started = Instant::now();
        let request = match request {
            Ok(request) => request,
            Err(rejected) => {
                if let Some((id, op)) = &rejected.about
                    && op.spec().tracked
                    && let Some(workspace) = self.0.workspaces.get(id)
                {
                    workspace.metrics(Backend::Lean).record(*op, Err(&rejected.error), started.elapsed());
                }
                return Response::failed(rejected.error);
            }
        };
        if !request.op.spec().tracked {
            return self.untracked(&request).await.map_or_else(Response::failed, Response::ok);
        }
        if matches!(request.op, Op::InitWorkspace | Op::DropWorkspace) {
            return self.change_workspaces(&request, started).await;
        }
        let workspace = match self.workspace_of(&request) {
            Ok(workspace) => workspace,
            Err(e) => return Response::failed(e),
        };
        let response = match self.0.admissions.admit(request.client_request_id.as_deref()) {
            Ok(admission) => tracked(&workspace, &request, &admission, events).await,
            Err(e) => Response::failed(e.into()),
        };
        let outcome = response.outcome.as_ref().map(|_| ());
        workspace.metrics(request.backend).record(request.op, outcome, started.elapsed());
        response
    }

    /// The workspace a request is about, after the checks common to all operations that have one (section 4).
    fn workspace_of(&self, request: &Request) -> Result<Arc<Workspace>, ErrorBody> {
        let bad = |message: String| ErrorBody::new(FailureCode::InvalidParams, message);
        let from_handle = request.args.handle.as_ref().map(|h| h.workspace_id.as_str());
        let id = match (request.workspace_id.as_deref(), from_handle) {
            (Some(id), Some(handle)) if id != handle => {
                return Err(bad(format!("the handle belongs to workspace \"{handle}\", the request names \"{id}\"")));
            }
            (Some(id), _) | (None, Some(id)) => id,
            (None, None) => return Err(bad(format!("{}: missing field `workspaceId`", request.op.name()))),
        };
        let workspace = self.0.workspaces.get(id).ok_or_else(|| bad(format!("there is no workspace \"{id}\"")))?;
        if let Some(root) = &request.root {
            check_root(root, workspace.root())?;
        }
        Ok(workspace)
    }

    /// Operations that are neither cancellable nor counted.
    async fn untracked(&self, request: &Request) -> Result<Value, ErrorBody> {
        let one = match (&request.workspace_id, request.op.spec().scope) {
            (Some(_), Scope::Optional) => Some(self.workspace_of(request)?),
            _ => None,
        };
        match request.op {
            Op::Cancel => {
                let id = request.args.cancel_request_id.as_deref().unwrap_or_default();
                Ok(json!({ "cancelled": self.0.admissions.cancel(id) }))
            }
            Op::Stats => self.stats(one).await,
            Op::OpenDocs => self.open_docs(one).await,
            Op::ResetStats => {
                for workspace in self.0.workspaces.all() {
                    workspace.reset_metrics();
                }
                *self.0.counting_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                Ok(json!({ "reset": true }))
            }
            Op::ListWorkspaces => Ok(self.0.workspaces.list()),
            Op::Shutdown => {
                self.0.shutdown.cancel();
                Ok(json!({ "shutdown": true }))
            }
            op => Err(ErrorBody::new(FailureCode::InternalError, format!("`{}` has no untracked form", op.name()))),
        }
    }

    fn uptime_ms(&self) -> u64 {
        let since = *self.0.counting_since.lock().unwrap_or_else(PoisonError::into_inner);
        u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn stats(&self, one: Option<Arc<Workspace>>) -> Result<Value, ErrorBody> {
        if let Some(workspace) = one {
            let mut stats = workspace.stats().await;
            stats.uptime_ms = Some(self.uptime_ms());
            return to_value(&stats);
        }
        let mut all = serde_json::Map::new();
        for workspace in self.0.workspaces.all() {
            all.insert(workspace.id().to_owned(), to_value(&workspace.stats().await)?);
        }
        Ok(json!({ "uptimeMs": self.uptime_ms(), "workspaces": all }))
    }

    async fn open_docs(&self, one: Option<Arc<Workspace>>) -> Result<Value, ErrorBody> {
        if let Some(workspace) = one {
            let sessions = to_value(&workspace.open_docs().await)?;
            return Ok(json!({ "workspace_id": workspace.id(), "root": workspace.root(), "sessions": sessions }));
        }
        let mut all = serde_json::Map::new();
        for workspace in self.0.workspaces.all() {
            let sessions = to_value(&workspace.open_docs().await)?;
            all.insert(workspace.id().to_owned(), json!({ "root": workspace.root(), "sessions": sessions }));
        }
        Ok(json!({ "workspaces": all }))
    }
}

/// Runs an admitted request; a cancellation that comes first wins at any point where it waits.
async fn tracked(
    workspace: &Arc<Workspace>,
    request: &Request,
    admission: &Admission,
    events: mpsc::Sender<Event>,
) -> Response {
    tokio::select! {
        biased;
        // Dropping the other branch drops its pending backend requests, and those cancel themselves at the worker.
        () = admission.cancelled().cancelled() => {
            Response::failed(ErrorBody::new(FailureCode::RequestCancelled, "the request was cancelled"))
        }
        response = ops::run(workspace, request, events) => response,
    }
}

/// The optional cross-check: `root` must be the workspace's own directory.
fn check_root(given: &str, root: &AbsPath) -> Result<(), ErrorBody> {
    let bad = |message: String| ErrorBody::new(FailureCode::InvalidParams, message);
    let resolved =
        AbsPath::canonical(Path::new(given)).map_err(|e| bad(format!("the root `{given}` does not resolve: {e}")))?;
    if resolved == *root {
        Ok(())
    } else {
        Err(bad(format!("the root `{resolved}` is not the workspace's root `{root}`")))
    }
}

fn to_value<T: serde::Serialize>(value: &T) -> Result<Value, ErrorBody> {
    serde_json::to_value(value)
        .map_err(|e| ErrorBody::new(FailureCode::InternalError, format!("the answer cannot be written as JSON: {e}")))
}

fn panic_text(e: JoinError) -> String {
    match e.try_into_panic() {
        Ok(panic) => {
            let what = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            format!("a defect of lean-beam ended this request: {what}")
        }
        Err(_) => "the request was aborted because the runtime is ending".to_owned(),
    }
}
