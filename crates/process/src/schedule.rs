//! Jobs that need one another, a few at a time: each begins when all that it needs has ended well.
//!
//! Every job of ours is a Lean process, which takes up to a gigabyte; so how many run at a time is bounded by the memory, too.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Memory that one job is given, in bytes.
const ROOM: u64 = 2 << 30;

/// How many jobs to run at a time: at most `most`, and no more than there is memory for, but one.
#[must_use]
pub fn at_a_time(most: usize) -> usize {
    // Where memory cannot be asked for, it is a desktop.
    bounded(most, std::fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(total_memory))
}

/// Total memory in bytes, from `/proc/meminfo`.
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kb: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kb.checked_mul(1 << 10)
}

fn bounded(most: usize, memory: Option<u64>) -> usize {
    let room = memory.map_or(usize::MAX, |bytes| usize::try_from(bytes / ROOM).unwrap_or(usize::MAX));
    most.min(room).max(1)
}

/// Does one job, by its number. It must ask the question it is given often: whether to stop, because the caller says so or another job has
/// halted all.
pub type Work<'a, E> = dyn Fn(usize, &dyn Fn() -> bool) -> JobEnd<E> + Sync + 'a;

/// How one job ended.
#[derive(Debug)]
pub enum JobEnd<E> {
    /// Well: what needs it may begin.
    Good,
    /// Badly: what needs it is passed over, the others go on.
    Bad,
    /// So that no other job is worth beginning.
    Halt(E),
}

/// Why not all was done that could be.
#[derive(Debug, PartialEq, Eq)]
pub enum Halted<E> {
    /// The caller wanted no more.
    Stopped,
    /// A job said so, the first that did.
    ByJob(E),
}

/// Jobs by number, and what each needs. The needs must have no circle.
#[derive(Debug)]
pub struct Schedule {
    needs: Vec<Vec<usize>>,
    good: BTreeSet<usize>,
    bad: BTreeSet<usize>,
}

impl Schedule {
    /// One job for each list of needs.
    #[must_use]
    pub fn new(needs: Vec<Vec<usize>>) -> Self {
        Self { needs, good: BTreeSet::new(), bad: BTreeSet::new() }
    }

    /// Settles a job beforehand: it is not run, and counts as good or bad.
    pub fn settle(&mut self, job: usize, good: bool) {
        if good {
            self.good.insert(job)
        } else {
            self.bad.insert(job)
        };
    }

    /// Runs what is not settled, `jobs` at a time, and returns when all has ended. `stop` is asked before each job; `work` gets the job and
    /// a question that it must ask often: whether to stop, because the caller says so or another job has halted all.
    ///
    /// # Errors
    /// Not all was done that could be.
    pub fn run<E: Send>(
        self,
        jobs: usize,
        stop: &(dyn Fn() -> bool + Sync),
        work: &Work<'_, E>,
    ) -> Result<(), Halted<E>> {
        let Self { needs, good, bad } = self;
        let progress = JobsDone { begun: BTreeSet::new(), good, bad, halted: None };
        let board = Board { needs, stop, work, progress: Mutex::new(progress), changed: Condvar::new() };
        std::thread::scope(|scope| {
            for _ in 0..jobs.max(1) {
                scope.spawn(|| board.take_turns());
            }
        });
        board.progress.into_inner().unwrap_or_else(PoisonError::into_inner).halted.map_or(Ok(()), Err)
    }
}

struct JobsDone<E> {
    begun: BTreeSet<usize>,
    good: BTreeSet<usize>,
    bad: BTreeSet<usize>,
    halted: Option<Halted<E>>,
}

struct Board<'a, E> {
    needs: Vec<Vec<usize>>,
    stop: &'a (dyn Fn() -> bool + Sync),
    work: &'a Work<'a, E>,
    progress: Mutex<JobsDone<E>>,
    changed: Condvar,
}

/// A thread that panics (the caller's callbacks may) takes the others with it; they would wait for its job for ever.
struct PanicGuard<'a, 'b, E>(&'a Board<'b, E>);

impl<E> Drop for PanicGuard<'_, '_, E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().halted.get_or_insert(Halted::Stopped);
            self.0.changed.notify_all();
        }
    }
}

impl<E> Board<'_, E> {
    fn lock(&self) -> MutexGuard<'_, JobsDone<E>> {
        // A panic while the lock is held cannot leave the sets half changed.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_turns(&self) {
        let _guard = PanicGuard(self);
        while let Some(n) = self.next() {
            let stop = || (self.stop)() || self.lock().halted.is_some();
            let end = (self.work)(n, &stop);
            let mut done = self.lock();
            match end {
                JobEnd::Good => drop(done.good.insert(n)),
                JobEnd::Bad => drop(done.bad.insert(n)),
                // One that was killed because of another comes later, and does not count.
                JobEnd::Halt(e) => drop(done.halted.get_or_insert(Halted::ByJob(e))),
            }
            drop(done);
            self.changed.notify_all();
        }
    }

    /// The next job whose needs are met; waits while there may be one. What needs a bad one is bad, in silence.
    fn next(&self) -> Option<usize> {
        let mut done = self.lock();
        loop {
            if done.halted.is_none() && (self.stop)() {
                done.halted = Some(Halted::Stopped);
            }
            if done.halted.is_some() {
                return None;
            }
            let mut waiting = false;
            for (n, needs) in self.needs.iter().enumerate() {
                if done.good.contains(&n) || done.bad.contains(&n) {
                    continue;
                }
                if needs.iter().any(|d| done.bad.contains(d)) {
                    done.bad.insert(n);
                } else if !done.begun.contains(&n) && needs.iter().all(|d| done.good.contains(d)) {
                    done.begun.insert(n);
                    return Some(n);
                } else {
                    waiting = true;
                }
            }
            if !waiting {
                // Another thread may be asleep, waiting for what has just been passed over.
                self.changed.notify_all();
                return None;
            }
            // What is waited for is being done by another thread, whose end is announced.
            done = self.changed.wait(done).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    fn order(schedule: Schedule, jobs: usize, end: &(dyn Fn(usize) -> JobEnd<&'static str> + Sync)) -> Ran {
        let begun = Mutex::new(Vec::new());
        let result = schedule.run(jobs, &|| false, &|n, _| {
            begun.lock().unwrap().push(n);
            end(n)
        });
        (begun.into_inner().unwrap(), result)
    }

    type Ran = (Vec<usize>, Result<(), Halted<&'static str>>);

    #[test]
    fn memory_bounds_how_many() {
        let total = total_memory("MemFree: 1 kB\nMemTotal:        4194304 kB\n");
        assert_eq!(total, Some(4 << 30));
        assert_eq!((bounded(8, total), bounded(1, total)), (2, 1));
        assert_eq!(bounded(8, Some(3 << 30)), 1);
        assert_eq!(bounded(8, Some(1 << 20)), 1, "one is always possible");
        assert_eq!(bounded(8, None), 8);
        assert_eq!(total_memory("MemTotal: much\n"), None);
    }

    #[test]
    fn what_is_needed_comes_first_and_what_needs_a_bad_one_never() {
        let needs = vec![vec![1, 2], vec![2], vec![], vec![4], vec![], vec![3]];
        assert_eq!(order(Schedule::new(needs.clone()), 1, &|_| JobEnd::Good).0, [2, 1, 0, 4, 3, 5]);
        let bad_four = |n| if n == 4 { JobEnd::Bad } else { JobEnd::Good };
        assert_eq!(order(Schedule::new(needs.clone()), 1, &bad_four), (vec![2, 1, 0, 4], Ok(())));
        let mut settled = Schedule::new(needs);
        settled.settle(2, true);
        settled.settle(3, false);
        assert_eq!(order(settled, 1, &|_| JobEnd::Good).0, [1, 0, 4]);
    }

    /// Two that do not need each other meet; a third would wait for them for ever if it were begun too early.
    #[test]
    fn independent_jobs_run_at_the_same_time() {
        let both = Barrier::new(2);
        let (begun, result) = order(Schedule::new(vec![vec![], vec![], vec![0, 1]]), 2, &|n| {
            if n < 2 {
                both.wait();
            }
            JobEnd::Good
        });
        assert_eq!((begun[2], result), (2, Ok(())));
    }

    #[test]
    fn a_halt_ends_what_runs_and_begins_nothing() {
        let both = Barrier::new(2);
        let result = Schedule::new(vec![vec![], vec![], vec![]]).run(2, &|| false, &|n, stop| {
            assert!(n < 2, "nothing is begun any more");
            both.wait();
            if n == 0 {
                return JobEnd::Halt("first");
            }
            while !stop() {
                std::thread::yield_now();
            }
            JobEnd::Halt("killed for it")
        });
        assert_eq!(result, Err(Halted::ByJob("first")));
    }

    #[test]
    fn the_caller_can_stop() {
        let result = Schedule::new(vec![vec![]]).run(2, &|| true, &|_, _| -> JobEnd<()> { panic!("not begun") });
        assert_eq!(result, Err(Halted::Stopped));
    }

    #[test]
    fn a_panic_does_not_leave_the_others_waiting() {
        let caught = std::panic::catch_unwind(|| {
            Schedule::new(vec![vec![], vec![0]]).run(2, &|| false, &|_, _| -> JobEnd<()> { panic!("planted") })
        });
        assert!(caught.is_err());
    }
}
