//! The order of tool calls around an eviction.
//!
//! Every tool call takes a [`Ticket`] when it is read. A call passes when no earlier eviction is left; an eviction passes when
//! no earlier ticket at all is left. A ticket ends by `Drop`: with its answer, its cancellation, or a panic.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What a ticket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TicketKind {
    /// May overlap with other calls.
    Call,
    /// Everything before it ends first, everything after it waits.
    Eviction,
}

#[derive(Debug, Default)]
struct TicketQueue {
    next: u64,
    live: BTreeMap<u64, TicketKind>,
}

#[derive(Debug, Default)]
struct SharedQueue {
    queue: Mutex<TicketQueue>,
    changed: Notify,
}

/// The fence of a stream. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fence(Arc<SharedQueue>);

/// A place in the order.
#[derive(Debug)]
pub(crate) struct Ticket {
    fence: Fence,
    number: u64,
    kind: TicketKind,
}

impl Fence {
    fn queue(&self) -> MutexGuard<'_, TicketQueue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next place. Called in the order of the stream.
    pub(crate) fn ticket(&self, kind: TicketKind) -> Ticket {
        let mut queue = self.queue();
        let number = queue.next;
        queue.next += 1;
        queue.live.insert(number, kind);
        Ticket { fence: self.clone(), number, kind }
    }
}

impl Ticket {
    /// Waits for its turn.
    pub(crate) async fn turn(&self) {
        loop {
            // Registered before looking, so that no change is missed in between.
            let changed = self.fence.0.changed.notified();
            if self.is_next() {
                return;
            }
            changed.await;
        }
    }

    fn is_next(&self) -> bool {
        let queue = self.fence.queue();
        let mut before = queue.live.range(..self.number);
        match self.kind {
            TicketKind::Call => !before.any(|(_, kind)| *kind == TicketKind::Eviction),
            TicketKind::Eviction => before.next().is_none(),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.fence.queue().live.remove(&self.number);
        self.fence.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(ticket: &Ticket) -> bool {
        ticket.is_next()
    }

    #[test]
    fn an_eviction_is_a_full_fence() {
        let fence = Fence::default();
        let [a, b] = [(); 2].map(|()| fence.ticket(TicketKind::Call));
        let first = fence.ticket(TicketKind::Eviction);
        let second = fence.ticket(TicketKind::Eviction);
        let late = fence.ticket(TicketKind::Call);
        assert!(passes(&a) && passes(&b));
        assert!(!passes(&first) && !passes(&second) && !passes(&late));
        drop(a);
        assert!(!passes(&first));
        drop(b);
        assert!(passes(&first) && !passes(&second) && !passes(&late));
        drop(first);
        assert!(passes(&second) && !passes(&late));
        drop(second);
        assert!(passes(&late));
    }

    #[test]
    fn an_eviction_that_gives_up_lets_the_later_ones_keep_their_order() {
        let fence = Fence::default();
        let slow = fence.ticket(TicketKind::Call);
        let given_up = fence.ticket(TicketKind::Eviction);
        let call = fence.ticket(TicketKind::Call);
        let eviction = fence.ticket(TicketKind::Eviction);
        drop(given_up);
        assert!(passes(&call), "nothing was evicted, so nothing is to be waited for");
        drop(call);
        assert!(!passes(&eviction), "the slow call is still before it");
        drop(slow);
        assert!(passes(&eviction));
    }

    #[tokio::test]
    async fn a_waiting_ticket_is_woken() {
        let fence = Fence::default();
        let call = fence.ticket(TicketKind::Call);
        let eviction = fence.ticket(TicketKind::Eviction);
        let waiting = tokio::spawn(async move { eviction.turn().await });
        tokio::task::yield_now().await;
        drop(call);
        waiting.await.unwrap();
    }
}
