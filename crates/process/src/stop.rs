//! A flag by which whoever waits for blocking work tells it that nobody does any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Raised once, seen by all its clones.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Tells the work to stop.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the work is to stop.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Raises its flag when dropped. The side that awaits blocking work holds it: an aborted task cannot stop the thread that works for
/// it, but its drop can tell that thread.
#[derive(Debug, Default)]
pub struct StopOnDrop(StopFlag);

impl StopOnDrop {
    /// What the work looks at.
    #[must_use]
    pub fn flag(&self) -> StopFlag {
        self.0.clone()
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.raise();
    }
}
