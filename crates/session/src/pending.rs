//! The table of requests pending on one document. Pure: it decides, the document task sends and ends.
//!
//! ```text
//!   Waiting ── answer ──────────────► ended (reply or server error)
//!   Waiting ── cancel/edit/deadline ► caller told at once, `$/cancelRequest` sent ──► CancelSent
//!   CancelSent ── any answer ───────► gone
//!   CancelSent ── grace passed ─────► the worker refuses; it is replaced (only if the request must stop)
//! ```
//!
//! That is the whole of cancellation. Requests beyond what a worker gets at once stand in line with us. A waiting request is with the worker or with us ([`Place`]); one that is with us needs no
//! `$/cancelRequest`, so it just ends.
//!
//! S2: a caller's channel is taken out of an entry exactly where the entry stops waiting, so it cannot be answered twice.
//! S3: an answer that finds no request waiting with the worker is dropped and counted.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::error::RequestFailure;
use crate::observation::Observer;
use crate::process::Usage;
use crate::request::{Queued, WireId};

/// Who is to make the next move on a waiting request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The worker: it has the request.
    Worker,
    /// The reference index: it is not complete yet.
    Index,
    /// A task of ours, which makes the answer.
    Making,
    /// Us: the worker has as many requests of this kind as it gets at once.
    Line,
}

enum Entry {
    Waiting(Box<Queued>, Place),
    /// The patience is there for a request that must stop.
    CancelSent {
        id: WireId,
        patience: Option<Patience>,
    },
}

/// How long a worker may go on with a cancelled request that must stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// When to look at it.
    pub(crate) until: Instant,
    /// When it is over, whatever the worker's excuse.
    pub(crate) at_most: Instant,
    /// What the worker had had of the machine when it was told, where that is known.
    pub(crate) usage: Option<Usage>,
}

/// What an answer from the worker meant.
#[must_use]
pub(crate) enum Answered {
    /// The request was waiting; the caller is still to be told.
    Ends(Box<Queued>),
    /// It had been cancelled, and this is the worker's acknowledgement or a result that came too late.
    Cancelled,
    /// Nobody asked for it under this id. A worker of Lean's answers each id once, so somebody else wrote this.
    Unknown,
}

/// What stopping a request leaves to do.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Stopped {
    /// It was not waiting.
    NotThere,
    /// The worker never had it, or has answered it.
    Done,
    /// The worker is to be told about the request of this id.
    TellWorker(WireId),
}

/// Requests by key, that is, in the order in which they were made.
#[derive(Default)]
pub(crate) struct RequestTable {
    entries: BTreeMap<u64, Entry>,
}

impl RequestTable {
    pub(crate) fn insert(&mut self, request: Queued, place: Place) {
        self.entries.insert(request.key, Entry::Waiting(Box::new(request), place));
    }

    /// Takes out the request that the worker answered.
    pub(crate) fn answer(&mut self, id: &WireId) -> Answered {
        match self.entries.remove(&id.key()) {
            Some(Entry::Waiting(request, Place::Worker)) if request.id == *id => Answered::Ends(request),
            Some(Entry::CancelSent { id: sent, .. }) if sent == *id => Answered::Cancelled,
            Some(other) => {
                self.entries.insert(id.key(), other);
                Answered::Unknown
            }
            None => Answered::Unknown,
        }
    }

    /// Takes out the request whose answer we made; it may have ended meanwhile.
    pub(crate) fn made(&mut self, key: u64) -> Option<Box<Queued>> {
        match self.entries.remove(&key) {
            Some(Entry::Waiting(request, Place::Making)) => Some(request),
            Some(other) => {
                self.entries.insert(key, other);
                None
            }
            None => None,
        }
    }

    /// How many requests of this kind keep the worker busy. A cancelled one does until the worker has answered it.
    pub(crate) fn in_flight(&self, must_stop: bool) -> usize {
        let busy = |it: &&Entry| match it {
            Entry::Waiting(request, place) => *place == Place::Worker && request.must_stop == must_stop,
            Entry::CancelSent { patience, .. } => patience.is_some() == must_stop,
        };
        self.entries.values().filter(busy).count()
    }

    /// Takes out the oldest request of this kind that stands in line.
    pub(crate) fn take_next(&mut self, must_stop: bool) -> Option<Queued> {
        let first = self.entries.iter().find_map(|(key, state)| match state {
            Entry::Waiting(request, Place::Line) if request.must_stop == must_stop => Some(*key),
            _ => None,
        })?;
        match self.entries.remove(&first) {
            Some(Entry::Waiting(request, _)) => Some(*request),
            _ => None,
        }
    }

    /// Takes out the requests that wait for the reference index.
    pub(crate) fn take_indexed(&mut self) -> Vec<Queued> {
        self.take_where(|_, place| place == Place::Index)
    }

    /// Ends a waiting request for its caller; if the worker has it, it moves to `CancelSent`.
    /// The patience is made only for a request that the worker has and that must stop: finding out what it had of the machine is work.
    pub(crate) fn stop(&mut self, key: u64, failure: RequestFailure, patience: impl FnOnce() -> Patience) -> Stopped {
        match self.entries.remove(&key) {
            Some(Entry::Waiting(request, place)) => {
                let (must_stop, id) = (request.must_stop, request.id.clone());
                request.end(Err(failure));
                if place != Place::Worker {
                    return Stopped::Done;
                }
                let patience = must_stop.then(patience);
                self.entries.insert(key, Entry::CancelSent { id: id.clone(), patience });
                Stopped::TellWorker(id)
            }
            Some(other) => {
                self.entries.insert(key, other);
                Stopped::NotThere
            }
            None => Stopped::NotThere,
        }
    }

    /// Keys of the waiting requests bound to a version, oldest first, with that version.
    pub(crate) fn version_bound(&self) -> Vec<(u64, u64)> {
        self.waiting().filter_map(|it| it.version.map(|v| (it.key, v))).collect()
    }

    /// Keys of the waiting requests whose deadline has passed, oldest first.
    pub(crate) fn timed_out(&self, now: Instant) -> Vec<u64> {
        self.waiting().filter(|it| it.deadline.is_some_and(|at| at <= now)).map(|it| it.key).collect()
    }

    /// Whether patience has run out with a request. `had_its_chance` says whether the worker could have stopped by now; as long as
    /// it could not, the next look is at `again`.
    pub(crate) fn is_refusing(
        &mut self,
        now: Instant,
        again: Instant,
        had_its_chance: impl Fn(Patience) -> bool,
    ) -> bool {
        for state in self.entries.values_mut() {
            if let Entry::CancelSent { patience: Some(p), .. } = state
                && p.until <= now
            {
                if p.at_most <= now || had_its_chance(*p) {
                    return true;
                }
                p.until = again.min(p.at_most);
            }
        }
        false
    }

    /// When [`RequestTable::timed_out`] or [`RequestTable::is_refusing`] will next have something to say.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.entries
            .values()
            .filter_map(|it| match it {
                Entry::Waiting(request, _) => request.deadline,
                Entry::CancelSent { patience, .. } => patience.map(|p| p.until),
            })
            .min()
    }

    /// The waiting requests, oldest first.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Queued> {
        self.placed().map(|(request, _)| request)
    }

    /// Puts everything the worker has back in line: it is about to be replaced.
    pub(crate) fn stand_in_line_again(&mut self) {
        for state in self.entries.values_mut() {
            if let Entry::Waiting(_, place @ Place::Worker) = state {
                *place = Place::Line;
            }
        }
    }

    fn placed(&self) -> impl Iterator<Item = (&Queued, Place)> {
        self.entries.values().filter_map(|it| match it {
            Entry::Waiting(request, place) => Some((&**request, *place)),
            Entry::CancelSent { .. } => None,
        })
    }

    /// The worker is gone: forgets the cancelled requests and takes out the waiting ones that are lost with it. What we are
    /// making already does not need it, and what stands in line it never had.
    #[must_use]
    pub(crate) fn take_lost(&mut self, mut keep: impl FnMut(&Queued) -> bool) -> Vec<Queued> {
        self.entries.retain(|_, state| matches!(state, Entry::Waiting(..)));
        self.take_where(|request, place| !matches!(place, Place::Making | Place::Line) && !keep(request))
    }

    /// Takes out everything that waits.
    #[must_use]
    pub(crate) fn take_all(&mut self) -> Vec<Queued> {
        self.take_where(|_, _| true)
    }

    fn take_where(&mut self, mut wanted: impl FnMut(&Queued, Place) -> bool) -> Vec<Queued> {
        let mut taken = Vec::new();
        for (key, state) in std::mem::take(&mut self.entries) {
            match state {
                Entry::Waiting(request, place) if wanted(&request, place) => taken.push(*request),
                other => {
                    self.entries.insert(key, other);
                }
            }
        }
        taken
    }

    /// Those that watch the document.
    pub(crate) fn observers(&self) -> impl Iterator<Item = &Observer> {
        self.waiting().filter_map(|it| it.observer.as_ref())
    }
}
