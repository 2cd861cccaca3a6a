//! Advisory file locks with a note beside them that says who holds them.
//!
//! The lock is the kernel's, so a killed owner holds nothing. The note is for messages only and may be stale; no decision reads it.
//! Lock files are never deleted: deleting one would let two processes hold "the" lock on two different inodes.

use std::fs::{File, TryLockError};
use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use beam_base::AbsPath;
use serde::{Deserialize, Serialize};

/// How long a fresh owner may take to write its note before it counts as unknown.
const NOTE_GRACE: Duration = Duration::from_millis(500);

/// Who holds a lock, as far as the note tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Process id, in the owner's own namespace.
    pub pid: u32,
    /// What it does.
    pub doing: String,
    /// Seconds since 1970.
    pub since: u64,
}

/// Why a lock was not got.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else held it all the time.
    #[error("waited {} s for {path}, which is held by {}", .waited.as_secs(), describe(.owner.as_ref()))]
    Held {
        /// The lock file.
        path: AbsPath,
        /// Who, if the note could be read.
        owner: Option<Owner>,
        /// How long we waited.
        waited: Duration,
    },
    /// Whoever wanted it wants it no more.
    #[error("waiting for {path} was stopped")]
    Stopped {
        /// The lock file.
        path: AbsPath,
    },
    /// The lock file cannot be used.
    #[error("cannot lock {path}: {source}")]
    Io {
        /// The lock file.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
}

/// For messages: `pid 12 (installing)`, or that the owner is unknown.
#[must_use]
pub fn describe(owner: Option<&Owner>) -> String {
    owner.map_or_else(|| "an unknown process".to_owned(), |o| format!("pid {} ({})", o.pid, o.doing))
}

/// A held lock; let go by `Drop`, and by the kernel when the process ends in whatever way.
#[derive(Debug)]
pub struct Lock {
    file: File,
    note: AbsPath,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before the unlock, so it can only be our own note.
        let _ignored = std::fs::remove_file(&self.note);
        // Closing would not do: a child that is between its fork and its exec has the file open as well, and would hold the lock.
        let _closed_next = self.file.unlock();
    }
}

/// Takes `<dir>/<key>.lock`, waiting at most `limit`, or until `stop` says so. `waiting` is called once, if the lock is not free at first.
///
/// # Errors
/// It is held by somebody else all the time, or cannot be used.
pub fn acquire(
    dir: &AbsPath,
    key: &str,
    doing: &str,
    limit: Duration,
    stop: &dyn Fn() -> bool,
    waiting: impl FnOnce(Option<&Owner>),
) -> Result<Lock, LockError> {
    let path = dir.join(format!("{key}.lock"));
    let note = dir.join(format!("{key}.owner"));
    let io = |source| LockError::Io { path: path.clone(), source };
    std::fs::create_dir_all(dir).map_err(io)?;
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(io)?;
    let begun = Instant::now();
    let mut waiting = Some(waiting);
    let mut nap = Duration::from_millis(10);
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(source)) => return Err(io(source)),
            Err(TryLockError::WouldBlock) => {}
        }
        if stop() {
            return Err(LockError::Stopped { path });
        }
        let waited = begun.elapsed();
        let owner = read_note(&note);
        // Whoever has just got it may not have written the note yet.
        if (owner.is_some() || waited > NOTE_GRACE)
            && let Some(tell) = waiting.take()
        {
            tell(owner.as_ref());
        }
        if waited >= limit {
            return Err(LockError::Held { owner, path, waited });
        }
        std::thread::sleep(nap.min(limit - waited));
        nap = (nap * 2).min(Duration::from_millis(200));
    }
    let owner = Owner {
        pid: std::process::id(),
        doing: doing.to_owned(),
        since: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
    };
    if let Ok(text) = serde_json::to_vec(&owner) {
        // Without a note the lock holds as well; on a full disk the work itself will say so.
        let _ignored = std::fs::write(&note, text);
    }
    Ok(Lock { file, note })
}

fn read_note(note: &AbsPath) -> Option<Owner> {
    serde_json::from_slice(&std::fs::read(note).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lock_names_its_owner_and_is_free_after_the_drop() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = AbsPath::new(tmp.path()).unwrap();
        let first = acquire(&dir, "k", "testing", Duration::ZERO, &|| false, |_| panic!("free")).unwrap();
        let mut told = None;
        let second = acquire(&dir, "k", "x", Duration::from_millis(30), &|| false, |o| told = Some(o.cloned()));
        let e = second.unwrap_err().to_string();
        assert!(e.contains(&format!("pid {} (testing)", std::process::id())), "{e}");
        assert_eq!(told.unwrap().unwrap().doing, "testing");
        // Another key is another lock.
        drop(acquire(&dir, "l", "x", Duration::ZERO, &|| false, |_| {}).unwrap());
        drop(first);
        assert!(!dir.join("k.owner").exists());
        drop(acquire(&dir, "k", "x", Duration::ZERO, &|| false, |_| panic!("free")).unwrap());
    }

    #[test]
    fn a_child_that_inherited_the_file_does_not_hold_the_lock() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = AbsPath::new(tmp.path()).unwrap();
        let first = acquire(&dir, "k", "testing", Duration::ZERO, &|| false, |_| {}).unwrap();
        // As a child has it between its fork and its exec.
        let inherited = first.file.try_clone().unwrap();
        drop(first);
        drop(acquire(&dir, "k", "x", Duration::ZERO, &|| false, |_| panic!("free")).unwrap());
        drop(inherited);
    }

    #[test]
    fn a_stale_note_is_not_believed() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = AbsPath::new(tmp.path()).unwrap();
        std::fs::write(dir.join("k.owner"), r#"{"pid":1,"doing":"died","since":0}"#).unwrap();
        acquire(&dir, "k", "x", Duration::ZERO, &|| false, |_| panic!("free")).unwrap();
    }

    #[test]
    fn whoever_waits_can_be_told_to_stop() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = AbsPath::new(tmp.path()).unwrap();
        let held = acquire(&dir, "k", "testing", Duration::ZERO, &|| false, |_| {}).unwrap();
        let asked = std::cell::Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) == 2;
        let e = acquire(&dir, "k", "x", Duration::from_secs(600), &stop, |_| {}).unwrap_err();
        assert!(matches!(e, LockError::Stopped { .. }), "{e}");
        // A lock that is free is had all the same.
        drop(held);
        drop(acquire(&dir, "k", "x", Duration::ZERO, &|| true, |_| {}).unwrap());
    }
}
