//! The ids that are in use, and who may still speak under them.
//!
//! An id is owned from the moment its request is read until its terminal frame is flushed, or until a cancellation of it has
//! won. What is cancelled is the admission behind the id ([`CallState`]), never the id itself: a lease that outlives its admission
//! is inert, so an id that is used again is another request to everyone.
//!
//! The client sees the terminal frame a moment before we know that it is flushed, and may use the id again at once. So there is a
//! third state between owned and free, [`IdState::Leaving`]: the frame is being written, and whoever reads the id waits for the end
//! of that instead of taking the new request for a repetition.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::id::IdKey;

const RUNNING: u8 = 0;
const ANSWERED: u8 = 1;
const CANCELLED: u8 = 2;

/// One admitted call. Two may want its end, the work and the client; exactly one of them gets it (M4).
#[derive(Debug, Default)]
pub(crate) struct CallState {
    end: AtomicU8,
    cancelled: CancellationToken,
}

impl CallState {
    fn end(&self, how: u8) -> bool {
        self.end.compare_exchange(RUNNING, how, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The work is done and wants to answer. `false`: a cancellation was first, and nothing may go out any more.
    #[must_use]
    pub(crate) fn answer(&self) -> bool {
        self.end(ANSWERED)
    }

    /// The client wants no answer. `false`: it is too late for that.
    pub(crate) fn cancel(&self) -> bool {
        let won = self.end(CANCELLED);
        if won {
            self.cancelled.cancel();
        }
        won
    }

    /// Whether a cancellation has won.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.end.load(Ordering::SeqCst) == CANCELLED
    }

    /// Resolves when a cancellation has won.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }
}

#[derive(Debug)]
struct IdOwner {
    serial: u64,
    /// `None`: cannot be cancelled.
    call: Option<Arc<CallState>>,
    /// The terminal frame is being written.
    leaving: bool,
}

/// How an id stands when a message under it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdState {
    /// Nobody has it.
    Free,
    /// It is owned, and no terminal frame is on its way yet.
    Owned,
    /// Its terminal frame is being written: the client may have it already.
    Leaving,
}

#[derive(Debug, Default)]
struct IdTable {
    owners: HashMap<IdKey, IdOwner>,
    serial: u64,
}

/// The table of owned ids. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Active(Arc<SharedIds>);

#[derive(Debug, Default)]
struct SharedIds {
    table: Mutex<IdTable>,
    /// Some lease has ended.
    ended: Notify,
}

impl Active {
    fn table(&self) -> MutexGuard<'_, IdTable> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the id stands now.
    pub(crate) fn state(&self, key: &IdKey) -> IdState {
        match self.table().owners.get(key) {
            None => IdState::Free,
            Some(owner) if owner.leaving => IdState::Leaving,
            Some(_) => IdState::Owned,
        }
    }

    /// Whether a message under this id must be ignored. Waits while the id is leaving.
    pub(crate) async fn is_busy(&self, key: &IdKey) -> bool {
        loop {
            // Registered before looking, so that no end is missed in between.
            let ended = self.0.ended.notified();
            match self.state(key) {
                IdState::Free => return false,
                IdState::Owned => return true,
                IdState::Leaving => ended.await,
            }
        }
    }

    /// Takes an id that is free. `call` is what a cancellation of it ends; `slot` goes back when the lease ends.
    pub(crate) fn own(&self, key: IdKey, call: Option<Arc<CallState>>, slot: Option<OwnedSemaphorePermit>) -> Lease {
        let mut table = self.table();
        table.serial += 1;
        let serial = table.serial;
        table.owners.insert(key.clone(), IdOwner { serial, call, leaving: false });
        Lease { active: self.clone(), key, serial, _slot: slot }
    }

    /// Cancels the call with this id, if there is one that can still be cancelled. The id is free when this returns `true`.
    pub(crate) fn cancel(&self, key: &IdKey) -> bool {
        let mut table = self.table();
        let won = table.owners.get(key).and_then(|owner| owner.call.as_ref()).is_some_and(|call| call.cancel());
        if won {
            table.owners.remove(key);
        }
        won
    }

    /// Cancels every call that can still be cancelled.
    pub(crate) fn cancel_all(&self) {
        self.table().owners.retain(|_, owner| !owner.call.as_ref().is_some_and(|call| call.cancel()));
    }
}

/// Ownership of an id. Ends by `Drop`, also on panic.
#[derive(Debug)]
pub(crate) struct Lease {
    active: Active,
    key: IdKey,
    serial: u64,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Lease {
    /// The terminal frame is about to be written.
    pub(crate) fn leaving(&self) {
        let mut table = self.active.table();
        if let Some(owner) = table.owners.get_mut(&self.key).filter(|owner| owner.serial == self.serial) {
            owner.leaving = true;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut table = self.active.table();
        // After a cancellation the id may belong to somebody else.
        if table.owners.get(&self.key).is_some_and(|owner| owner.serial == self.serial) {
            table.owners.remove(&self.key);
        }
        drop(table);
        self.active.0.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: &str) -> IdKey {
        IdKey::Text(n.to_owned())
    }

    /// M4.
    #[test]
    fn m4_one_of_answer_and_cancellation_wins() {
        let active = Active::default();
        let call = Arc::new(CallState::default());
        let lease = active.own(key("a"), Some(call.clone()), None);
        assert!(call.answer());
        assert!(!active.cancel(&key("a")), "the answer was first");
        assert_eq!(active.state(&key("a")), IdState::Owned, "until the answer is flushed");
        lease.leaving();
        assert_eq!(active.state(&key("a")), IdState::Leaving);
        drop(lease);
        assert_eq!(active.state(&key("a")), IdState::Free);

        let call = Arc::new(CallState::default());
        let old = active.own(key("a"), Some(call.clone()), None);
        assert!(active.cancel(&key("a")));
        assert!(!call.answer(), "the cancellation was first");
        assert!(!active.cancel(&key("a")));
        let new = active.own(key("a"), None, None);
        old.leaving();
        drop(old);
        assert_eq!(active.state(&key("a")), IdState::Owned, "the old lease is inert");
        assert!(!active.cancel(&key("a")), "not everything can be cancelled");
        drop(new);
        assert_eq!(active.state(&key("a")), IdState::Free);
    }

    /// The client has the answer, we do not know yet that it has: its next request under the id is not a repetition.
    #[tokio::test]
    async fn an_id_that_is_leaving_is_waited_for() {
        let active = Active::default();
        let lease = active.own(key("a"), None, None);
        assert!(active.is_busy(&key("a")).await);
        lease.leaving();
        let asking = tokio::spawn({
            let active = active.clone();
            async move { active.is_busy(&key("a")).await }
        });
        tokio::task::yield_now().await;
        assert!(!asking.is_finished());
        drop(lease);
        assert!(!asking.await.unwrap());
    }
}
