//! Cancellation that many tasks can await, and deadlines as points in time.

use std::time::{Duration, Instant};

/// A flag that can be raised once, awaited by many, and derived from a parent.
pub use tokio_util::sync::CancellationToken as CancelToken;

/// A point in time by which something must have happened, or never.
///
/// A deadline is passed down through a chain of calls unchanged; a duration would start anew in each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// No deadline.
    pub const NEVER: Self = Self(None);

    /// `after` from now.
    #[must_use]
    pub fn after(after: Duration) -> Self {
        // A duration too long to be added to the clock is as good as none.
        Self(Instant::now().checked_add(after))
    }

    /// Time left; zero when past, `None` when there is no deadline.
    #[must_use]
    pub fn remaining(self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Whether the point has passed.
    #[must_use]
    pub fn is_past(self) -> bool {
        self.remaining().is_some_and(|left| left.is_zero())
    }

    /// Resolves when the deadline has passed; never for [`Deadline::NEVER`].
    pub async fn passed(self) {
        match self.0 {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_duration_is_no_deadline() {
        assert_eq!(Deadline::after(Duration::MAX), Deadline::NEVER);
        assert!(!Deadline::NEVER.is_past());
        assert!(Deadline::after(Duration::ZERO).is_past());
    }
}
