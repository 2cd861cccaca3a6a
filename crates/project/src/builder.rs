//! The builder for toolchains without Lake: makes the workspace modules that a text imports, on demand.
//!
//! Owns which modules are built, in which order, how many at a time, and what is told about it. It works on one project with one
//! toolchain; several builders, in this process or others, may work on the same folders: they take turns by a lock in each build folder.
//!
//! Must never: write anything but build folders, touch an artifact that is newer than its source and not made by us, or report a
//! module as built whose artifacts were not made from what is on disk.
//!
//! * **P1** a module is taken as fresh only if a record of ours, written after its artifacts, names exactly the inputs that are there
//!   now: text, options, toolchain, and the keys of the modules it imports.
//! * **P2** an artifact that is not ours and newer than its source is never replaced.
//! * **P3** killed anywhere, the next build makes what was being made; nothing of the killed one is taken for an artifact.
//! * **P4** when nothing may be built, nothing is written.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use beam_base::AbsPath;
use beam_lean::{Header, ModuleName, imports_of};
use beam_process::HostEnv;
use beam_process::schedule::at_a_time;
use beam_toolchain::Toolchain;
use beam_toolchain::lock::{self, Lock, LockError};

use crate::compile::{Compiler, own_dir, sweep};
use crate::config::LeanOption;
use crate::layout::{Module, Project};
use crate::outcome::{Basis, BuildError, BuildOutcome, BuildPermission, Ensured, FailedModule, NeedsBuild};
use crate::plan::{Node, NodeState, Plan, PlanError, Planner, Why};
use crate::report::{FAILED, Reporter};
use crate::run::{Ran, build_stale};
use crate::source::Sources;

/// Longest time for one module.
const LIMIT: Duration = Duration::from_secs(1800);
/// How long another build of the same folders is waited for.
const WAIT: Duration = Duration::from_secs(3600);
/// The lock in a build folder.
const LOCK: &str = "build";
/// How often the plan is made anew because sources were edited meanwhile.
const ATTEMPTS: u32 = 4;
/// How many modules are compiled at a time, where there is memory for them.
const JOBS: usize = 2;

/// What is known of a module's artifacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModuleStatus {
    /// They were made from what is there now, by us; or by others, after the source was last written.
    Fresh,
    /// They are not, or there are none.
    Stale {
        /// Why.
        why: Why,
    },
    /// It cannot be told: no module of the project, no source, a circle of imports, artifacts of another Lean.
    Unknown,
}

/// Builds modules of one project with one toolchain. Blocking; may be used by several threads at a time.
#[derive(Debug)]
pub struct Builder {
    pub(crate) toolchain: Toolchain,
    pub(crate) project: Project,
    pub(crate) env: HostEnv,
    pub(crate) sources: Sources,
    wait: Duration,
}

impl Builder {
    /// A builder. `env` is what Lean processes inherit; its `LEAN_PATH` is searched after the project.
    #[must_use]
    pub fn new(toolchain: &Toolchain, project: Project, env: &HostEnv) -> Self {
        Self { toolchain: toolchain.clone(), project, env: env.clone(), sources: Sources::default(), wait: WAIT }
    }

    /// The same, waiting at most this long for another build of the same folders (default: an hour).
    #[must_use]
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// The project.
    #[must_use]
    pub fn project(&self) -> &Project {
        &self.project
    }

    /// The search path for whoever imports what is built here: library folders of the project, then the caller's `LEAN_PATH`.
    #[must_use]
    pub fn lean_path(&self) -> std::ffi::OsString {
        crate::compile::search_path(&self.project.lib_dirs(), &self.env)
    }

    /// Makes sure that all workspace modules that `text` imports, directly or not, are built. The text itself is not, and need not be
    /// a module. `progress` gets lines in the shape of Lake's (`✔ [2/7] Built App.Low (1.2s)`), from several threads, one call a line, and
    /// must not block or call the builder; `cancelled` is asked often and ends the work within a fraction of a second.
    ///
    /// # Errors
    /// When files cannot be read or written, another build holds the lock too long, or sources are edited all the while. That a module
    /// does not compile is no error but an outcome.
    pub fn ensure(
        &self,
        text: &str,
        mode: BuildPermission,
        progress: &(dyn Fn(&str) + Sync),
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Ensured, BuildError> {
        self.ensure_header(&imports_of(text), mode, progress, cancelled)
    }

    fn ensure_header(
        &self,
        header: &Header,
        mode: BuildPermission,
        progress: &(dyn Fn(&str) + Sync),
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Ensured, BuildError> {
        let mut locks = Locks::default();
        let mut moved = 0;
        loop {
            let plan = match self.planner().plan(header) {
                Ok(plan) => plan,
                Err(PlanError::Fs(e)) => return Err(e.into()),
                Err(PlanError::Cycle(circle)) => {
                    return Ok(Ensured { outcome: cycle(&circle), missing: Vec::new(), basis: Basis::default() });
                }
            };
            if mode == BuildPermission::Never || plan.stale().next().is_none() {
                let outcome = self.look(&plan, mode, progress);
                return Ok(ensured(outcome, &plan));
            }
            // Looked at without the locks so far: others may be at it. What is done under them is planned under them.
            let needed: BTreeSet<AbsPath> = plan.stale().map(|(_, node, _)| node.module.build_dir.clone()).collect();
            if !locks.cover(&needed) {
                // All anew and in one order, so that two builds never wait for each other. There are as many rounds as packages at most.
                let all: BTreeSet<AbsPath> = needed.union(&locks.dirs()).cloned().collect();
                drop(std::mem::take(&mut locks));
                match self.lock(&all, progress, cancelled)? {
                    Some(got) => locks = got,
                    None => return Ok(ensured(BuildOutcome::Cancelled, &plan)),
                }
                continue;
            }
            match self.build(&plan, progress, cancelled)? {
                Ran::Ended(outcome) => return Ok(ensured(outcome, &plan)),
                Ran::Moved(module) => {
                    moved += 1;
                    if moved == ATTEMPTS {
                        return Err(BuildError::Restless { module });
                    }
                }
            }
        }
    }

    /// What is known of a module's artifacts. Reads sources that have changed and small trace files; milliseconds.
    #[must_use]
    pub fn status(&self, module: &ModuleName) -> ModuleStatus {
        let Some(module) = self.project.find(module) else {
            return ModuleStatus::Unknown;
        };
        match self.planner().plan_module(module) {
            Err(_) => ModuleStatus::Unknown,
            Ok(mut plan) => match plan.nodes.pop().map(|n| n.state) {
                Some(NodeState::Fresh(_) | NodeState::Kept) => ModuleStatus::Fresh,
                Some(NodeState::Stale(why)) => ModuleStatus::Stale { why },
                Some(NodeState::Alien(_) | NodeState::Gone) | None => ModuleStatus::Unknown,
            },
        }
    }

    /// The Lean options for a file, as a worker for it needs them.
    #[must_use]
    pub fn options_for(&self, path: &AbsPath) -> Vec<LeanOption> {
        self.project.options_for(path)
    }

    pub(crate) fn planner(&self) -> Planner<'_> {
        Planner { project: &self.project, sources: &self.sources, toolchain: &self.toolchain, env: &self.env }
    }

    /// The outcome without building anything.
    fn look(&self, plan: &Plan, mode: BuildPermission, progress: &(dyn Fn(&str) + Sync)) -> BuildOutcome {
        let reporter = Reporter::new(plan.nodes.len(), progress);
        for node in &plan.nodes {
            match &node.state {
                NodeState::Fresh(messages) if mode == BuildPermission::Build => {
                    reporter.replayed(&node.module.name, messages);
                }
                NodeState::Alien(olean) => {
                    reporter.failed(&node.module, "Running", None, &self.alien(&node.module, olean));
                }
                NodeState::Gone => reporter.failed(&node.module, "Running", None, &gone(node)),
                NodeState::Fresh(_) | NodeState::Kept | NodeState::Stale(_) => {}
            }
        }
        if let Some(failed) = reporter.failures() {
            return failed;
        }
        let stale: Vec<NeedsBuild> = plan
            .stale()
            .map(|(_, node, why)| NeedsBuild {
                module: node.module.name.clone(),
                path: node.module.source.clone(),
                why: why.clone(),
            })
            .collect();
        if stale.is_empty() {
            BuildOutcome::UpToDate { reused: plan.nodes.len() }
        } else {
            BuildOutcome::Refused { modules: stale }
        }
    }

    fn build(
        &self,
        plan: &Plan,
        progress: &(dyn Fn(&str) + Sync),
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Ran, BuildError> {
        let path = self.project.lib_dirs();
        if let Some(dir) = path.iter().find(|dir| dir.to_string_lossy().contains(':')) {
            return Err(BuildError::Colon(dir.clone()));
        }
        let compiler = Compiler {
            toolchain: &self.toolchain,
            env: &self.env,
            root: self.project.root(),
            path: &path,
            limit: LIMIT,
        };
        let reporter = Reporter::new(plan.nodes.len(), progress);
        for node in &plan.nodes {
            match &node.state {
                NodeState::Fresh(messages) => reporter.replayed(&node.module.name, messages),
                NodeState::Kept => reporter.replayed(&node.module.name, &[]),
                NodeState::Alien(olean) => {
                    reporter.failed(&node.module, "Running", None, &self.alien(&node.module, olean));
                }
                NodeState::Gone => reporter.failed(&node.module, "Running", None, &gone(node)),
                NodeState::Stale(_) => {}
            }
        }
        build_stale(plan, &compiler, &reporter, cancelled, at_a_time(JOBS))
    }

    fn alien(&self, module: &Module, olean: &AbsPath) -> String {
        format!(
            "{} was made by another Lean than {} and is newer than its source, so it is left alone; use the toolchain that made it, or remove {}",
            olean.display_in(self.project.root()),
            self.toolchain.version,
            module.build_dir.display_in(self.project.root()),
        )
    }

    /// The locks of these build folders, swept; `None` if cancelled.
    pub(crate) fn lock(
        &self,
        dirs: &BTreeSet<AbsPath>,
        progress: &(dyn Fn(&str) + Sync),
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Locks>, LockError> {
        let mut locks = Locks::default();
        let begun = Instant::now();
        let mut told = false;
        for dir in dirs {
            if cancelled() {
                return Ok(None);
            }
            let waiting = |owner: Option<&lock::Owner>| {
                if !std::mem::replace(&mut told, true) {
                    progress(&format!("ℹ [0/1] Running (waiting for another build: {})", lock::describe(owner)));
                }
            };
            let left = self.wait.saturating_sub(begun.elapsed());
            match lock::acquire(&own_dir(dir), LOCK, "building", left, &|| cancelled(), waiting) {
                Ok(lock) => {
                    sweep(dir);
                    locks.0.insert(dir.clone(), lock);
                }
                Err(LockError::Stopped { .. }) => return Ok(None),
                Err(LockError::Held { path, owner, .. }) => {
                    return Err(LockError::Held { path, owner, waited: begun.elapsed() });
                }
                Err(e) => return Err(e),
            }
        }
        Ok(Some(locks))
    }
}

/// Held locks of build folders.
#[derive(Debug, Default)]
pub(crate) struct Locks(BTreeMap<AbsPath, Lock>);

impl Locks {
    fn cover(&self, dirs: &BTreeSet<AbsPath>) -> bool {
        dirs.iter().all(|dir| self.0.contains_key(dir))
    }

    fn dirs(&self) -> BTreeSet<AbsPath> {
        self.0.keys().cloned().collect()
    }
}

fn ensured(outcome: BuildOutcome, plan: &Plan) -> Ensured {
    let whole = matches!(outcome, BuildOutcome::UpToDate { .. } | BuildOutcome::Built { .. });
    let key = |&n: &usize| {
        let node = &plan.nodes[n];
        (node.module.name.to_string(), node.inputs.key.clone())
    };
    let basis = if whole { plan.direct.iter().map(key).collect() } else { BTreeMap::new() };
    Ensured { outcome, missing: plan.missing.clone(), basis: Basis(basis) }
}

/// In Lake's words.
fn cycle(circle: &[Module]) -> BuildOutcome {
    let mut log = "error: build cycle detected:".to_owned();
    for module in circle {
        log.push_str(&format!("\n  +{}:deps", module.name));
    }
    let text = format!("{FAILED}\n{log}\n");
    let once = circle.len().saturating_sub(1);
    let modules = circle[..once]
        .iter()
        .map(|m| FailedModule { module: m.name.clone(), path: m.source.clone(), log: log.clone() })
        .collect();
    BuildOutcome::Failed { modules, text }
}

fn gone(node: &Node) -> String {
    format!("no such file or directory (error code: 2)\n  file: {}", node.module.source)
}
