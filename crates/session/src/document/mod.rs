//! The document task: one open file, its mirror (S4), its worker's lifecycle (S6) and its pending requests (S2, S3).
//!
//! Everything happens in `handle`, synchronously, one step at a time; the only await is for the next step. Whatever ends
//! this task (closing, shutdown, the last handle gone, a panic) drops the table and the worker: callers learn it, the process dies.
//!
//! `state` is what it owns; on it stand `start` (a worker's beginning and end), `navigation` and, on those, `requests`; here is the loop.

mod navigation;
mod requests;
mod start;
mod state;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use beam_base::AbsPath;
use beam_base::rpc::{self, Incoming, RequestId, RpcError};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::error::{ExitReason, Modified, RequestFailure};
use crate::lifecycle::Transition;
use crate::lsp;
use crate::message::ToDocument;
use crate::mirror::{Applied, MirrorChange, Snapshot};
use crate::observation::Published;
use crate::progress::Progress;
use crate::request::tell;
use crate::shared::Shared;
use crate::worker::{Event, Worker};
use crate::worker_message::{self, WorkerMessage};

use state::Document;
pub(crate) use state::Links;

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

/// Opens a document and serves it until it is closed.
pub(crate) async fn run(
    shared: Arc<Shared>,
    links: Links,
    path: AbsPath,
    snap: Snapshot,
    spare: Option<Worker>,
    inbox: mpsc::UnboundedReceiver<ToDocument>,
    opened: oneshot::Sender<Applied>,
) {
    Document::new(shared, links, path, snap, spare).run(inbox, opened).await;
}

impl Document {
    /// Opens the document and serves it until it is closed.
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<ToDocument>, opened: oneshot::Sender<Applied>) {
        self.begin();
        tell(opened, Applied { opened: true, ..self.mirror.applied(MirrorChange::Changed) });
        loop {
            let wake_at = self.next_wake();
            let wake = tokio::select! {
                // Time first, so that a chatty worker cannot hold up a deadline; then callers, whose edits make what the worker
                // has to say about the text before obsolete.
                biased;
                () = sleep_until(wake_at) => Wake::Timer,
                asked = inbox.recv() => asked.map_or(Wake::Orphaned, Wake::Asked),
                event = self.lifecycle.next_event() => Wake::Worker(event),
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
                let had_one = self.lifecycle.live().is_some();
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
                self.show(|observer| observer.build_line(version, &item));
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

    fn on_event(&mut self, event: Event) {
        let message = match event {
            Event::Exited(status) => return self.on_exit(status),
            Event::Stray(bytes) => return self.on_stray(&bytes),
            Event::Garbage(what) => return self.lose(ExitReason::Garbage(what), None),
            Event::Message(message) => message,
        };
        let gone = self.lifecycle.advance(Transition::Spoke);
        debug_assert!(gone.is_none(), "speaking ends no worker");
        match message {
            Incoming::Response { id, outcome } => self.on_answer(id.as_ref(), outcome),
            Incoming::Request { id, method, .. } => self.on_question(&id, &method),
            Incoming::Notification { method, params } => match worker_message::parse(&method, params) {
                Ok(message) => self.on_message(message),
                Err(error) => tracing::warn!(method, %error, "a worker's notification has an unknown shape"),
            },
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

    fn on_message(&mut self, message: WorkerMessage) {
        let tracked = self.mirror.version;
        match message {
            WorkerMessage::Progress { version, processing } if version.is_none_or(|v| v >= tracked) => {
                let progress = Progress::advance(self.progress, &processing);
                // Lean repeats itself; news is only what differs.
                let place = |it: Progress| (it.done, it.range_start_line, it.range_end_line);
                if self.progress.map(place) != Some(place(progress)) {
                    self.heard_at = Instant::now();
                }
                self.progress = Some(progress);
                self.show(|observer| observer.progress(progress));
            }
            // About a text that was replaced: it must not pass for the verdict on the present one.
            WorkerMessage::Diagnostics { version, .. } if version.is_some_and(|v| v < tracked) => {}
            WorkerMessage::Diagnostics { version, is_incremental, list } => {
                let version = version.unwrap_or(tracked);
                let published = match &self.published {
                    Some(before) if is_incremental && before.version() == version => before.extended(list),
                    _ => Published::new(version, list),
                };
                self.show(|observer| observer.published(&published));
                self.published = Some(published);
            }
            WorkerMessage::Header { imports: Some(imports) } => self.direct_imports = imports,
            WorkerMessage::ImportClosure(closure) => self.import_closure = closure.into_iter().collect(),
            WorkerMessage::Ilean { version, is_final, raw } => {
                self.index.update(version, is_final, raw);
                self.answer_from_index();
            }
            WorkerMessage::Progress { .. } | WorkerMessage::Header { imports: None } | WorkerMessage::Unknown => {}
        }
    }

    /// What the file's own code printed, where only messages belong.
    fn on_stray(&mut self, bytes: &[u8]) {
        self.shared.tally.stray_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.stray.push(bytes);
        if let Some(output) = self.stray.output() {
            self.show(|observer| observer.stray_output(&output));
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
