//! What the server stands on: the broker's engine, as far as MCP needs it. Tests have another one, for faults and timing.

use beam_base::AbsPath;
use beam_broker::{Dropped, Engine};
use beam_wire::request::Decoded;
use beam_wire::stream::Event;
use beam_wire::{Answer, ErrorBody, Response};
use serde_json::Value;
use tokio::sync::mpsc;

/// A broker in this process. Clones share it.
pub trait Service: Clone + Send + Sync + 'static {
    /// Makes the workspace if it is not there. Starts nothing.
    ///
    /// # Errors
    /// It cannot be made; the message says why.
    fn open_workspace(&self, id: &str, root: AbsPath) -> Result<(), ErrorBody>;

    /// Sees to it that the workspace can run requests; quick when it has been done before.
    ///
    /// # Errors
    /// The cause, for people.
    fn set_up(&self, id: &str) -> impl Future<Output = Result<(), String>> + Send;

    /// Runs a request to its one end; `events` arrive before it. Dropping the future cancels exactly this request, down to Lean.
    fn run(&self, request: Decoded, events: mpsc::Sender<Event>) -> impl Future<Output = Response<Answer>> + Send;

    /// Evicts a workspace and everything that belongs to it.
    fn drop_workspace(&self, id: &str) -> impl Future<Output = Dropped> + Send;

    /// Whether some workspace has a runtime.
    fn has_runtime(&self) -> bool;

    /// Statistics of all workspaces, or of one; `None` if it is not there.
    fn stats(&self, id: Option<&str>) -> impl Future<Output = Option<Value>> + Send;

    /// Documents of one workspace; `None` if it is not there.
    fn open_docs(&self, id: &str) -> impl Future<Output = Option<Value>> + Send;

    /// Cancels what runs and ends every child process, within the given time.
    fn drain(&self, grace: std::time::Duration) -> impl Future<Output = ()> + Send;
}

impl Service for Engine {
    fn open_workspace(&self, id: &str, root: AbsPath) -> Result<(), ErrorBody> {
        Self::open_workspace(self, id, root).map(drop)
    }

    async fn set_up(&self, id: &str) -> Result<(), String> {
        Self::set_up(self, id).await.map_err(|e| e.to_string())
    }

    async fn run(&self, request: Decoded, events: mpsc::Sender<Event>) -> Response<Answer> {
        Self::run(self, request, events).await
    }

    async fn drop_workspace(&self, id: &str) -> Dropped {
        Self::drop_workspace(self, id).await
    }

    fn has_runtime(&self) -> bool {
        // A workspace whose set-up failed is known, and has none.
        self.workspace_ids().iter().any(|id| self.is_set_up(id))
    }

    async fn stats(&self, id: Option<&str>) -> Option<Value> {
        self.stats_value(id).await
    }

    async fn open_docs(&self, id: &str) -> Option<Value> {
        self.open_docs_value(id).await
    }

    async fn drain(&self, grace: std::time::Duration) {
        Self::drain(self, grace).await;
    }
}
