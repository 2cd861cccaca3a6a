//! What an engine is told once, at its start.

use std::time::Duration;

use beam_base::AbsPath;
use beam_toolchain::{Choice, HostEnv};

/// Handles that a document keeps at one version, unless `BEAM_MAX_HANDLES` says otherwise. Each holds a proof state, which shares most of its
/// memory with the worker's own, so this bounds a search that never releases anything, not one that works.
const MAX_HANDLES: usize = 1000;

/// What all workspaces of an engine have in common.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// The environment in which toolchains are looked for.
    pub env: HostEnv,
    /// Which toolchain is wanted, where a workspace does not say.
    pub choice: Choice,
    /// How long a worker may ignore a cancelled probe before it is replaced.
    pub cancel_grace: Duration,
    /// Whether modules that are imported may be built when a document is opened.
    pub build: BuildPolicy,
    /// Handles that a document keeps at one version; the next one is refused.
    pub max_handles: usize,
}

/// Whether what a file imports may be built when it has no artifacts, or old ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BuildPolicy {
    /// Built when a document is opened, as Lean's own default is.
    #[default]
    OnDemand,
    /// Refused, naming what would have to be built.
    Never,
}

impl EngineSettings {
    /// The usual settings: automatic toolchain choice, two seconds of grace unless `BEAM_CANCEL_GRACE_MS` says otherwise, builds on
    /// demand unless `BEAM_BUILD` is `never`, a thousand handles for each document unless `BEAM_MAX_HANDLES` says otherwise.
    #[must_use]
    pub fn new(env: HostEnv) -> Self {
        let grace = env.var("BEAM_CANCEL_GRACE_MS").and_then(|ms| ms.parse().ok()).unwrap_or(2000);
        let cancel_grace = Duration::from_millis(grace);
        let build = if env.var("BEAM_BUILD") == Some("never") { BuildPolicy::Never } else { BuildPolicy::OnDemand };
        let max_handles = env.var("BEAM_MAX_HANDLES").and_then(|n| n.parse().ok()).unwrap_or(MAX_HANDLES);
        Self { env, choice: Choice::Auto, cancel_grace, build, max_handles }
    }
}

/// What an engine is started with that has a workspace from the beginning.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Canonical root of the workspace.
    pub root: AbsPath,
    /// Its id.
    pub workspace_id: String,
    /// Everything else.
    pub settings: EngineSettings,
}

impl EngineConfig {
    /// The usual settings.
    #[must_use]
    pub fn new(root: AbsPath, workspace_id: impl Into<String>, env: HostEnv) -> Self {
        Self { root, workspace_id: workspace_id.into(), settings: EngineSettings::new(env) }
    }
}
