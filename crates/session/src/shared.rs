//! What the tasks of one session share: facts that do not change, and counters.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::SessionConfig;
use crate::library::Library;

/// What every task of a session shares: fixed facts and counters.
pub(crate) struct Shared {
    pub(crate) config: SessionConfig,
    pub(crate) token: String,
    pub(crate) next_seq: AtomicU64,
    pub(crate) next_key: AtomicU64,
    pub(crate) tally: Tally,
    pub(crate) library: Library,
}

/// Counters that tasks add to; read as [`crate::Counters`].
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) worker_starts: AtomicU64,
    pub(crate) worker_restarts: AtomicU64,
    pub(crate) worker_losses: AtomicU64,
    pub(crate) refused_cancels: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) late_replies: AtomicU64,
    pub(crate) unknown_answers: AtomicU64,
    pub(crate) abandoned_elaborations: AtomicU64,
    pub(crate) stray_bytes: AtomicU64,
}

impl Tally {
    /// Counts one more; the number before.
    pub(crate) fn add(counter: &AtomicU64) -> u64 {
        counter.fetch_add(1, Ordering::Relaxed)
    }
}
