//! The document task: one open file, its mirror (S4), its worker's life (S6) and its pending requests (S2, S3).
//!
//! Everything happens in [`Document::handle`], synchronously, one step at a time; the only await is for the next step. Whatever ends
//! this task (closing, shutdown, the last handle gone, a panic) drops the table and the worker: callers learn it, the process dies.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use beam_base::rpc::{self, Incoming, RequestId, RpcError};
use beam_base::{AbsPath, Utf16Pos};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::config::BuildMode;
use crate::error::{ExitReason, Modified, RequestFailure, WorkerExit};
use crate::ilean::{self, FileIndex, Ident, Rename};
use crate::life::{self, Life, Live, WorkerState, WorkerSummary};
use crate::lsp;
use crate::mirror::{Applied, Mirror, Snapshot, Step};
use crate::navigate::{self, Composed, Defined, InDocument};
use crate::notice::{self, DirectImport, Notice};
use crate::pending::{Answered, Patience, Place, Queued, Stopped, Table};
use crate::process::{EndStatus, Usage};
use crate::progress::Progress;
use crate::reply::{Observation, Reply, tell};
use crate::router::ToRouter;
use crate::session::{DocumentInfo, Shared, Tally};
use crate::setup::{SetupLines, SetupReport};
use crate::worker::{Event, NotReading, Worker};

/// The exit code with which a worker says that its header changed and it wants to be replaced.
const HEADER_CHANGED: EndStatus = EndStatus::Code(2);

/// How many times the grace a worker is given that is kept from running.
const STARVED: u32 = 10;

/// Everything that may be asked of a document task.
pub(crate) enum ToDocument {
    Apply {
        snap: Snapshot,
        reply: oneshot::Sender<Applied>,
    },
    Request(Queued),
    Cancel {
        key: u64,
    },
    KillWorker {
        reply: oneshot::Sender<bool>,
    },
    Info {
        reply: oneshot::Sender<DocumentInfo>,
    },
    DependencyChanged {
        uri: String,
        module: Option<String>,
    },
    Locate {
        idents: Arc<[Ident]>,
        reply: oneshot::Sender<InDocument>,
    },
    Definitions {
        reply: oneshot::Sender<Defined>,
    },
    /// The answer to a composed request.
    Made {
        key: u64,
        value: Box<RawValue>,
    },
    /// A line of the log of what is done before a worker starts.
    SetupLine {
        round: u64,
        item: Value,
    },
    /// The imports are as ready as they will be.
    SetUp {
        round: u64,
        report: SetupReport,
    },
    Close,
    Shutdown {
        grace: Duration,
    },
}

/// What woke the task.
enum Wake {
    Timer,
    Asked(ToDocument),
    Worker(Event),
    /// The router is gone.
    Orphaned,
}

#[must_use]
enum Flow {
    Continue,
    End,
}

/// What a document task can reach. All weak but the last, which is held on behalf of its workers.
pub(crate) struct Links {
    pub(crate) router: navigate::Router,
    pub(crate) own: mpsc::WeakUnboundedSender<ToDocument>,
    pub(crate) alive: mpsc::Sender<()>,
}

pub(crate) struct Document {
    shared: Arc<Shared>,
    links: Links,
    path: AbsPath,
    uri: String,
    /// The module it would be by its place, and how its worker may call it instead.
    module: Option<String>,
    rename: Option<Rename>,
    mirror: Mirror,
    life: Life,
    /// What goes on before a worker is started.
    preparing: Option<Preparing>,
    /// Preparations begun, so that what an earlier one has to say is not taken for this one's.
    rounds: u64,
    /// What was found out about the present worker's imports.
    setup: Option<Arc<SetupReport>>,
    /// A worker started ahead, for the first start only.
    spare: Option<Worker>,
    build_mode: BuildMode,
    starts: u64,
    last_exit: Option<WorkerExit>,
    pending: Table,
    progress: Option<Progress>,
    direct_imports: Vec<DirectImport>,
    import_closure: HashSet<String>,
    index: FileIndex,
}

/// The imports are being made ready; dropping it stops that. There is no worker meanwhile, and requests stand in line.
struct Preparing {
    /// For which text.
    text: Arc<str>,
    _task: AbortOnDropHandle<()>,
}

impl Document {
    pub(crate) fn new(shared: Arc<Shared>, links: Links, path: AbsPath, snap: Snapshot, spare: Option<Worker>) -> Self {
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
            life: Life::Idle,
            preparing: None,
            rounds: 0,
            setup: None,
            spare,
            starts: 0,
            last_exit: None,
            pending: Table::default(),
            progress: None,
            direct_imports: Vec::new(),
            import_closure: HashSet::new(),
            index: FileIndex::default(),
        }
    }

    /// Opens the document and serves it until it is closed.
    pub(crate) async fn run(
        mut self,
        mut inbox: mpsc::UnboundedReceiver<ToDocument>,
        opened: oneshot::Sender<Applied>,
    ) {
        self.begin();
        tell(opened, Applied { opened: true, ..self.mirror.applied(Step::Changed) });
        loop {
            let wake_at = self.pending.next_wake();
            let wake = tokio::select! {
                // Time first, so that a chatty worker cannot hold up a deadline; then callers, whose edits make what the worker
                // has to say about the text before obsolete.
                biased;
                () = sleep_until(wake_at) => Wake::Timer,
                asked = inbox.recv() => asked.map_or(Wake::Orphaned, Wake::Asked),
                event = self.life.next_event() => Wake::Worker(event),
            };
            if let Flow::End = self.handle(wake) {
                return;
            }
            self.advance_line();
        }
    }

    fn handle(&mut self, wake: Wake) -> Flow {
        match wake {
            Wake::Timer => self.on_timer(),
            Wake::Worker(event) => self.on_event(event),
            Wake::Orphaned => return Flow::End,
            Wake::Asked(ToDocument::Apply { snap, reply }) => {
                let applied = self.apply(snap);
                tell(reply, applied);
            }
            Wake::Asked(ToDocument::Request(request)) => self.request(request),
            Wake::Asked(ToDocument::Cancel { key }) => self.stop(key, RequestFailure::Cancelled),
            Wake::Asked(ToDocument::KillWorker { reply }) => {
                let had_one = self.life.live().is_some();
                self.lose(ExitReason::Killed, None);
                tell(reply, had_one);
            }
            Wake::Asked(ToDocument::Info { reply }) => tell(reply, self.info()),
            Wake::Asked(ToDocument::DependencyChanged { uri, module }) => {
                if self.imports(&uri, module.as_deref()) {
                    self.send(lsp::stale_dependency(&uri));
                }
            }
            Wake::Asked(ToDocument::Locate { idents, reply }) => tell(reply, self.locate(&idents)),
            Wake::Asked(ToDocument::Definitions { reply }) => tell(reply, self.defined()),
            Wake::Asked(ToDocument::Made { key, value }) => {
                if let Some(request) = self.pending.made(key) {
                    request.end(Ok(self.reply(value)));
                }
            }
            Wake::Asked(ToDocument::SetupLine { round, item }) if round == self.rounds => {
                let version = self.mirror.version;
                self.pending.observe(&Observation::Diagnostics { version, items: vec![item] });
            }
            Wake::Asked(ToDocument::SetUp { round, report }) if round == self.rounds => self.on_set_up(report),
            // Of a preparation that was overtaken.
            Wake::Asked(ToDocument::SetupLine { .. } | ToDocument::SetUp { .. }) => {}
            Wake::Asked(ToDocument::Close) => {
                let grace = self.shared.config.shutdown_grace;
                let uri = self.uri.clone();
                self.finish(grace, |request| RequestFailure::ContentModified {
                    how: Modified::Closed,
                    expected: request.version,
                    uri: uri.clone(),
                });
                return Flow::End;
            }
            Wake::Asked(ToDocument::Shutdown { grace }) => {
                self.finish(grace, |_| RequestFailure::SessionClosed);
                return Flow::End;
            }
        }
        Flow::Continue
    }

    // ---- what callers ask -------------------------------------------------------------------------------------------

    fn apply(&mut self, snap: Snapshot) -> Applied {
        let step = self.mirror.apply(snap, || self.shared.config.versions.next(&self.path));
        if step == Step::Changed {
            self.on_edit();
        }
        self.mirror.applied(step)
    }

    fn on_edit(&mut self) {
        let version = self.mirror.version;
        self.progress = None;
        // Before the new text, so that the worker sees the cancellations while it still has the requests.
        for (key, expected) in self.pending.bound() {
            let failure = RequestFailure::ContentModified {
                how: Modified::Edited { version },
                expected: Some(expected),
                uri: self.uri.clone(),
            };
            self.stop(key, failure);
        }
        if let Some(live) = self.life.live() {
            live.edits += 1;
            self.send(lsp::did_change(&self.uri, version, &self.mirror.text));
        } else if self.preparing.is_none() {
            self.begin();
        }
        if let Some(router) = self.links.router.upgrade() {
            drop(router.send(ToRouter::Changed { uri: self.uri.clone(), module: self.module() }));
        }
    }

    /// Sends what stands in line, as far as the worker has room. Every step may have made some, so this follows each of them.
    fn advance_line(&mut self) {
        for must_stop in [true, false] {
            // Asked each time: the first of them may be the one that finds no worker and begins to prepare one, and goes back into the line.
            while self.preparing.is_none()
                && self.pending.in_flight(must_stop) < self.shared.config.max_in_flight
                && let Some(request) = self.pending.take_next(must_stop)
            {
                self.request(request);
            }
        }
    }

    fn request(&mut self, request: Queued) {
        if let Some(expected) = request.version
            && expected != self.mirror.version
        {
            let accepted = self.mirror.version;
            request.end(Err(RequestFailure::StaleVersion { expected, accepted, uri: self.uri.clone() }));
            return;
        }
        if request.deadline.is_some_and(|at| at <= Instant::now()) {
            request.end(Err(RequestFailure::TimedOut));
            return;
        }
        let no_worker = self.life.live().is_none() && self.preparing.is_none();
        if no_worker && !self.begin() {
            request.end(Err(self.no_worker()));
            return;
        }
        // Behind whatever stands there already: first come, first served.
        let busy = self.pending.in_flight(request.must_stop) >= self.shared.config.max_in_flight;
        if self.preparing.is_some() || busy {
            self.pending.insert(request, Place::Line);
            return;
        }
        if let Some(Composed::References { .. }) = request.composed {
            self.pending.insert(request, Place::Index);
            self.answer_from_index();
            return;
        }
        Tally::add(&self.shared.tally.requests);
        let body = encode(&request);
        // Registered before it is sent, so that whatever sending leads to finds it.
        self.pending.insert(request, Place::Worker);
        self.send(body);
    }

    /// Ends a waiting request for its caller and cancels it at the worker (S3).
    fn stop(&mut self, key: u64, failure: RequestFailure) {
        let (now, grace) = (Instant::now(), self.shared.config.cancel_grace);
        let patience =
            Patience { until: now + grace, at_most: now + grace * STARVED, usage: self.life.pid().and_then(Usage::of) };
        if self.pending.stop(key, failure, patience) == Stopped::TellWorker {
            self.send(lsp::cancel(key));
        }
    }

    /// Ends every request and lets the worker go.
    fn finish(&mut self, grace: Duration, failure: impl Fn(&Queued) -> RequestFailure) {
        for request in self.pending.take_all() {
            let failure = failure(&request);
            request.end(Err(failure));
        }
        if let Some((live, _)) = self.life.advance(life::Step::Ended) {
            live.worker.retire(grace);
        }
        if let Some(spare) = self.spare.take() {
            spare.retire(grace);
        }
    }

    fn info(&self) -> DocumentInfo {
        DocumentInfo {
            path: self.path.clone(),
            uri: self.uri.clone(),
            version: self.mirror.version,
            hash: self.mirror.hash,
            mtime: self.mirror.mtime,
            progress: self.progress,
            direct_imports: self.direct_imports.clone(),
            pending: self.pending.waiting().count(),
            worker: WorkerSummary {
                state: if self.preparing.is_some() { WorkerState::Preparing } else { self.life.state() },
                pid: self.life.pid(),
                starts: self.starts,
                last_exit: self.last_exit.clone(),
            },
        }
    }

    // ---- the worker's life ------------------------------------------------------------------------------------------

    /// Gets the imports ready, where somebody does that, and then starts a worker. False as for [`Document::start_worker`].
    fn begin(&mut self) -> bool {
        let Some(setup) = self.shared.config.setup.clone() else { return self.start_worker() };
        self.rounds += 1;
        let (round, text, own) = (self.rounds, self.mirror.text.clone(), self.links.own.clone());
        let lines = SetupLines { round, document: own.clone() };
        let work = setup.set_up(&self.path, text.clone(), lines);
        // A task of its own: this one never waits.
        let task = tokio::spawn(async move {
            // And another one, so that a defect in the work ends the wait, too.
            let report = AbortOnDropHandle::new(tokio::spawn(work)).await.unwrap_or_else(|e| SetupReport {
                problem: Some(format!("Failed to build module dependencies.\nerror: a defect of lean-beam: {e}")),
                ..SetupReport::default()
            });
            if let Some(own) = own.upgrade() {
                drop(own.send(ToDocument::SetUp { round, report }));
            }
        });
        self.preparing = Some(Preparing { text, _task: AbortOnDropHandle::new(task) });
        true
    }

    fn on_set_up(&mut self, report: SetupReport) {
        let Some(prepared) = self.preparing.take() else { return };
        if prepared.text != self.mirror.text {
            // Edited meanwhile; the header may be another one. Quick if it is not, as everything is built by now.
            self.begin();
            return;
        }
        // Everything stands in line, so nobody else would tell them when there is no worker.
        if !report.refused.is_empty() {
            // The next request asks anew: somebody may have built them by then.
            for request in self.pending.take_all() {
                let (modules, uri) = (report.refused.clone(), self.uri.clone());
                request.end(Err(RequestFailure::BuildRefused { modules, uri }));
            }
            return;
        }
        self.setup = Some(Arc::new(report));
        if !self.start_worker() {
            for request in self.pending.take_all() {
                request.end(Err(self.no_worker()));
            }
        }
    }

    /// The failure of requests for which no worker could be started.
    fn no_worker(&self) -> RequestFailure {
        self.last_exit.clone().map_or(RequestFailure::Lost, |exit| RequestFailure::WorkerExited(Box::new(exit)))
    }

    /// Starts a worker and opens the current text in it. False if no process could be created; `last_exit` then says why.
    fn start_worker(&mut self) -> bool {
        let args = self.setup.as_ref().map(|setup| setup.worker_args.clone()).unwrap_or_default();
        let spare = match self.spare.take() {
            // It was started without them.
            Some(spare) if !args.is_empty() => {
                spare.retire(self.shared.config.shutdown_grace);
                None
            }
            spare => spare,
        };
        let worker = match spare {
            Some(worker) => worker,
            None => match self.shared.config.spawn.spawn(&args) {
                Ok(process) => {
                    Tally::add(&self.shared.tally.worker_starts);
                    Worker::adopt(process, &self.shared.config, self.links.alive.clone())
                }
                Err(error) => {
                    self.last_exit = Some(self.exit(ExitReason::SpawnFailed(error.to_string()), None, Vec::new()));
                    return false;
                }
            },
        };
        if self.starts > 0 {
            Tally::add(&self.shared.tally.worker_restarts);
        }
        self.starts += 1;
        // These were facts about the process before.
        self.progress = None;
        self.direct_imports.clear();
        self.import_closure.clear();
        self.index = FileIndex::default();
        let build = self.build_mode;
        self.build_mode = build.after_first_open();
        let language = &self.shared.config.language_id;
        let open = lsp::did_open(&self.uri, language, self.mirror.version, &self.mirror.text, build);
        let replaced = self.life.advance(life::Step::Started(Live { worker, edits: 0 }));
        debug_assert!(replaced.is_none(), "a worker is started only where there is none");
        self.send(open);
        true
    }

    /// Sends one message; a worker that does not read is lost.
    fn send(&mut self, body: Vec<u8>) {
        if let Some(live) = self.life.live()
            && let Err(NotReading) = live.worker.send(body)
        {
            self.lose(ExitReason::Unresponsive, None);
        }
    }

    /// Lets go of the worker for what it did, and ends every request that waits for it.
    fn lose(&mut self, reason: ExitReason, status: Option<EndStatus>) {
        let Some((live, _)) = self.life.advance(life::Step::Ended) else { return };
        let exit = self.exit(reason, status, live.worker.stderr_tail());
        live.worker.kill();
        tracing::warn!(uri = %self.uri, reason = %exit, "a file worker was lost");
        Tally::add(&self.shared.tally.worker_losses);
        self.last_exit = Some(exit.clone());
        for request in self.pending.take_lost(|_| false) {
            request.end(Err(RequestFailure::WorkerExited(Box::new(exit.clone()))));
        }
    }

    fn exit(&self, reason: ExitReason, status: Option<EndStatus>, stderr_tail: Vec<String>) -> WorkerExit {
        WorkerExit { reason, status, stderr_tail, uri: self.uri.clone() }
    }

    fn on_exit(&mut self, status: EndStatus) {
        let edits = self.life.live().map_or(0, |live| live.edits);
        if status == HEADER_CHANGED && edits > 0 {
            self.replace_worker();
            return;
        }
        let reason = match self.life {
            Life::Running(_) => ExitReason::Crash,
            Life::Idle | Life::Starting(_) => ExitReason::StartFailed,
        };
        self.lose(reason, Some(status));
    }

    /// The header changed: the current text goes to a fresh worker, and so does every request that may and still makes sense.
    fn replace_worker(&mut self) {
        let Some((old, _)) = self.life.advance(life::Step::Ended) else { return };
        let tail = old.worker.stderr_tail();
        drop(old);
        let started = self.begin();
        let version = self.mirror.version;
        let lost = self.pending.take_lost(|it| started && it.resend && it.version.is_none_or(|v| v == version));
        let exit = match &self.last_exit {
            Some(exit) if !started => exit.clone(),
            _ => self.exit(ExitReason::Replaced, Some(HEADER_CHANGED), tail),
        };
        for request in lost {
            request.end(Err(RequestFailure::WorkerExited(Box::new(exit.clone()))));
        }
        self.pending.observe(&Observation::Resent);
        self.pending.stand_in_line_again();
    }

    fn on_timer(&mut self) {
        let now = Instant::now();
        for key in self.pending.timed_out(now) {
            self.stop(key, RequestFailure::TimedOut);
        }
        let grace = self.shared.config.cancel_grace;
        let usage = self.life.pid().and_then(Usage::of);
        // A worker that did not get to run cannot have refused: on a busy machine it is late, not stubborn.
        let had_its_chance = |patience: Patience| match (usage, patience.usage) {
            (Some(now), Some(then)) => !now.starved_since(then, grace / 2),
            _ => true,
        };
        if self.pending.is_refusing(now, now + grace / 4, had_its_chance) {
            Tally::add(&self.shared.tally.refused_cancels);
            self.lose(ExitReason::RefusedCancel, None);
        }
    }

    // ---- what the worker says ---------------------------------------------------------------------------------------

    fn on_event(&mut self, event: Event) {
        let message = match event {
            Event::Exited(status) => return self.on_exit(status),
            Event::Garbage(what) => return self.lose(ExitReason::Garbage(what), None),
            Event::Message(message) => message,
        };
        let gone = self.life.advance(life::Step::Spoke);
        debug_assert!(gone.is_none(), "speaking ends no worker");
        match message {
            Incoming::Response { id, outcome } => self.on_answer(id.as_ref().and_then(RequestId::as_u64), outcome),
            Incoming::Request { id, method, .. } => self.on_question(&id, &method),
            Incoming::Notification { method, params } => match notice::parse(&method, params) {
                Ok(notice) => self.on_notice(notice),
                Err(error) => tracing::warn!(method, %error, "a worker's notification has an unknown shape"),
            },
        }
    }

    fn on_answer(&mut self, key: Option<u64>, outcome: Result<Box<RawValue>, RpcError>) {
        let answered = key.map_or(Answered::Unknown, |key| self.pending.answer(key));
        match answered {
            Answered::Ends(request) => {
                if let (Some(Composed::Definition { at }), Ok(links)) = (request.composed, &outcome) {
                    self.correct_definition(*request, at, links.clone());
                    return;
                }
                request.end(outcome.map(|value| self.reply(value)).map_err(RequestFailure::Server));
            }
            Answered::Cancelled if outcome.as_ref().is_err_and(|error| error.code == lsp::REQUEST_CANCELLED) => {}
            Answered::Cancelled | Answered::Unknown => Tally::add(&self.shared.tally.late_replies),
        }
    }

    fn reply(&self, value: Box<RawValue>) -> Reply {
        Reply {
            value,
            epoch: self.shared.config.epoch,
            uri: self.uri.clone(),
            worker: self.starts,
            version: self.mirror.version,
            progress: self.progress,
            setup: self.setup.clone(),
        }
    }

    fn on_question(&mut self, id: &RequestId, method: &str) {
        let unknown = RpcError {
            code: lsp::METHOD_NOT_FOUND,
            message: format!("`{method}` is not known to this client"),
            data: None,
        };
        let outcome = if lsp::is_acknowledged(method) { Ok(RawValue::NULL) } else { Err(&unknown) };
        match rpc::response(id, outcome) {
            Ok(body) => self.send(body),
            Err(error) => tracing::error!(%error, "cannot encode an answer"),
        }
    }

    fn on_notice(&mut self, notice: Notice) {
        let tracked = self.mirror.version;
        match notice {
            Notice::Progress { version, processing } if version.is_none_or(|v| v >= tracked) => {
                let progress = Progress::advance(self.progress, &processing);
                self.progress = Some(progress);
                self.pending.observe(&Observation::Progress(progress));
            }
            // About a text that was replaced: it must not pass for the verdict on the present one.
            Notice::Diagnostics { version, .. } if version.is_some_and(|v| v < tracked) => {}
            Notice::Diagnostics { version, mut items } => {
                items.retain(|item| !notice::is_silent(item));
                self.pending.observe(&Observation::Diagnostics { version: version.unwrap_or(tracked), items });
            }
            Notice::Header { imports: Some(imports) } => self.direct_imports = imports,
            Notice::ImportClosure(closure) => self.import_closure = closure.into_iter().collect(),
            Notice::Ilean { version, is_final, raw } => match ilean::parse(raw.get(), self.rename.as_ref()) {
                Ok(data) => {
                    self.index.update(version, is_final, data.refs);
                    self.answer_from_index();
                }
                Err(error) => tracing::warn!(%error, "a worker's reference data has an unknown shape"),
            },
            Notice::Progress { .. } | Notice::Header { imports: None } | Notice::Unknown => {}
        }
    }
}

/// The document's part in navigation: its index, and requests that wait for it or are corrected by it.
impl Document {
    /// Begins to answer what waits for the index, if that is complete.
    fn answer_from_index(&mut self) {
        if !self.index.is_complete(self.mirror.version) {
            return;
        }
        for request in self.pending.take_indexed() {
            let Some(Composed::References { at, include_declaration }) = request.composed else { continue };
            let idents = self.index.refs().at(at);
            let (shared, router) = (self.shared.clone(), self.links.router.clone());
            self.make(
                request,
                async move { navigate::references(&shared, &router, idents, include_declaration).await },
            );
        }
    }

    fn correct_definition(&mut self, request: Queued, at: Utf16Pos, links: Box<RawValue>) {
        let here = self.index.refs().at(at);
        let (shared, router, rename) = (self.shared.clone(), self.links.router.clone(), self.rename.clone());
        let answer = async move { navigate::definition(&shared, &router, links, here, rename.as_ref()).await };
        self.make(request, answer);
    }

    /// Has a task make the answer. The request stays in the table meanwhile, so it can be cancelled, and an edit or a deadline
    /// ends it like any other; what the task finds out then is thrown away.
    fn make(&mut self, request: Queued, answer: impl Future<Output = Box<RawValue>> + Send + 'static) {
        let (key, own) = (request.key, self.links.own.clone());
        self.pending.insert(request, Place::Making);
        tokio::spawn(async move {
            let value = answer.await;
            if let Some(own) = own.upgrade() {
                own.send(ToDocument::Made { key, value }).ok();
            }
        });
    }

    /// Whether a changed file is among what this one imports. Lean tells the whole closure, but only of files it finds in its source
    /// path; without one it is empty, and the modules named in the header have to do.
    fn imports(&self, uri: &str, module: Option<&str>) -> bool {
        self.import_closure.contains(uri)
            || self.direct_imports.iter().any(|import| Some(import.module.as_str()) == module)
    }

    fn module(&self) -> Option<String> {
        self.index.refs().own_module().map(str::to_owned).or_else(|| self.module.clone())
    }

    fn locate(&self, idents: &[Ident]) -> InDocument {
        let refs = self.index.refs();
        InDocument {
            uri: self.uri.clone(),
            module: self.module(),
            speaks: !refs.is_empty(),
            places: idents.iter().filter_map(|ident| refs.places(ident).cloned()).collect(),
        }
    }

    fn defined(&self) -> Defined {
        let refs = self.index.refs();
        Defined {
            uri: self.uri.clone(),
            module: self.module(),
            speaks: !refs.is_empty(),
            names: refs.definitions().map(|(_, name, range)| (name.to_owned(), range)).collect(),
        }
    }
}

fn encode(request: &Queued) -> Vec<u8> {
    lsp::encode_request(request.key, &request.method, &request.params)
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
