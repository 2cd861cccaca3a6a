//! Compiling the extension with a toolchain's own `lean`, modules that do not need each other at the same time.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use beam_base::AbsPath;

use super::ExtensionError;
use super::sources::{Module, Sources, WORKER};
use crate::env::HostEnv;
use crate::process::Run;
use crate::progress::{Progress, phase};
use crate::store::FsError;
use crate::toolchain::{Kind, Toolchain};

/// Longest time for one module. A slow machine under load takes a minute for the largest.
const LIMIT: Duration = Duration::from_secs(600);

/// Name of the log in the build's folder.
pub(crate) const LOG: &str = "build.log";

/// Writes the sources into `dir` and compiles them there. The log is written in any case.
pub(crate) fn compile(
    tc: &Toolchain,
    sources: &Sources,
    dir: &AbsPath,
    env: &HostEnv,
    progress: &dyn Progress,
) -> Result<(), ExtensionError> {
    write_sources(sources, dir)?;
    progress.phase(phase::EXTENSION, Some(sources.modules.len() as u64));
    let board = Board { modules: &sources.modules, state: Mutex::new(State::default()), changed: Condvar::new() };
    std::thread::scope(|scope| {
        for _ in 0..jobs(tc.kind).min(sources.modules.len()) {
            scope.spawn(|| board.work(&|module| build(tc, module, dir, env), progress));
        }
    });
    let state = board.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let log = dir.join(LOG);
    std::fs::write(&log, &state.log).map_err(FsError::at("write", &log))?;
    state.failure.map_or(Ok(()), Err)
}

/// An embedded Lean takes up to a gigabyte for a module, so more than four of them would surprise.
fn jobs(kind: Kind) -> usize {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    match kind {
        Kind::Embedded => cores.clamp(1, 4),
        Kind::Native => cores,
    }
}

fn write_sources(sources: &Sources, dir: &AbsPath) -> Result<(), FsError> {
    let files =
        sources.modules.iter().map(|m| (m.path.as_str(), m.text.as_str())).chain([(WORKER, sources.worker.as_str())]);
    for (path, text) in files {
        let path = dir.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(&parent).map_err(FsError::at("make the folder", &parent))?;
        }
        std::fs::write(&path, text).map_err(FsError::at("write", &path))?;
    }
    Ok(())
}

/// Runs Lean on one module; its output goes to the log.
fn build(tc: &Toolchain, module: &Module, dir: &AbsPath, env: &HostEnv) -> Result<String, ExtensionError> {
    let olean = format!("{}.olean", module.path.trim_end_matches(".lean"));
    let mut run = Run::new(&tc.lean, dir)
        .args(["-o", olean.as_str(), module.path.as_str()])
        .set("LEAN_PATH", dir.as_os_str())
        .limit(LIMIT);
    run.unset = ["LEAN_SYSROOT", "LEAN_SRC_PATH", "NODE_OPTIONS"].map(Into::into).to_vec();
    let begun = Instant::now();
    let done = run.capture(env)?;
    let mut log = format!("# {} {:.1} s\n", module.path, begun.elapsed().as_secs_f64());
    log.push_str(&done.both());
    if done.ok() && dir.join(&olean).is_file() {
        return Ok(log);
    }
    // Writing to a String cannot fail.
    let _ignored = writeln!(log, "# failed: {}", done.status);
    // Lean reports errors of a file with 1; anything else (a signal, an abort) says nothing about the sources.
    Err(if done.status.code() == Some(1) {
        ExtensionError::Compile { module: module.path.clone(), output: log }
    } else {
        ExtensionError::Crashed { module: module.path.clone(), output: log }
    })
}

#[derive(Default)]
struct State {
    begun: BTreeSet<usize>,
    done: BTreeSet<usize>,
    log: String,
    failure: Option<ExtensionError>,
}

/// What is to be done, shared by the workers.
struct Board<'a> {
    modules: &'a [Module],
    state: Mutex<State>,
    changed: Condvar,
}

impl Board<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock is held cannot leave the sets half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes modules whose imports are done, until none is left or one failed.
    fn work(&self, build: &dyn Fn(&Module) -> Result<String, ExtensionError>, progress: &dyn Progress) {
        while let Some(n) = self.take() {
            let result = build(&self.modules[n]);
            progress.advance(1);
            let mut state = self.lock();
            match result {
                Ok(log) => {
                    state.log.push_str(&log);
                    state.done.insert(n);
                }
                Err(e) => {
                    state.log.push_str(e.output());
                    state.failure.get_or_insert(e);
                }
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    fn take(&self) -> Option<usize> {
        let mut state = self.lock();
        loop {
            if state.failure.is_some() || state.begun.len() == self.modules.len() {
                return None;
            }
            let ready = (0..self.modules.len())
                .find(|n| !state.begun.contains(n) && self.modules[*n].needs.iter().all(|d| state.done.contains(d)));
            if let Some(n) = ready {
                state.begun.insert(n);
                return Some(n);
            }
            // Something is being built (imports have no circles), and its end is announced.
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
