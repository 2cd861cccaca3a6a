//! What a caller holds of a request that was queued: its outcome to come, and a way to cancel it (S3).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use beam_base::AbsPath;
use tokio::sync::{mpsc, oneshot};

use crate::error::RequestFailure;
use crate::message::ToRouter;
use crate::request::{Outcome, Reply};

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
