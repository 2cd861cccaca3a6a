//! What the workspaces of an engine share.

use std::sync::Arc;

use beam_session::Versions;

use super::save_locks::SaveLocks;
use super::settings::EngineSettings;

/// See the module. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Common {
    pub(super) settings: Arc<EngineSettings>,
    /// Of every path that was ever open, whatever workspace or session it was open in: a version names one text for ever.
    pub(super) versions: Versions,
    pub(super) saves: SaveLocks,
}

impl Common {
    pub(super) fn new(settings: EngineSettings) -> Self {
        Self { settings: Arc::new(settings), versions: Versions::default(), saves: SaveLocks::default() }
    }
}
