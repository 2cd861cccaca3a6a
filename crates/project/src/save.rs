//! Artifacts that a file worker writes (a *save*), recorded so that the builder takes them for its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use beam_base::AbsPath;

use crate::builder::{Builder, Locks};
use crate::compile::remove_parts;
use crate::layout::Module;
use crate::outcome::Basis;
use crate::source::Source;
use crate::trace::{Origin, Record, Trace, endings};
use beam_lean::ModuleName;
use beam_toolchain::fs::FsError;
use beam_toolchain::lock::LockError;

/// Why a save cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The caller wanted no more.
    #[error("the save was cancelled before anything was written")]
    Cancelled,
    /// The module is compiled with arguments that a file worker does not get.
    #[error(
        "{module} is configured with `moreLeanArgs`, which a save cannot honour; use `leanOptions` for `-D` settings, or build it"
    )]
    MoreArgs {
        /// The module.
        module: ModuleName,
    },
    /// The module's name means no file.
    #[error("{module} can have no artifacts: its name is not a path")]
    NoPath {
        /// The module.
        module: ModuleName,
    },
    /// A module that the text imports has no artifact that is known to be whole.
    #[error("{import}, which {module} imports, is not built; build it and save again")]
    ImportNotBuilt {
        /// The saved module.
        module: ModuleName,
        /// What it imports.
        import: ModuleName,
    },
    /// A module that the text imports has been built or saved anew since the worker imported it.
    #[error("{import}, which {module} imports, has been rebuilt since {module} was opened; refresh it and save again")]
    ImportMoved {
        /// The saved module.
        module: ModuleName,
        /// What it imports.
        import: String,
    },
    /// A file operation failed; a missing artifact is reported so, too.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// Another build took too long.
    #[error("another process is building this project: {0}")]
    Lock(#[from] LockError),
}

/// A save under way. The build folder is locked and the module counts as stale, for the builder as for Lake, until
/// [`Saving::record`]; if this is dropped before, it stays stale and the next build makes it anew.
#[derive(Debug)]
#[must_use = "a save that is not recorded leaves the module stale"]
pub struct Saving {
    builder: Arc<Builder>,
    module: Module,
    trace: AbsPath,
    _locks: Locks,
}

impl Builder {
    /// Begins a save: waits for builds of the same folder, then makes the module stale (spec *save*, step 5: the old trace goes before the
    /// artifacts are touched). The artifacts themselves are left as they are. While the save is under way, builds of these folders wait,
    /// so whoever has begun one must not wait for a build.
    ///
    /// # Errors
    /// Before anything is written: cancelled, unsupported settings, no lock. Then: a trace that cannot be replaced.
    pub fn begin_save(
        self: &Arc<Self>,
        module: &Module,
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Saving, SaveError> {
        if !module.more_args().is_empty() {
            return Err(SaveError::MoreArgs { module: module.name.clone() });
        }
        let Some(trace) = module.artifact("trace") else {
            return Err(SaveError::NoPath { module: module.name.clone() });
        };
        let dirs = BTreeSet::from([module.build_dir.clone()]);
        let Some(locks) = self.lock(&dirs, &|_| {}, cancelled)? else {
            return Err(SaveError::Cancelled);
        };
        let folder = trace.parent().unwrap_or_else(|| module.lib_dir.clone());
        std::fs::create_dir_all(&folder).map_err(FsError::at("make the folder", &folder))?;
        Trace::write(&trace, None)?;
        Ok(Saving { builder: Arc::clone(self), module: module.clone(), trace, _locks: locks })
    }
}

impl Saving {
    /// The files that must be there when the save is recorded, with their endings: `olean`, `ilean`, and for a file with `module` header
    /// `olean.server`, `olean.private`, `ir`.
    #[must_use]
    pub fn artifacts(&self, is_module: bool) -> Vec<(&'static str, AbsPath)> {
        endings(is_module).filter_map(|ending| Some((ending, self.module.artifact(ending)?))).collect()
    }

    /// Records that the artifacts now in place were made from exactly `text`, importing exactly what its workspace imports' artifacts are
    /// now, under the configuration that the builder's project was read with. Returns the trace file.
    ///
    /// What that means for the builder, from now on:
    ///
    /// * while the source on disk is `text` (line ends aside), and every import's artifact stays what it is now and is itself fresh, the
    ///   module is fresh and not compiled;
    /// * if the source on disk is another text already, it is stale at once;
    /// * if an import is stale now (its source is newer than its artifact), the module is fresh only until that import is rebuilt.
    ///
    /// `basis` is what [`Builder::ensure`] answered for the worker's imports when the worker was started; with it, a save is refused if an
    /// import has been replaced since, for then the worker's state is not based on what lies there. Without it the caller vouches for
    /// that.
    ///
    /// For Lake the trace is a stale one: it rebuilds the module.
    ///
    /// # Errors
    /// The module stays stale.
    pub fn record(self, text: &str, basis: Option<&Basis>) -> Result<AbsPath, SaveError> {
        let source = Source::of_text(text);
        let planner = self.builder.planner();
        let module = &self.module;
        let shares = planner
            .recorded(&source.header)
            .map_err(|import| SaveError::ImportNotBuilt { module: module.name.clone(), import })?;
        if let Some(Basis(basis)) = basis {
            let moved = shares.imports.iter().find(|(name, key)| basis.get(name).is_none_or(|was| was != key));
            if let Some((import, _)) = moved {
                return Err(SaveError::ImportMoved { module: module.name.clone(), import: import.clone() });
            }
        }
        let is_module = source.header.is_module;
        if !is_module {
            remove_parts(module)?;
        }
        let inputs = planner.inputs(module, &source, shares);
        let record = Record::of(module, is_module, Origin::Save, inputs, Vec::new())?;
        Trace::write(&self.trace, Some(record))?;
        Ok(self.trace.clone())
    }
}
