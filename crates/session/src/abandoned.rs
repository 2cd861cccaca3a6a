//! Elaboration of a replaced text that does not stop. Pure; the document task brings the clock and the threads.
//!
//! After an edit Lean tells what it was doing to stop, and most of it does. An endless `#eval` does not look: it keeps a thread of the
//! worker for ever, and when all threads of Lean's pool are kept, the new text is never elaborated. Lean does not tell, so it is told by
//! the threads: one that was at work when the text was replaced and has not rested since is still at the old text, if the new one is
//! done, or if nothing has been heard of the new one for long.
//!
//! A thread at work may also have gone from old work to new without a rest, which nobody can see. Then a worker is replaced that would
//! have got there: the text is elaborated again, once, as a fresh worker has nothing that was abandoned.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::process::Usage;

/// What each thread of a process has had of the machine, by its number.
pub(crate) type Threads = HashMap<u32, Usage>;

/// How many graces a text that is not done may be without news while a thread is kept.
const SILENT: u32 = 5;
/// The same, where it is one thread only, which may be at the new text after all.
const SILENT_ALONE: u32 = 15;
/// How many times as long a machine may take that gives the threads no time.
const STARVED: u32 = 10;

/// Threads that were at work when a text was replaced.
#[derive(Debug, Default)]
pub(crate) struct AbandonedWork {
    threads: HashMap<u32, (Instant, Usage)>,
    /// When it is looked at next.
    look_at: Option<Instant>,
}

/// How far the present text is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NewText {
    /// Nothing is being processed, since then.
    Done(Instant),
    /// It is being processed, and this is when something was last heard of it.
    Unfinished(Instant),
}

impl AbandonedWork {
    /// The text was replaced while it was being elaborated. What was noted at an earlier edit counts on from there.
    pub(crate) fn note(&mut self, now: Instant, threads: &Threads, grace: Duration) {
        self.threads
            .retain(|id, (since, then)| threads.get(id).is_some_and(|usage| is_kept(*usage, *then, now - *since)));
        for (id, usage) in threads {
            self.threads.entry(*id).or_insert((now, *usage));
        }
        self.look_at.get_or_insert(now + grace);
    }

    /// When to ask [`AbandonedWork::is_stubborn`].
    pub(crate) fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// Whether the old text is still being elaborated and must be taken for endless. Forgets what has come to rest.
    pub(crate) fn is_stubborn(&mut self, now: Instant, threads: &Threads, text: NewText, grace: Duration) -> bool {
        self.threads
            .retain(|id, (since, then)| threads.get(id).is_some_and(|usage| is_kept(*usage, *then, now - *since)));
        self.look_at = (!self.threads.is_empty()).then_some(now + grace / 2);
        // A thread that got no time cannot have stopped; at most ten times as long.
        let had_time = |patience: Duration| {
            self.threads.iter().any(|(id, (since, then))| {
                let ran = threads.get(id).map_or(Duration::ZERO, |usage| usage.ran.saturating_sub(then.ran));
                now - *since >= patience * STARVED || (now - *since >= patience && ran >= grace / 2)
            })
        };
        match text {
            NewText::Done(since) => now >= since + grace && had_time(grace),
            NewText::Unfinished(heard) => {
                let silent = if self.threads.len() > 1 { grace * SILENT } else { grace * SILENT_ALONE };
                now >= heard + silent && had_time(silent)
            }
        }
    }
}

/// Whether a thread ran, or would have, nearly all of the time.
fn is_kept(now: Usage, then: Usage, over: Duration) -> bool {
    let busy = (now.ran + now.waited).saturating_sub(then.ran + then.waited);
    busy >= over * 9 / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(2);

    /// Threads that were busy and ran for so many milliseconds.
    fn threads(all: &[(u32, u64, u64)]) -> Threads {
        let usage =
            |busy: u64, ran| Usage { ran: Duration::from_millis(ran), waited: Duration::from_millis(busy - ran) };
        all.iter().map(|(id, busy, ran)| (*id, usage(*busy, *ran))).collect()
    }

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_goes_on_behind_a_finished_text_is_stubborn() {
        let start = Instant::now();
        for (busy, ran, done_at, stubborn) in [
            (3000, 3000, 100, true),
            // Busy all the time, with little of the machine: it may not have come to look.
            (3000, 500, 100, false),
            // It rested.
            (2000, 2000, 100, false),
            // The text became done a moment ago: the thread may have been at that.
            (3000, 3000, 2000, false),
        ] {
            let mut work = AbandonedWork::default();
            work.note(start, &threads(&[(1, 0, 0), (2, 0, 0)]), GRACE);
            assert_eq!(work.look_at(), Some(at(start, 2000)));
            let now = threads(&[(1, busy, ran), (2, 0, 0), (3, 3000, 3000)]);
            let found = work.is_stubborn(at(start, 3000), &now, NewText::Done(at(start, done_at)), GRACE);
            assert_eq!(found, stubborn, "{busy} {ran} {done_at}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_starved_thread_is_given_ten_times_as_long() {
        let start = Instant::now();
        let mut work = AbandonedWork::default();
        work.note(start, &threads(&[(1, 0, 0)]), GRACE);
        let mut stubborn =
            |ms: u64| work.is_stubborn(at(start, ms), &threads(&[(1, ms, 10)]), NewText::Done(start), GRACE);
        assert!(!stubborn(19_000));
        assert!(stubborn(20_000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_text_without_news_waits_for_kept_threads_longer() {
        let start = Instant::now();
        for (kept, heard, after, stubborn) in [
            (2, 0, 11_000, true),
            (2, 0, 9_000, false),
            (2, 5_000, 11_000, false),
            (1, 0, 11_000, false),
            (1, 0, 31_000, true),
        ] {
            let mut work = AbandonedWork::default();
            let some = |ms| threads(&[(1, ms, ms), (2, ms, ms)][..kept]);
            work.note(start, &some(0), GRACE);
            let text = NewText::Unfinished(at(start, heard));
            let found = work.is_stubborn(at(start, after), &some(after), text, GRACE);
            assert_eq!(found, stubborn, "{kept} {heard} {after}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_rests_is_forgotten_and_edits_do_not_begin_anew() {
        let start = Instant::now();
        let mut work = AbandonedWork::default();
        work.note(start, &threads(&[(1, 0, 0), (2, 0, 0)]), GRACE);
        // Another edit: the first thread is kept since the first, the second worked and rested.
        work.note(at(start, 1500), &threads(&[(1, 1500, 1500), (2, 100, 100)]), GRACE);
        let now = threads(&[(1, 2500, 2500), (2, 100, 100)]);
        assert!(work.is_stubborn(at(start, 2500), &now, NewText::Done(start), GRACE));
        assert!(!work.is_stubborn(at(start, 9000), &now, NewText::Done(start), GRACE));
        assert_eq!(work.look_at(), None, "nothing is left to look at");
    }
}
