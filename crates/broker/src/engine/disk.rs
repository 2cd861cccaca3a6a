//! Looking at the user's disk without waiting for it for ever.
//!
//! A file system that does not answer (a network mount that is gone) holds every thread that touches it, uninterruptibly. So nothing here runs
//! on the runtime's own threads, each workspace has a fixed number of places, and whoever waits stops waiting after a while. A thread that
//! never comes back keeps its place: a workspace on a dead mount runs out of places, and only that workspace.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

/// Looks of one workspace at the same time, for each of the two kinds: those that can be left open never take the places of the others.
const PLACES: usize = 8;
/// How long a request waits for what it cannot do without: a slow disk is to be waited for, a dead one is not.
const NEEDED: Duration = Duration::from_secs(30);
/// How long an answer waits for what it can leave open.
const OPTIONAL: Duration = Duration::from_secs(2);

/// One workspace's access to the disk. Clones share the places.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    needed: Places,
    optional: Places,
}

#[derive(Debug, Clone)]
struct Places {
    free: Arc<Semaphore>,
    limit: Duration,
}

/// The disk did not answer in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the file system did not answer within {} s", .waited.as_secs_f32())]
pub(crate) struct DiskSilent {
    waited: Duration,
}

impl Default for Disk {
    fn default() -> Self {
        Self::with_limits(PLACES, NEEDED, OPTIONAL)
    }
}

impl Disk {
    pub(super) fn with_limits(places: usize, needed: Duration, optional: Duration) -> Self {
        let places = |limit| Places { free: Arc::new(Semaphore::new(places)), limit };
        Self { needed: places(needed), optional: places(optional) }
    }

    /// Does blocking work that the request cannot do without.
    ///
    /// # Errors
    /// It took too long, or there was no place for it in that time. The work itself goes on; what it does comes to nothing.
    pub(crate) async fn need<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DiskSilent> {
        self.needed.run(work).await
    }

    /// Does blocking work whose result may be left open; `None` when it took too long.
    pub(crate) async fn want<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        self.optional.run(work).await.ok()
    }
}

impl Places {
    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, DiskSilent> {
        let (free, limit) = (Arc::clone(&self.free), self.limit);
        let done = async move {
            let place = free.acquire_owned().await;
            tokio::task::spawn_blocking(move || {
                let result = work();
                drop(place);
                result
            })
            .await
        };
        match tokio::time::timeout(limit, done).await {
            Ok(Ok(result)) => Ok(result),
            // A defect of ours ends this request as it would have without the thread between.
            Ok(Err(e)) => {
                std::panic::resume_unwind(e.try_into_panic().unwrap_or_else(|_| Box::new("the runtime is ending")))
            }
            Err(_) => Err(DiskSilent { waited: limit }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Work that ends when the sender is dropped.
    fn hung() -> (mpsc::Sender<()>, impl FnOnce() + Send + 'static) {
        let (end, gate) = mpsc::channel::<()>();
        (end, move || gate.recv().unwrap_or_default())
    }

    #[tokio::test]
    async fn a_disk_that_hangs_is_not_waited_for_and_takes_only_its_own_places() {
        let short = Duration::from_millis(20);
        let (dead, sound) = (Disk::with_limits(2, short, short), Disk::with_limits(2, Duration::from_secs(60), short));
        let mut ends = Vec::new();
        for _ in 0..2 {
            let (end, work) = hung();
            ends.push(end);
            assert_eq!(dead.need(work).await, Err(DiskSilent { waited: short }));
        }
        // No place is left, and that is told, too; those of the other kind, and of another disk, are free.
        assert_eq!(dead.need(|| 1).await, Err(DiskSilent { waited: short }));
        assert_eq!(dead.want(|| 1).await, Some(1));
        assert_eq!(sound.need(|| 1).await, Ok(1));
        // A thread that comes back gives its place back.
        ends.clear();
        while dead.need(|| 1).await.is_err() {}
    }

    #[tokio::test]
    #[should_panic(expected = "on purpose")]
    async fn a_panic_is_the_callers() {
        let work: fn() -> u32 = || panic!("on purpose");
        assert!(Disk::default().need(work).await.is_err());
    }
}
