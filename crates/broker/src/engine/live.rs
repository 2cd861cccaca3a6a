//! A running session of a workspace and what belongs to its lifetime.

#![allow(clippy::disallowed_methods, reason = "runs on the blocking threads of `Disk`")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use beam_base::AbsPath;
use beam_lean::ModuleName;
use beam_project::Project;
use beam_session::Session;

use super::artifacts::authority::Authority;
use super::common::Common;
use super::disk::Disk;
use super::handles::HandleLedger;
use super::history::History;
use super::import_looks::ImportLooks;

/// See the module.
#[derive(Debug)]
pub(crate) struct LiveSession {
    pub(super) session: Session,
    pub(super) handles: HandleLedger,
    pub(super) disk: Disk,
    pub(super) common: Common,
    project: Arc<Project>,
    authority: Arc<Authority>,
    /// Folders that may hold artifacts of the workspace's modules.
    built: Vec<AbsPath>,
    history: Mutex<History>,
    /// The version of each document that was saved last.
    checkpoints: Mutex<HashMap<AbsPath, u64>>,
    pub(super) import_looks: ImportLooks,
}

impl LiveSession {
    pub(super) fn new(
        session: Session,
        project: Arc<Project>,
        authority: Arc<Authority>,
        built: Vec<AbsPath>,
        disk: Disk,
        common: Common,
    ) -> Self {
        let handles = HandleLedger::new(common.settings.max_handles);
        let (history, checkpoints, import_looks) = Default::default();
        Self { session, handles, disk, common, project, authority, built, history, checkpoints, import_looks }
    }

    /// Whether a module has an artifact that is no older than its source. Blocking.
    pub(super) fn is_built(&self, module: &str, source: &AbsPath) -> bool {
        let modified = |path: &AbsPath| std::fs::metadata(path).and_then(|m| m.modified()).ok();
        let Some(artifact) = ModuleName::parse(module).and_then(|name| name.path("olean")) else { return false };
        let Some(written) = modified(source) else { return false };
        self.built.iter().filter_map(|dir| modified(&dir.join(&artifact))).any(|built| built >= written)
    }

    /// The module that a file is, as importers name it.
    pub(super) fn module_of(&self, path: &AbsPath) -> Option<String> {
        self.project.module_of(path).map(|module| module.name.to_string())
    }

    /// Whether `lake build` means anything here.
    pub(super) fn has_lake(&self) -> bool {
        self.authority.is_lake()
    }

    /// Who knows about this project's modules and their artifacts.
    pub(super) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Files that the session depends on, was started with, and that are others now. Reads a handful of small files. Blocking.
    pub(super) fn config_changed(&self) -> Vec<AbsPath> {
        self.project.config_stamp().changed()
    }

    /// The version of each document that was saved last.
    pub(super) fn checkpoints(&self) -> MutexGuard<'_, HashMap<AbsPath, u64>> {
        self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A version was saved.
    pub(super) fn checkpointed(&self, path: &AbsPath, version: u64) {
        self.checkpoints().insert(path.clone(), version);
    }

    /// A document was closed: its handles are gone, and a later sync of it starts without a past of its own.
    pub(super) fn forgotten(&self, path: &AbsPath, shown: &str) {
        self.handles.closed(path);
        self.checkpoints().remove(path);
        self.history().closed(shown);
    }

    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
