//! How a document's worker begins, and what follows when it ends by itself.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::abandoned::AbandonedWork;
use crate::document::state::{Document, Preparing, StrayTail};
use crate::error::{ExitReason, RequestFailure};
use crate::lifecycle::{Lifecycle, LiveWorker, Transition};
use crate::lsp;
use crate::message::ToDocument;
use crate::observation::Observer;
use crate::process::EndStatus;
use crate::reference_index::ReferenceIndex;
use crate::setup::{SetupLines, SetupReport};
use crate::shared::Tally;
use crate::worker::Worker;

/// The exit code with which a worker says that its header changed and it wants to be replaced.
const HEADER_CHANGED: EndStatus = EndStatus::Code(2);

impl Document {
    /// Gets the imports ready, where somebody does that, and then starts a worker. False as for [`Document::start_worker`].
    pub(super) fn begin(&mut self) -> bool {
        let Some(setup) = self.shared.config.setup.clone() else { return self.start_worker() };
        self.rounds += 1;
        let (round, text, own) = (self.rounds, self.mirror.text.clone(), self.links.own.clone());
        let lines = SetupLines::new({
            let own = own.clone();
            // A document that was closed meanwhile shows nothing.
            move |item| {
                if let Some(own) = own.upgrade() {
                    drop(own.send(ToDocument::SetupLine { round, item }));
                }
            }
        });
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

    pub(super) fn on_set_up(&mut self, report: SetupReport) {
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
    pub(super) fn no_worker(&self) -> RequestFailure {
        self.last_exit.clone().map_or(RequestFailure::Lost, |exit| RequestFailure::WorkerExited(Box::new(exit)))
    }

    /// Starts a worker and opens the current text in it. False if no process could be created; `last_exit` then says why.
    pub(super) fn start_worker(&mut self) -> bool {
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
        self.heard_at = Instant::now();
        self.abandoned = AbandonedWork::default();
        self.direct_imports.clear();
        self.import_closure.clear();
        self.index = ReferenceIndex::new(self.rename.clone());
        self.published = None;
        self.stray = StrayTail::default();
        let build = self.build_mode;
        self.build_mode = build.after_first_open();
        let language = &self.shared.config.language_id;
        let open = lsp::did_open(&self.uri, language, self.mirror.version, &self.mirror.text, build);
        let replaced = self.lifecycle.advance(Transition::Started(LiveWorker { worker, edits: 0 }));
        debug_assert!(replaced.is_none(), "a worker is started only where there is none");
        self.send(open);
        true
    }

    pub(super) fn on_exit(&mut self, status: EndStatus) {
        let edits = self.lifecycle.live().map_or(0, |live| live.edits);
        if status == HEADER_CHANGED && edits > 0 {
            self.replace_worker(ExitReason::Replaced, Some(HEADER_CHANGED));
            return;
        }
        let reason = match self.lifecycle {
            Lifecycle::Running(_) => ExitReason::Crash,
            Lifecycle::Idle | Lifecycle::Starting(_) => ExitReason::StartFailed,
        };
        self.lose(reason, Some(status));
    }

    /// The current text goes to a fresh worker, and so does every request that may and still makes sense.
    pub(super) fn replace_worker(&mut self, reason: ExitReason, status: Option<EndStatus>) {
        let Some((old, _)) = self.lifecycle.advance(Transition::Ended) else { return };
        let tail = old.worker.stderr_tail();
        // Dropping one that is still there kills it.
        drop(old);
        let started = self.begin();
        let version = self.mirror.version;
        let lost = self.pending.take_lost(|it| started && it.resend && it.version.is_none_or(|v| v == version));
        let exit = match &self.last_exit {
            Some(exit) if !started => exit.clone(),
            _ => self.exit(reason, status, tail),
        };
        for request in lost {
            request.end(Err(RequestFailure::WorkerExited(Box::new(exit.clone()))));
        }
        self.show(Observer::resent);
        self.pending.stand_in_line_again();
    }
}
