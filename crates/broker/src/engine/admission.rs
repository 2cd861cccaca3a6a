//! Admissions: which requests are in flight, and how each of them alone is cancelled.
//!
//! Invariants:
//! * **R2** nothing tracked runs unadmitted.
//! * **R3** a cancel names an admission, not a reusable id: once an admission has ended, nothing that was made from it does anything.
//! * **R5** an admission ends by `Drop`, so also when its request panics or its client goes away.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use beam_base::CancelToken;

/// The table of active client request ids.
#[derive(Debug, Clone, Default)]
pub(crate) struct Admissions(Arc<Mutex<AdmissionTable>>);

#[derive(Debug, Default)]
struct AdmissionTable {
    closed: bool,
    next: u64,
    /// Every admission, by serial number.
    active: HashMap<u64, CancelToken>,
    /// Those with a client's id.
    by_id: HashMap<String, u64>,
}

/// The right to run one request; ends on drop.
#[derive(Debug)]
pub(crate) struct Admission {
    table: Admissions,
    serial: u64,
    id: Option<String>,
    cancel: CancelToken,
}

/// Why a request was not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AdmissionRefused {
    /// The id is in use by a request that has not ended.
    #[error("client request id \"{0}\" is still active; use another id, or cancel that request first")]
    Active(String),
    /// No more requests are taken.
    #[error("the daemon is shutting down; run the command again to start a new one")]
    Closed,
}

impl Admissions {
    fn table(&self) -> std::sync::MutexGuard<'_, AdmissionTable> {
        // Every change below is one insert or remove: a panic between them cannot leave the table half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request before it runs.
    pub(crate) fn admit(&self, id: Option<&str>) -> Result<Admission, AdmissionRefused> {
        let mut t = self.table();
        if t.closed {
            return Err(AdmissionRefused::Closed);
        }
        if let Some(id) = id
            && t.by_id.contains_key(id)
        {
            return Err(AdmissionRefused::Active(id.to_owned()));
        }
        t.next += 1;
        let serial = t.next;
        let cancel = CancelToken::new();
        t.active.insert(serial, cancel.clone());
        if let Some(id) = id {
            t.by_id.insert(id.to_owned(), serial);
        }
        drop(t);
        Ok(Admission { table: self.clone(), serial, id: id.map(str::to_owned), cancel })
    }

    /// Cancels the request that holds the id now; false when there is none.
    pub(crate) fn cancel(&self, id: &str) -> bool {
        let t = self.table();
        let token = t.by_id.get(id).and_then(|serial| t.active.get(serial)).cloned();
        drop(t);
        // Outside the lock: cancelling wakes tasks.
        token.is_some_and(|token| {
            token.cancel();
            true
        })
    }

    /// Admits nothing from now on and cancels what runs (R7).
    pub(crate) fn close(&self) {
        let mut t = self.table();
        t.closed = true;
        let tokens: Vec<_> = t.active.values().cloned().collect();
        drop(t);
        for token in tokens {
            token.cancel();
        }
    }

    /// Requests in flight.
    pub(crate) fn active(&self) -> usize {
        self.table().active.len()
    }
}

impl Admission {
    /// Raised when this very request is to stop.
    pub(crate) fn cancelled(&self) -> &CancelToken {
        &self.cancel
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut t = self.table.table();
        t.active.remove(&self.serial);
        if let Some(id) = &self.id {
            t.by_id.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R3: a cancel that comes late hits neither the ended request nor the next one with its id.
    #[test]
    fn r3_an_id_names_the_admission_that_holds_it_now() {
        let table = Admissions::default();
        let first = table.admit(Some("q")).unwrap();
        assert_eq!(table.admit(Some("q")).unwrap_err(), AdmissionRefused::Active("q".into()));
        assert!(table.cancel("q"));
        let token = first.cancelled().clone();
        drop(first);
        assert!(!table.cancel("q"));
        let second = table.admit(Some("q")).unwrap();
        token.cancel();
        assert!(!second.cancelled().is_cancelled());
    }

    /// R5: the place is free again after a panic.
    #[test]
    fn r5_a_panic_gives_the_admission_back() {
        let table = Admissions::default();
        let t = table.clone();
        let result = std::thread::spawn(move || {
            let _held = t.admit(Some("q")).unwrap();
            panic!("on purpose");
        })
        .join();
        assert!(result.is_err());
        assert_eq!(table.active(), 0);
        assert!(table.admit(Some("q")).is_ok());
    }

    /// R2, R7: a closed table admits nothing and has cancelled the rest.
    #[test]
    fn r7_closing_cancels_and_refuses() {
        let table = Admissions::default();
        let held = table.admit(None).unwrap();
        table.close();
        assert!(held.cancelled().is_cancelled());
        assert_eq!(table.admit(None).unwrap_err(), AdmissionRefused::Closed);
    }
}
