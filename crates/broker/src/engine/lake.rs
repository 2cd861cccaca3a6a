//! Asking Lake about a package, in a child process of its own (D8): Lake's code may end the process it runs in.

use std::sync::Arc;
use std::time::Duration;

use beam_base::AbsPath;
use beam_lean::imports_of;
use beam_project::{NativeBuild, Project, native_needs_build};
use beam_toolchain::extension::{LakeError, LakeTarget, lake_target, lake_trace};
use beam_toolchain::{Extension, HostEnv, Toolchain};

use super::authority::Built;
use super::imports::Stop;
use super::ops::Document;
use super::save::{Target, TargetError};
use crate::qualify::Prepared;

/// How long Lake may take to say what it would build.
const LOOK: Duration = Duration::from_secs(600);

/// Lake of one package.
#[derive(Debug, Clone)]
pub(crate) struct Lake(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    toolchain: Toolchain,
    extension: Extension,
    lake: AbsPath,
    root: AbsPath,
    env: HostEnv,
}

impl Lake {
    /// The project's Lake, if it is a Lake package and the toolchain has one.
    pub(crate) fn of(prepared: &Prepared, project: &Project, env: &HostEnv) -> Option<Self> {
        let Prepared { toolchain, extension, .. } = prepared;
        let lake = toolchain.lake.clone().filter(|_| beam_toolchain::launch::has_lakefile(project.root()))?;
        Some(Self(Arc::new(Inner {
            toolchain: toolchain.clone(),
            extension: extension.clone(),
            lake,
            root: project.root().clone(),
            env: env.clone(),
        })))
    }

    /// Where the document's artifacts belong; refused if anything it is built from is not up to date.
    pub(crate) async fn target(&self, doc: &Document) -> Result<Target, TargetError> {
        let (this, path) = (Arc::clone(&self.0), doc.path.clone());
        let stop = Stop::default();
        let stopped = stop.flag();
        let ask = move || lake_target(&this.toolchain, &this.extension, &this.root, &path, &this.env, &stopped);
        let asked = tokio::task::spawn_blocking(ask).await.map_err(|e| TargetError::Other(e.to_string()))?;
        let LakeTarget { module, artifacts, trace, lean_args, .. } = asked.map_err(|e| match e {
            LakeError::NotModule(why) => TargetError::NotModule { path: doc.shown(), why },
            LakeError::Stale(what) => TargetError::Stale { path: doc.shown(), what, hint: "run `lake build`" },
            e => TargetError::Other(e.to_string()),
        })?;
        let unlike = |e: String| TargetError::Other(format!("Lake's answer is not as agreed: {e}"));
        let outputs =
            serde_json::to_value(artifacts).and_then(serde_json::from_value).map_err(|e| unlike(e.to_string()))?;
        let trace = AbsPath::new(trace).map_err(|e| unlike(e.to_string()))?;
        Ok(Target { module, outputs, trace, batch_only_args: lean_args })
    }

    /// Has Lake write the trace of artifacts that are in place.
    pub(crate) async fn trace(&self, doc: &Document) -> Result<(), String> {
        let (this, path, hash) = (Arc::clone(&self.0), doc.path.clone(), doc.applied.hash);
        let ask = move || lake_trace(&this.toolchain, &this.extension, &this.root, &path, hash, &this.env);
        match tokio::task::spawn_blocking(ask).await {
            // The artifacts are those of the text that was synced; that the file is another one by now is for the next build to see.
            Ok(Ok(_) | Err(LakeError::SourceChanged(_))) => Ok(()),
            Ok(Err(e)) => Err(e.to_string()),
            Err(e) => Err(e.to_string()),
        }
    }

    /// What a text imports and Lake would have to build. Blocking, until `stopped` says so.
    pub(crate) fn look(&self, path: &AbsPath, text: &str, stopped: &dyn Fn() -> bool) -> Built {
        let header = imports_of(text);
        match native_needs_build(&self.0.lake, &self.0.root, &self.0.env, path, &header, LOOK, stopped) {
            Ok(NativeBuild::UpToDate) => Built { vouches: true, ..Built::default() },
            Ok(NativeBuild::Needed { modules, .. }) => {
                // A Lake that does not say which means some of those that it was asked about.
                let refused: Vec<String> = if modules.is_empty() {
                    header.imports.iter().map(|import| import.module.to_string()).collect()
                } else {
                    modules.iter().map(ToString::to_string).collect()
                };
                Built { refused, ..Built::default() }
            }
            Ok(NativeBuild::Failed { text }) => Built::failed(text),
            Err(e) => Built::failed(e),
        }
    }
}
