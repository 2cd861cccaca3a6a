//! A workspace: one root, at most one session per backend, and what is remembered about them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use beam_base::AbsPath;
use beam_process::StopOnDrop;
use beam_project::Project;
use beam_session::{CommandSpawn, IndexRoots, Session, SessionConfig};
use beam_toolchain::{Choice, WorkerLaunch};
use beam_wire::Backend;

use super::artifacts::authority::Authority;
use super::artifacts::imports::Imports;
use super::common::Common;
use super::disk::Disk;
use super::live::LiveSession;
use super::metrics::Metrics;
use super::settings::BuildPolicy;
use crate::qualify::Qualifier;
use crate::worker::worker_command;

#[derive(Debug)]
pub(crate) struct Workspace {
    id: String,
    root: AbsPath,
    choice: Choice,
    common: Common,
    /// Its own places: a workspace on a dead mount stops itself and no other.
    disk: Disk,
    lean: Mutex<SessionSlot>,
    /// Whoever comes while a session is being started waits for that start instead of beginning another. Apart from the slot, so that
    /// `stats`, by which a daemon shows that it lives, is answered meanwhile.
    starting: tokio::sync::Mutex<()>,
    lean_metrics: Metrics,
    rocq_metrics: Metrics,
}

#[derive(Debug)]
enum SessionSlot {
    /// None runs; the next one gets this epoch.
    Idle {
        next_epoch: u64,
    },
    Running(Arc<LiveSession>),
    /// The engine is going away.
    Closed,
}

/// What a session needs to be started.
struct SessionParts {
    launch: WorkerLaunch,
    project: Arc<Project>,
    authority: Arc<Authority>,
}

impl Workspace {
    pub(crate) fn new(id: &str, root: AbsPath, choice: Choice, common: Common) -> Self {
        Self {
            id: id.to_owned(),
            root,
            choice,
            common,
            disk: Disk::default(),
            lean: Mutex::new(SessionSlot::Idle { next_epoch: 1 }),
            starting: tokio::sync::Mutex::default(),
            lean_metrics: Metrics::default(),
            rocq_metrics: Metrics::default(),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn root(&self) -> &AbsPath {
        &self.root
    }

    /// Which toolchain it was told to use.
    pub(crate) fn choice(&self) -> &Choice {
        &self.choice
    }

    pub(crate) fn metrics(&self, backend: Backend) -> &Metrics {
        match backend {
            Backend::Lean => &self.lean_metrics,
            Backend::Rocq => &self.rocq_metrics,
        }
    }

    pub(crate) fn reset_metrics(&self) {
        let restarts = self.running().map_or(0, |live| live.session.counters().worker_restarts);
        self.lean_metrics.reset(restarts);
        self.rocq_metrics.reset(0);
    }

    /// The workspace's access to the disk.
    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    fn slot(&self) -> MutexGuard<'_, SessionSlot> {
        self.lean.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The running session, if there is one. Never waits.
    pub(crate) fn running(&self) -> Option<Arc<LiveSession>> {
        match &*self.slot() {
            SessionSlot::Running(live) => Some(Arc::clone(live)),
            SessionSlot::Idle { .. } | SessionSlot::Closed => None,
        }
    }

    /// The session, started if none runs.
    pub(crate) async fn live(&self) -> Result<Arc<LiveSession>, SetupFailure> {
        if let Some(live) = self.running() {
            return Ok(live);
        }
        let _only_one_starts = self.starting.lock().await;
        let epoch = match &*self.slot() {
            SessionSlot::Running(live) => return Ok(Arc::clone(live)),
            SessionSlot::Closed => return Err(SetupFailure::Closing),
            SessionSlot::Idle { next_epoch } => *next_epoch,
        };
        let SessionParts { launch, project, authority } = self.prepare().await?;
        let index = index_roots(&project, &launch);
        let built = index.ileans.clone();
        let build = self.common.settings.build;
        let mut config = SessionConfig::new(self.root.clone(), epoch, Arc::new(CommandSpawn(worker_command(launch))));
        config.cancel_grace = self.common.settings.cancel_grace;
        config.build_mode = match build {
            BuildPolicy::OnDemand => beam_session::BuildMode::Always,
            BuildPolicy::Never => beam_session::BuildMode::Never,
        };
        if authority.knows_texts() {
            let imports = Imports::new(Arc::clone(&project), Arc::clone(&authority), build);
            config.setup = Some(Arc::new(imports));
        }
        config.index = index;
        config.versions = self.common.versions.clone();
        let mut slot = self.slot();
        if matches!(*slot, SessionSlot::Closed) {
            // Closed while it was being prepared; nothing has been started yet.
            return Err(SetupFailure::Closing);
        }
        let session = Session::new(config);
        let (disk, common) = (self.disk.clone(), self.common.clone());
        let live = Arc::new(LiveSession::new(session, project, authority, built, disk, common));
        self.lean_metrics.session_started();
        *slot = SessionSlot::Running(Arc::clone(&live));
        Ok(live)
    }

    /// Finds the toolchain and makes sure that our extension is built and qualified for it. Minutes when it is not, milliseconds when it is.
    async fn prepare(&self) -> Result<SessionParts, SetupFailure> {
        let (root, env, choice) = (self.root.clone(), self.common.settings.env.clone(), self.choice.clone());
        // Dropped with this future: the blocking thread cannot be aborted, but its compilers are ended.
        let stop = StopOnDrop::default();
        let stoppable = env.clone().stopped_by(stop.flag());
        tokio::task::spawn_blocking(move || {
            let prepared = crate::qualify::prepare(&root, &stoppable, &choice, &Qualifier, &beam_toolchain::Silent)?;
            let project = Arc::new(Project::read(&root));
            let (authority, launch) = Authority::of(prepared, &project, &env);
            Ok(SessionParts { launch, project, authority: Arc::new(authority) })
        })
        .await
        .map_err(|e| SetupFailure::Defect(e.to_string()))?
        .map_err(SetupFailure::Toolchain)
    }

    /// Ends every session; later requests get none (R7).
    pub(crate) async fn shut_down(&self, grace: Duration) {
        let old = std::mem::replace(&mut *self.slot(), SessionSlot::Closed);
        if let SessionSlot::Running(live) = old {
            live.session.shutdown(grace).await;
        }
    }
}

/// Why a workspace has no session.
#[derive(Debug, thiserror::Error)]
pub enum SetupFailure {
    /// No usable toolchain, or the extension does not build on it.
    #[error(transparent)]
    Toolchain(#[from] crate::qualify::PrepareError),
    /// The workspace was dropped, or the process is ending.
    #[error("the workspace is being shut down; ask again to start it anew")]
    Closing,
    /// A defect of ours.
    #[error("looking for a Lean toolchain failed: {0}")]
    Defect(String),
}

/// Where references of closed files are found: built modules and sources, of the workspace first, then of what is on Lean's paths.
fn index_roots(project: &Project, launch: &WorkerLaunch) -> IndexRoots {
    let on_path = |name: &str| -> Vec<AbsPath> {
        let value = launch.env.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        std::env::split_paths(&value.unwrap_or_default()).filter_map(|p| AbsPath::new(p).ok()).collect()
    };
    let mut ileans = project.lib_dirs();
    ileans.extend(on_path("LEAN_PATH"));
    let mut sources = project.source_dirs();
    sources.extend(on_path("LEAN_SRC_PATH"));
    IndexRoots { ileans, sources }
}
