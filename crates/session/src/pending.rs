//! The table of requests pending on one document. Pure: it decides, the document task sends and ends.
//!
//! An entry is in one of two states, and that is the whole of cancellation:
//!
//! ```text
//!   Waiting ── answer ──────────────► ended (reply or server error)
//!   Waiting ── cancel/edit/deadline ► caller told at once, `$/cancelRequest` sent ──► CancelSent
//!   CancelSent ── any answer ───────► gone
//!   CancelSent ── grace passed ─────► the worker refuses; it is replaced (only if the request must stop)
//! ```
//!
//! S2: a caller's channel is taken out of an entry exactly where the entry stops waiting, so it cannot be answered twice.
//! S3: an answer that finds no waiting entry is dropped and counted.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::error::RequestFailure;
use crate::reply::{Observation, Outcome};

/// A request on its way from a handle to the table.
pub(crate) struct Queued {
    /// Unique in this session; also the JSON-RPC id, so it stays the same when sent again.
    pub(crate) key: u64,
    pub(crate) method: String,
    pub(crate) params: Value,
    pub(crate) version: Option<u64>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) resend: bool,
    pub(crate) must_stop: bool,
    pub(crate) reply: oneshot::Sender<Outcome>,
    pub(crate) observer: Option<mpsc::UnboundedSender<Observation>>,
}

impl Queued {
    pub(crate) fn end(self, outcome: Outcome) {
        // The caller may have dropped its end; then nobody wants to know.
        drop(self.reply.send(outcome));
    }
}

enum State {
    Waiting(Box<Queued>),
    CancelSent { refuses_at: Option<Instant> },
}

/// What an answer from the worker meant.
#[must_use]
pub(crate) enum Answered {
    /// The request was waiting; the caller is still to be told.
    Ends(Box<Queued>),
    /// It had been cancelled, and this is the worker's acknowledgement or a result that came too late.
    Cancelled,
    /// Nobody asked, or it was answered before.
    Unknown,
}

/// Requests by key, that is, in the order in which they were made.
#[derive(Default)]
pub(crate) struct Table {
    entries: BTreeMap<u64, State>,
}

impl Table {
    pub(crate) fn insert(&mut self, request: Queued) {
        self.entries.insert(request.key, State::Waiting(Box::new(request)));
    }

    pub(crate) fn answer(&mut self, key: u64) -> Answered {
        match self.entries.remove(&key) {
            Some(State::Waiting(request)) => Answered::Ends(request),
            Some(State::CancelSent { .. }) => Answered::Cancelled,
            None => Answered::Unknown,
        }
    }

    /// Ends a waiting request for its caller and moves it to `CancelSent`. False if it is not waiting.
    #[must_use]
    pub(crate) fn stop(&mut self, key: u64, failure: RequestFailure, refuses_at: Instant) -> bool {
        let Some(state) = self.entries.get_mut(&key) else { return false };
        let State::Waiting(request) = state else { return false };
        let refuses_at = request.must_stop.then_some(refuses_at);
        let State::Waiting(request) = std::mem::replace(state, State::CancelSent { refuses_at }) else { return false };
        request.end(Err(failure));
        true
    }

    /// Keys of the waiting requests bound to a version, oldest first, with that version.
    pub(crate) fn bound(&self) -> Vec<(u64, u64)> {
        self.waiting().filter_map(|it| it.version.map(|v| (it.key, v))).collect()
    }

    /// Keys of the waiting requests whose deadline has passed, oldest first.
    pub(crate) fn timed_out(&self, now: Instant) -> Vec<u64> {
        self.waiting().filter(|it| it.deadline.is_some_and(|at| at <= now)).map(|it| it.key).collect()
    }

    /// Whether a request that must stop was cancelled longer ago than the grace allows.
    pub(crate) fn is_refusing(&self, now: Instant) -> bool {
        self.entries.values().any(|it| matches!(it, State::CancelSent { refuses_at: Some(at) } if *at <= now))
    }

    /// When [`Table::timed_out`] or [`Table::is_refusing`] will next have something to say.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.entries
            .values()
            .filter_map(|it| match it {
                State::Waiting(request) => request.deadline,
                State::CancelSent { refuses_at } => *refuses_at,
            })
            .min()
    }

    /// The waiting requests, oldest first.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Queued> {
        self.entries.values().filter_map(|it| match it {
            State::Waiting(request) => Some(&**request),
            State::CancelSent { .. } => None,
        })
    }

    /// The worker they were sent to is gone: forgets the cancelled ones and takes out the waiting ones `keep` refuses.
    #[must_use]
    pub(crate) fn take_lost(&mut self, mut keep: impl FnMut(&Queued) -> bool) -> Vec<Queued> {
        let mut lost = Vec::new();
        for (key, state) in std::mem::take(&mut self.entries) {
            match state {
                State::Waiting(request) if keep(&request) => {
                    self.entries.insert(key, State::Waiting(request));
                }
                State::Waiting(request) => lost.push(*request),
                State::CancelSent { .. } => {}
            }
        }
        lost
    }

    pub(crate) fn observe(&self, observation: &Observation) {
        for observer in self.waiting().filter_map(|it| it.observer.as_ref()) {
            // An observer that went away still waits for its answer.
            drop(observer.send(observation.clone()));
        }
    }
}
