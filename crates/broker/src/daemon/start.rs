//! Finding the daemon of a project, or starting one: exactly one per control directory, however many commands begin at once.
//!
//! * **R8** a registry is believed when the process behind it answers for this root and this workspace.
//! * Whoever starts a daemon holds the control lock; the daemon inherits it and holds it, too, until it is registered.
//! * A daemon of another configuration is replaced: the new one runs before the old one is stopped.

use std::ffi::OsString;
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use beam_base::AbsPath;
use beam_wire::Request;
use beam_wire::stats::ReadStats;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;

use super::client::{self, ClientError, Endpoint};
use super::control::{Control, ControlError};
use super::lock::{ControlLock, LockError};
use super::registry::Registry;
use super::{PROTOCOL, incident, stop};

/// A live daemon answers `stats` at once; a machine under load gets a little more.
const ANSWER: Duration = Duration::from_secs(5);
/// A daemon does nothing slow before it is ready.
const READY: Duration = Duration::from_secs(30);

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
    #[error("the daemon ended before it was ready ({status}); its log {log}:\n{tail}")]
    Failed {
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
    /// It said it was ready, but does not answer.
    #[error("the daemon started but does not answer for {root}: {why}")]
    Mute {
        /// The root.
        root: AbsPath,
        /// What happened.
        why: String,
    },
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

/// What stands behind a registry.
#[derive(Debug)]
pub enum Probe {
    /// A daemon that answers for this root.
    Live(Registry),
    /// An entry whose daemon does not.
    Stale(Registry),
    /// No entry.
    Absent,
}

/// A daemon to talk to.
#[derive(Debug)]
pub struct Found {
    /// Its entry.
    pub registry: Registry,
    /// This process's child, if it was started now.
    pub started: Option<Child>,
}

/// Looks at the registry and asks whoever it names (R8).
pub async fn probe(control: &Control) -> Probe {
    match Registry::read(control) {
        None => Probe::Absent,
        Some(registry) => match answers(control, &registry).await {
            Ok(()) => Probe::Live(registry),
            Err(why) => {
                tracing::debug!("registry {}: {why}", registry.daemon_id);
                Probe::Stale(registry)
            }
        },
    }
}

/// Whether the process behind the entry serves this root under this workspace.
async fn answers(control: &Control, registry: &Registry) -> Result<(), ClientError> {
    let foreign = || ClientError::Closed;
    // An entry for another root does not count, even if its daemon lives.
    if registry.root != *control.root() {
        return Err(foreign());
    }
    let mut request = Request::new(ReadStats {});
    request.workspace_id = Some(registry.workspace_id.clone());
    request.root = Some(control.root().to_string());
    let response = client::call_within(&endpoint(registry), &request, ANSWER).await?;
    let root = response.outcome.as_ref().ok().and_then(|r| r.get("root")?.as_str().map(str::to_owned));
    if root.as_deref() == Some(control.root().to_string().as_str()) { Ok(()) } else { Err(foreign()) }
}

/// How to reach the daemon of an entry.
#[must_use]
pub fn endpoint(registry: &Registry) -> Endpoint {
    Endpoint::Unix(registry.socket.clone())
}

/// A live daemon of the wanted configuration, without taking the lock: the way of every command but the first.
pub async fn reuse(control: &Control, wanted: &Wanted) -> Option<Registry> {
    // Cheap first: an entry of another configuration is not asked.
    Registry::read(control).filter(|r| fits(r, wanted))?;
    match probe(control).await {
        Probe::Live(registry) if fits(&registry, wanted) => Some(registry),
        Probe::Live(_) | Probe::Stale(_) | Probe::Absent => None,
    }
}

fn fits(registry: &Registry, wanted: &Wanted) -> bool {
    registry.config_hash == wanted.config_hash && registry.workspace_id == wanted.workspace_id
}

/// The daemon of the wanted configuration, started if need be; waits at most `lock_limit` for others who start or stop.
pub async fn obtain(control: &Control, wanted: &Wanted, lock_limit: Duration) -> Result<Found, StartError> {
    if let Some(registry) = reuse(control, wanted).await {
        return Ok(Found { registry, started: None });
    }
    control.create()?;
    let lock = ControlLock::acquire(control, lock_limit).await?;
    // Somebody may have started it while we waited.
    let old = match probe(control).await {
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
    let registry = match probe(control).await {
        Probe::Live(registry) => registry,
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
        Ok(_) => {
            // It has closed the pipe: it has ended or is about to.
            let status = end(&mut child);
            Err(StartError::Failed { status, log: control.log_path(), tail: tail() })
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
