//! Who knows a project's modules: which file is which, whether what it is built from is up to date, and what its trace must say.
//!
//! Natively, in a Lake package, Lake does, and is asked in a child process (D8). On the embedded Lean there is no Lake, and our builder stands in
//! for it. A native toolchain without a lakefile has neither: files can be worked on, but nothing is built and nothing saved.

#![allow(clippy::disallowed_methods, reason = "runs on blocking threads: begun by a save")]

use std::ffi::OsString;
use std::io;
use std::sync::Arc;

use beam_base::AbsPath;
use beam_process::StopOnDrop;
use beam_project::{Basis, Project, Saving};
use beam_session::SetupLines;
use beam_toolchain::{HostEnv, ToolchainKind, WorkerLaunch};

use super::lake::LakePackage;
use super::own::OwnBuilder;
use super::target::{ArtifactError, ImportsBuilt, SaveSource, SaveTarget};
use crate::engine::settings::BuildPolicy;
use crate::qualify::Prepared;

/// See the module.
#[derive(Debug)]
pub(in crate::engine) struct Authority(Builds);

#[derive(Debug)]
enum Builds {
    Own(OwnBuilder),
    Lake(LakePackage),
    Nobody,
}

impl Authority {
    /// The authority of a project on its toolchain, and the workers' command with what it adds to their environment.
    pub(in crate::engine) fn of(prepared: Prepared, project: &Arc<Project>, env: &HostEnv) -> (Self, WorkerLaunch) {
        match prepared.toolchain.kind {
            ToolchainKind::Embedded => {
                let Prepared { toolchain, mut launch, .. } = prepared;
                prepend(&mut launch, "LEAN_PATH", &project.lib_dirs());
                // By its place on this path a worker knows which module its file is; the first folder that fits decides, so the innermost come first.
                let mut sources = project.source_dirs();
                sources.sort_by_key(|dir| std::cmp::Reverse(dir.components().count()));
                prepend(&mut launch, "LEAN_SRC_PATH", &sources);
                let own = OwnBuilder::new(&toolchain, Project::clone(project), env);
                (Self(Builds::Own(own)), launch)
            }
            ToolchainKind::Native => {
                let builds = LakePackage::of(&prepared, project, env).map_or(Builds::Nobody, Builds::Lake);
                (Self(builds), prepared.launch)
            }
        }
    }

    /// Whether `lake build` means anything here.
    pub(in crate::engine) fn is_lake(&self) -> bool {
        matches!(self.0, Builds::Lake(_))
    }

    /// Whether artifacts are known to be of certain texts, because somebody builds them when a worker starts.
    pub(in crate::engine) fn knows_texts(&self) -> bool {
        !matches!(self.0, Builds::Nobody)
    }

    /// Gets the imports of a text ready. Blocking, for as long as they take to build.
    pub(in crate::engine) fn build(
        &self,
        path: &AbsPath,
        text: &str,
        policy: BuildPolicy,
        lines: &SetupLines,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> ImportsBuilt {
        match (&self.0, policy) {
            (Builds::Own(own), _) => own.build(path, text, policy, lines, stopped),
            // The worker itself has Lake build, or say why not.
            (Builds::Lake(_), BuildPolicy::OnDemand) => ImportsBuilt { vouches: true, ..ImportsBuilt::default() },
            (Builds::Lake(lake), BuildPolicy::Never) => lake.look(path, text, stopped),
            (Builds::Nobody, _) => ImportsBuilt::default(),
        }
    }

    /// Where the artifacts of a text belong, if it may be saved.
    pub(in crate::engine) async fn target(&self, source: &SaveSource) -> Result<SaveTarget, ArtifactError> {
        match &self.0 {
            Builds::Own(own) => {
                let (own, source) = (own.clone(), source.clone());
                blocking("looking for the module", move || own.target(&source)).await?
            }
            Builds::Lake(lake) => lake.target(source).await,
            Builds::Nobody => Err(nobody(source)),
        }
    }

    /// Takes away the trace, so that nothing vouches for artifacts that are about to change, and keeps builds of ours out meanwhile.
    pub(in crate::engine) async fn begin(
        &self,
        source: &SaveSource,
        target: &SaveTarget,
    ) -> Result<BegunSave, ArtifactError> {
        let end = match &self.0 {
            Builds::Own(own) => {
                let basis = own.basis(&source.path);
                let (own, path, stop) = (own.clone(), source.path.clone(), StopOnDrop::default());
                let stopped = stop.flag();
                let begun = blocking("beginning the save", move || own.begin(&path, &|| stopped.is_raised())).await?;
                let saving = begun.map_err(|error| ArtifactError::Refused { path: source.shown.clone(), error })?;
                SaveEnd::Own(Box::new(saving), basis)
            }
            Builds::Lake(lake) => {
                let trace = target.trace.clone();
                blocking("taking the trace away", move || take_away(&trace))
                    .await?
                    .map_err(|error| ArtifactError::TraceStays { path: source.shown.clone(), error })?;
                SaveEnd::Lake(lake.clone())
            }
            Builds::Nobody => return Err(nobody(source)),
        };
        Ok(BegunSave { source: source.clone(), trace: target.trace.clone(), end })
    }
}

#[cfg(test)]
impl Authority {
    /// Nobody's.
    pub(super) fn nobody() -> Self {
        Self(Builds::Nobody)
    }
}

/// Runs blocking work; its panic is a defect that is told.
async fn blocking<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ArtifactError> {
    tokio::task::spawn_blocking(work).await.map_err(|e| ArtifactError::Defect { what, error: e.to_string() })
}

fn nobody(source: &SaveSource) -> ArtifactError {
    ArtifactError::NotModule {
        path: source.shown.clone(),
        why: "the project has no lakefile, so nothing says what its modules are".to_owned(),
    }
}

/// A save whose trace is gone and whose artifacts may be replaced.
#[derive(Debug)]
pub(in crate::engine) struct BegunSave {
    source: SaveSource,
    trace: AbsPath,
    end: SaveEnd,
}

#[derive(Debug)]
enum SaveEnd {
    /// With what the worker's imports were.
    Own(Box<Saving>, Option<Basis>),
    Lake(LakePackage),
}

impl BegunSave {
    /// Writes the trace that vouches for what was saved.
    pub(in crate::engine) async fn trace(self) -> Result<WrittenTrace, ArtifactError> {
        let Self { source, trace, end } = self;
        let SaveSource { shown, text, .. } = source.clone();
        match end {
            SaveEnd::Own(saving, basis) => {
                match blocking("writing the trace", move || saving.record(&text, basis.as_ref())).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => return Err(ArtifactError::Refused { path: shown, error }),
                    Err(e) => return Err(ArtifactError::NoTrace { path: shown, error: e.to_string() }),
                }
            }
            SaveEnd::Lake(lake) => {
                lake.trace(&source).await.map_err(|error| ArtifactError::NoTrace { path: shown, error })?;
            }
        }
        Ok(WrittenTrace(trace))
    }
}

/// A trace that was just written.
#[derive(Debug)]
pub(in crate::engine) struct WrittenTrace(AbsPath);

impl WrittenTrace {
    /// Takes it away again: what it vouches for turned out not to be so.
    pub(in crate::engine) async fn withdraw(self, source: &SaveSource) -> Result<(), ArtifactError> {
        let told = |error: io::Error| ArtifactError::NoTrace {
            path: source.shown.clone(),
            error: format!("it vouches for imports that have changed, and cannot be taken away: {error}"),
        };
        blocking("taking the trace away", move || take_away(&self.0)).await?.map_err(told)
    }
}

fn take_away(trace: &AbsPath) -> io::Result<()> {
    match std::fs::remove_file(trace) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Puts folders at the head of a search path, without losing what is on it.
fn prepend(launch: &mut WorkerLaunch, name: &str, dirs: &[AbsPath]) {
    let at = launch.env.iter().position(|(key, _)| key == name);
    let old = at.map(|at| launch.env.remove(at).1).unwrap_or_default();
    let mut path = OsString::new();
    for dir in dirs.iter().map(|dir| dir.as_os_str()).chain((!old.is_empty()).then_some(old.as_os_str())) {
        if !path.is_empty() {
            path.push(":");
        }
        path.push(dir);
    }
    launch.env.push((name.into(), path));
}
