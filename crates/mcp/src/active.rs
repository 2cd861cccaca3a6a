//! The ids that are in use, and who may still speak under them.
//!
//! An id is owned from the moment its request is read until its terminal frame is flushed, or until a cancellation of it has
//! won. What is cancelled is the admission behind the id ([`CallState`]), never the id itself: a lease that outlives its admission
//! is inert, so an id that is used again is another request to everyone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedSemaphorePermit;
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
struct Owner {
    serial: u64,
    /// `None`: cannot be cancelled.
    call: Option<Arc<CallState>>,
}

#[derive(Debug, Default)]
struct Table {
    owners: HashMap<IdKey, Owner>,
    serial: u64,
}

/// The table of owned ids. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Active(Arc<Mutex<Table>>);

impl Active {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the id is owned.
    pub(crate) fn is_busy(&self, key: &IdKey) -> bool {
        self.table().owners.contains_key(key)
    }

    /// Takes an id that is free. `call` is what a cancellation of it ends; `slot` goes back when the lease ends.
    pub(crate) fn own(&self, key: IdKey, call: Option<Arc<CallState>>, slot: Option<OwnedSemaphorePermit>) -> Lease {
        let mut table = self.table();
        table.serial += 1;
        let serial = table.serial;
        table.owners.insert(key.clone(), Owner { serial, call });
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

impl Drop for Lease {
    fn drop(&mut self) {
        let mut table = self.active.table();
        // After a cancellation the id may belong to somebody else.
        if table.owners.get(&self.key).is_some_and(|owner| owner.serial == self.serial) {
            table.owners.remove(&self.key);
        }
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
        assert!(active.is_busy(&key("a")), "until the answer is flushed");
        drop(lease);
        assert!(!active.is_busy(&key("a")));

        let call = Arc::new(CallState::default());
        let old = active.own(key("a"), Some(call.clone()), None);
        assert!(active.cancel(&key("a")));
        assert!(!call.answer(), "the cancellation was first");
        assert!(!active.cancel(&key("a")));
        let new = active.own(key("a"), None, None);
        drop(old);
        assert!(active.is_busy(&key("a")), "the old lease is inert");
        assert!(!active.cancel(&key("a")), "not everything can be cancelled");
        drop(new);
        assert!(!active.is_busy(&key("a")));
    }
}
