//! Finding the daemon of a project, or starting one: exactly one per control directory, however many commands begin at once.
//!
//! * Whoever starts a daemon holds the control lock; the daemon inherits it and holds it, too, until it is registered.
//! * A daemon of another configuration is replaced: the new one runs before the old one is stopped.

#![allow(clippy::disallowed_methods, reason = "runs in a command's own process, which has nothing else to do")]

use std::ffi::OsString;
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use beam_base::AbsPath;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;

use super::client::{ClientError, Watch};
use super::control::{Control, ControlError};
use super::lock::{ControlLock, LockError};
pub use super::probe::endpoint;
use super::probe::{Probe, probe_with};
use super::registry::Registry;
use super::{PROTOCOL, incident, stop};

/// A daemon does nothing slow before it is ready. It gives up itself before this; see `daemon` in the command line's crate.
const READY: Duration = Duration::from_secs(30);

/// How a line on the starter's pipe begins with which a daemon says why it will not be ready. It is one line.
pub const FAILED: &str = "failed ";

/// Why there is no daemon.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The control directory.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The control lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The executable cannot be run.
    #[error("cannot start the daemon: {0}")]
    Spawn(#[source] io::Error),
    /// It ended before it was ready.
    #[error("the daemon ended before it was ready ({status}){}; its log {log}:\n{tail}", said(.cause.as_deref()))]
    Failed {
        /// What it said on the pipe: this comes even when no log can be written.
        cause: Option<String>,
        /// Exit status.
        status: String,
        /// The log file.
        log: AbsPath,
        /// The log's text.
        tail: String,
    },
    /// It was not ready in time and was killed.
    #[error("the daemon was not ready within {waited_ms} ms and was ended; its log {log}:\n{tail}")]
    Late {
        /// Milliseconds waited.
        waited_ms: u128,
        /// The log file.
        log: AbsPath,
        /// The log's text.
        tail: String,
    },
    /// One runs, and does not respond. None is started beside it.
    #[error("the daemon of {root} (pid {pid}) runs but does not respond: {error}; `lean-beam shutdown` ends it")]
    Unresponsive {
        /// As its entry says.
        pid: u32,
        /// The root.
        root: AbsPath,
        /// What happened.
        error: ClientError,
    },
    /// It said it was ready, but does not answer.
    #[error("the daemon started but does not answer for {root}: {why}")]
    Mute {
        /// The root.
        root: AbsPath,
        /// What happened.
        why: String,
    },
}

fn said(cause: Option<&str>) -> String {
    cause.map(|c| format!(": {c}")).unwrap_or_default()
}

/// What two daemons must share to stand for each other.
///
/// The port is not part of it: a running daemon serves everybody, whatever port somebody wanted.
#[must_use]
pub fn config_hash(root: &AbsPath, version: &str, executable: &str, toolchain: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    let root = root.to_string();
    for field in [root.as_str(), version, executable, toolchain, &PROTOCOL.to_string()] {
        // Lengths first: no two lists of fields give the same bytes.
        hasher.update(&field.len().to_le_bytes());
        hasher.update(field.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// The daemon that is wanted.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The workspace it serves.
    pub workspace_id: String,
    /// What it must be configured as to be reused.
    pub config_hash: String,
    /// A port to listen on as well, if a new one is started.
    pub port: Option<u16>,
    /// The executable.
    pub program: AbsPath,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables it must not inherit.
    pub env_remove: Vec<OsString>,
}

/// A daemon to talk to.
#[derive(Debug)]
pub struct Found {
    /// Its entry.
    pub registry: Registry,
    /// This process's child, if it was started now.
    pub started: Option<Child>,
}

/// A live daemon of the wanted configuration, without taking the lock: the way of every command but the first.
///
/// One that lives but does not respond is an error (R9).
pub async fn reuse(control: &Control, wanted: &Wanted, watch: &Watch) -> Result<Option<Registry>, StartError> {
    // Cheap first: an entry of another configuration is not asked.
    if !Registry::read(control).is_some_and(|r| fits(&r, wanted)) {
        return Ok(None);
    }
    match probe_with(control, watch).await {
        Probe::Live(registry) if fits(&registry, wanted) => Ok(Some(registry)),
        Probe::Unresponsive(registry, error) => Err(unresponsive(registry, error)),
        Probe::Live(_) | Probe::Stale(_) | Probe::Absent => Ok(None),
    }
}

/// The error of whoever needs a daemon that runs and does not respond.
#[must_use]
pub fn unresponsive(registry: Registry, error: ClientError) -> StartError {
    StartError::Unresponsive { pid: registry.pid, root: registry.root, error }
}

fn fits(registry: &Registry, wanted: &Wanted) -> bool {
    registry.config_hash == wanted.config_hash && registry.workspace_id == wanted.workspace_id
}

/// The daemon of the wanted configuration, started if need be; waits at most `lock_limit` for others who start or stop.
pub async fn obtain(
    control: &Control,
    wanted: &Wanted,
    lock_limit: Duration,
    watch: &Watch,
) -> Result<Found, StartError> {
    if let Some(registry) = reuse(control, wanted, watch).await? {
        return Ok(Found { registry, started: None });
    }
    control.create()?;
    let lock = ControlLock::acquire(control, lock_limit).await?;
    // Somebody may have started it while we waited.
    let old = match probe_with(control, watch).await {
        Probe::Unresponsive(registry, error) => return Err(unresponsive(registry, error)),
        Probe::Live(registry) if fits(&registry, wanted) => return Ok(Found { registry, started: None }),
        Probe::Live(old) => Some(old),
        Probe::Stale(old) => {
            old.remove(control);
            None
        }
        Probe::Absent => None,
    };
    let same_port = |r: &Registry| wanted.port.is_some_and(|p| p != 0 && r.port == Some(p));
    // Two cannot have one port. Without one the old daemon serves until the new one does.
    let (before, after) = match old {
        Some(old) if same_port(&old) => (Some(old), None),
        other => (None, other),
    };
    if let Some(old) = before {
        stop::stop_live(control, &old).await;
    }
    let started = launch(control, wanted, &lock).await?;
    if let Some(old) = after {
        stop::stop_live(control, &old).await;
    }
    let registry = match probe_with(control, watch).await {
        Probe::Live(registry) => registry,
        Probe::Unresponsive(registry, error) => return Err(unresponsive(registry, error)),
        Probe::Stale(registry) => {
            registry.remove(control);
            return Err(mute(control, started, "it does not answer"));
        }
        Probe::Absent => return Err(mute(control, started, "it wrote no registry")),
    };
    Ok(Found { registry, started: Some(started) })
}

fn mute(control: &Control, mut child: Child, why: &str) -> StartError {
    end(&mut child);
    StartError::Mute { root: control.root().clone(), why: why.to_owned() }
}

/// Starts the process and waits for its word on the pipe.
///
/// Its standard input is the locked file: the lock is free when both we and it have let go. Its standard output is a pipe
/// on which it says that it is registered; end of file says that it never will be. It leaves our session by itself.
async fn launch(control: &Control, wanted: &Wanted, lock: &ControlLock) -> Result<Child, StartError> {
    let log = control.open_log()?;
    let (reader, writer) = io::pipe().map_err(StartError::Spawn)?;
    let mut command = Command::new(&wanted.program);
    command
        .args(&wanted.args)
        .current_dir(control.root())
        .stdin(lock.share().map_err(StartError::Spawn)?)
        .stdout(Stdio::from(writer))
        .stderr(log);
    for name in &wanted.env_remove {
        command.env_remove(name);
    }
    let mut child = command.spawn().map_err(StartError::Spawn)?;
    // Our copy of the pipe's writing end lives in `command`: without this there is no end of file.
    drop(command);
    let reader = pipe::Receiver::from_owned_fd(reader.into()).map_err(StartError::Spawn)?;
    let mut lines = BufReader::new(reader).lines();
    let said = tokio::time::timeout(READY, lines.next_line()).await;
    let tail = || incident::log_tail(control).unwrap_or_default();
    match said {
        Ok(Ok(Some(line))) if line.starts_with("ready ") => Ok(child),
        Ok(line) => {
            // It has said why it does not start, or closed the pipe: it has ended or is about to.
            let cause = line.ok().flatten().map(|l| l.strip_prefix(FAILED).unwrap_or(&l).to_owned());
            let status = end(&mut child);
            Err(StartError::Failed { cause, status, log: control.log_path(), tail: tail() })
        }
        Err(_) => {
            end(&mut child);
            Err(StartError::Late { waited_ms: READY.as_millis(), log: control.log_path(), tail: tail() })
        }
    }
}

/// Makes sure that a child that is of no use has ended, and says how.
fn end(child: &mut Child) -> String {
    for _ in 0..20 {
        if let Ok(Some(status)) = child.try_wait() {
            return status.to_string();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _gone = child.kill();
    child.wait().map_or_else(|e| e.to_string(), |s| s.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_tells_configurations_apart() {
        let root = AbsPath::new("/p").unwrap();
        let h = config_hash(&root, "1", "exe", "auto");
        assert_eq!(h, config_hash(&root, "1", "exe", "auto"));
        assert_eq!(h.len(), 32);
        for other in [
            config_hash(&AbsPath::new("/q").unwrap(), "1", "exe", "auto"),
            config_hash(&root, "2", "exe", "auto"),
            config_hash(&root, "1", "exe2", "auto"),
            config_hash(&root, "1", "exe", "embedded"),
            config_hash(&root, "1e", "xe", "auto"),
        ] {
            assert_ne!(h, other);
        }
    }
}
