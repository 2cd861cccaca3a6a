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

use serde::Serialize;

use crate::error::WorkerExit;
use crate::worker::{Event, Worker};

/// A worker and what the document did with it.
pub(crate) struct Live {
    pub(crate) worker: Worker,
    /// `didChange`s sent to it. Only a worker that got one can have met a changed header, so this bounds restarts:
    /// exit code 2 without an edit is a crash, however often it happens.
    pub(crate) edits: u64,
}

/// Where the worker is.
pub(crate) enum Life {
    /// There is none.
    Idle,
    /// There is a process, it was sent all it needs, and it has said nothing yet.
    Starting(Live),
    /// It has spoken.
    Running(Live),
}

/// A step in a worker's life.
pub(crate) enum Step {
    Started(Live),
    Spoke,
    /// It is gone or let go of.
    Ended,
}

impl Life {
    /// The only place where the state changes. Returns the worker that was let go of, if any, and whether it had spoken.
    #[must_use]
    pub(crate) fn advance(&mut self, step: Step) -> Option<(Live, bool)> {
        let (next, gone) = match (std::mem::replace(self, Self::Idle), step) {
            (Self::Idle, Step::Started(live)) => (Self::Starting(live), None),
            // A new worker replaces whatever was there; the caller gets the old one to end it.
            (Self::Starting(old), Step::Started(live)) => (Self::Starting(live), Some((old, false))),
            (Self::Running(old), Step::Started(live)) => (Self::Starting(live), Some((old, true))),
            (Self::Starting(live) | Self::Running(live), Step::Spoke) => (Self::Running(live), None),
            (Self::Starting(live), Step::Ended) => (Self::Idle, Some((live, false))),
            (Self::Running(live), Step::Ended) => (Self::Idle, Some((live, true))),
            (Self::Idle, Step::Spoke | Step::Ended) => (Self::Idle, None),
        };
        *self = next;
        gone
    }

    pub(crate) fn live(&mut self) -> Option<&mut Live> {
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

/// Where a document's worker is, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum WorkerState {
    /// No process; the next use starts one.
    None,
    /// No process yet: its imports are being built.
    Preparing,
    /// Started, silent so far.
    Starting,
    /// It has spoken.
    Running,
}

/// A document's worker, for people.
#[derive(Debug, Clone)]
pub struct WorkerSummary {
    /// Where it is.
    pub state: WorkerState,
    /// Process id while there is a process.
    pub pid: Option<u32>,
    /// Workers started for this document since it was opened.
    pub starts: u64,
    /// How the last one that was lost ended.
    pub last_exit: Option<WorkerExit>,
}
