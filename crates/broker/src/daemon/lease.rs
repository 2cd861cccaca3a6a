//! Leases: which commands are at work on a project right now.
//!
//! Some sandboxes end everything that a command started as soon as the command itself ends. There the command that started
//! the daemon waits until the others are done, so that it does not take the daemon away from them; `ensure --hold` is the
//! same by intent. A live lease also keeps the daemon from ending for idleness.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use beam_base::AbsPath;
use serde::{Deserialize, Serialize};

use super::clock;
use super::control::{Control, write_atomically};
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
}

/// This process's lease; dropping it takes it back.
#[derive(Debug)]
pub struct Lease {
    path: AbsPath,
}

impl Lease {
    /// Takes a lease.
    pub fn take(control: &Control, hold: bool) -> io::Result<Self> {
        let dir = control.lease_dir();
        fs::create_dir_all(&dir)?;
        let pid = std::process::id();
        let path = dir.join(format!("{}-{pid}.lease", clock::monotonic()));
        let content =
            Content { pid, pid_namespace: pid_namespace(), created_at: clock::timestamp(SystemTime::now()), hold };
        write_atomically(&path, &serde_json::to_vec(&content)?)?;
        Ok(Self { path })
    }

    /// Waits until no other command is at work, at most `limit`.
    pub async fn outlast_others(&self, control: &Control, limit: Duration) {
        let deadline = tokio::time::Instant::now() + limit;
        while others(control, Some(&self.path)).iter().any(|kind| *kind == Kind::Passing) {
            if tokio::time::Instant::now() >= deadline {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _already_gone = fs::remove_file(&self.path);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
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
fn others(control: &Control, ours: Option<&AbsPath>) -> Vec<Kind> {
    let Ok(entries) = fs::read_dir(control.lease_dir()) else {
        return Vec::new();
    };
    entries
        .filter_map(Result::ok)
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|x| x == "lease"))
        .filter(|p| ours.is_none_or(|o| o.as_path() != p.as_path()))
        .filter_map(judge)
        .collect()
}

/// A lease is stale if its pid is zero, or of our namespace and dead. What cannot be read or judged counts as live: better
/// to wait in vain than to pull a daemon from under somebody.
fn judge(path: PathBuf) -> Option<Kind> {
    let body = match fs::read(&path) {
        Ok(body) => body,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
        Err(_) => return Some(Kind::Passing),
    };
    let Ok(content) = serde_json::from_slice::<Content>(&body) else {
        return Some(Kind::Passing);
    };
    match pid_status(content.pid, content.pid_namespace.as_deref()) {
        PidStatus::Dead | PidStatus::Unknown => {
            let _already_gone = fs::remove_file(path);
            None
        }
        PidStatus::Alive | PidStatus::Unavailable if content.hold => Some(Kind::Held),
        PidStatus::Alive | PidStatus::Unavailable => Some(Kind::Passing),
    }
}

#[cfg(test)]
mod tests {
    use super::super::control::HostPaths;
    use super::*;
    use serde_json::json;

    fn temp() -> (tempfile::TempDir, Control) {
        let dir = tempfile::tempdir().unwrap();
        let root = AbsPath::canonical(dir.path()).unwrap();
        let control = Control::locate(&root, &HostPaths::default());
        control.create().unwrap();
        (dir, control)
    }

    #[test]
    fn stale_leases_are_swept_and_foreign_ones_respected() {
        let (_keep, control) = temp();
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

    #[tokio::test(start_paused = true)]
    async fn the_starter_outlasts_passing_commands_but_not_holders() {
        let (_keep, control) = temp();
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
}
