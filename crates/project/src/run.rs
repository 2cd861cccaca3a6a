//! Building what a plan says is stale: imports before importers, a few at a time.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use beam_lean::ModuleName;
use beam_process::schedule::{Halted, JobEnd, Schedule};
use beam_toolchain::fs::FsError;

use crate::compile::{Compiled, Compiler};
use crate::outcome::{BuildError, BuildOutcome};
use crate::plan::{NodeState, Plan};
use crate::report::Reporter;

/// How a build ended.
pub(crate) enum Ran {
    Ended(BuildOutcome),
    /// This module was edited while it was being compiled: plan again.
    Moved(ModuleName),
}

/// Why a module's end is the build's.
enum Halt {
    Cancelled,
    Moved(ModuleName),
    Fs(FsError),
}

/// Builds, `jobs` modules at a time. A module that cannot end well ends the others too; what they have done is lost, and done again by
/// the next attempt. Importers of what failed are passed over in silence.
pub(crate) fn build_stale(
    plan: &Plan,
    compiler: &Compiler<'_>,
    reporter: &Reporter<'_>,
    cancelled: &(dyn Fn() -> bool + Sync),
    jobs: usize,
) -> Result<Ran, BuildError> {
    let mut schedule = Schedule::new(plan.nodes.iter().map(|node| node.deps.clone()).collect());
    let mut reused = 0;
    for (n, node) in plan.nodes.iter().enumerate() {
        match node.state {
            NodeState::Fresh(_) | NodeState::Kept => {
                reused += 1;
                schedule.settle(n, true);
            }
            NodeState::Alien(_) | NodeState::Gone => schedule.settle(n, false),
            NodeState::Stale(_) => {}
        }
    }
    let built = Mutex::new(Vec::new());
    let ended = schedule.run(jobs, cancelled, &|n, stop| {
        let node = &plan.nodes[n];
        let begun = Instant::now();
        let compiled = compiler.compile(node, stop);
        let took = begun.elapsed();
        // Told before the schedule knows, so that an importer is never told of before what it imports.
        match compiled {
            Ok(Compiled::Done(messages)) => {
                reporter.built(&node.module.name, took, &messages);
                built.lock().unwrap_or_else(PoisonError::into_inner).push(node.module.name.clone());
                JobEnd::Good
            }
            Ok(Compiled::Failed(messages)) => {
                reporter.failed_with(&node.module, "Building", Some(took), &messages);
                JobEnd::Bad
            }
            Ok(Compiled::Moved) => JobEnd::Halt(Halt::Moved(node.module.name.clone())),
            Ok(Compiled::Stopped) => JobEnd::Halt(Halt::Cancelled),
            Err(e) => JobEnd::Halt(Halt::Fs(e)),
        }
    });
    match ended {
        Err(Halted::ByJob(Halt::Fs(e))) => return Err(e.into()),
        Err(Halted::ByJob(Halt::Moved(module))) => return Ok(Ran::Moved(module)),
        Err(Halted::Stopped | Halted::ByJob(Halt::Cancelled)) => return Ok(Ran::Ended(BuildOutcome::Cancelled)),
        Ok(()) => {}
    }
    let modules = built.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Ran::Ended(reporter.failures().unwrap_or(BuildOutcome::Built { modules, reused })))
}
