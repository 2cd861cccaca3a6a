//! Asking Lake about a package, in a child process of its own (D8): Lake's code may end the process it runs in.

use std::sync::Arc;
use std::time::Duration;

use beam_base::AbsPath;
use beam_lean::imports_of;
use beam_process::StopOnDrop;
use beam_project::{NativeBuild, Project, native_needs_build};
use beam_toolchain::extension::{LakeError, LakeTarget, lake_target, lake_trace};
use beam_toolchain::{Extension, HostEnv, Toolchain};

use super::target::{ArtifactError, ImportsBuilt, SaveSource, SaveTarget};
use crate::qualify::Prepared;

/// How long Lake may take to say what it would build.
const LOOK: Duration = Duration::from_secs(600);

/// Lake of one package.
#[derive(Debug, Clone)]
pub(super) struct LakePackage(Arc<LakeFacts>);

#[derive(Debug)]
struct LakeFacts {
    toolchain: Toolchain,
    extension: Extension,
    lake: AbsPath,
    root: AbsPath,
    env: HostEnv,
}

impl LakePackage {
    /// The project's Lake, if it is a Lake package and the toolchain has one.
    pub(super) fn of(prepared: &Prepared, project: &Project, env: &HostEnv) -> Option<Self> {
        let Prepared { toolchain, extension, .. } = prepared;
        let lake = toolchain.lake.clone().filter(|_| beam_toolchain::launch::has_lakefile(project.root()))?;
        Some(Self(Arc::new(LakeFacts {
            toolchain: toolchain.clone(),
            extension: extension.clone(),
            lake,
            root: project.root().clone(),
            env: env.clone(),
        })))
    }

    /// Where the document's artifacts belong; refused if anything it is built from is not up to date.
    pub(super) async fn target(&self, source: &SaveSource) -> Result<SaveTarget, ArtifactError> {
        let (this, path) = (Arc::clone(&self.0), source.path.clone());
        let stop = StopOnDrop::default();
        let stopped = stop.flag();
        let ask = move || {
            lake_target(&this.toolchain, &this.extension, &this.root, &path, &this.env, &|| stopped.is_raised())
        };
        let asked = tokio::task::spawn_blocking(ask)
            .await
            .map_err(|e| ArtifactError::Defect { what: "asking Lake", error: e.to_string() })?;
        let LakeTarget { module, artifacts, trace, lean_args, .. } = asked.map_err(|e| match e {
            LakeError::NotModule(why) => ArtifactError::NotModule { path: source.shown.clone(), why },
            LakeError::Stale(what) => {
                ArtifactError::Stale { path: source.shown.clone(), what, hint: "run `lake build`" }
            }
            e => ArtifactError::Configuration(e.to_string()),
        })?;
        let unlike = |e: String| ArtifactError::Configuration(format!("Lake's answer is not as agreed: {e}"));
        let outputs =
            serde_json::to_value(artifacts).and_then(serde_json::from_value).map_err(|e| unlike(e.to_string()))?;
        let trace = AbsPath::new(trace).map_err(|e| unlike(e.to_string()))?;
        Ok(SaveTarget { module, outputs, trace, batch_only_args: lean_args })
    }

    /// Has Lake write the trace of artifacts that are in place.
    pub(super) async fn trace(&self, source: &SaveSource) -> Result<(), String> {
        let (this, path, hash) = (Arc::clone(&self.0), source.path.clone(), source.hash);
        let ask = move || lake_trace(&this.toolchain, &this.extension, &this.root, &path, hash, &this.env);
        match tokio::task::spawn_blocking(ask).await {
            // The artifacts are those of the text that was synced; that the file is another one by now is for the next build to see.
            Ok(Ok(_) | Err(LakeError::SourceChanged(_))) => Ok(()),
            Ok(Err(e)) => Err(e.to_string()),
            Err(e) => Err(e.to_string()),
        }
    }

    /// What a text imports and Lake would have to build. Blocking, until `stopped` says so.
    pub(super) fn look(&self, path: &AbsPath, text: &str, stopped: &dyn Fn() -> bool) -> ImportsBuilt {
        let header = imports_of(text);
        match native_needs_build(&self.0.lake, &self.0.root, &self.0.env, path, &header, LOOK, stopped) {
            Ok(NativeBuild::UpToDate) => ImportsBuilt { vouches: true, ..ImportsBuilt::default() },
            Ok(NativeBuild::Needed { modules, .. }) => {
                // A Lake that does not say which means some of those that it was asked about.
                let refused: Vec<String> = if modules.is_empty() {
                    header.imports.iter().map(|import| import.module.to_string()).collect()
                } else {
                    modules.iter().map(ToString::to_string).collect()
                };
                ImportsBuilt { refused, ..ImportsBuilt::default() }
            }
            Ok(NativeBuild::Failed { text }) => ImportsBuilt::failed(text),
            Err(e) => ImportsBuilt::failed(e),
        }
    }
}
