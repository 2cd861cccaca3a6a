//! Asking Lake about one module: our small Lean program that imports Lake, run under the project's own toolchain, one process a question.
//!
//! Lake's code may end the process it runs in, so it never runs in one of ours (D8).

use std::ffi::OsString;
use std::time::Duration;

use serde_json::Value;

use crate::env::HostEnv;
use crate::extension::Extension;
use crate::launch::WorkerLaunch;
use crate::process::{Run, RunError};
use crate::toolchain::Toolchain;

/// The program, beside the extension's files.
const PROGRAM: &str = "LeanBeamLake.lean";
/// How Lake ends a process in which something would have to be built and may not be.
const NO_BUILD: i32 = 3;
/// How long one question may take. Lake loads the whole workspace for it and may have to elaborate a `lakefile.lean`.
const LIMIT: Duration = Duration::from_secs(600);

/// Why Lake gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum LakeError {
    /// Something would have to be built first.
    #[error("{output}")]
    NeedsBuild {
        /// What Lake said.
        output: String,
    },
    /// The program says so itself.
    #[error("{message}")]
    Refused {
        /// One of the program's kinds: `notModule`, `traceStale`, `sourceChanged`, `configuration`, `usage`, `failed`.
        kind: String,
        /// For people; with what Lake printed.
        message: String,
    },
    /// It ended without an answer.
    #[error("Lake's answer cannot be understood ({status}):\n{output}")]
    NoAnswer {
        /// How it ended.
        status: String,
        /// What it printed.
        output: String,
    },
    /// It could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Lake of one package, for questions about single modules.
#[derive(Debug, Clone)]
pub struct LakeProgram {
    run: Run,
}

impl LakeProgram {
    /// The program for a package, in the environment of its workers, which is that of `lake env`.
    #[must_use]
    pub fn new(toolchain: &Toolchain, extension: &Extension, launch: &WorkerLaunch) -> Self {
        let mut run = Run::new(&launch.program, &launch.cwd).limit(LIMIT);
        // Lake's compiled code, where the toolchain ships it; without it the interpreter does.
        let library = ["so", "dylib"]
            .iter()
            .map(|ending| toolchain.prefix.join(format!("lib/lean/libLake_shared.{ending}")))
            .find(|library| library.is_file());
        if let Some(library) = library {
            let mut flag = OsString::from("--load-dynlib=");
            flag.push(library.as_os_str());
            run.args.push(flag);
        }
        run.args.extend(["--run".into(), extension.dir.join(PROGRAM).as_os_str().to_owned()]);
        run.set = launch.env.clone();
        run.unset = launch.env_remove.clone();
        Self { run }
    }

    /// Asks. Blocking, for seconds; ends early, with an error, when `stopped` says so.
    ///
    /// # Errors
    /// See [`LakeError`].
    pub fn ask(
        &self,
        env: &HostEnv,
        command: &str,
        params: &Value,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Value, LakeError> {
        let mut run = self.run.clone();
        run.args.extend([command.into(), params.to_string().into()]);
        let done = run.capture_until(env, stopped)?;
        if done.status.code() == Some(NO_BUILD) {
            return Err(LakeError::NeedsBuild { output: done.both() });
        }
        // Code that runs while a lakefile is elaborated may print, too; the answer comes last.
        let answer = done.stdout.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
        let Some(Value::Object(mut answer)) = answer.filter(|_| done.ok()) else {
            return Err(LakeError::NoAnswer { status: done.status.to_string(), output: done.both() });
        };
        let Some(error) = answer.remove("error") else {
            return Ok(Value::Object(answer));
        };
        let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
        let mut message = text("message");
        if !done.stderr.trim().is_empty() {
            message = format!("{message}\n{}", done.stderr.trim_end());
        }
        Err(LakeError::Refused { kind: text("kind"), message })
    }
}

#[cfg(test)]
mod tests {
    use beam_base::AbsPath;
    use serde_json::json;

    use super::*;

    /// A stand-in for `lean --run`: a shell script that sees the arguments.
    fn ask(script: &str) -> Result<Value, LakeError> {
        let dir = tempfile::tempdir().unwrap();
        let root = AbsPath::canonical(dir.path()).unwrap();
        let env = crate::testing::with_program(
            &HostEnv::capture(),
            &root.join("bin"),
            "lean",
            &format!("#!/bin/sh\n{script}"),
        );
        let run = Run::new(&root.join("bin/lean"), &root).args(["--run", "LeanBeamLake.lean"]);
        LakeProgram { run }.ask(&env, "target", &json!({ "root": "/p" }), &|| false)
    }

    #[test]
    fn answers_and_their_ways_to_fail() {
        let good = ask(r#"echo chatter; echo '{"module":"A"}'; [ "$3" = target ] && [ "$4" = '{"root":"/p"}' ]"#);
        assert_eq!(good.unwrap(), json!({ "module": "A" }));
        let refused =
            ask(r#"echo 'warning: x' >&2; echo '{"error":{"kind":"notModule","message":"no"}}'"#).unwrap_err();
        assert!(
            matches!(&refused, LakeError::Refused { kind, message } if kind == "notModule" && message == "no\nwarning: x"),
            "{refused:?}"
        );
        assert!(
            matches!(ask("echo App.Low; exit 3").unwrap_err(), LakeError::NeedsBuild { output } if output.contains("App.Low"))
        );
        assert!(matches!(ask("echo '{}'; exit 1").unwrap_err(), LakeError::NoAnswer { .. }));
        assert!(matches!(ask("true").unwrap_err(), LakeError::NoAnswer { .. }));
    }
}
