//! How one file worker is started on a toolchain. Starting it is the session's job.

use std::ffi::OsString;
use std::time::Duration;

use beam_base::AbsPath;

use crate::env::HostEnv;
use crate::extension::{Extension, WORKER};
use crate::process::{Run, RunError};
use crate::root::{Backend, has_marker};
use crate::toolchain::{Kind, Toolchain};

/// A process to be started: the inherited environment, less `env_remove`, with `env` set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerLaunch {
    /// The toolchain's `lean`.
    pub program: AbsPath,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables to set.
    pub env: Vec<(OsString, OsString)>,
    /// Variables to remove.
    pub env_remove: Vec<OsString>,
    /// Working directory: the project root.
    pub cwd: AbsPath,
}

/// Why a worker cannot be started in this project.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Lake does not accept the project.
    #[error("`lake env` fails in {root}:\n{output}")]
    LakeEnv {
        /// The project.
        root: AbsPath,
        /// What Lake printed.
        output: String,
    },
    /// Lake could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A folder whose name holds a colon cannot be on a search path.
    #[error("{0} cannot be put on Lean's search path: its name contains `:`")]
    Colon(AbsPath),
}

/// What Lake takes from the environment of the caller and must not leak from an outer project or toolchain into this one.
const FOREIGN: [&str; 3] = ["LEAN_SYSROOT", "LAKE", "LAKE_HOME"];

/// The command that starts one file worker for a document of the project. On a native toolchain with a lakefile this asks
/// `lake env`, which may take a second or more; the caller keeps the result until the project's configuration changes.
pub fn worker_launch(
    tc: &Toolchain,
    ext: &Extension,
    root: &AbsPath,
    env: &HostEnv,
) -> Result<WorkerLaunch, LaunchError> {
    if ext.dir.to_string_lossy().contains(':') {
        return Err(LaunchError::Colon(ext.dir.clone()));
    }
    let mut launch = WorkerLaunch {
        program: tc.lean.clone(),
        args: vec!["--run".into(), ext.dir.join(WORKER).as_os_str().to_owned(), "-Dserver.reportDelayMs=0".into()],
        env: Vec::new(),
        env_remove: Vec::new(),
        cwd: root.clone(),
    };
    let mut search_path = env.var_os("LEAN_PATH").map(OsString::from);
    match tc.kind {
        Kind::Embedded => {
            launch.env_remove.extend(FOREIGN.map(OsString::from));
            // Node reads it before our host can ignore it; `--inspect` or a preloaded module would end up in every worker.
            launch.env_remove.push("NODE_OPTIONS".into());
            // A worker tells what its file imports, all the way down, only for modules whose source it finds; that is how importers
            // hear of a change. Natively this comes from `lake env`.
            if env.var_os("LEAN_SRC_PATH").is_none() {
                launch.env.push(("LEAN_SRC_PATH".into(), root.as_path().as_os_str().to_owned()));
            }
        }
        Kind::Native => {
            if let Some(lake) = tc.lake.as_ref().filter(|_| has_lakefile(root)) {
                for (key, value) in lake_env(lake, root, env)? {
                    if key == "LEAN_PATH" {
                        search_path = value;
                        continue;
                    }
                    match value {
                        Some(value) => launch.env.push((key, value)),
                        None => launch.env_remove.push(key),
                    }
                }
            } else {
                launch.env_remove.extend(FOREIGN.map(OsString::from));
            }
        }
    }
    // Last, so that no module of the project can be hidden by one of ours.
    let mut path = search_path.unwrap_or_default();
    if !path.is_empty() {
        path.push(":");
    }
    path.push(ext.dir.as_os_str());
    launch.env.push(("LEAN_PATH".into(), path));
    Ok(launch)
}

/// Whether the project is a Lake package; a `lean-toolchain` alone makes none.
#[must_use]
pub fn has_lakefile(root: &AbsPath) -> bool {
    has_marker(root, Backend::Lean) && ["lakefile.toml", "lakefile.lean"].iter().any(|f| root.join(f).is_file())
}

type Variables = Vec<(OsString, Option<OsString>)>;

/// The variables that `lake env` sets, `None` for those it unsets (it prints them without a value).
fn lake_env(lake: &AbsPath, root: &AbsPath, env: &HostEnv) -> Result<Variables, LaunchError> {
    let mut run = Run::new(lake, root).args(["env"]).limit(Duration::from_secs(300));
    run.unset = FOREIGN.map(OsString::from).to_vec();
    let done = run.capture(env)?;
    if !done.ok() {
        return Err(LaunchError::LakeEnv { root: root.clone(), output: done.both() });
    }
    Ok(parse_lake_env(&done.stdout))
}

fn parse_lake_env(text: &str) -> Variables {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(key, _)| {
            !key.is_empty() && key.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        })
        .map(|(key, value)| {
            let value = (!value.is_empty()).then(|| value.into());
            (key.into(), value)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lake_env_lines() {
        let got = parse_lake_env("LAKE=/x/lake\nLAKE_NO_CACHE=\nwarning: a=b\nLEAN_PATH=/a=b:/c\n");
        let want: Variables = vec![
            ("LAKE".into(), Some("/x/lake".into())),
            ("LAKE_NO_CACHE".into(), None),
            ("LEAN_PATH".into(), Some("/a=b:/c".into())),
        ];
        assert_eq!(got, want);
    }
}
