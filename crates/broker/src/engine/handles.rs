//! How many continuation handles are alive: for `stats`, and for the limit on them. Lean keeps the states; this only counts them.
//!
//! A handle ends when it is released or consumed, and, all at once, when its document moves to another version or another worker.
//! The latter is not observed but compared, when somebody asks: a count is valid only for the (version, worker) it was made under.
//!
//! Invariant: live handles and places taken for requests that may make one are together never more than the limit.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use beam_base::AbsPath;
use serde_json::Value;

/// Under what a document's handles were minted: its version, and how many workers it had had by then.
pub(crate) type HandleBasis = (u64, u64);

/// The handles of one session. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct HandleLedger {
    limit: usize,
    documents: Arc<Mutex<HashMap<AbsPath, DocumentHandles>>>,
}

#[derive(Debug, Default)]
struct DocumentHandles {
    basis: HandleBasis,
    next: u64,
    /// Lean's own form of each handle as text, by age.
    live: BTreeMap<u64, String>,
    /// Requests under way that may make one.
    reserved: usize,
    /// Used up by a linear continuation, newest last. Lean knows it too, once it has the request: this is for one that is cancelled on
    /// its way.
    consumed: VecDeque<String>,
}

/// Consumed handles that are remembered for a document.
const CONSUMED: usize = 4096;

/// A place for one handle, held by a request that may make one; given back on drop.
#[derive(Debug)]
#[must_use]
pub(crate) struct HandlePlace {
    ledger: HandleLedger,
    path: AbsPath,
}

/// A document has as many handles as are kept.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{limit} handles are kept for a document at one version, and there are as many")]
pub(crate) struct TooManyHandles {
    pub(crate) limit: usize,
    /// The oldest one in Lean's form, unless all places are taken by requests under way.
    pub(crate) oldest: Option<Value>,
}

impl DocumentHandles {
    /// Forgets the handles of an older basis.
    fn settle(&mut self, basis: HandleBasis) {
        if basis > self.basis {
            self.basis = basis;
            self.live.clear();
            self.consumed.clear();
        }
    }

    fn take(&mut self, raw: &Value) -> bool {
        let raw = raw.to_string();
        let before = self.live.len();
        self.live.retain(|_, live| *live != raw);
        self.live.len() < before
    }
}

impl HandleLedger {
    /// At most `limit` handles for each document.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, documents: Arc::default() }
    }

    fn documents(&self) -> MutexGuard<'_, HashMap<AbsPath, DocumentHandles>> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for the handle that a request about `version` will make, in exchange for `consumed` if that is alive.
    ///
    /// # Errors
    /// There are as many as are kept, as far as known: the caller may [`settle`](Self::settle) and ask again.
    pub(crate) fn reserve(
        &self,
        path: &AbsPath,
        version: u64,
        consumed: Option<&Value>,
    ) -> Result<HandlePlace, TooManyHandles> {
        let mut documents = self.documents();
        let document = documents.entry(path.clone()).or_default();
        document.settle((version, 0));
        let freed = consumed.is_some_and(|raw| {
            let raw = raw.to_string();
            document.live.values().any(|live| *live == raw)
        });
        if document.live.len() + document.reserved >= self.limit + usize::from(freed) {
            let oldest = document.live.values().next().and_then(|raw| serde_json::from_str(raw).ok());
            return Err(TooManyHandles { limit: self.limit, oldest });
        }
        if let Some(raw) = consumed {
            document.take(raw);
        }
        document.reserved += 1;
        Ok(HandlePlace { ledger: self.clone(), path: path.clone() })
    }

    /// The document is at `basis` now: handles of an older one are gone.
    pub(crate) fn settle(&self, path: &AbsPath, basis: HandleBasis) {
        if let Some(document) = self.documents().get_mut(path) {
            document.settle(basis);
        }
    }

    /// A linear continuation begins: its handle is used up whatever comes of it, even if it is cancelled before Lean has it. Only a handle
    /// of this document counts; what is none is for Lean to refuse.
    pub(crate) fn consume(&self, path: &AbsPath, raw: &Value) {
        if let Some(document) = self.documents().get_mut(path)
            && document.take(raw)
        {
            document.consumed.push_back(raw.to_string());
            if document.consumed.len() > CONSUMED {
                document.consumed.pop_front();
            }
        }
    }

    /// Whether a linear continuation has used the handle up.
    pub(crate) fn is_consumed(&self, path: &AbsPath, raw: &Value) -> bool {
        let raw = raw.to_string();
        self.documents().get(path).is_some_and(|document| document.consumed.contains(&raw))
    }

    /// A handle was released or consumed.
    pub(crate) fn ended(&self, path: &AbsPath, raw: &Value) {
        if let Some(document) = self.documents().get_mut(path) {
            document.take(raw);
        }
    }

    /// A document was closed.
    pub(crate) fn closed(&self, path: &AbsPath) {
        if let Some(document) = self.documents().get_mut(path) {
            document.live.clear();
            document.consumed.clear();
        }
    }

    /// Handles alive now, given each open document's present basis.
    pub(crate) fn count(&self, now: &HashMap<AbsPath, HandleBasis>) -> u64 {
        let mut documents = self.documents();
        for (path, document) in documents.iter_mut() {
            if now.get(path) != Some(&document.basis) {
                document.live.clear();
            }
        }
        documents.retain(|_, d| d.reserved > 0 || !d.live.is_empty() || !d.consumed.is_empty());
        documents.values().map(|document| u64::try_from(document.live.len()).unwrap_or(u64::MAX)).sum()
    }
}

impl HandlePlace {
    /// The request made a handle. Handles of an older basis are forgotten; a late report of an older basis is ignored.
    pub(crate) fn minted(self, basis: HandleBasis, raw: &Value) {
        let mut documents = self.ledger.documents();
        let document = documents.entry(self.path.clone()).or_default();
        document.settle(basis);
        if basis == document.basis {
            document.next += 1;
            document.live.insert(document.next, raw.to_string());
        }
    }
}

impl Drop for HandlePlace {
    fn drop(&mut self) {
        if let Some(document) = self.ledger.documents().get_mut(&self.path) {
            document.reserved = document.reserved.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ledger(limit: usize) -> (HandleLedger, AbsPath) {
        (HandleLedger::new(limit), AbsPath::new("/a/A.lean").unwrap())
    }

    fn raw(n: u32) -> Value {
        json!({ "value": n })
    }

    #[test]
    fn counts_follow_release_edit_and_close() {
        let (ledger, path) = ledger(100);
        let at = |basis| HashMap::from([(path.clone(), basis)]);
        let mint = |basis: HandleBasis, n| ledger.reserve(&path, basis.0, None).unwrap().minted(basis, &raw(n));
        for n in 0..5 {
            mint((1, 1), n);
        }
        ledger.ended(&path, &raw(0));
        ledger.ended(&path, &raw(0));
        assert_eq!(ledger.count(&at((1, 1))), 4);
        assert_eq!(ledger.count(&at((2, 1))), 0);
        let late = ledger.reserve(&path, 1, None).unwrap();
        mint((2, 1), 9);
        late.minted((1, 1), &raw(10));
        assert_eq!(ledger.count(&at((2, 1))), 1);
        ledger.closed(&path);
        assert_eq!(ledger.count(&at((2, 1))), 0);
    }

    #[test]
    fn no_more_than_the_limit_are_alive_or_under_way() {
        let (ledger, path) = ledger(2);
        ledger.reserve(&path, 1, None).unwrap().minted((1, 1), &raw(1));
        let under_way = ledger.reserve(&path, 1, None).unwrap();
        let full = ledger.reserve(&path, 1, None).unwrap_err();
        assert_eq!(full, TooManyHandles { limit: 2, oldest: Some(raw(1)) });
        // What is used up makes room for what comes of it, once.
        let next = ledger.reserve(&path, 1, Some(&raw(1))).unwrap();
        assert!(ledger.reserve(&path, 1, Some(&raw(1))).is_err());
        drop((under_way, next));
        ledger.reserve(&path, 1, None).unwrap().minted((1, 1), &raw(2));
        ledger.reserve(&path, 1, None).unwrap().minted((1, 1), &raw(3));
        assert!(ledger.reserve(&path, 1, None).is_err());
        // Another worker has none of them, nor has another version.
        ledger.settle(&path, (1, 2));
        ledger.reserve(&path, 1, None).unwrap().minted((1, 2), &raw(4));
        assert_eq!(ledger.count(&HashMap::from([(path.clone(), (1, 2))])), 1);
        ledger.reserve(&path, 2, None).unwrap().minted((2, 2), &raw(5));
        assert_eq!(ledger.count(&HashMap::from([(path, (2, 2))])), 1);
    }
}
