//! Whether the daemon that a registry names is alive.
//!
//! * **R8** a registry is believed when the process behind it answers for this root and this workspace.
//! * **R9** *busy* and *silent* are not *gone*: a daemon that is connected to but has no room, or does not answer, keeps its entry, and
//!   no second one is started. Whoever asks waits, is told who does not respond and for how long, and then gets an error that says so.

use std::time::Duration;

use beam_wire::Request;
use beam_wire::stats::ReadStats;
use tokio::time::Instant;

use super::client::{self, ClientError, Endpoint, Silence, Watch};
use super::control::Control;
use super::registry::Registry;

/// A daemon may be silent that many times the first wait before it is given up.
const GIVE_UP: u32 = 6;
/// Connections that end without an answer before the daemon counts as gone: one that is about to end does this.
const CLOSED: u32 = 5;

/// What stands behind a registry.
#[derive(Debug)]
pub enum Probe {
    /// A daemon that answers for this root.
    Live(Registry),
    /// Something listens there and does not answer, or has no room, for the whole patience.
    Unresponsive(Registry, ClientError),
    /// An entry whose daemon is gone, or is another root's.
    Stale(Registry),
    /// No entry.
    Absent,
}

/// How to reach the daemon of an entry.
#[must_use]
pub fn endpoint(registry: &Registry) -> Endpoint {
    Endpoint::Unix(registry.socket.clone())
}

/// Looks at the registry and asks whoever it names (R8), with the usual patience and without a word.
pub async fn probe(control: &Control) -> Probe {
    probe_with(control, &Watch::quiet()).await
}

/// The same; whoever waits is told about silence.
pub async fn probe_with(control: &Control, watch: &Watch) -> Probe {
    let Some(registry) = Registry::read(control) else {
        return Probe::Absent;
    };
    // An entry for another root does not count, even if its daemon lives.
    if registry.root != *control.root() {
        return Probe::Stale(registry);
    }
    let began = Instant::now();
    let limit = watch.after.saturating_mul(GIVE_UP);
    let mut pause = Duration::from_millis(20);
    let mut closed = 0;
    loop {
        let unresponsive = match ask(control, &registry, watch.after).await {
            Answer::Ours => return Probe::Live(registry),
            Answer::Foreign | Answer::None(ClientError::NotListening(_) | ClientError::Foreign { .. }) => {
                return Probe::Stale(registry);
            }
            Answer::None(ClientError::Closed | ClientError::Frame(_) | ClientError::Message(_)) => {
                closed += 1;
                if closed >= CLOSED {
                    return Probe::Stale(registry);
                }
                None
            }
            Answer::None(error @ (ClientError::Busy | ClientError::Slow(_) | ClientError::Io(_))) => Some(error),
        };
        let waited = began.elapsed();
        if let Some(error) = unresponsive {
            if waited >= watch.after {
                watch.tell(&Silence { pid: Some(registry.pid), waited });
            }
            if waited >= limit {
                let error =
                    if matches!(error, ClientError::Slow(_)) { ClientError::Slow(waited.as_millis()) } else { error };
                return Probe::Unresponsive(registry, error);
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1)).min(watch.after);
    }
}

enum Answer {
    /// It serves this root under this workspace.
    Ours,
    /// It serves another.
    Foreign,
    None(ClientError),
}

async fn ask(control: &Control, registry: &Registry, limit: Duration) -> Answer {
    let mut request = Request::new(ReadStats {});
    request.workspace_id = Some(registry.workspace_id.clone());
    request.root = Some(control.root().to_string());
    match client::call_once(&endpoint(registry), &request, limit).await {
        Err(error) => Answer::None(error),
        Ok(response) => {
            let root = response.outcome.as_ref().ok().and_then(|r| r.get("root")?.as_str());
            if root == Some(control.root().to_string().as_str()) { Answer::Ours } else { Answer::Foreign }
        }
    }
}
