//! Compiling the extension with a toolchain's own `lean`, modules that do not need each other at the same time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use beam_base::AbsPath;
use beam_process::schedule::{Halted, JobEnd, Schedule, at_a_time};
use beam_process::{Done, HostEnv, Run, RunError};

use super::error::ExtensionError;
use super::model::LOG;
use super::sources::{Module, Sources};
use crate::fs::FsError;
use crate::model::{Toolchain, ToolchainKind};
use crate::progress::{Progress, phase};

/// Longest time for one module, or for all in one process. A slow machine under load takes a minute for the largest.
const LIMIT: Duration = Duration::from_secs(900);

/// Compiles many modules in one process.
const BUILD: &str = include_str!("../../assets/build.lean");
/// Its name while it is needed.
const BUILD_PROGRAM: &str = "lean-beam-build.lean";
/// How it tells that a module is done.
const MARK: &[u8] = b"#built ";

/// Writes the sources into `dir` and compiles them there. The log is written in any case.
///
/// # Errors
/// It does not compile, Lean could not be run, or the environment's children must end.
pub fn compile(
    tc: &Toolchain,
    sources: &Sources,
    dir: &AbsPath,
    env: &HostEnv,
    progress: &dyn Progress,
) -> Result<(), ExtensionError> {
    write_sources(sources, dir)?;
    progress.phase(phase::EXTENSION, Some(sources.modules.len() as u64));
    let (log, result) = match tc.kind {
        ToolchainKind::Native => processes(tc, sources, dir, env, progress),
        ToolchainKind::Embedded => one_process(tc, sources, dir, env, progress)?,
    };
    let path = dir.join(LOG);
    std::fs::write(&path, log).map_err(FsError::at("write", &path))?;
    result
}

/// One `lean` for each module, as many at a time as there are cores and memory.
fn processes(
    tc: &Toolchain,
    sources: &Sources,
    dir: &AbsPath,
    env: &HostEnv,
    progress: &dyn Progress,
) -> (String, Result<(), ExtensionError>) {
    let log = Mutex::new(String::new());
    let say = |text: &str| log.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
    let schedule = Schedule::new(sources.modules.iter().map(|m| m.needs.clone()).collect());
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let jobs = at_a_time(cores.min(sources.modules.len()));
    let done = schedule.run(jobs, &|| env.is_ending(), &|n, stop| {
        let result = build(tc, &sources.modules[n], dir, env, stop);
        progress.advance(1);
        match result {
            Ok(text) => {
                say(&text);
                JobEnd::Good
            }
            Err(e) => {
                say(e.output());
                JobEnd::Halt(e)
            }
        }
    });
    let result = done.map_err(|halted| match halted {
        Halted::ByJob(e) => e,
        Halted::Stopped => RunError::Stopped { program: tc.lean.clone() }.into(),
    });
    (log.into_inner().unwrap_or_else(PoisonError::into_inner), result)
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
fn build(
    tc: &Toolchain,
    module: &Module,
    dir: &AbsPath,
    env: &HostEnv,
    stop: &dyn Fn() -> bool,
) -> Result<String, ExtensionError> {
    let olean = olean_of(&module.path);
    let begun = Instant::now();
    let done = lean(tc, dir).args(["-o", olean.as_str(), module.path.as_str()]).capture_until(env, stop)?;
    let log = format!("{}#built {} {} ms\n", done.both(), module_name(&module.path), begun.elapsed().as_millis());
    if done.ok() && dir.join(&olean).is_file() { Ok(log) } else { Err(failure(module, &done, log)) }
}

/// Lean in the build's folder, seeing the toolchain's library and what is built already.
fn lean(tc: &Toolchain, dir: &AbsPath) -> Run {
    Run::new(&tc.lean, dir).set("LEAN_PATH", dir.as_os_str()).limit(LIMIT).unset([
        "LEAN_SYSROOT",
        "LEAN_SRC_PATH",
        "NODE_OPTIONS",
    ])
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
