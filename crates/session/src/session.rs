//! The handle: queues closed enums and holds no state of its own.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use beam_base::AbsPath;
use beam_base::rpc::RpcError;
use tokio::sync::{mpsc, oneshot};

use crate::config::SessionConfig;
use crate::error::{RequestFailure, SessionError};
use crate::handle::{Canceller, Pending};
use crate::info::{Counters, DocumentInfo};
use crate::library::Library;
use crate::lsp;
use crate::message::ToRouter;
use crate::mirror::{Applied, Seq, Snapshot};
use crate::navigate::{self, Symbol};
use crate::observation::Observer;
use crate::request::{Composed, Queued, RequestSpec, WireId, nonce};
use crate::router::Router;
use crate::shared::{Shared, Tally};

/// One session; clones are the same session. It ends with [`Session::shutdown`], or when the last clone is dropped.
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
    router: mpsc::UnboundedSender<ToRouter>,
}

impl Session {
    /// Starts the session's tasks, and no process. Must be called within a runtime.
    #[must_use]
    pub fn new(config: SessionConfig) -> Self {
        let shared = Arc::new(Shared {
            library: Library::new(config.index.clone()),
            config,
            token: format!("{:032x}", nonce()),
            next_seq: AtomicU64::new(1),
            next_key: AtomicU64::new(1),
            tally: Tally::default(),
        });
        let (router, inbox) = mpsc::unbounded_channel();
        tokio::spawn(Router::new(shared.clone(), router.downgrade()).run(inbox));
        Self { shared, router }
    }

    /// Unguessable, fresh at every start (broker-protocol section 7).
    #[must_use]
    pub fn token(&self) -> &str {
        &self.shared.token
    }

    /// See [`SessionConfig::epoch`].
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.shared.config.epoch
    }

    /// See [`SessionConfig::root`].
    #[must_use]
    pub fn root(&self) -> &AbsPath {
        &self.shared.config.root
    }

    /// The URI under which this session speaks of a path.
    #[must_use]
    pub fn uri_of(&self, path: &AbsPath) -> String {
        crate::lsp::uri_of(path)
    }

    /// The place of a file read among the others (R1); take it *before* reading.
    #[must_use]
    pub fn reserve(&self) -> Seq {
        Seq::from_raw(self.shared.next_seq.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes a text the document's tracked one: opens the document, changes it, or does nothing if the text is the same or an
    /// older read. Queued before this returns; the future resolves when the mirror has it, without waiting for Lean.
    ///
    /// An edit ends pending requests bound to the version before with [`RequestFailure::ContentModified`].
    ///
    /// # Errors
    /// [`SessionError::Closed`]. A worker that cannot be started is no error here but of the requests that need it.
    pub fn apply(&self, path: &AbsPath, snap: Snapshot) -> impl Future<Output = Result<Applied, SessionError>> + use<> {
        let (reply, answer) = oneshot::channel();
        let sent = self.router.send(ToRouter::Apply { path: path.clone(), snap, reply });
        async move {
            sent.map_err(|_| SessionError::Closed)?;
            answer.await.map_err(|_| SessionError::Closed)
        }
    }

    /// Sends a request to the document's worker, starting one if the last was lost. `textDocument/references`, which no worker
    /// knows, is answered from the reference index once the document is elaborated to its end; the links of
    /// `textDocument/definition` are checked against that index. Queued before this returns, so requests and
    /// edits reach the worker in the order of the calls. `observe` ([`crate::observer`]) shows
    /// what happens to the document until the request ends; a request that shows nothing passes none.
    pub fn request(&self, path: &AbsPath, spec: RequestSpec, observe: Option<Observer>) -> Pending {
        let key = self.shared.next_key.fetch_add(1, Ordering::Relaxed);
        let (reply, outcome) = oneshot::channel();
        let composed = Composed::of(&spec.method, &spec.params);
        let request = Queued {
            key,
            id: WireId::fresh(key),
            method: spec.method,
            params: spec.params,
            version: spec.version,
            // As a distance from now: the runtime's clock may be another than the system's.
            deadline: spec.deadline.remaining().map(|left| tokio::time::Instant::now() + left),
            resend: spec.resend,
            must_stop: spec.must_stop,
            composed: composed.as_ref().ok().copied().flatten(),
            reply,
            observer: observe,
            making: None,
        };
        if let Err(error) = composed {
            let message = format!("the parameters are not those of `{}`: {error}", request.method);
            request.end(Err(RequestFailure::Server(RpcError { code: lsp::INVALID_PARAMS, message, data: None })));
        } else if let Err(mpsc::error::SendError(refused)) =
            self.router.send(ToRouter::Request { path: path.clone(), request })
        {
            refused.refuse(RequestFailure::SessionClosed);
        }
        Pending::new(outcome, Canceller { path: path.clone(), key, router: self.router.clone() })
    }

    /// Definitions in open documents and built modules whose name matches, the best first, at most a hundred; none for an empty query.
    pub async fn workspace_symbols(&self, query: &str) -> Vec<Symbol> {
        navigate::symbols(&self.shared, self.router.clone(), query).await
    }

    /// Forgets the document and lets its worker end. Pending requests end as [`RequestFailure::ContentModified`]. Queued before
    /// this returns. True if the document was open.
    pub fn close(&self, path: &AbsPath) -> impl Future<Output = bool> + use<> {
        let (reply, answer) = oneshot::channel();
        let sent = self.router.send(ToRouter::Close { path: path.clone(), reply });
        async move { sent.is_ok() && answer.await.unwrap_or(false) }
    }

    /// Kills the document's worker; pending requests end as `WorkerExited`, the next use starts a fresh one. True if there was one.
    pub async fn kill_worker(&self, path: &AbsPath) -> bool {
        let (reply, answer) = oneshot::channel();
        let sent = self.router.send(ToRouter::KillWorker { path: path.clone(), reply });
        sent.is_ok() && answer.await.unwrap_or(false)
    }

    /// The open documents, ordered by path.
    pub async fn documents(&self) -> Vec<DocumentInfo> {
        let (reply, answer) = oneshot::channel();
        if self.router.send(ToRouter::Documents { reply }).is_err() {
            return Vec::new();
        }
        let mut infos = Vec::new();
        for info in answer.await.unwrap_or_default() {
            // A document may be closed in between.
            infos.extend(info.await.ok());
        }
        infos.sort_by(|a: &DocumentInfo, b| a.path.cmp(&b.path));
        infos
    }

    /// One open document.
    pub async fn document(&self, path: &AbsPath) -> Option<DocumentInfo> {
        let (reply, answer) = oneshot::channel();
        self.router.send(ToRouter::Document { path: path.clone(), reply }).ok()?;
        answer.await.ok()
    }

    /// Starts one worker ahead of its use; the next document to be opened takes it. Does nothing if one waits already. A spare that
    /// dies while it waits is thrown away when it would be taken, and the fresh one started instead reports what is wrong.
    ///
    /// # Errors
    /// If the process cannot be created, or the session is closed.
    pub async fn prestart(&self) -> Result<(), SessionError> {
        let (reply, answer) = oneshot::channel();
        self.router.send(ToRouter::Prestart { reply }).map_err(|_| SessionError::Closed)?;
        answer.await.map_err(|_| SessionError::Closed)?
    }

    /// Ends every request as [`RequestFailure::SessionClosed`] and every worker: told to end, signalled after `grace`, killed. Resolves
    /// when all processes are gone. Later calls find a closed session.
    pub async fn shutdown(&self, grace: Duration) {
        let (reply, answer) = oneshot::channel();
        if self.router.send(ToRouter::Shutdown { grace, reply }).is_ok() {
            // Either answered, or the router went away with everything it owned.
            answer.await.ok();
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let tally = &self.shared.tally;
        Counters {
            worker_starts: read(&tally.worker_starts),
            worker_restarts: read(&tally.worker_restarts),
            worker_losses: read(&tally.worker_losses),
            refused_cancels: read(&tally.refused_cancels),
            requests: read(&tally.requests),
            late_replies: read(&tally.late_replies),
            unknown_answers: read(&tally.unknown_answers),
            abandoned_elaborations: read(&tally.abandoned_elaborations),
            stray_bytes: read(&tally.stray_bytes),
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("config", &self.shared.config).finish_non_exhaustive()
    }
}
