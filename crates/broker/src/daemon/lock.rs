//! The control lock: orders starting, replacing and stopping of a project's daemon.
//!
//! An advisory lock of the operating system on an open file: it ends with its holder, however that ends, so there is no
//! dead owner to detect. A note beside it says who holds it, for the message of those who waited in vain.
//!
//! A starting daemon inherits the open file (see [`super::start`]) and lets go when it has registered: if the command that
//! started it is killed meanwhile, nobody else starts a second one.

use std::fs::{File, TryLockError};
use std::io;
use std::time::{Duration, Instant};

use beam_base::AbsPath;
use beam_base::guarded::{Access, Folder, GuardError};
use serde::{Deserialize, Serialize};

use super::control::{Control, LOCK, LOCK_NOTE, SMALL};
use super::process::{PidStatus, pid_namespace, pid_status};

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else had it all the time.
    #[error(
        "waited {waited_ms} ms for the control lock {path} held by {owner} (limit {limit_ms} ms, BEAM_CONTROL_LOCK_TIMEOUT_MS)"
    )]
    Timeout {
        /// The lock file.
        path: AbsPath,
        /// Milliseconds waited.
        waited_ms: u128,
        /// `pid N`, or that it is unknown.
        owner: String,
        /// Milliseconds allowed.
        limit_ms: u128,
    },
    /// Something else stands in its place.
    #[error(transparent)]
    Refused(#[from] GuardError),
    /// The file cannot be opened or locked.
    #[error("cannot lock {path}: {source}")]
    Io {
        /// The lock file.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Note {
    pid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid_namespace: Option<String>,
}

/// The held lock; dropping it lets go.
#[derive(Debug)]
pub struct ControlLock {
    file: File,
    folder: Folder,
}

impl ControlLock {
    /// Takes the lock if nobody holds it.
    pub fn try_acquire(control: &Control) -> Result<Option<Self>, LockError> {
        let path = control.lock_path();
        let failed = |source| LockError::Io { path: path.clone(), source };
        let folder = control.folder()?;
        let file = folder.file(LOCK, Access::Write)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
        let text =
            serde_json::to_vec(&Note { pid: std::process::id(), pid_namespace: pid_namespace() }).unwrap_or_default();
        // The note is a courtesy; without it the owner is merely unknown.
        let _unnamed = folder.replace(LOCK_NOTE, &text);
        Ok(Some(Self { file, folder }))
    }

    /// Waits for the lock at most `limit`.
    pub async fn acquire(control: &Control, limit: Duration) -> Result<Self, LockError> {
        let began = Instant::now();
        let mut pause = Duration::from_millis(2);
        loop {
            if let Some(lock) = Self::try_acquire(control)? {
                return Ok(lock);
            }
            let waited = began.elapsed();
            if waited >= limit {
                return Err(LockError::Timeout {
                    path: control.lock_path(),
                    waited_ms: waited.as_millis(),
                    owner: owner(control),
                    limit_ms: limit.as_millis(),
                });
            }
            tokio::time::sleep(pause.min(limit.saturating_sub(waited))).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// The open file for a child process: the lock is held until both have let go.
    pub fn share(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

impl Drop for ControlLock {
    fn drop(&mut self) {
        let _already_gone = self.folder.remove(LOCK_NOTE);
    }
}

fn owner(control: &Control) -> String {
    let note: Option<Note> =
        control.folder().and_then(|f| f.read(LOCK_NOTE, SMALL)).ok().and_then(|b| serde_json::from_slice(&b).ok());
    match note {
        None => "an unknown owner".to_owned(),
        Some(n) => match pid_status(n.pid, n.pid_namespace.as_deref()) {
            // The note outlived its writer: the lock is held by the daemon which it was starting.
            PidStatus::Dead => format!("the daemon that pid {} was starting", n.pid),
            _ => format!("pid {}", n.pid),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::project;
    use super::*;
    use std::fs;

    /// Nothing is made behind a link that a cloned project brought along.
    #[test]
    fn a_planted_lock_is_refused_and_not_followed() {
        let (_keep, control) = project();
        let victim = control.root().join("victim");
        std::os::unix::fs::symlink(&victim, control.lock_path()).unwrap();
        let text = ControlLock::try_acquire(&control).unwrap_err().to_string();
        assert!(text.contains("is a symbolic link; remove it: rm"), "{text}");
        assert!(!victim.exists());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_is_bounded_and_names_the_owner() {
        let (_keep, control) = project();
        let held = ControlLock::try_acquire(&control).unwrap().unwrap();
        assert!(ControlLock::try_acquire(&control).unwrap().is_none());
        let text = ControlLock::acquire(&control, Duration::ZERO).await.unwrap_err().to_string();
        assert!(text.contains(&format!("held by pid {}", std::process::id())) && text.contains("limit 0 ms"), "{text}");
        drop(held);
        assert!(!control.lock_note_path().exists());
        assert!(ControlLock::try_acquire(&control).unwrap().is_some());
    }

    /// The lock of a dead owner is free at once: no note, no pid and no left-over file stands in the way.
    #[tokio::test]
    async fn a_dead_owner_leaves_no_lock() {
        let (_keep, control) = project();
        fs::write(control.lock_path(), "left over").unwrap();
        fs::write(control.lock_note_path(), r#"{"pid":1}"#).unwrap();
        assert!(ControlLock::acquire(&control, Duration::ZERO).await.is_ok());
    }

    /// While a child holds its share, the lock stays taken even if the first holder is gone.
    #[test]
    fn a_shared_lock_outlives_its_first_holder() {
        let (_keep, control) = project();
        let lock = ControlLock::try_acquire(&control).unwrap().unwrap();
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(lock.share().unwrap())
            .spawn()
            .unwrap();
        drop(lock);
        assert!(ControlLock::try_acquire(&control).unwrap().is_none());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(ControlLock::try_acquire(&control).unwrap().is_some());
    }
}
