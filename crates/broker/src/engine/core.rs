//! What an engine is made of, and how a request finds its workspace.

#![allow(clippy::disallowed_methods, reason = "runs on the blocking threads of `Disk`")]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use beam_base::AbsPath;
use beam_wire::Request;
use tokio_util::sync::CancellationToken;

use super::admission::Admissions;
use super::common::Common;
use super::disk::Disk;
use super::error::{EngineError, SelectorError};
use super::registry::Workspaces;
use super::settings::EngineSettings;
use super::workspace::Workspace;

/// See the module.
#[derive(Debug)]
pub(super) struct EngineCore {
    pub(super) common: Common,
    pub(super) workspaces: Workspaces,
    pub(super) admissions: Admissions,
    /// For roots that belong to no workspace yet.
    pub(super) disk: Disk,
    pub(super) shutdown: CancellationToken,
    /// Milliseconds after `epoch` at which the last request began or ended.
    activity: AtomicU64,
    epoch: Instant,
    counting_since: Mutex<Instant>,
}

impl EngineCore {
    pub(super) fn new(settings: EngineSettings) -> Self {
        let now = Instant::now();
        Self {
            common: Common::new(settings),
            workspaces: Workspaces::default(),
            admissions: Admissions::default(),
            disk: Disk::default(),
            shutdown: CancellationToken::new(),
            activity: AtomicU64::new(0),
            epoch: now,
            counting_since: Mutex::new(now),
        }
    }

    /// A request begins or ends.
    pub(super) fn touch(&self) {
        let ms = u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.activity.store(ms, Ordering::Relaxed);
    }

    /// When a request last began or ended.
    pub(super) fn last_activity(&self) -> Instant {
        self.epoch + Duration::from_millis(self.activity.load(Ordering::Relaxed))
    }

    /// Since the start or the last reset.
    pub(super) fn uptime_ms(&self) -> u64 {
        let since = *self.counting_since.lock().unwrap_or_else(PoisonError::into_inner);
        u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// All counters to zero.
    pub(super) fn reset_counters(&self) {
        for workspace in self.workspaces.all() {
            workspace.reset_metrics();
        }
        *self.counting_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// The workspace a request is about, after the checks common to all operations that have one (section 4).
    pub(super) async fn workspace_of(&self, request: &Request) -> Result<Arc<Workspace>, EngineError> {
        let from_handle = request.operation.handle().map(|handle| handle.workspace_id.as_str());
        let id = match (request.workspace_id.as_deref(), from_handle) {
            (Some(id), Some(handle)) if id != handle => {
                return Err(SelectorError::HandleOfAnother { handle: handle.to_owned(), named: id.to_owned() }.into());
            }
            (Some(id), _) | (None, Some(id)) => id,
            (None, None) => return Err(SelectorError::Missing(request.op()).into()),
        };
        let workspace = self.workspaces.get(id).ok_or_else(|| SelectorError::Unknown(id.to_owned()))?;
        if let Some(root) = &request.root {
            self.check_root(root, workspace.root()).await?;
        }
        Ok(workspace)
    }

    /// The optional cross-check: `given` must be the workspace's own directory.
    async fn check_root(&self, given: &str, root: &AbsPath) -> Result<(), EngineError> {
        // As spelled by `list_workspaces`, it needs no look at the disk.
        if given == root.as_str() {
            return Ok(());
        }
        let path = given.to_owned();
        let resolved = self.disk.need(move || AbsPath::canonical(Path::new(&path))).await?;
        let resolved = resolved.map_err(|error| SelectorError::Root { given: given.to_owned(), error })?;
        if resolved == *root {
            Ok(())
        } else {
            Err(SelectorError::OtherRoot { given: resolved, root: root.clone() }.into())
        }
    }
}
