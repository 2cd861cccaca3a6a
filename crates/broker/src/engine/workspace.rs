//! A workspace: one root, at most one session per backend, and what is remembered about them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use beam_base::AbsPath;
use beam_process::StopOnDrop;
use beam_project::Project;
use beam_session::{CommandSpawn, DocumentInfo, IndexRoots, Session, SessionConfig, WorkerCommand};
use beam_toolchain::{Choice, WorkerLaunch};
use beam_wire::stats::{DiskStatus, OpenDoc, OpenDocs, PerBackend, SessionStats, WorkspaceStats};
use beam_wire::{Backend, ErrorBody, FailureCode};

use super::authority::Authority;
use super::history::History;
use super::imports::Imports;
use super::ledger::{Basis, Ledger};
use super::metrics::Metrics;
use super::{BuildPolicy, EngineSettings, observe, source};
use crate::qualify::Qualifier;

#[derive(Debug)]
pub(crate) struct Workspace {
    id: String,
    root: AbsPath,
    choice: Choice,
    settings: EngineSettings,
    lean: Mutex<Slot>,
    /// Whoever comes while a session is being started waits for that start instead of beginning another. Apart from the slot, so that
    /// `stats`, by which a daemon shows that it lives, is answered meanwhile.
    starting: tokio::sync::Mutex<()>,
    lean_metrics: Metrics,
    rocq_metrics: Metrics,
}

#[derive(Debug)]
enum Slot {
    /// None runs; the next one gets this epoch.
    Idle {
        next_epoch: u64,
    },
    Running(Arc<Live>),
    /// The engine is going away.
    Closed,
}

/// What a session needs to be started.
struct Ready {
    launch: WorkerLaunch,
    project: Arc<Project>,
    authority: Arc<Authority>,
}

/// A running session and what belongs to its lifetime.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) session: Session,
    pub(crate) ledger: Ledger,
    /// Folders that may hold artifacts of the workspace's modules.
    built: Vec<AbsPath>,
    pub(crate) project: Arc<Project>,
    authority: Arc<Authority>,
    history: Mutex<History>,
    /// The version of each document that was saved last.
    checkpoints: Mutex<HashMap<AbsPath, u64>>,
}

impl Live {
    /// Whether a module has an artifact that is no older than its source.
    pub(crate) fn is_built(&self, module: &str, source: &AbsPath) -> bool {
        let modified = |path: &AbsPath| std::fs::metadata(path).and_then(|m| m.modified()).ok();
        let artifact = format!("{}.olean", module.replace('.', "/"));
        let Some(written) = modified(source) else { return false };
        self.built.iter().filter_map(|dir| modified(&dir.join(&artifact))).any(|built| built >= written)
    }

    /// The module that a file is, as importers name it.
    pub(crate) fn module_of(&self, path: &AbsPath) -> Option<String> {
        self.project.module_of(path).map(|module| module.name.to_string())
    }

    /// Whether `lake build` means anything here.
    pub(crate) fn has_lake(&self) -> bool {
        self.authority.is_lake()
    }

    /// Who knows about this project's modules and their artifacts.
    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Files that the session depends on, was started with, and that are others now. Reads a handful of small files. Blocking.
    pub(crate) fn config_changed(&self) -> Vec<AbsPath> {
        self.project.config_stamp().changed()
    }

    fn checkpoints(&self) -> MutexGuard<'_, HashMap<AbsPath, u64>> {
        self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A version was saved.
    pub(crate) fn checkpointed(&self, path: &AbsPath, version: u64) {
        self.checkpoints().insert(path.clone(), version);
    }

    /// A document's versions start over.
    pub(crate) fn reopened(&self, path: &AbsPath) {
        self.checkpoints().remove(path);
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Workspace {
    pub(crate) fn new(id: &str, root: AbsPath, choice: Choice, settings: &EngineSettings) -> Self {
        Self {
            id: id.to_owned(),
            root,
            choice,
            settings: settings.clone(),
            lean: Mutex::new(Slot::Idle { next_epoch: 1 }),
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
        self.lean_metrics.reset();
        self.rocq_metrics.reset();
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.lean.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The running session, if there is one. Never waits.
    pub(crate) fn running(&self) -> Option<Arc<Live>> {
        match &*self.slot() {
            Slot::Running(live) => Some(Arc::clone(live)),
            Slot::Idle { .. } | Slot::Closed => None,
        }
    }

    /// The session, started if none runs.
    pub(crate) async fn live(&self) -> Result<Arc<Live>, SetupFailure> {
        if let Some(live) = self.running() {
            return Ok(live);
        }
        let _only_one_starts = self.starting.lock().await;
        let epoch = match &*self.slot() {
            Slot::Running(live) => return Ok(Arc::clone(live)),
            Slot::Closed => return Err(SetupFailure::Closing),
            Slot::Idle { next_epoch } => *next_epoch,
        };
        let Ready { launch, project, authority } = self.prepare().await?;
        let index = index_roots(&project, &launch);
        let built = index.ileans.clone();
        let build = self.settings.build;
        let mut config = SessionConfig::new(self.root.clone(), epoch, Arc::new(CommandSpawn(worker_command(launch))));
        config.cancel_grace = self.settings.cancel_grace;
        config.build_mode = match build {
            BuildPolicy::OnDemand => beam_session::BuildMode::Always,
            BuildPolicy::Never => beam_session::BuildMode::Never,
        };
        if authority.knows_texts() {
            let imports = Imports::new(Arc::clone(&project), Arc::clone(&authority), build);
            config.setup = Some(Arc::new(imports));
        }
        config.index = index;
        let mut slot = self.slot();
        if matches!(*slot, Slot::Closed) {
            // Closed while it was being prepared; nothing has been started yet.
            return Err(SetupFailure::Closing);
        }
        let session = Session::new(config);
        let live = Arc::new(Live {
            session,
            ledger: Ledger::default(),
            built,
            project,
            authority,
            history: Mutex::default(),
            checkpoints: Mutex::default(),
        });
        self.lean_metrics.session_started();
        *slot = Slot::Running(Arc::clone(&live));
        Ok(live)
    }

    /// Finds the toolchain and makes sure that our extension is built and qualified for it. Minutes when it is not, milliseconds when it is.
    async fn prepare(&self) -> Result<Ready, SetupFailure> {
        let (root, env, choice) = (self.root.clone(), self.settings.env.clone(), self.choice.clone());
        // Dropped with this future: the blocking thread cannot be aborted, but its compilers are ended.
        let stop = StopOnDrop::default();
        let stoppable = env.clone().stopped_by(stop.flag());
        tokio::task::spawn_blocking(move || {
            let prepared = crate::qualify::prepare(&root, &stoppable, &choice, &Qualifier, &beam_toolchain::Silent)?;
            let project = Arc::new(Project::read(&root));
            let (authority, launch) = Authority::of(prepared, &project, &env);
            Ok(Ready { launch, project, authority: Arc::new(authority) })
        })
        .await
        .map_err(|e| SetupFailure::Defect(e.to_string()))?
        .map_err(SetupFailure::Toolchain)
    }

    /// Ends every session; later requests get none (R7).
    pub(crate) async fn shut_down(&self, grace: Duration) {
        let old = std::mem::replace(&mut *self.slot(), Slot::Closed);
        if let Slot::Running(live) = old {
            live.session.shutdown(grace).await;
        }
    }

    pub(crate) async fn stats(&self) -> WorkspaceStats {
        let (lean, restarts) = match self.running() {
            Some(live) => {
                let docs = live.session.documents().await;
                let stats = SessionStats::Active {
                    active: true,
                    workspace_id: self.id.clone(),
                    root: self.root.to_string(),
                    epoch: live.session.epoch(),
                    open_doc_count: u64::try_from(docs.len()).unwrap_or(u64::MAX),
                    handle_count: live.ledger.count(&bases(&docs)),
                    config_changed: !live.config_changed().is_empty(),
                };
                (stats, live.session.counters().worker_restarts)
            }
            None => (SessionStats::Inactive { active: false }, 0),
        };
        WorkspaceStats {
            id: self.id.clone(),
            root: self.root.to_string(),
            sessions: PerBackend { lean, rocq: SessionStats::Inactive { active: false } },
            by_backend: PerBackend { lean: self.lean_metrics.report(restarts), rocq: self.rocq_metrics.report(0) },
            uptime_ms: None,
        }
    }

    pub(crate) async fn open_docs(&self) -> PerBackend<OpenDocs> {
        let lean = match self.running() {
            Some(live) => {
                let docs = live.session.documents().await;
                let saved = live.checkpoints().clone();
                let mut files: Vec<_> =
                    docs.into_iter().map(|doc| self.open_doc(saved.get(&doc.path).copied(), doc)).collect();
                files.sort_by(|a, b| a.path.cmp(&b.path));
                OpenDocs { active: true, files }
            }
            None => OpenDocs { active: false, files: Vec::new() },
        };
        PerBackend { lean, rocq: OpenDocs { active: false, files: Vec::new() } }
    }

    fn open_doc(&self, saved: Option<u64>, doc: DocumentInfo) -> OpenDoc {
        let disk_status = match source::read(&doc.path) {
            Ok(s) if beam_lean::lean_text_hash(&beam_lean::normalize_newlines(&s.text)) == doc.hash => {
                DiskStatus::MatchesTracked
            }
            Ok(_) => DiskStatus::DiffersFromTracked,
            Err(source::SourceError::Missing(_)) => DiskStatus::Missing,
            Err(_) => DiskStatus::Unknown,
        };
        OpenDoc {
            uri: doc.uri,
            version: doc.version,
            disk_status,
            checkpointed: disk_status == DiskStatus::MatchesTracked && saved == Some(doc.version),
            path: Some(doc.path.display_in(&self.root)),
            file_progress: doc.progress.map(observe::progress),
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

impl From<SetupFailure> for ErrorBody {
    fn from(e: SetupFailure) -> Self {
        let code = match e {
            SetupFailure::Closing => FailureCode::RequestCancelled,
            SetupFailure::Toolchain(_) | SetupFailure::Defect(_) => FailureCode::InternalError,
        };
        Self::new(code, e.to_string())
    }
}

/// What every open document's handles are bound to now.
fn bases(docs: &[DocumentInfo]) -> HashMap<AbsPath, Basis> {
    docs.iter().map(|d| (d.path.clone(), (d.version, d.worker.starts))).collect()
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

/// The session crate must not see the toolchain crate, so somebody above both translates.
#[must_use]
pub fn worker_command(launch: WorkerLaunch) -> WorkerCommand {
    WorkerCommand {
        program: launch.program.as_os_str().to_owned(),
        args: launch.args,
        env: launch.env,
        env_remove: launch.env_remove,
        cwd: launch.cwd,
    }
}
