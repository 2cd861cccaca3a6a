//! Our own builder, which stands in for Lake on the embedded Lean.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use beam_base::AbsPath;
use beam_project::{Basis, BuildOutcome, BuildPermission, Builder, Ensured, Module, Project, SaveError, Saving};
use beam_session::SetupLines;
use beam_toolchain::{HostEnv, Toolchain};

use super::target::{ArtifactError, ArtifactPaths, ImportsBuilt, SaveSource, SaveTarget};
use crate::engine::settings::BuildPolicy;

/// The builder, and what it said about each document's imports last. Clones are the same, for work that blocks.
#[derive(Debug, Clone)]
pub(super) struct OwnBuilder {
    builder: Arc<Builder>,
    bases: Arc<Mutex<HashMap<AbsPath, Basis>>>,
}

impl OwnBuilder {
    pub(super) fn new(toolchain: &Toolchain, project: Project, env: &HostEnv) -> Self {
        Self { builder: Arc::new(Builder::new(toolchain, project, env)), bases: Arc::default() }
    }

    fn bases(&self) -> MutexGuard<'_, HashMap<AbsPath, Basis>> {
        self.bases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets the imports of a text ready. Blocking.
    pub(super) fn build(
        &self,
        path: &AbsPath,
        text: &str,
        policy: BuildPolicy,
        lines: &SetupLines,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> ImportsBuilt {
        let mode = match policy {
            BuildPolicy::OnDemand => BuildPermission::Build,
            BuildPolicy::Never => BuildPermission::Never,
        };
        match self.builder.ensure(text, mode, &|line| lines.say(line), stopped) {
            Ok(ensured) => {
                self.bases().insert(path.clone(), ensured.basis);
                match ensured.outcome {
                    BuildOutcome::UpToDate { .. } | BuildOutcome::Built { .. } => {
                        ImportsBuilt { vouches: true, ..ImportsBuilt::default() }
                    }
                    BuildOutcome::Failed { text, .. } => {
                        ImportsBuilt { problem: Some(text), ..ImportsBuilt::default() }
                    }
                    BuildOutcome::Refused { modules } => ImportsBuilt {
                        refused: modules.iter().map(|m| m.module.to_string()).collect(),
                        ..ImportsBuilt::default()
                    },
                    // Nobody waits for this.
                    BuildOutcome::Cancelled => ImportsBuilt::default(),
                }
            }
            Err(e) => ImportsBuilt::failed(format_args!("error: {e}")),
        }
    }

    /// Where the artifacts of a text belong, if they may be replaced. Blocking.
    pub(super) fn target(&self, source: &SaveSource) -> Result<SaveTarget, ArtifactError> {
        let shown = &source.shown;
        let module = self.builder.project().module_of(&source.path).ok_or_else(|| {
            let why = match self.builder.project().notices().as_slice() {
                [] => "no library of its lakefile.toml has it (`roots`, `globs`, `srcDir`)".to_owned(),
                notices => notices.join("; "),
            };
            ArtifactError::NotModule { path: shown.clone(), why }
        })?;
        // One look at all that the text imports. What else may be wrong with them is for the barrier to say.
        let looked = self.builder.ensure(&source.text, BuildPermission::Never, &|_| {}, &|| false);
        if let Ok(Ensured { outcome: BuildOutcome::Refused { modules }, .. }) = looked
            && let Some(first) = modules.first()
        {
            return Err(ArtifactError::Stale {
                path: shown.clone(),
                what: format!("{}: {}", first.module, first.why),
                hint: "save it or refresh this file",
            });
        }
        let (outputs, trace) = paths(&module).ok_or_else(|| ArtifactError::NotModule {
            path: shown.clone(),
            why: format!("its name {} cannot be a file name", module.name),
        })?;
        let batch_only_args = module.more_args().to_vec();
        Ok(SaveTarget { module: module.name.to_string(), outputs, trace, batch_only_args })
    }

    /// What the imports of the document's worker were.
    pub(super) fn basis(&self, path: &AbsPath) -> Option<Basis> {
        self.bases().get(path).cloned()
    }

    /// Takes away the trace and keeps builds out meanwhile. Blocking.
    pub(super) fn begin(&self, path: &AbsPath, stopped: &(dyn Fn() -> bool + Sync)) -> Result<Saving, SaveError> {
        // It was one a moment ago, by the same unchanging configuration.
        let module = self.builder.project().module_of(path).ok_or(SaveError::Cancelled)?;
        self.builder.begin_save(&module, stopped)
    }
}

/// Lake's places for the files of a module.
fn paths(module: &Module) -> Option<(ArtifactPaths, AbsPath)> {
    let outputs = ArtifactPaths {
        olean: module.artifact("olean")?,
        ilean: module.artifact("ilean")?,
        olean_server: module.artifact("olean.server")?,
        olean_private: module.artifact("olean.private")?,
        ir: module.artifact("ir")?,
        ir_sig: module.artifact("ir.sig"),
        c: module.c_file()?,
    };
    Some((outputs, module.artifact("trace")?))
}
