//! The workspaces of a process: opened, listed, replaced, dropped (broker protocol section 11).
//!
//! A root belongs to one id, and an id to one root. What was dropped or replaced keeps nothing: sessions end, handles and history are gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use beam_base::AbsPath;
use beam_toolchain::Choice;
use beam_wire::workspace::WorkspaceMode;

use super::common::Common;
use super::workspace::Workspace;

/// The table. `None` once the engine is going away: nothing can be added then.
#[derive(Debug)]
pub(super) struct Workspaces(Mutex<Option<BTreeMap<String, Arc<Workspace>>>>);

impl Default for Workspaces {
    fn default() -> Self {
        Self(Mutex::new(Some(BTreeMap::new())))
    }
}

/// What became of a workspace that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Canonical root.
    pub root: AbsPath,
    /// It was there already, with the same configuration.
    pub reused: bool,
    /// The root that the id had before, where it was replaced.
    pub replaced: Option<AbsPath>,
}

/// What became of a workspace that was to be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// There was one.
    pub dropped: bool,
    /// Handles of it, if there were any, are no longer accepted.
    pub invalidated_handles: bool,
}

/// Why a workspace was not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("the root `{given}` does not resolve: {error}")]
    Root { given: String, error: std::io::Error },
    #[error("the root `{0}` leads to a folder whose path is not valid UTF-8; rename that folder")]
    RootNotUtf8(String),
    #[error("the root `{0}` is not a folder")]
    NotFolder(AbsPath),
    #[error("there is no workspace \"{0}\" to verify")]
    Unknown(String),
    #[error(
        "the workspace \"{id}\" has another configuration (root `{root}`); use workspaceMode \"reset\" to replace it"
    )]
    Other { id: String, root: AbsPath },
    #[error("the root `{root}` belongs to the workspace \"{owner}\"")]
    Owned { root: AbsPath, owner: String },
    #[error("the process is shutting down")]
    Closing,
}

impl Workspaces {
    fn table(&self) -> MutexGuard<'_, Option<BTreeMap<String, Arc<Workspace>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The workspace that an engine begins with.
    pub(super) fn first(&self, id: &str, root: AbsPath, choice: Choice, common: &Common) {
        if let Some(table) = &mut *self.table() {
            table.insert(id.to_owned(), Arc::new(Workspace::new(id, root, choice, common.clone())));
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Workspace>> {
        self.table().as_ref()?.get(id).cloned()
    }

    /// All of them, by id.
    pub(super) fn all(&self) -> Vec<Arc<Workspace>> {
        self.table().iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Takes one out; its sessions are still to be ended.
    pub(super) fn remove(&self, id: &str) -> Option<Arc<Workspace>> {
        self.table().as_mut()?.remove(id)
    }

    /// Ends every session and lets nothing new in (R7).
    pub(super) async fn close(&self, grace: Duration) {
        let table = self.table().take().unwrap_or_default();
        // At once: the grace is for all of them together.
        let ends: Vec<_> = table
            .into_values()
            .map(|workspace| tokio::spawn(async move { workspace.shut_down(grace).await }))
            .collect();
        for end in ends {
            drop(end.await);
        }
    }

    /// Puts the workspace into the table, by the rules of the mode. Gives what it displaced, whose sessions are still to be ended.
    pub(super) fn open(
        &self,
        id: &str,
        root: AbsPath,
        choice: Choice,
        mode: WorkspaceMode,
        common: &Common,
    ) -> Result<(Opened, Option<Arc<Workspace>>), OpenError> {
        let mut guard = self.table();
        let table = guard.as_mut().ok_or(OpenError::Closing)?;
        if let Some(owner) = table.values().find(|w| *w.root() == root && w.id() != id) {
            return Err(OpenError::Owned { root, owner: owner.id().to_owned() });
        }
        let known = table.get(id).cloned();
        match (&known, mode) {
            (None, WorkspaceMode::Verify) => return Err(OpenError::Unknown(id.to_owned())),
            (Some(w), WorkspaceMode::Set | WorkspaceMode::Verify) => {
                if *w.root() != root || *w.choice() != choice {
                    return Err(OpenError::Other { id: id.to_owned(), root: w.root().clone() });
                }
                return Ok((Opened { root, reused: true, replaced: None }, None));
            }
            (None, _) | (Some(_), WorkspaceMode::Reset) => {}
        }
        table.insert(id.to_owned(), Arc::new(Workspace::new(id, root.clone(), choice, common.clone())));
        Ok((Opened { root, reused: false, replaced: known.as_ref().map(|w| w.root().clone()) }, known))
    }
}
