//! Compiling the extension with a toolchain's own `lean`, modules that do not need each other at the same time.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use beam_base::AbsPath;

use super::ExtensionError;
use super::sources::{Module, Sources};
use crate::env::HostEnv;
use crate::process::{Done, Run};
use crate::progress::{Progress, phase};
use crate::store::FsError;
use crate::toolchain::{Kind, Toolchain};

/// Longest time for one module, or for all in one process. A slow machine under load takes a minute for the largest.
const LIMIT: Duration = Duration::from_secs(900);

/// Compiles many modules in one process.
const BUILD: &str = include_str!("../../assets/build.lean");
/// Its name while it is needed.
const BUILD_PROGRAM: &str = "lean-beam-build.lean";
/// How it tells that a module is done.
const MARK: &[u8] = b"#built ";

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
    let (log, result) = match tc.kind {
        Kind::Native => processes(tc, sources, dir, env, progress),
        Kind::Embedded => one_process(tc, sources, dir, env, progress)?,
    };
    let path = dir.join(LOG);
    std::fs::write(&path, log).map_err(FsError::at("write", &path))?;
    result
}

/// One `lean` for each module, as many at a time as there are cores.
fn processes(
    tc: &Toolchain,
    sources: &Sources,
    dir: &AbsPath,
    env: &HostEnv,
    progress: &dyn Progress,
) -> (String, Result<(), ExtensionError>) {
    let board = Board { modules: &sources.modules, state: Mutex::new(State::default()), changed: Condvar::new() };
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(sources.modules.len()) {
            scope.spawn(|| board.work(&|module| build(tc, module, dir, env), progress));
        }
    });
    let state = board.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    (state.log, state.failure.map_or(Ok(()), Err))
}

/// All modules in one process: see the program's own comment. Measured for our fourteen modules on two cores: 16 s against 80 s of
/// one process each.
fn one_process(
    tc: &Toolchain,
    sources: &Sources,
    dir: &AbsPath,
    env: &HostEnv,
    progress: &dyn Progress,
) -> Result<(String, Result<(), ExtensionError>), ExtensionError> {
    let program = dir.join(BUILD_PROGRAM);
    std::fs::write(&program, BUILD).map_err(FsError::at("write", &program))?;
    let mut run = lean(tc, dir).args(["--run", BUILD_PROGRAM]);
    run = run.args(sources.modules.iter().map(|m| module_name(&m.path)));
    let mut built = 0;
    let done = run.capture_with(env, &mut |piece| {
        // Each module ends with a line that has this mark, and nothing else prints one; a mark cut in two is made up for below.
        let marks = piece.windows(MARK.len()).filter(|w| *w == MARK).count();
        built += marks;
        progress.advance(marks as u64);
    })?;
    std::fs::remove_file(&program).map_err(FsError::at("remove", &program))?;
    let log = done.both();
    let missing = sources.modules.iter().find(|m| !dir.join(olean_of(&m.path)).is_file());
    if done.ok() && missing.is_none() {
        progress.advance((sources.modules.len() - built) as u64);
        return Ok((log, Ok(())));
    }
    // It was at the first module without a result, or at the end of the last one.
    let blame = missing.or(sources.modules.last());
    let result = blame.map_or(Ok(()), |module| Err(failure(module, &done, log.clone())));
    Ok((log, result))
}

fn write_sources(sources: &Sources, dir: &AbsPath) -> Result<(), FsError> {
    let programs = sources.programs.iter().map(|(path, text)| (*path, text.as_str()));
    let files = sources.modules.iter().map(|m| (m.path.as_str(), m.text.as_str())).chain(programs);
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
    let olean = olean_of(&module.path);
    let begun = Instant::now();
    let done = lean(tc, dir).args(["-o", olean.as_str(), module.path.as_str()]).capture(env)?;
    let log = format!("{}#built {} {} ms\n", done.both(), module_name(&module.path), begun.elapsed().as_millis());
    if done.ok() && dir.join(&olean).is_file() { Ok(log) } else { Err(failure(module, &done, log)) }
}

/// Lean in the build's folder, seeing the toolchain's library and what is built already.
fn lean(tc: &Toolchain, dir: &AbsPath) -> Run {
    let mut run = Run::new(&tc.lean, dir).set("LEAN_PATH", dir.as_os_str()).limit(LIMIT);
    run.unset = ["LEAN_SYSROOT", "LEAN_SRC_PATH", "NODE_OPTIONS"].map(Into::into).to_vec();
    run
}

/// Lean reports errors of a file with 1; anything else (a signal, an abort) says nothing about the sources.
fn failure(module: &Module, done: &Done, output: String) -> ExtensionError {
    let module = module.path.clone();
    match done.status.code() {
        Some(0 | 1) => ExtensionError::Compile { module, output },
        _ => ExtensionError::Crashed { module, status: done.status.to_string(), output },
    }
}

fn olean_of(path: &str) -> String {
    format!("{}.olean", path.trim_end_matches(".lean"))
}

fn module_name(path: &str) -> String {
    path.trim_end_matches(".lean").replace('/', ".")
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
