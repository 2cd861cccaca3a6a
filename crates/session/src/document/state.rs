//! A document and its worker: what the task owns, and the few things that every part of it does.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use beam_base::AbsPath;
use beam_lean::ilean::Rename;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::abandoned::AbandonedWork;
use crate::config::BuildMode;
use crate::error::{ExitReason, RequestFailure, WorkerExit};
use crate::info::{DocumentInfo, WorkerState, WorkerSummary};
use crate::lifecycle::{Lifecycle, Transition};
use crate::lsp;
use crate::message::{ToDocument, ToRouter};
use crate::mirror::{Mirror, Snapshot};
use crate::observation::{Observer, Published, StrayOutput};
use crate::pending::RequestTable;
use crate::process::EndStatus;
use crate::progress::Progress;
use crate::reference_index::ReferenceIndex;
use crate::request::Reply;
use crate::setup::SetupReport;
use crate::shared::{Shared, Tally};
use crate::worker::{NotReading, Worker};
use crate::worker_message::DirectImport;

/// How many bytes of stray output are kept.
const STRAY_KEPT: usize = 64 * 1024;

/// What a document task can reach. All weak but the last, which is held on behalf of its workers.
pub(crate) struct Links {
    pub(crate) router: mpsc::WeakUnboundedSender<ToRouter>,
    pub(crate) own: mpsc::WeakUnboundedSender<ToDocument>,
    pub(crate) alive: mpsc::Sender<()>,
}

pub(super) struct Document {
    pub(super) shared: Arc<Shared>,
    pub(super) links: Links,
    pub(super) path: AbsPath,
    pub(super) uri: String,
    /// The module it would be by its place, and how its worker may call it instead.
    pub(super) module: Option<String>,
    pub(super) rename: Option<Rename>,
    pub(super) mirror: Mirror,
    pub(super) lifecycle: Lifecycle,
    /// What goes on before a worker is started.
    pub(super) preparing: Option<Preparing>,
    /// Preparations begun, so that what an earlier one has to say is not taken for this one's.
    pub(super) rounds: u64,
    /// What was found out about the present worker's imports.
    pub(super) setup: Option<Arc<SetupReport>>,
    /// A worker started ahead, for the first start only.
    pub(super) spare: Option<Worker>,
    pub(super) build_mode: BuildMode,
    pub(super) starts: u64,
    pub(super) last_exit: Option<WorkerExit>,
    /// Why the worker before the present one was lost or replaced, unless somebody asked for it.
    pub(super) replaced: Option<String>,
    pub(super) pending: RequestTable,
    pub(super) progress: Option<Progress>,
    /// When that was last heard of, or became expected: since the edit, or the start.
    pub(super) heard_at: Instant,
    /// Elaboration of texts that were replaced.
    pub(super) abandoned: AbandonedWork,
    /// The latest diagnostics, for the increments to come.
    pub(super) published: Option<Published>,
    pub(super) stray: StrayTail,
    pub(super) direct_imports: Vec<DirectImport>,
    pub(super) import_closure: HashSet<String>,
    pub(super) index: ReferenceIndex,
}

/// The imports are being made ready; dropping it stops that. There is no worker meanwhile, and requests stand in line.
pub(super) struct Preparing {
    /// For which text.
    pub(super) text: Arc<str>,
    pub(super) _task: AbortOnDropHandle<()>,
}

/// The end of what a worker printed besides messages.
#[derive(Debug, Default)]
pub(super) struct StrayTail {
    tail: VecDeque<u8>,
    bytes: u64,
}

impl StrayTail {
    pub(super) fn push(&mut self, more: &[u8]) {
        self.bytes += more.len() as u64;
        self.tail.extend(&more[more.len().saturating_sub(STRAY_KEPT)..]);
        let over = self.tail.len().saturating_sub(STRAY_KEPT);
        self.tail.drain(..over);
    }

    pub(super) fn output(&self) -> Option<StrayOutput> {
        let bytes: Vec<u8> = self.tail.iter().copied().collect();
        (self.bytes > 0).then(|| StrayOutput { text: String::from_utf8_lossy(&bytes).into(), bytes: self.bytes })
    }
}

impl Document {
    pub(super) fn new(shared: Arc<Shared>, links: Links, path: AbsPath, snap: Snapshot, spare: Option<Worker>) -> Self {
        let uri = lsp::uri_of(&path);
        let module = shared.library.roots().module_of(&path);
        let mirror = Mirror::open(snap, || shared.config.versions.next(&path));
        Self {
            rename: module.clone().map(|module| Rename::external(&uri, module)),
            module,
            uri,
            build_mode: shared.config.build_mode,
            shared,
            links,
            path,
            mirror,
            lifecycle: Lifecycle::Idle,
            preparing: None,
            rounds: 0,
            setup: None,
            spare,
            starts: 0,
            last_exit: None,
            replaced: None,
            pending: RequestTable::default(),
            progress: None,
            heard_at: Instant::now(),
            abandoned: AbandonedWork::default(),
            published: None,
            stray: StrayTail::default(),
            direct_imports: Vec::new(),
            import_closure: HashSet::new(),
            index: ReferenceIndex::default(),
        }
    }

    /// Sends one message; a worker that does not read is lost.
    pub(super) fn send(&mut self, body: Vec<u8>) {
        if let Some(live) = self.lifecycle.live()
            && let Err(NotReading) = live.worker.send(body)
        {
            self.lose(ExitReason::Unresponsive, None);
        }
    }

    /// Lets go of the worker for what it did, and ends every request that waits for it.
    pub(super) fn lose(&mut self, reason: ExitReason, status: Option<EndStatus>) {
        let Some((live, _)) = self.lifecycle.advance(Transition::Ended) else { return };
        let exit = self.exit(reason, status, live.worker.stderr_tail());
        live.worker.kill();
        tracing::warn!(uri = %self.uri, reason = %exit, "a file worker was lost");
        let _ = Tally::add(&self.shared.tally.worker_losses);
        if exit.reason != ExitReason::Killed {
            self.replaced = Some(exit.reason.cause());
        }
        self.last_exit = Some(exit.clone());
        for request in self.pending.take_lost(|_| false) {
            request.end(Err(RequestFailure::WorkerExited(Box::new(exit.clone()))));
        }
    }

    pub(super) fn exit(&self, reason: ExitReason, status: Option<EndStatus>, stderr_tail: Vec<String>) -> WorkerExit {
        WorkerExit { reason, status, stderr_tail, uri: self.uri.clone() }
    }

    pub(super) fn reply(&self, value: Box<RawValue>) -> Reply {
        Reply {
            value,
            epoch: self.shared.config.epoch,
            uri: self.uri.clone(),
            worker: self.starts,
            version: self.mirror.version,
            progress: self.progress,
            stray_output: self.stray.output(),
            replaced: self.replaced.clone(),
            setup: self.setup.clone(),
        }
    }

    pub(super) fn info(&self) -> DocumentInfo {
        DocumentInfo {
            path: self.path.clone(),
            uri: self.uri.clone(),
            version: self.mirror.version,
            hash: self.mirror.hash,
            mtime: self.mirror.mtime,
            progress: self.progress,
            direct_imports: self.direct_imports.clone(),
            pending: self.pending.waiting().count(),
            stray_output: self.stray.output(),
            worker: WorkerSummary {
                state: if self.preparing.is_some() { WorkerState::Preparing } else { self.lifecycle.state() },
                pid: self.lifecycle.pid(),
                starts: self.starts,
                last_exit: self.last_exit.clone(),
            },
        }
    }

    /// Shows something to every request that watches.
    pub(super) fn show(&self, what: impl Fn(&Observer)) {
        self.pending.observers().for_each(what);
    }
}
