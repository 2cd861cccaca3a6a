//! How one file worker is started on a toolchain. Starting it is the session's job.

use std::ffi::OsString;
use std::time::Duration;

use beam_base::AbsPath;
use beam_process::{HostEnv, Run, RunError};

use crate::extension::model::Extension;
use crate::extension::sources::WORKER;
use crate::model::{Toolchain, ToolchainKind, ToolchainOrigin};
use crate::root::{Backend, has_marker};

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
/// What `lake env` sets as well, but a user may want to: these count as leaked only where [`FOREIGN`]'s `LAKE` shows that we run
/// inside of some `lake env`. The hash is the worst: it is part of every trace, so with another toolchain's nothing is up to date.
const FOREIGN_INSIDE_LAKE: [&str; 5] = ["LEAN", "LEAN_GITHASH", "LEAN_AR", "LAKE_OVERRIDE_LEAN", "LAKE_CACHE_DIR"];

fn foreign(env: &HostEnv) -> impl Iterator<Item = OsString> {
    let inside = if env.var_os("LAKE").is_some() { &FOREIGN_INSIDE_LAKE[..] } else { &[] };
    FOREIGN.iter().chain(inside).map(OsString::from)
}

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
        ToolchainKind::Embedded => {
            launch.env_remove.extend(foreign(env));
            // Node reads it before our host can ignore it; `--inspect` or a preloaded module would end up in every worker.
            launch.env_remove.push("NODE_OPTIONS".into());
            // A worker tells what its file imports, all the way down, only for modules whose source it finds; that is how importers
            // hear of a change. Natively this comes from `lake env`.
            if env.var_os("LEAN_SRC_PATH").is_none() {
                launch.env.push(("LEAN_SRC_PATH".into(), root.as_path().as_os_str().to_owned()));
            }
        }
        ToolchainKind::Native => {
            if let Some(lake) = tc.lake.as_ref().filter(|_| has_lakefile(root)) {
                for (key, value) in lake_env(lake, tc, root, env)? {
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
                launch.env_remove.extend(foreign(env));
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

/// The variables that `lake env` sets, `None` for those it unsets.
fn lake_env(lake: &AbsPath, tc: &Toolchain, root: &AbsPath, env: &HostEnv) -> Result<Variables, LaunchError> {
    let mut run = Run::new(lake, root).args(["env"]).limit(Duration::from_secs(300)).unset(foreign(env));
    // What elan's proxies tell the Lake they start. We start it without them (they download what is missing), and without these
    // Lake would keep its artifact cache in another place than the user's own `lake build`.
    if let ToolchainOrigin::Elan { channel } = &tc.found
        && let Some(home) = env.elan_home()
    {
        run = run.set("ELAN_HOME", home.as_os_str()).set("ELAN_TOOLCHAIN", channel);
    }
    let done = run.capture(env)?;
    if !done.ok() {
        return Err(LaunchError::LakeEnv { root: root.clone(), output: done.both() });
    }
    Ok(parse_lake_env(&done.stdout))
}

/// Reads what `lake env` prints when it is given no command: `NAME=value` a line, with nothing behind the `=` for a variable that it
/// would unset. Its log goes to stderr. A name that comes twice (Lake's own defaults, then what the workspace says) counts as it
/// stands last, as it would for a command.
fn parse_lake_env(text: &str) -> Variables {
    let mut out = Variables::new();
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')).filter(|(key, _)| is_variable(key)) {
        let value = (!value.is_empty()).then(|| value.into());
        out.retain(|(seen, _)| seen.to_str() != Some(key));
        out.push((key.into(), value));
    }
    out
}

fn is_variable(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
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

    /// As Lake prints them: its own defaults first, then what the workspace adds.
    #[test]
    fn the_last_word_counts() {
        let got = parse_lake_env("LAKE_CACHE_DIR=\nLEAN_GITHASH=abc\nLAKE_CACHE_DIR=/w/cache\nLEAN_GITHASH=\n");
        let want: Variables = vec![("LAKE_CACHE_DIR".into(), Some("/w/cache".into())), ("LEAN_GITHASH".into(), None)];
        assert_eq!(got, want);
    }

    #[test]
    fn what_an_outer_lake_has_set_is_foreign() {
        let names = |env: &HostEnv| foreign(env).map(|name| name.into_string().unwrap()).collect::<Vec<_>>();
        assert_eq!(names(&HostEnv::from_vars([("LEAN_GITHASH", "mine")])), FOREIGN);
        let inside = names(&HostEnv::from_vars([("LEAN_GITHASH", "abc"), ("LAKE", "/x/bin/lake")]));
        assert!(
            inside.contains(&"LEAN_GITHASH".to_owned()) && inside.contains(&"LEAN_SYSROOT".to_owned()),
            "{inside:?}"
        );
    }
}
