//! Asking Lake about a package, in a child process of its own (D8): Lake's code may end the process it runs in.

use std::sync::Arc;
use std::time::Duration;

use beam_base::AbsPath;
use beam_toolchain::project::{ModuleName, NativeBuild, Project, imports_of, native_needs_build};
use beam_toolchain::{HostEnv, LakeError, LakeProgram};
use serde::Deserialize;
use serde_json::{Value, json};

use super::authority::Built;
use super::imports::Stop;
use super::ops::Document;
use super::save::{Outputs, Target, TargetError};
use crate::qualify::Prepared;

/// How long Lake may take to say what it would build.
const LOOK: Duration = Duration::from_secs(600);

/// Lake of one package.
#[derive(Debug)]
pub(crate) struct Lake {
    lake: AbsPath,
    root: AbsPath,
    env: HostEnv,
    project: Arc<Project>,
    program: LakeProgram,
}

/// What Lake says about a module.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LakeTarget {
    module: String,
    artifacts: Outputs,
    trace: AbsPath,
    lean_args: Vec<String>,
}

impl Lake {
    /// The project's Lake, if it is a Lake package and the toolchain has one.
    pub(crate) fn of(prepared: &Prepared, project: &Arc<Project>, env: &HostEnv) -> Option<Self> {
        let Prepared { toolchain, extension, launch } = prepared;
        let lake = toolchain.lake.clone().filter(|_| beam_toolchain::launch::has_lakefile(project.root()))?;
        let program = LakeProgram::new(toolchain, extension, launch);
        Some(Self { lake, root: project.root().clone(), env: env.clone(), project: Arc::clone(project), program })
    }

    /// Where the document's artifacts belong; refused if anything it is built from is not up to date.
    pub(crate) async fn target(&self, doc: &Document) -> Result<Target, TargetError> {
        let shown = doc.shown();
        let answer = self.ask("target", json!({ "root": self.root, "path": doc.path })).await;
        let stale = |what| TargetError::Stale { path: doc.shown(), what, hint: "run `lake build`" };
        let answer = answer.map_err(|e| match e {
            LakeError::Refused { kind, message } if kind == "notModule" => {
                TargetError::NotModule { path: shown.clone(), why: message }
            }
            LakeError::NeedsBuild { output } => stale(output),
            LakeError::Refused { kind, message } if kind == "traceStale" => stale(message),
            e => TargetError::Other(e.to_string()),
        })?;
        let LakeTarget { module, artifacts, trace, lean_args } = serde_json::from_value(answer)
            .map_err(|e| TargetError::Other(format!("Lake's answer is not as agreed: {e}")))?;
        Ok(Target { module, outputs: artifacts, trace, batch_only_args: lean_args })
    }

    /// Has Lake write the trace of artifacts that are in place.
    pub(crate) async fn trace(&self, doc: &Document) -> Result<(), String> {
        let hash = format!("{:016x}", doc.applied.hash);
        let params = json!({ "root": self.root, "path": doc.path, "textHash": hash });
        self.ask("trace", params).await.map(drop).map_err(|e| e.to_string())
    }

    async fn ask(&self, command: &'static str, params: Value) -> Result<Value, LakeError> {
        let (program, env) = (self.program.clone(), self.env.clone());
        let stop = Stop::default();
        let stopped = stop.flag();
        let ask = move || program.ask(&env, command, &params, &stopped);
        tokio::task::spawn_blocking(ask)
            .await
            .unwrap_or_else(|e| Err(LakeError::Refused { kind: "failed".to_owned(), message: e.to_string() }))
    }

    /// What a text imports and Lake would have to build. Blocking.
    pub(crate) fn look(&self, text: &str) -> Built {
        let imports: Vec<ModuleName> = imports_of(text)
            .imports
            .into_iter()
            .map(|import| import.module)
            .filter(|module| self.project.source_of(module).is_some())
            .collect();
        let problem = |text: String| Built {
            problem: Some(format!("Failed to build module dependencies.\n{text}")),
            ..Built::default()
        };
        match native_needs_build(&self.lake, &self.root, &self.env, &imports, LOOK) {
            Ok(NativeBuild::UpToDate) => Built { vouches: true, ..Built::default() },
            Ok(NativeBuild::Needed { modules, .. }) => {
                // A Lake that does not say which means some of those that it was asked about.
                let named = if modules.is_empty() { imports } else { modules };
                Built { refused: named.iter().map(ToString::to_string).collect(), ..Built::default() }
            }
            Ok(NativeBuild::Failed { text }) => problem(text),
            Err(e) => problem(e.to_string()),
        }
    }
}
