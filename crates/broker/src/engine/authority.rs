//! Who knows a project's modules: which file is which, whether what it is built from is up to date, and what its trace must say.
//!
//! Natively, in a Lake package, Lake does, and is asked in a child process (D8). On the embedded Lean there is no Lake, and our builder stands in
//! for it. A native toolchain without a lakefile has neither: files can be worked on, but nothing is built and nothing saved.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use beam_base::AbsPath;
use beam_project::{Basis, BuildOutcome, BuildPermission, Builder, Ensured, Module, Project, SaveError, Saving};
use beam_session::SetupLines;
use beam_toolchain::{HostEnv, ToolchainKind, WorkerLaunch};
use beam_wire::{ErrorBody, FailureCode};

use super::BuildPolicy;
use super::diagnostics::FAILED_TO_BUILD;
use super::imports::Stop;
use super::lake::Lake;
use super::ops::Document;
use super::save::{Outputs, Target, TargetError};
use crate::qualify::Prepared;

/// See the module.
#[derive(Debug)]
pub(crate) enum Authority {
    Builder(Own),
    Lake(Lake),
    Nobody,
}

/// Our builder, and what it said about each document's imports last. Clones are the same, for work that blocks.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    builder: Arc<Builder>,
    bases: Arc<Mutex<HashMap<AbsPath, Basis>>>,
}

/// What became of a document's imports.
#[derive(Debug, Default)]
pub(crate) struct Built {
    /// The artifacts are of the texts that are there now.
    pub(crate) vouches: bool,
    pub(crate) problem: Option<String>,
    pub(crate) refused: Vec<String>,
}

impl Built {
    /// They cannot be built. Lake's words first: what comes after them is a failure to build, whoever failed.
    pub(super) fn failed(text: impl std::fmt::Display) -> Self {
        Self { problem: Some(format!("{FAILED_TO_BUILD}\n{text}")), ..Self::default() }
    }
}

impl Authority {
    /// The authority of a project on its toolchain, and the workers' command with what it adds to their environment.
    pub(crate) fn of(prepared: Prepared, project: &Arc<Project>, env: &HostEnv) -> (Self, WorkerLaunch) {
        match prepared.toolchain.kind {
            ToolchainKind::Embedded => {
                let Prepared { toolchain, mut launch, .. } = prepared;
                prepend(&mut launch, "LEAN_PATH", &project.lib_dirs());
                // By its place on this path a worker knows which module its file is; the first folder that fits decides, so the innermost come first.
                let mut sources = project.source_dirs();
                sources.sort_by_key(|dir| std::cmp::Reverse(dir.components().count()));
                prepend(&mut launch, "LEAN_SRC_PATH", &sources);
                let builder = Arc::new(Builder::new(&toolchain, Project::clone(project), env));
                (Self::Builder(Own { builder, bases: Arc::default() }), launch)
            }
            ToolchainKind::Native => {
                let authority = Lake::of(&prepared, project, env).map_or(Self::Nobody, Self::Lake);
                (authority, prepared.launch)
            }
        }
    }

    /// Whether `lake build` means anything here.
    pub(crate) fn is_lake(&self) -> bool {
        matches!(self, Self::Lake(_))
    }

    /// Whether artifacts are known to be of certain texts, because somebody builds them when a worker starts.
    pub(crate) fn knows_texts(&self) -> bool {
        !matches!(self, Self::Nobody)
    }

    /// Gets the imports of a text ready. Blocking, for as long as they take to build.
    pub(crate) fn build(
        &self,
        path: &AbsPath,
        text: &str,
        policy: BuildPolicy,
        lines: &SetupLines,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Built {
        match (self, policy) {
            (Self::Builder(own), _) => own.build(path, text, policy, lines, stopped),
            // The worker itself has Lake build, or say why not.
            (Self::Lake(_), BuildPolicy::OnDemand) => Built { vouches: true, ..Built::default() },
            (Self::Lake(lake), BuildPolicy::Never) => lake.look(path, text, stopped),
            (Self::Nobody, _) => Built::default(),
        }
    }

    /// Where the document's artifacts belong, if it may be saved.
    pub(crate) async fn target(&self, doc: &Document) -> Result<Target, TargetError> {
        match self {
            Self::Builder(own) => {
                let (own, path, shown) = (own.clone(), doc.path.clone(), doc.shown());
                let text = Arc::clone(&doc.applied.text);
                let look = move || own.target(&path, &shown, &text);
                tokio::task::spawn_blocking(look).await.map_err(|e| TargetError::Other(e.to_string()))?
            }
            Self::Lake(lake) => lake.target(doc).await,
            Self::Nobody => Err(nobody(doc)),
        }
    }

    /// Takes away the trace, so that nothing vouches for artifacts that are about to change, and keeps builds of ours out meanwhile.
    pub(crate) async fn begin(&self, doc: &Document, target: &Target) -> Result<Begun, ErrorBody> {
        let shown = doc.shown();
        match self {
            Self::Builder(own) => {
                let basis = own.basis(&doc.path);
                let (own, path, stop) = (own.clone(), doc.path.clone(), Stop::default());
                let stopped = stop.flag();
                match tokio::task::spawn_blocking(move || own.begin(&path, &stopped)).await {
                    Ok(Ok(saving)) => Ok(Begun::Own(Box::new(saving), basis)),
                    Ok(Err(e)) => Err(save_failure(&shown, &e)),
                    Err(e) => {
                        Err(ErrorBody::new(FailureCode::InternalError, format!("beginning the save failed: {e}")))
                    }
                }
            }
            Self::Lake(lake) => match take_away(&target.trace) {
                Ok(()) => Ok(Begun::Lake(lake.clone())),
                Err(e) => Err(untouched(&shown, &e.to_string())),
            },
            Self::Nobody => Err(nobody(doc).into()),
        }
    }
}

fn nobody(doc: &Document) -> TargetError {
    TargetError::NotModule {
        path: doc.shown(),
        why: "the project has no lakefile, so nothing says what its modules are".to_owned(),
    }
}

/// A save whose trace is gone and whose artifacts may be replaced.
#[derive(Debug)]
pub(crate) enum Begun {
    /// With what the worker's imports were.
    Own(Box<Saving>, Option<Basis>),
    Lake(Lake),
}

impl Begun {
    /// Writes the trace that vouches for what was saved.
    pub(crate) async fn trace(self, doc: &Document) -> Result<(), ErrorBody> {
        match self {
            Self::Own(saving, basis) => {
                let text = Arc::clone(&doc.applied.text);
                match tokio::task::spawn_blocking(move || saving.record(&text, basis.as_ref())).await {
                    Ok(Ok(_)) => Ok(()),
                    Ok(Err(e)) => Err(save_failure(&doc.shown(), &e)),
                    Err(e) => Err(untraced(&doc.shown(), &e.to_string())),
                }
            }
            Self::Lake(lake) => lake.trace(doc).await.map_err(|e| untraced(&doc.shown(), &e)),
        }
    }
}

fn take_away(trace: &AbsPath) -> io::Result<()> {
    match std::fs::remove_file(trace) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn save_failure(path: &str, e: &SaveError) -> ErrorBody {
    let code = match e {
        SaveError::Cancelled => FailureCode::RequestCancelled,
        SaveError::MoreArgs { .. } => FailureCode::SaveUnsupportedSetup,
        SaveError::NoPath { .. } => FailureCode::SaveTargetNotModule,
        SaveError::ImportNotBuilt { .. } | SaveError::ImportMoved { .. } => FailureCode::SaveTraceStale,
        SaveError::Fs(_) | SaveError::Lock(_) => FailureCode::InternalError,
    };
    ErrorBody::new(code, format!("`{path}` is not saved: {e}"))
}

fn untouched(path: &str, e: &str) -> ErrorBody {
    let message = format!("the trace of `{path}` cannot be replaced: {e}; no artifact was changed");
    ErrorBody::new(FailureCode::InternalError, message)
}

fn untraced(path: &str, e: &str) -> ErrorBody {
    let message =
        format!("the artifacts of `{path}` are written, but their trace is not: {e}; the next build makes them anew");
    ErrorBody::new(FailureCode::InternalError, message)
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

impl Own {
    fn build(
        &self,
        path: &AbsPath,
        text: &str,
        policy: BuildPolicy,
        lines: &SetupLines,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Built {
        let mode = match policy {
            BuildPolicy::OnDemand => BuildPermission::Build,
            BuildPolicy::Never => BuildPermission::Never,
        };
        match self.builder.ensure(text, mode, &|line| lines.say(line), stopped) {
            Ok(ensured) => {
                self.bases.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone(), ensured.basis);
                match ensured.outcome {
                    BuildOutcome::UpToDate { .. } | BuildOutcome::Built { .. } => {
                        Built { vouches: true, ..Built::default() }
                    }
                    BuildOutcome::Failed { text, .. } => Built { problem: Some(text), ..Built::default() },
                    BuildOutcome::Refused { modules } => {
                        Built { refused: modules.iter().map(|m| m.module.to_string()).collect(), ..Built::default() }
                    }
                    // Nobody waits for this.
                    BuildOutcome::Cancelled => Built::default(),
                }
            }
            Err(e) => Built::failed(format_args!("error: {e}")),
        }
    }

    fn target(&self, path: &AbsPath, shown: &str, text: &str) -> Result<Target, TargetError> {
        let module = self.builder.project().module_of(path).ok_or_else(|| {
            let why = match self.builder.project().notices().as_slice() {
                [] => "no library of its lakefile.toml has it (`roots`, `globs`, `srcDir`)".to_owned(),
                notices => notices.join("; "),
            };
            TargetError::NotModule { path: shown.to_owned(), why }
        })?;
        // One look at all that the text imports. What else may be wrong with them is for the barrier to say.
        let looked = self.builder.ensure(text, BuildPermission::Never, &|_| {}, &|| false);
        if let Ok(Ensured { outcome: BuildOutcome::Refused { modules }, .. }) = looked
            && let Some(first) = modules.first()
        {
            return Err(TargetError::Stale {
                path: shown.to_owned(),
                what: format!("{}: {}", first.module, first.why),
                hint: "save it or refresh this file",
            });
        }
        let (outputs, trace) = paths(&module).ok_or_else(|| TargetError::NotModule {
            path: shown.to_owned(),
            why: format!("its name {} cannot be a file name", module.name),
        })?;
        let batch_only_args = module.more_args().to_vec();
        Ok(Target { module: module.name.to_string(), outputs, trace, batch_only_args })
    }

    fn basis(&self, path: &AbsPath) -> Option<Basis> {
        self.bases.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    fn begin(&self, path: &AbsPath, stopped: &(dyn Fn() -> bool + Sync)) -> Result<Saving, SaveError> {
        // It was one a moment ago, by the same unchanging configuration.
        let module = self.builder.project().module_of(path).ok_or(SaveError::Cancelled)?;
        self.builder.begin_save(&module, stopped)
    }
}

/// Lake's places for the files of a module.
fn paths(module: &Module) -> Option<(Outputs, AbsPath)> {
    let outputs = Outputs {
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
