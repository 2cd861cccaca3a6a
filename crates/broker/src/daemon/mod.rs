//! The daemon half of the broker: everything between a client's process and the engine.
//!
//! Owns the control directory of a project (registry, lock, leases, incidents, start-up log), the socket, the framing
//! of one request per connection, starting and finding daemons, and the client's side of the conversation.
//! Must never know what an operation means: it moves requests, events and responses. It prints nothing.
//!
//! Invariants:
//! * **R5** (here) a connection that panics or stalls costs its own request only, never the daemon or another client.
//! * **R7** stopping is: no new connections, registry and socket gone, cancel, drain to a deadline, end.
//! * **R8** a daemon is alive if it answers for the root, whatever the pid in the registry says.
//! * **R9** a daemon that is busy or silent is neither gone nor replaced; whoever waits for it is told.
//! * **R10** a signal goes only to the process that the kernel names as the listener of a socket.
//! * **D4** only the user who started the daemon can speak to it, and a client speaks only to its own user's daemon.

pub mod client;
pub mod clock;
pub mod control;
pub mod incident;
pub mod lease;
pub mod listener;
pub mod lock;
pub mod probe;
pub mod process;
pub mod registry;
pub mod serve;
pub mod start;
pub mod stop;
#[cfg(test)]
mod testing;

use std::time::{Duration, Instant};

use beam_wire::Response;
use beam_wire::stream::Event;
use tokio::sync::mpsc;

pub use client::{ClientError, Connection, Endpoint};
pub use control::{Control, ControlError, HostPaths};
pub use registry::Registry;

/// Version of what daemon and client say to each other. Part of the config hash: a client that speaks another version
/// replaces the daemon instead of misunderstanding it.
pub const PROTOCOL: u32 = 1;

/// Largest frame either side accepts, in bytes.
pub const FRAME_CAP: usize = 64 * 1024 * 1024;

/// What the daemon serves. The engine is one; tests have another.
pub trait Service: Clone + Send + Sync + 'static {
    /// Runs one request to its one end. Dropping the future cancels the request.
    ///
    /// `events` is bounded and its receiver may be slow: send diagnostics with `send().await` (they are never lost, a slow
    /// client slows its own request), and progress with `try_send` (each one supersedes the one before).
    fn run(
        &self,
        request: beam_wire::request::Decoded,
        events: mpsc::Sender<Event>,
    ) -> impl Future<Output = Response> + Send;

    /// Resolves once the `shutdown` operation was asked for.
    fn shutdown_asked(&self) -> impl Future<Output = ()> + Send;

    /// Requests that have begun and not ended.
    fn active_requests(&self) -> usize;

    /// When a request last began or ended; the start of the service before any did.
    fn last_activity(&self) -> Instant;

    /// Stops admitting, cancels what runs, waits for it at most `grace`, ends every child process (R7).
    fn drain(&self, grace: Duration) -> impl Future<Output = ()> + Send;
}

impl Service for crate::Engine {
    async fn run(&self, request: beam_wire::request::Decoded, events: mpsc::Sender<Event>) -> Response {
        Self::run(self, request, events).await.into_json()
    }

    async fn shutdown_asked(&self) {
        Self::shutdown_asked(self).await;
    }

    fn active_requests(&self) -> usize {
        Self::active_requests(self)
    }

    fn last_activity(&self) -> Instant {
        Self::last_activity(self)
    }

    async fn drain(&self, grace: Duration) {
        Self::drain(self, grace).await;
    }
}
