//! A document whose mirror holds what is on disk now, and what it is asked.

use std::sync::Arc;

use beam_base::{AbsPath, uri};
use beam_session::{Applied, Reply, RequestSpec, Snapshot};
use beam_wire::Progress;
use beam_wire::stream::Event;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::artifacts::target::SaveSource;
use super::diagnostics::DocumentName;
use super::error::{AnswerError, EngineError, VersionMismatch, WorkerFailure};
use super::live::LiveSession;
use super::observe::{self, Observer, Shown};
use super::source;
use super::workspace::Workspace;

/// See the module.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) live: Arc<LiveSession>,
    pub(super) root: AbsPath,
    pub(super) path: AbsPath,
    pub(super) uri: String,
    pub(super) applied: Applied,
}

impl Document {
    /// Reads the file and brings the mirror up to date (section 10).
    pub(super) async fn open(workspace: &Workspace, path: &str) -> Result<Self, EngineError> {
        let asked = source::locate(workspace.root(), path);
        // A bad path is told before a session is started for it.
        let named = asked.clone();
        workspace.disk().need(move || source::canonical(&named)).await??;
        let live = workspace.live().await?;
        // R1: the place in the order is taken before the file is looked at.
        let seq = live.session.reserve();
        let source = workspace.disk().need(move || source::read(&asked)).await??;
        let snapshot = Snapshot::new(seq, &source.text, source.modified);
        let applied = live.session.apply(&source.path, snapshot).await?;
        Ok(Self { live, root: workspace.root().clone(), uri: uri::from_path(&source.path), path: source.path, applied })
    }

    /// Opens and insists on the version that the request names; nothing has been sent to Lean about it when this fails.
    pub(super) async fn at_version(workspace: &Workspace, path: &str, version: u64) -> Result<Self, EngineError> {
        let doc = Self::open(workspace, path).await?;
        doc.insist(version)?;
        Ok(doc)
    }

    /// Fails unless it is at this version.
    pub(super) fn insist(&self, expected: u64) -> Result<(), VersionMismatch> {
        let accepted = self.applied.version;
        if accepted == expected {
            return Ok(());
        }
        Err(VersionMismatch { expected, accepted, uri: self.uri.clone(), path: self.shown() })
    }

    /// Whether a document of exactly this path is open.
    pub(super) async fn is_open(workspace: &Workspace, path: &AbsPath) -> bool {
        match workspace.running() {
            Some(live) => live.session.document(path).await.is_some(),
            None => false,
        }
    }

    /// Forgets a document, if it is open.
    pub(super) async fn forget(workspace: &Workspace, path: &AbsPath) {
        if let Some(live) = workspace.running() {
            live.session.close(path).await;
            live.forgotten(path, &path.display_in(workspace.root()));
        }
    }

    /// The path as people see it.
    pub(super) fn shown(&self) -> String {
        self.path.display_in(&self.root)
    }

    pub(super) fn name(&self) -> DocumentName {
        DocumentName::of(&self.root, &self.path)
    }

    /// Its text, for those who put its artifacts in place.
    pub(super) fn save_source(&self) -> SaveSource {
        SaveSource {
            path: self.path.clone(),
            shown: self.shown(),
            text: Arc::clone(&self.applied.text),
            hash: self.applied.hash,
        }
    }

    /// Asks the document's worker and waits, bound to the version just applied.
    pub(super) async fn ask(&self, spec: RequestSpec, observer: &mut Observer) -> Result<Reply, EngineError> {
        let (seen_by, seen) = beam_session::observer();
        let pending = self.live.session.request(&self.path, spec.at_version(self.applied.version), Some(seen_by));
        let reply = observer.until(pending, seen).await;
        reply.map_err(|failure| Box::new(WorkerFailure { failure, path: self.shown() }).into())
    }

    /// Imports that moved on since the worker that replied loaded them; `None` if there are none.
    pub(super) async fn stale_imports(&self, reply: &Reply) -> Option<Vec<String>> {
        self.live.import_looks.moved(&self.live.disk, &self.path, reply.setup.as_ref()).await
    }

    pub(super) fn observer(&self, shown: Shown, events: mpsc::Sender<Event>) -> Observer {
        Observer::new(self.name(), shown, events)
    }

    /// LSP's `VersionedTextDocumentIdentifier`.
    pub(super) fn versioned(&self) -> Value {
        json!({ "uri": self.uri, "version": self.applied.version })
    }
}

/// Reads what the worker answered. What its method does not promise is an error, an unknown field as much as a missing one.
pub(super) fn decode<T: DeserializeOwned>(method: &'static str, reply: &Reply) -> Result<T, AnswerError> {
    serde_json::from_str(reply.value.get()).map_err(|error| AnswerError::Undecodable { method, error })
}

/// How far the document was when the worker answered.
pub(super) fn progress_of(reply: &Reply) -> Option<Progress> {
    reply.progress.map(observe::progress)
}
