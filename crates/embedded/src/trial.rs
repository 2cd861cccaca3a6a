//! First runs of a toolchain that has just been made: does it elaborate, prove and generate code?

use std::time::Duration;

use beam_base::AbsPath;

use beam_process::{Done, HostEnv, Run, RunError};
use beam_toolchain::fs::FsError;
use beam_toolchain::model::parse_banner;
use beam_toolchain::progress::{Progress, phase};

/// Longest time for one run.
const LIMIT: Duration = Duration::from_secs(180);

/// Exercises the parts that the installer's steps make work: proofs by automation, code generation through compiler-made names of
/// the library (`for`, `deriving`, polymorphic functions), the interpreter's way to compiled code.
const SOURCE: &str = include_str!("../assets/trial.lean");
/// What it prints.
pub(crate) const EXPECTED: &str = include_str!("../assets/trial.expected");

/// Why the toolchain was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// Lean failed, or said something else than it should.
    #[error("the new toolchain does not work: {what}\n{output}")]
    Wrong {
        /// Which run.
        what: &'static str,
        /// What it printed.
        output: String,
    },
    /// Lean could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A file operation failed.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// What the new Lean says it is.
#[derive(Debug)]
pub(crate) struct Banner {
    /// All of it.
    pub text: String,
    /// The version in it.
    pub version: String,
}

fn lean(entry: &AbsPath, cwd: &AbsPath, args: &[&str], env: &HostEnv) -> Result<Done, RunError> {
    Run::new(&entry.join("bin/lean"), cwd)
        .args(args.iter().copied())
        .limit(LIMIT)
        .unset(["LEAN_PATH", "LEAN_SYSROOT", "NODE_OPTIONS"])
        .capture(env)
}

/// Has Lean itself make the `.ir` file of an empty module.
pub(crate) fn empty_ir(
    entry: &AbsPath,
    work: &AbsPath,
    env: &HostEnv,
    progress: &dyn Progress,
) -> Result<Vec<u8>, TrialError> {
    progress.phase(phase::TRIAL, None);
    let source = work.join("Empty.lean");
    std::fs::write(&source, "module\nprelude\n").map_err(FsError::at("write", &source))?;
    let done = lean(entry, work, &["-o", "Empty.olean", "Empty.lean"], env)?;
    let ir = work.join("Empty.ir");
    if !done.ok() || !ir.is_file() {
        return Err(TrialError::Wrong { what: "it cannot compile an empty module", output: done.both() });
    }
    Ok(std::fs::read(&ir).map_err(FsError::at("read", &ir))?)
}

/// Runs the test file and asks for the version.
pub(crate) fn run(
    entry: &AbsPath,
    work: &AbsPath,
    env: &HostEnv,
    progress: &dyn Progress,
) -> Result<Banner, TrialError> {
    progress.phase(phase::TRIAL, None);
    let source = work.join("Trial.lean");
    std::fs::write(&source, SOURCE).map_err(FsError::at("write", &source))?;
    let (tried, version) = std::thread::scope(|scope| {
        let version = scope.spawn(|| lean(entry, work, &["--version"], env));
        let tried = lean(entry, work, &["Trial.lean"], env);
        let version = version.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (tried, version)
    });
    let (tried, version) = (tried?, version?);
    if !tried.ok() || tried.stdout.trim_end() != EXPECTED.trim_end() {
        return Err(TrialError::Wrong { what: "its test file gives", output: tried.both() });
    }
    let text = version.stdout.trim().to_owned();
    match parse_banner(&text) {
        Some(number) if version.ok() => Ok(Banner { text, version: number }),
        _ => Err(TrialError::Wrong { what: "it does not tell its version", output: version.both() }),
    }
}
