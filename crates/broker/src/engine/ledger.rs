//! How many continuation handles are alive, for `stats`. Lean keeps the states; this only counts them.
//!
//! A handle ends when it is released or consumed, and, all at once, when its document moves to another version or another worker.
//! The latter is not observed but compared, when somebody asks: a count is valid only for the (version, worker) it was made under.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use beam_base::AbsPath;

/// Under what a document's handles were minted: its version, and how many workers it had had by then.
pub(crate) type Basis = (u64, u64);

#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<HashMap<AbsPath, Entry>>);

#[derive(Debug, Default)]
struct Entry {
    basis: Basis,
    live: HashSet<String>,
}

impl Ledger {
    fn map(&self) -> std::sync::MutexGuard<'_, HashMap<AbsPath, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handle was minted. Handles of an older basis are forgotten; a late report of an older basis is ignored.
    pub(crate) fn minted(&self, path: &AbsPath, basis: Basis, raw: &serde_json::Value) {
        let mut map = self.map();
        let entry = map.entry(path.clone()).or_default();
        if basis > entry.basis {
            *entry = Entry { basis, live: HashSet::new() };
        }
        if basis == entry.basis {
            entry.live.insert(raw.to_string());
        }
    }

    /// A handle was released or consumed.
    pub(crate) fn ended(&self, path: &AbsPath, raw: &serde_json::Value) {
        if let Some(entry) = self.map().get_mut(path) {
            entry.live.remove(&raw.to_string());
        }
    }

    /// A document was closed.
    pub(crate) fn closed(&self, path: &AbsPath) {
        self.map().remove(path);
    }

    /// Handles alive now, given each open document's present basis.
    pub(crate) fn count(&self, now: &HashMap<AbsPath, Basis>) -> u64 {
        let mut map = self.map();
        map.retain(|path, entry| now.get(path) == Some(&entry.basis));
        map.values().map(|e| u64::try_from(e.live.len()).unwrap_or(u64::MAX)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_follow_release_edit_and_close() {
        let ledger = Ledger::default();
        let path = AbsPath::new("/a/A.lean").unwrap();
        let at = |basis| HashMap::from([(path.clone(), basis)]);
        for n in 0..5 {
            ledger.minted(&path, (1, 1), &json!({ "value": n }));
        }
        ledger.ended(&path, &json!({"value": 0}));
        ledger.ended(&path, &json!({"value": 0}));
        assert_eq!(ledger.count(&at((1, 1))), 4);
        assert_eq!(ledger.count(&at((2, 1))), 0);
        ledger.minted(&path, (2, 1), &json!({"value": 9}));
        ledger.minted(&path, (1, 1), &json!({"value": 10}));
        assert_eq!(ledger.count(&at((2, 1))), 1);
        ledger.closed(&path);
        assert_eq!(ledger.count(&at((2, 1))), 0);
    }
}
