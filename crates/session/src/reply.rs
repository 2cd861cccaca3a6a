//! What callers see of a request: its description, what is observed meanwhile, and its one end (S2, S5).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use beam_base::{AbsPath, Deadline};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use crate::error::RequestFailure;
use crate::progress::Progress;
use crate::router::ToRouter;
use crate::setup::SetupReport;

/// A request to a document's worker.
#[derive(Debug, Clone)]
pub struct RequestSpec {
    /// LSP method.
    pub method: String,
    /// Parameters, an object; the caller puts the document's URI where the method wants it.
    pub params: Value,
    /// Binds the request to a version: another tracked version refuses it, an edit or close ends it.
    pub version: Option<u64>,
    /// When to give up.
    pub deadline: Deadline,
    /// Whether it may be sent again, unchanged, to the worker that replaces one whose header changed. False for what must not run twice.
    pub resend: bool,
    /// Whether it runs text of the caller's, so that a worker which does not answer its cancellation within the grace is burning
    /// a processor and gets replaced. Lean answers a cancelled *ordinary* request only when the elaboration it waits for gets
    /// there, which says nothing about the worker's health; those leave this false.
    pub must_stop: bool,
}

impl RequestSpec {
    /// An unbound request without deadline that may be sent again.
    #[must_use]
    pub fn new(method: impl Into<String>, params: Value) -> Self {
        Self { method: method.into(), params, version: None, deadline: Deadline::NEVER, resend: true, must_stop: false }
    }

    /// Binds it to a version.
    #[must_use]
    pub fn at_version(mut self, version: u64) -> Self {
        self.version = Some(version);
        self
    }

    /// Gives it a deadline.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Deadline) -> Self {
        self.deadline = deadline;
        self
    }

    /// Marks it as one that runs text, see [`RequestSpec::must_stop`].
    #[must_use]
    pub fn running_text(mut self) -> Self {
        self.must_stop = true;
        self
    }

    /// Forbids sending it again.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.resend = false;
        self
    }
}

/// What was seen of the document while a request was pending, in order of arrival.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// Lean reported how far it is.
    Progress(Progress),
    /// Lean published the diagnostics of a version; each publish replaces the one before. Silent ones are gone already.
    Diagnostics {
        /// The version they are about.
        version: u64,
        /// LSP diagnostics as sent.
        items: Vec<Value>,
    },
    /// The worker was replaced because the header changed, and this request was sent to the new one.
    Resent,
}

/// A successful answer.
#[derive(Debug)]
pub struct Reply {
    /// The result as the worker wrote it.
    pub value: Box<RawValue>,
    /// Session generation (S5).
    pub epoch: u64,
    /// The document.
    pub uri: String,
    /// The tracked version when the answer arrived; for a bound request, its version.
    pub version: u64,
    /// How many workers the document had had, this one included; see [`crate::WorkerSummary::starts`].
    pub worker: u64,
    /// The document's progress when the answer arrived.
    pub progress: Option<Progress>,
    /// What was found out about the worker's imports before it was started, where somebody looked.
    pub setup: Option<Arc<SetupReport>>,
}

/// Answers a caller who may have gone away, in which case nobody wants to know.
pub(crate) fn tell<T>(reply: oneshot::Sender<T>, answer: T) {
    reply.send(answer).ok();
}

pub(crate) type Outcome = Result<Reply, RequestFailure>;

/// Cancels one request; does nothing once that has ended.
#[derive(Debug, Clone)]
pub struct Canceller {
    pub(crate) path: AbsPath,
    pub(crate) key: u64,
    pub(crate) router: mpsc::UnboundedSender<ToRouter>,
}

impl Canceller {
    /// The caller of the request gets [`RequestFailure::Cancelled`] at once; the worker is told.
    pub fn cancel(&self) {
        // A router that is gone has ended every request already.
        drop(self.router.send(ToRouter::Cancel { path: self.path.clone(), key: self.key }));
    }
}

/// A queued request. Resolves to its outcome; dropping it cancels (S3).
#[must_use = "dropping a pending request cancels it"]
#[derive(Debug)]
pub struct Pending {
    outcome: oneshot::Receiver<Outcome>,
    canceller: Canceller,
    ended: bool,
}

impl Pending {
    pub(crate) fn new(outcome: oneshot::Receiver<Outcome>, canceller: Canceller) -> Self {
        Self { outcome, canceller, ended: false }
    }

    /// A handle that cancels this request from elsewhere.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }
}

impl Future for Pending {
    type Output = Result<Reply, RequestFailure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.outcome).poll(cx);
        polled.map(|received| {
            self.ended = true;
            // The sender was dropped unused: a task died. Every orderly end sends.
            received.unwrap_or(Err(RequestFailure::Lost))
        })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.ended {
            self.canceller.cancel();
        }
    }
}
