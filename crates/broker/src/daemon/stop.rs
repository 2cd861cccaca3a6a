//! Stopping the daemon of a project.

use std::time::Duration;

use beam_wire::control::Shutdown;
use beam_wire::{Request, Response};

use super::client::{self, ClientError};
use super::control::Control;
use super::lock::{ControlLock, LockError};
use super::process::{self, PidStatus, pid_status};
use super::registry::Registry;
use super::start::{self, Probe};

/// What a daemon gets to end by itself after it has answered.
const PATIENCE: Duration = Duration::from_secs(2);

/// What became of the wish.
#[derive(Debug)]
pub enum Stopped {
    /// A live daemon was asked; this is its answer. Its registry is gone.
    Answered(Response),
    /// None was live. A stale registry is gone.
    NotFound,
}

/// Stops the project's daemon, whoever started it. Waits at most `lock_limit` for others who start or stop.
///
/// A process is never killed on the word of a registry alone: only what answered for this root as a daemon is (R8).
pub async fn shutdown(control: &Control, lock_limit: Duration) -> Result<Stopped, LockError> {
    if !control.dir().is_dir() {
        // Nothing was ever started here, and nothing shall be left behind.
        return Ok(Stopped::NotFound);
    }
    let _lock = ControlLock::acquire(control, lock_limit).await?;
    match start::probe(control).await {
        Probe::Live(registry) => match stop_live(control, &registry).await {
            Some(response) => Ok(Stopped::Answered(response)),
            None => Ok(Stopped::NotFound),
        },
        Probe::Stale(registry) => {
            registry.remove(control);
            Ok(Stopped::NotFound)
        }
        Probe::Absent => Ok(Stopped::NotFound),
    }
}

/// Asks a live daemon to end, sees to it that it does, takes its registry away. `None` if it was gone before it could answer.
pub(super) async fn stop_live(control: &Control, registry: &Registry) -> Option<Response> {
    let request = Request::new(Shutdown {});
    let answer = client::call_within(&start::endpoint(registry), &request, PATIENCE).await;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while is_up(registry).await {
        if tokio::time::Instant::now() >= deadline {
            // It answered for this root a moment ago, so the pid is its own, if it is of our namespace at all.
            if pid_status(registry.pid, registry.pid_namespace.as_deref()) == PidStatus::Alive {
                process::kill(registry.pid);
            }
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let _left_by_a_killed_one = std::fs::remove_file(&registry.socket);
    registry.remove(control);
    answer.ok()
}

/// By its pid where that can be judged, else by its socket.
async fn is_up(registry: &Registry) -> bool {
    match pid_status(registry.pid, registry.pid_namespace.as_deref()) {
        PidStatus::Alive => true,
        PidStatus::Dead => false,
        PidStatus::Unknown | PidStatus::Unavailable => {
            !matches!(client::Connection::open(&start::endpoint(registry)).await, Err(ClientError::NotListening(_)))
        }
    }
}
