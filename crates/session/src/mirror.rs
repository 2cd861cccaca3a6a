//! The mirror of one document: which text the worker has, at which version (S4). Pure.
//!
//! Decision table of broker-protocol section 10: none → open at the path's next version; an older read is ignored; the same text causes no traffic;
//! another text is a change to the path's next version. "The same" compares the texts themselves, so no hash collision can hide an edit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use beam_base::AbsPath;
use beam_lean::{lean_text_hash, normalize_newlines};

/// When a file read began, relative to other reads of this session. Taken *before* the read (R1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seq(u64);

impl Seq {
    /// A read that is ordered already and bypasses the ordering test.
    pub const ORDERED: Self = Self(0);

    pub(crate) fn from_raw(n: u64) -> Self {
        Self(n)
    }
}

/// The last version that each path had. Versions are only ever taken from here, so a version names one text of a path for as long as this lives:
/// through closings, new sessions, and a file that is deleted and made anew. Clones share it. Holds one number for each path that was ever open.
#[derive(Debug, Clone, Default)]
pub struct Versions(Arc<Mutex<HashMap<AbsPath, u64>>>);

impl Versions {
    /// A version that the path never had: 1, then 2, and so on.
    pub(crate) fn next(&self, path: &AbsPath) -> u64 {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let version = last.entry(path.clone()).or_default();
        *version += 1;
        *version
    }
}

/// One reading of a file.
#[derive(Debug, Clone)]
pub struct Snapshot {
    seq: Seq,
    text: Arc<str>,
    hash: u64,
    mtime: Option<SystemTime>,
}

impl Snapshot {
    /// `text` is the file's content as read; it is kept as Lean sees it, with `\n` for `\r\n`. Positions are positions in that.
    #[must_use]
    pub fn new(seq: Seq, text: &str, mtime: Option<SystemTime>) -> Self {
        let text = normalize_newlines(text);
        Self { seq, hash: lean_text_hash(&text), text: text.into(), mtime }
    }

    /// [`lean_text_hash`] of the text as Lean sees it.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The text as Lean sees it.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }
}

/// What [`crate::Session::apply`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The tracked version after it.
    pub version: u64,
    /// It opened or changed the document.
    pub changed: bool,
    /// It opened the document.
    pub opened: bool,
    /// An older read, ignored because a newer one was applied before.
    pub superseded: bool,
    /// Hash of the tracked text.
    pub hash: u64,
    /// The tracked text, for checks against it.
    pub text: Arc<str>,
}

/// The tracked state of an open document.
#[derive(Debug)]
pub(crate) struct Mirror {
    pub(crate) version: u64,
    pub(crate) text: Arc<str>,
    pub(crate) hash: u64,
    pub(crate) mtime: Option<SystemTime>,
    seq: Seq,
}

/// What applying a snapshot means for the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum MirrorChange {
    Superseded,
    Unchanged,
    Changed,
}

impl Mirror {
    /// `next` gives the versions that it takes, each higher than all before.
    pub(crate) fn open(snap: Snapshot, next: impl FnOnce() -> u64) -> Self {
        Self { version: next(), text: snap.text, hash: snap.hash, mtime: snap.mtime, seq: snap.seq }
    }

    pub(crate) fn apply(&mut self, snap: Snapshot, next: impl FnOnce() -> u64) -> MirrorChange {
        if snap.seq != Seq::ORDERED && snap.seq < self.seq {
            return MirrorChange::Superseded;
        }
        self.seq = self.seq.max(snap.seq);
        self.mtime = snap.mtime;
        if snap.text == self.text {
            return MirrorChange::Unchanged;
        }
        self.text = snap.text;
        self.hash = snap.hash;
        self.version = next();
        MirrorChange::Changed
    }

    pub(crate) fn applied(&self, change: MirrorChange) -> Applied {
        Applied {
            version: self.version,
            changed: change == MirrorChange::Changed,
            opened: false,
            superseded: change == MirrorChange::Superseded,
            hash: self.hash,
            text: self.text.clone(),
        }
    }
}
