//! Stopping the daemon of a project.

#![allow(clippy::disallowed_methods, reason = "runs in a command's own process, which has nothing else to do")]

use std::time::Duration;

use beam_base::AbsPath;
use beam_wire::control::Shutdown;
use beam_wire::{Request, Response};

use super::client::{ClientError, Connection, Watch};
use super::control::Control;
use super::lock::{ControlLock, LockError};
use super::probe::{Probe, endpoint, probe_with};
use super::registry::Registry;

/// What a daemon gets to end by itself after it has answered.
const PATIENCE: Duration = Duration::from_secs(2);

/// What became of the wish.
#[derive(Debug)]
pub enum Stopped {
    /// A live daemon was asked; this is its answer. Its registry is gone.
    Answered(Response),
    /// It did not respond and was killed. Its registry is gone.
    Killed {
        /// The process, as the kernel named it.
        pid: u32,
    },
    /// None was live. A stale registry is gone.
    NotFound,
}

/// Why a daemon was not stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The control lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// It does not respond, and that it is this project's daemon cannot be made sure, so it is not signalled.
    #[error(
        "the daemon of {root} does not respond ({error}), and the process behind {socket} is not known to be one: end it yourself"
    )]
    Unresponsive {
        /// The root.
        root: AbsPath,
        /// Where it listens.
        socket: AbsPath,
        /// What happened.
        error: ClientError,
    },
}

/// Stops the project's daemon, whoever started it. Waits at most `lock_limit` for others who start or stop.
///
/// A process is never signalled on the word of a file. Ended by force is only what the kernel names as the listener of the socket, and
/// of those only what answered for this root, or listens on a socket of this control directory.
pub async fn shutdown(control: &Control, lock_limit: Duration) -> Result<Stopped, StopError> {
    if !control.dir().is_dir() {
        // Nothing was ever started here, and nothing shall be left behind.
        return Ok(Stopped::NotFound);
    }
    let _lock = ControlLock::acquire(control, lock_limit).await?;
    match probe_with(control, &Watch::short(PATIENCE / 4)).await {
        Probe::Live(registry) => match stop_live(control, &registry).await {
            Some(response) => Ok(Stopped::Answered(response)),
            None => Ok(Stopped::NotFound),
        },
        Probe::Unresponsive(registry, error) => stop_silent(control, registry, error).await,
        Probe::Stale(registry) => {
            registry.remove(control);
            Ok(Stopped::NotFound)
        }
        Probe::Absent => Ok(Stopped::NotFound),
    }
}

/// Asks a live daemon to end, sees to it that it does, takes its registry away. `None` if it was gone before it could answer.
pub(super) async fn stop_live(control: &Control, registry: &Registry) -> Option<Response> {
    let mut connection = Connection::open(&endpoint(registry)).await.ok();
    let listener = connection.as_mut().and_then(Connection::take_listener);
    let answer = match connection {
        None => None,
        Some(mut connection) => {
            connection.send(&Request::new(Shutdown {}).encode()).await;
            tokio::time::timeout(PATIENCE, connection.response(|_| {})).await.ok().and_then(Result::ok)
        }
    };
    match listener {
        Some(listener) => {
            // It answered on this connection after its descriptor was opened, so the descriptor is its own.
            if !listener.ends(PATIENCE).await && answer.is_some() {
                listener.kill();
                let _gone = listener.ends(PATIENCE).await;
            }
        }
        // The kernel says nothing about it: its socket does.
        None => {
            let deadline = tokio::time::Instant::now() + PATIENCE;
            while !matches!(Connection::open(&endpoint(registry)).await, Err(ClientError::NotListening(_)))
                && tokio::time::Instant::now() < deadline
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
    clear(control, registry);
    answer
}

/// Ends a daemon that does not answer.
async fn stop_silent(control: &Control, registry: Registry, error: ClientError) -> Result<Stopped, StopError> {
    let unknown =
        |error| StopError::Unresponsive { root: registry.root.clone(), socket: registry.socket.clone(), error };
    if !control.owns_socket(&registry.socket) {
        return Err(unknown(error));
    }
    let Ok(mut connection) = Connection::open(&endpoint(&registry)).await else {
        return Err(unknown(error));
    };
    let Some(listener) = connection.take_listener() else {
        return Err(unknown(error));
    };
    // The end of its process would have ended the connection: while there is none, the descriptor is of the process that listens.
    connection.send(&Request::new(Shutdown {}).encode()).await;
    match tokio::time::timeout(PATIENCE / 4, connection.response(|_| {})).await {
        Ok(Ok(response)) if response.outcome.is_ok() => {
            if !listener.ends(PATIENCE).await {
                listener.kill();
                let _gone = listener.ends(PATIENCE).await;
            }
            clear(control, &registry);
            return Ok(Stopped::Answered(response));
        }
        Ok(Err(error)) => return Err(unknown(error)),
        Ok(Ok(_)) | Err(_) => listener.kill(),
    }
    let _gone = listener.ends(PATIENCE).await;
    clear(control, &registry);
    Ok(Stopped::Killed { pid: listener.pid() })
}

/// Takes away what a daemon that was killed leaves: its socket (nothing else that a planted entry may name) and its entry.
fn clear(control: &Control, registry: &Registry) {
    if control.owns_socket(&registry.socket) {
        let _left_by_a_killed_one = std::fs::remove_file(&registry.socket);
    }
    registry.remove(control);
}
