//! What a caller sees of a document while its request is pending.
//!
//! Two kinds of news. Where something *is* (progress, diagnostics) is a latest value: what nobody took is replaced by what is newer, so
//! a slow watcher costs nothing and reads nothing twice. Lines of a build's log are a queue, with an end: beyond it lines are left out.
//!
//! Order: the document task shows everything before it ends the request, and both ways are read from the same task's writes. So
//! whoever has the answer finds with [`Observations::try_recv`] all that was observed before it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::progress::Progress;
use crate::worker_message::is_silent;

/// Lines of a build's log that may wait for their reader.
const LINES: usize = 1024;

/// Lean publishes the whole list again with each new diagnostic. Lists longer than this, in bytes of JSON …
const LONG_LIST: usize = 16 * 1024;
/// … are taken no more often than this: reading every one of a file with thousands is work that grows with their square.
const PACE: Duration = Duration::from_millis(100);

/// What was seen of the document while a request was pending.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Observation {
    /// Lean reported how far it is; the latest report.
    Progress(Progress),
    /// Lean published diagnostics; the latest list.
    Diagnostics(Published),
    /// One line of the log of what is done before a worker starts. None is replaced by another.
    BuildLine {
        /// The version it is about.
        version: u64,
        /// The line, as an LSP diagnostic.
        item: Value,
    },
    /// The worker was replaced, and this request goes to the new one. What was published before is about another environment.
    Resent,
    /// The file's own code wrote something to the worker's output.
    StrayOutput(StrayOutput),
}

/// What a file's code has written to its worker's standard output, where only the protocol belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrayOutput {
    /// The end of it, at most 64 KiB; bytes that are no UTF-8 are replaced.
    pub text: Arc<str>,
    /// How many bytes it was in all, since this worker was started.
    pub bytes: u64,
}

/// The diagnostics of one version, as the worker published them. Cheap to clone, and read only when somebody looks.
#[derive(Debug, Clone)]
pub struct Published {
    version: u64,
    /// The parts that make the list. Lean may send what is new only; then later values of this type share the parts of earlier ones.
    parts: Arc<Mutex<Vec<Arc<RawValue>>>>,
    /// How many of them belong to this value.
    len: usize,
}

impl Published {
    /// A list that replaces whatever was published before.
    pub(crate) fn new(version: u64, list: Box<RawValue>) -> Self {
        Self { version, parts: Arc::new(Mutex::new(vec![list.into()])), len: 1 }
    }

    /// This list and what came behind it.
    pub(crate) fn extended(&self, more: Box<RawValue>) -> Self {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        // Only the newest value is ever extended, by the task that made it.
        parts.truncate(self.len);
        parts.push(more.into());
        Self { version: self.version, parts: self.parts.clone(), len: parts.len() }
    }

    /// The version they are about.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The diagnostics as LSP spells them. Those that Lean marks as not for users are left out.
    ///
    /// # Errors
    /// If the worker's list is no list.
    pub fn items(&self) -> Result<Vec<Value>, serde_json::Error> {
        self.read_from(0)
    }

    /// What this list has beyond `earlier`, if it only adds to that one; `None` if it is another list.
    ///
    /// # Errors
    /// As [`Published::items`].
    pub fn items_since(&self, earlier: &Self) -> Option<Result<Vec<Value>, serde_json::Error>> {
        (Arc::ptr_eq(&self.parts, &earlier.parts) && earlier.len <= self.len).then(|| self.read_from(earlier.len))
    }

    fn read_from(&self, from: usize) -> Result<Vec<Value>, serde_json::Error> {
        let parts: Vec<_> = {
            let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.get(from..self.len).unwrap_or_default().to_vec()
        };
        let mut items = Vec::new();
        for part in parts {
            items.extend(serde_json::from_str::<Vec<Value>>(part.get())?.into_iter().filter(|item| !is_silent(item)));
        }
        Ok(items)
    }

    /// Bytes of JSON that a reader who has seen `earlier` would have to read.
    fn unread_bytes(&self, earlier: Option<&Self>) -> usize {
        let from = earlier.filter(|it| Arc::ptr_eq(&it.parts, &self.parts)).map_or(0, |it| it.len);
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.get(from..self.len).unwrap_or_default().iter().map(|part| part.get().len()).sum()
    }
}

/// The latest values, each with how often it was set.
#[derive(Debug, Clone, Default)]
struct Latest {
    progress: (u64, Option<Progress>),
    diagnostics: (u64, Option<Published>),
    stray: (u64, Option<StrayOutput>),
    resent: u64,
}

/// The document's end: goes with a request, and shows what happens until that ends.
#[derive(Debug)]
pub struct Observer {
    latest: watch::Sender<Latest>,
    lines: mpsc::Sender<(u64, Value)>,
    wants_present: bool,
}

/// The caller's end.
#[derive(Debug)]
pub struct Observations {
    latest: watch::Receiver<Latest>,
    lines: mpsc::Receiver<(u64, Value)>,
    /// What was taken already.
    taken: Latest,
    /// When a long list may be taken again.
    paced_until: Option<Instant>,
}

/// A way for one request's observations.
#[must_use]
pub fn observer() -> (Observer, Observations) {
    let (latest, seen) = watch::channel(Latest::default());
    let (lines, read) = mpsc::channel(LINES);
    let observations = Observations { latest: seen, lines: read, taken: Latest::default(), paced_until: None };
    (Observer { latest, lines, wants_present: false }, observations)
}

impl Observer {
    /// Shows the diagnostics that are there already when the request is registered, too, and not only what is published after that.
    #[must_use]
    pub fn from_present(mut self) -> Self {
        self.wants_present = true;
        self
    }

    pub(crate) fn registered(&self, present: Option<&Published>) {
        if let Some(published) = present.filter(|_| self.wants_present) {
            self.published(published);
        }
    }

    // A caller that no longer looks still waits for its answer, so nobody minds who is listening.

    pub(crate) fn progress(&self, progress: Progress) {
        self.latest.send_modify(|it| it.progress = (it.progress.0 + 1, Some(progress)));
    }

    pub(crate) fn published(&self, published: &Published) {
        self.latest.send_modify(|it| it.diagnostics = (it.diagnostics.0 + 1, Some(published.clone())));
    }

    pub(crate) fn stray_output(&self, output: &StrayOutput) {
        self.latest.send_modify(|it| it.stray = (it.stray.0 + 1, Some(output.clone())));
    }

    pub(crate) fn resent(&self) {
        self.latest.send_modify(|it| {
            it.resent += 1;
            // About the worker before.
            it.diagnostics.1 = None;
        });
    }

    pub(crate) fn build_line(&self, version: u64, line: &Value) {
        // A reader that is a thousand lines behind misses some; the build does not wait for it.
        drop(self.lines.try_send((version, line.clone())));
    }
}

impl Observations {
    /// The next thing to see; `None` when the request has ended and everything was taken. Safe to drop and call again.
    pub async fn recv(&mut self) -> Option<Observation> {
        loop {
            let now = Instant::now();
            if let Some(found) = self.take(self.paced_until.is_none_or(|until| until <= now)) {
                return Some(found);
            }
            let waits_for_pace = self.waiting_diagnostics().is_some();
            let pace = self.paced_until.filter(|_| waits_for_pace);
            let ended = tokio::select! {
                line = self.lines.recv(), if !self.lines.is_closed() || !self.lines.is_empty() => {
                    if let Some((version, item)) = line {
                        return Some(Observation::BuildLine { version, item });
                    }
                    false
                }
                changed = self.latest.changed() => changed.is_err(),
                () = sleep_until(pace), if pace.is_some() => false,
            };
            if ended {
                return self.try_recv();
            }
        }
    }

    /// The next thing to see that is there already. After the request's end: what was observed before it.
    pub fn try_recv(&mut self) -> Option<Observation> {
        self.take(true)
    }

    fn take(&mut self, long_lists: bool) -> Option<Observation> {
        if let Ok((version, item)) = self.lines.try_recv() {
            return Some(Observation::BuildLine { version, item });
        }
        let latest = self.latest.borrow_and_update().clone();
        // First of all: it says what the others are about.
        if latest.resent > self.taken.resent {
            self.taken.resent = latest.resent;
            self.taken.diagnostics.1 = None;
            return Some(Observation::Resent);
        }
        if let (n, Some(progress)) = latest.progress
            && n > self.taken.progress.0
        {
            self.taken.progress = latest.progress;
            return Some(Observation::Progress(progress));
        }
        if let (n, Some(output)) = &latest.stray
            && *n > self.taken.stray.0
        {
            self.taken.stray = latest.stray.clone();
            return Some(Observation::StrayOutput(output.clone()));
        }
        let published = self.waiting_diagnostics()?;
        let is_long = published.unread_bytes(self.taken.diagnostics.1.as_ref()) > LONG_LIST;
        if is_long && !long_lists {
            return None;
        }
        self.paced_until = is_long.then(|| Instant::now() + PACE);
        self.taken.diagnostics = latest.diagnostics;
        Some(Observation::Diagnostics(published))
    }

    fn waiting_diagnostics(&self) -> Option<Published> {
        let latest = self.latest.borrow();
        latest.diagnostics.1.clone().filter(|_| latest.diagnostics.0 > self.taken.diagnostics.0)
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn list(items: &Value) -> Box<RawValue> {
        RawValue::from_string(items.to_string()).unwrap()
    }

    fn progress(updates: u64) -> Progress {
        Progress { updates, ..Progress::default() }
    }

    /// What each observation says, in a word.
    fn words(found: Option<Observation>) -> Option<String> {
        Some(match found? {
            Observation::Progress(it) => format!("progress {}", it.updates),
            Observation::Diagnostics(it) => format!("{} at {}", json!(it.items().unwrap()), it.version()),
            Observation::BuildLine { item, .. } => format!("line {item}"),
            Observation::Resent => "resent".to_owned(),
            Observation::StrayOutput(it) => format!("stray {}", it.text),
        })
    }

    fn all(seen: &mut Observations) -> Vec<String> {
        std::iter::from_fn(|| words(seen.try_recv())).collect()
    }

    #[test]
    fn the_latest_value_is_seen_once_and_every_line() {
        let (observer, mut seen) = observer();
        for n in 1..=3 {
            observer.progress(progress(n));
            observer.published(&Published::new(n, list(&json!([n]))));
            observer.build_line(n, &json!(n));
        }
        assert_eq!(all(&mut seen), ["line 1", "line 2", "line 3", "progress 3", "[3] at 3"]);
        assert_eq!(all(&mut seen), [""; 0]);
        // What was published before belongs to the worker before, taken or not.
        observer.published(&Published::new(4, list(&json!([4]))));
        observer.resent();
        assert_eq!(all(&mut seen), ["resent"]);
        observer.published(&Published::new(4, list(&json!([5]))));
        assert_eq!(all(&mut seen), ["[5] at 4"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_shown_before_the_end_is_there_after_it() {
        let (observer, mut seen) = observer();
        observer.progress(progress(1));
        observer.build_line(1, &json!("a"));
        drop(observer);
        assert_eq!(words(seen.recv().await).as_deref(), Some("line \"a\""));
        assert_eq!(words(seen.recv().await).as_deref(), Some("progress 1"));
        assert_eq!(words(seen.recv().await), None);
    }

    /// A reader that does not read holds a bounded number of lines and one value of each kind.
    #[test]
    fn nothing_piles_up() {
        let (observer, mut seen) = observer();
        for n in 0..10 * LINES as u64 {
            observer.build_line(n, &json!(n));
            observer.progress(progress(n));
        }
        assert_eq!(all(&mut seen).len(), LINES + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn long_lists_are_paced_and_the_last_one_is_seen() {
        let (observer, mut seen) = observer();
        let long = |n: usize| list(&json!([n, "x".repeat(LONG_LIST)]));
        let begun = Instant::now();
        for n in 0..3 {
            observer.published(&Published::new(n as u64, long(n)));
            let Some(Observation::Diagnostics(it)) = seen.recv().await else { panic!("a list") };
            assert_eq!(it.version(), n as u64);
        }
        assert_eq!(begun.elapsed().as_millis() / PACE.as_millis(), 2);
        observer.published(&Published::new(9, long(9)));
        drop(observer);
        assert!(matches!(seen.try_recv(), Some(Observation::Diagnostics(it)) if it.version() == 9));
    }

    #[test]
    fn increments_are_read_as_such() {
        let first = Published::new(1, list(&json!([1, {"isSilent": true}])));
        let second = first.extended(list(&json!([2])));
        let third = second.extended(list(&json!([3])));
        let other = Published::new(1, list(&json!([9])));
        let items = |it: &Published| json!(it.items().unwrap());
        assert_eq!((items(&first), items(&third)), (json!([1]), json!([1, 2, 3])));
        assert_eq!(json!(third.items_since(&first).unwrap().unwrap()), json!([2, 3]));
        assert_eq!(json!(third.items_since(&third).unwrap().unwrap()), json!([]));
        assert!(third.items_since(&other).is_none() && first.items_since(&third).is_none());
        assert!(Published::new(1, list(&json!({"a": 1}))).items().is_err());
    }
}
