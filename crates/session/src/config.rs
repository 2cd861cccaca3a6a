//! What a session is told once, at its start.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use beam_base::AbsPath;
use serde_json::{Map, Value};

use crate::library::IndexRoots;
use crate::mirror::Versions;
use crate::process::Spawn;
use crate::setup::Setup;

/// Whether a worker may build the modules its file imports (`dependencyBuildMode` of Lean's `didOpen`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildMode {
    /// Build whatever is out of date whenever a worker starts.
    Always,
    /// Never build; a stale import is reported as a diagnostic.
    Never,
    /// Build when the document is opened; workers that replace the first one do not build again.
    Once,
}

impl BuildMode {
    /// The word Lean uses.
    pub(crate) fn as_lsp(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Never => "never",
            Self::Once => "once",
        }
    }

    /// What the worker after this one is told: the first `didOpen` already had its one build.
    pub(crate) fn after_first_open(self) -> Self {
        match self {
            Self::Once => Self::Never,
            other => other,
        }
    }
}

/// Everything a [`crate::Session`] needs; see the fields for units and defaults.
#[derive(Clone)]
pub struct SessionConfig {
    /// Workspace root, sent as `rootUri`.
    pub root: AbsPath,
    /// Generation number of this session inside its workspace (broker-protocol section 7).
    pub epoch: u64,
    /// How a worker process is started.
    pub spawn: Arc<dyn Spawn>,
    /// What is done before each start of a worker; requests stand in line meanwhile.
    pub setup: Option<Arc<dyn Setup>>,
    /// `languageId` of `didOpen`.
    pub language_id: String,
    /// See [`BuildMode`].
    pub build_mode: BuildMode,
    /// How long a worker may take to end a cancelled request marked [`crate::RequestSpec::must_stop`] before it is replaced.
    /// A worker that was kept from running meanwhile, by a busy machine, is given up to ten times as long.
    pub cancel_grace: Duration,
    /// How many requests a worker gets at once; counted apart for those that run text of the caller's and all others, so that many
    /// long probes do not keep a goal view waiting. Each takes a thread in the worker: a few megabytes, and much more than that to
    /// start under WebAssembly. The rest stand in line here, where cancelling costs nothing.
    pub max_in_flight: usize,
    /// How long a worker may take to end by itself after it was told to, before its group is signalled.
    pub shutdown_grace: Duration,
    /// Largest message accepted from a worker, in bytes.
    pub frame_cap: usize,
    /// How many bytes may wait for a worker that does not read its stdin, before it is killed.
    pub write_cap: usize,
    /// Where references, symbols and definitions outside the open documents are looked for. Sources default to the root.
    pub index: IndexRoots,
    /// Where the versions of documents come from; shared by sessions that may have a path in common, one after the other or at once.
    pub versions: Versions,
    /// Members merged over the `initialize` parameters.
    pub init_params: Map<String, Value>,
}

impl SessionConfig {
    /// The defaults: Lean, no builds, two seconds for a cancel and for a shutdown, 256 MiB per message, 64 MiB unread.
    #[must_use]
    pub fn new(root: AbsPath, epoch: u64, spawn: Arc<dyn Spawn>) -> Self {
        let index = IndexRoots { ileans: Vec::new(), sources: vec![root.clone()] };
        Self {
            root,
            epoch,
            spawn,
            setup: None,
            language_id: "lean".to_owned(),
            build_mode: BuildMode::Never,
            cancel_grace: Duration::from_secs(2),
            max_in_flight: 12,
            shutdown_grace: Duration::from_secs(2),
            frame_cap: 256 << 20,
            write_cap: 64 << 20,
            index,
            versions: Versions::default(),
            init_params: Map::new(),
        }
    }
}

impl fmt::Debug for SessionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionConfig")
            .field("root", &self.root)
            .field("epoch", &self.epoch)
            .field("build_mode", &self.build_mode)
            .field("cancel_grace", &self.cancel_grace)
            .finish_non_exhaustive()
    }
}
