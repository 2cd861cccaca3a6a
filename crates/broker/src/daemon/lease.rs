//! Leases: which commands are at work on a project right now.
//!
//! Some sandboxes end everything that a command started as soon as the command itself ends. There the command that started
//! the daemon waits until the others are done, so that it does not take the daemon away from them; `ensure --hold` is the
//! same by intent. A live lease also keeps the daemon from ending for idleness.
//!
//! Whoever holds a lease holds a lock on its file, so that it ends with its holder in whatever pid namespace that was. For a
//! lease without one (no locks on that file system, another program) the recorded pid is asked.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::time::{Duration, SystemTime};

use beam_base::guarded::{Access, Folder, GuardError};
use serde::{Deserialize, Serialize};

use super::clock;
use super::control::{Control, LEASES, SMALL};
use super::process::{PidStatus, pid_namespace, pid_status};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    pid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid_namespace: Option<String>,
    created_at: String,
    /// Held until interrupted: nobody waits for such a one to end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    hold: bool,
    /// The file's lock says whether the holder lives.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    locked: bool,
}

/// This process's lease; dropping it takes it back.
#[derive(Debug)]
pub struct Lease {
    folder: Folder,
    name: String,
    // Holds the lock.
    _file: File,
}

impl Lease {
    /// Takes a lease.
    pub fn take(control: &Control, hold: bool) -> io::Result<Self> {
        let folder = control.folder().and_then(|f| f.folder(LEASES, true)).map_err(GuardError::into_io)?;
        let pid = std::process::id();
        let name = format!("{}-{pid}.lease", clock::nanos());
        let tmp = format!(".{name}");
        let mut file = folder.create(&tmp)?;
        // Locked before it can be seen under its name.
        let locked = file.try_lock().is_ok();
        let content = Content {
            pid,
            pid_namespace: pid_namespace(),
            created_at: clock::timestamp(SystemTime::now()),
            hold,
            locked,
        };
        let written = serde_json::to_vec(&content)
            .map_err(io::Error::other)
            .and_then(|body| file.write_all(&body))
            .and_then(|()| folder.rename(&tmp, &name));
        if let Err(e) = written {
            let _nothing_left = folder.remove(&tmp);
            return Err(e);
        }
        Ok(Self { folder, name, _file: file })
    }

    /// Waits until no other command is at work, at most `limit`.
    pub async fn outlast_others(&self, control: &Control, limit: Duration) {
        let deadline = tokio::time::Instant::now() + limit;
        while others(control, Some(&self.name)).contains(&LeaseKind::Passing) {
            if tokio::time::Instant::now() >= deadline {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _already_gone = self.folder.remove(&self.name);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum LeaseKind {
    /// A command that will end.
    Passing,
    /// `ensure --hold`.
    Held,
}

/// Whether any command is at work.
#[must_use]
pub fn any_live(control: &Control) -> bool {
    !others(control, None).is_empty()
}

/// Live leases but `ours`; stale ones are deleted on the way.
fn others(control: &Control, ours: Option<&str>) -> Vec<LeaseKind> {
    let Ok(folder) = control.folder().and_then(|f| f.folder(LEASES, false)) else {
        return Vec::new();
    };
    let names = folder.names().unwrap_or_default();
    names
        .iter()
        .map(String::as_str)
        .filter(|n| n.ends_with(".lease") && !n.starts_with('.') && Some(*n) != ours)
        .filter_map(|n| judge(&folder, n))
        .collect()
}

/// A lease is stale if its lock is free; without a lock if its pid is zero, or of our namespace and dead. What cannot be read
/// or judged counts as live: better to wait in vain than to pull a daemon from under somebody. What is no file of ours is no lease.
fn judge(folder: &Folder, name: &str) -> Option<LeaseKind> {
    let file = match folder.file(name, Access::Read) {
        Ok(file) => file,
        Err(e) if e.is_missing() => return None,
        Err(GuardError::Io { .. }) => return Some(LeaseKind::Passing),
        Err(_) => return None,
    };
    let mut body = Vec::new();
    if (&file).take(SMALL).read_to_end(&mut body).is_err() {
        return Some(LeaseKind::Passing);
    }
    let Ok(content) = serde_json::from_slice::<Content>(&body) else {
        return Some(LeaseKind::Passing);
    };
    let stale = if content.locked {
        match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
        }
    } else {
        matches!(pid_status(content.pid, content.pid_namespace.as_deref()), PidStatus::Dead | PidStatus::Unknown)
    };
    if stale {
        let _already_gone = folder.remove(name);
        return None;
    }
    Some(if content.hold { LeaseKind::Held } else { LeaseKind::Passing })
}

#[cfg(test)]
mod tests {
    use super::super::testing::project;
    use super::*;
    use serde_json::json;
    use std::fs;

    #[test]
    fn stale_leases_are_swept_and_foreign_ones_respected() {
        let (_keep, control) = project();
        let dir = control.lease_dir();
        fs::create_dir_all(&dir).unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = child.id();
        child.wait().unwrap();
        let ns = pid_namespace();
        let put = |name: &str, pid: u32, ns: Option<&str>| {
            let mut v = json!({"pid": pid, "createdAt": "2026-01-01T00:00:00Z"});
            if let Some(ns) = ns {
                v["pidNamespace"] = ns.into();
            }
            fs::write(dir.join(name), v.to_string()).unwrap();
        };
        put("1-0.lease", 0, ns.as_deref());
        put("2-dead.lease", dead, ns.as_deref());
        assert!(!any_live(&control));
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);

        put("3-foreign.lease", dead, Some("pid:[1]"));
        fs::write(dir.join("4-rubbish.lease"), "{").unwrap();
        fs::write(dir.join("notes.txt"), "").unwrap();
        assert_eq!(others(&control, None).len(), 2);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 3);
    }

    /// The lock tells, whatever the pid: the holder may have lived in a namespace that is gone.
    #[test]
    fn a_lease_ends_with_its_holder_in_any_namespace() {
        let (_keep, control) = project();
        let lease = Lease::take(&control, false).unwrap();
        let path = control.lease_dir().join(&lease.name);
        let text = fs::read_to_string(&path).unwrap();
        let other = text.replace(&format!("\"pid\":{}", std::process::id()), "\"pid\":0");
        assert_ne!(text, other);
        fs::write(&path, other).unwrap();
        assert!(any_live(&control));
        // As a killed holder leaves it.
        let left = control.lease_dir().join("2-2.lease");
        fs::copy(&path, &left).unwrap();
        assert_eq!(others(&control, Some(&lease.name)), []);
        assert!(!left.exists() && path.exists());
    }

    #[tokio::test(start_paused = true)]
    async fn the_starter_outlasts_passing_commands_but_not_holders() {
        let (_keep, control) = project();
        let ours = Lease::take(&control, false).unwrap();
        let holder = Lease::take(&control, true).unwrap();
        assert!(any_live(&control));
        // Nothing to wait for: the clock does not move.
        let began = tokio::time::Instant::now();
        ours.outlast_others(&control, Duration::from_secs(30)).await;
        assert_eq!(began.elapsed(), Duration::ZERO);

        let passing = Lease::take(&control, false).unwrap();
        ours.outlast_others(&control, Duration::from_secs(30)).await;
        assert!(began.elapsed() >= Duration::from_secs(30));
        drop((passing, holder, ours));
        assert!(!any_live(&control));
    }

    /// `wrapper-leases -> dir`: nothing is deleted there, and nothing made.
    #[test]
    fn a_planted_folder_of_leases_is_not_entered() {
        let (_keep, control) = project();
        let elsewhere = control.root().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("1.lease"), r#"{"pid":0,"createdAt":""}"#).unwrap();
        std::os::unix::fs::symlink(&elsewhere, control.lease_dir()).unwrap();
        assert!(!any_live(&control));
        assert!(Lease::take(&control, false).is_err());
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
    }
}
