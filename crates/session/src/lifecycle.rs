//! The life of a document's worker: one enum, changed in one function (S6).
//!
//! ```text
//!   Idle ──use──► Starting ──first message──► Running
//!    ▲               │                           │
//!    └── end ────────┴───────────────────────────┘
//! ```
//!
//! A worker that is told to end is let go of in the same step (its supervisor sees it out), so there is no state in which a
//! document waits for a death: the next use may start a fresh worker at once.

use crate::info::WorkerState;
use crate::worker::{Event, Worker};

/// A worker and what the document did with it.
pub(crate) struct LiveWorker {
    pub(crate) worker: Worker,
    /// `didChange`s sent to it. Only a worker that got one can have met a changed header, so this bounds restarts:
    /// exit code 2 without an edit is a crash, however often it happens.
    pub(crate) edits: u64,
}

/// Where the worker is.
pub(crate) enum Lifecycle {
    /// There is none.
    Idle,
    /// There is a process, it was sent all it needs, and it has said nothing yet.
    Starting(LiveWorker),
    /// It has spoken.
    Running(LiveWorker),
}

/// A step in a worker's life.
pub(crate) enum Transition {
    Started(LiveWorker),
    Spoke,
    /// It is gone or let go of.
    Ended,
}

impl Lifecycle {
    /// The only place where the state changes. Returns the worker that was let go of, if any, and whether it had spoken.
    #[must_use]
    pub(crate) fn advance(&mut self, transition: Transition) -> Option<(LiveWorker, bool)> {
        let (next, gone) = match (std::mem::replace(self, Self::Idle), transition) {
            (Self::Idle, Transition::Started(live)) => (Self::Starting(live), None),
            // A new worker replaces whatever was there; the caller gets the old one to end it.
            (Self::Starting(old), Transition::Started(live)) => (Self::Starting(live), Some((old, false))),
            (Self::Running(old), Transition::Started(live)) => (Self::Starting(live), Some((old, true))),
            (Self::Starting(live) | Self::Running(live), Transition::Spoke) => (Self::Running(live), None),
            (Self::Starting(live), Transition::Ended) => (Self::Idle, Some((live, false))),
            (Self::Running(live), Transition::Ended) => (Self::Idle, Some((live, true))),
            (Self::Idle, Transition::Spoke | Transition::Ended) => (Self::Idle, None),
        };
        *self = next;
        gone
    }

    pub(crate) fn live(&mut self) -> Option<&mut LiveWorker> {
        match self {
            Self::Idle => None,
            Self::Starting(live) | Self::Running(live) => Some(live),
        }
    }

    /// The next thing the worker does; never resolves without one.
    pub(crate) async fn next_event(&mut self) -> Event {
        match self.live() {
            Some(live) => live.worker.next_event().await,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn state(&self) -> WorkerState {
        match self {
            Self::Idle => WorkerState::None,
            Self::Starting(_) => WorkerState::Starting,
            Self::Running(_) => WorkerState::Running,
        }
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Self::Idle => None,
            Self::Starting(live) | Self::Running(live) => live.worker.pid(),
        }
    }
}
