//! Asking Lake about a save: our Lean program under the project's own Lake and Lean, in a process of its own (Lake may end the process
//! it runs in). Nothing is built, updated or downloaded.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use beam_base::AbsPath;
use beam_process::{HostEnv, Run, RunError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::model::Extension;
use super::sources::LAKE;
use crate::model::Toolchain;

/// Longest time for one question. A large workspace takes some seconds to load, and its traces more to compare.
const LIMIT: Duration = Duration::from_secs(600);

/// Lake's own exit code where something would have to be built and must not.
const NO_BUILD: i32 = 3;

/// The module behind a source file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LakeTarget {
    /// Its name, quoted where Lean would quote it.
    pub module: String,
    /// The package that it belongs to, for people.
    pub package: String,
    /// Whether its source has a `module` header.
    pub is_module: bool,
    /// Where Lake keeps each artifact, by the names that `$/beam/saveArtifacts` has for its outputs (and `bc`); those that this module
    /// has no use for are included.
    pub artifacts: BTreeMap<String, PathBuf>,
    /// The trace that Lake reads.
    pub trace: PathBuf,
    /// `moreLeanArgs`: what a batch build passes and a worker does not.
    pub lean_args: Vec<String>,
    /// `weakLeanArgs`: the same, but not part of the trace.
    pub weak_lean_args: Vec<String>,
    /// Lean options of the module, as Lake writes them.
    pub options: Value,
    /// Plugins its elaboration loads.
    pub plugins: Vec<PathBuf>,
    /// Shared libraries its elaboration loads.
    pub dynlibs: Vec<PathBuf>,
}

/// A trace that Lake has made for artifacts that were there.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LakeTrace {
    /// Where it is.
    pub trace: PathBuf,
    /// Lake's hash of the source that it is about, 16 hex digits.
    pub source_hash: String,
}

/// Why Lake gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum LakeError {
    /// The toolchain has no Lake.
    #[error("the toolchain at {0} has no lake")]
    NoLake(AbsPath),
    /// The file is no module of the workspace.
    #[error("{0}")]
    NotModule(String),
    /// Something would have to be built first.
    #[error("{0}")]
    Stale(String),
    /// The source is not the one that was saved any more; there is no trace now, so Lake will build the module.
    #[error("{0}")]
    SourceChanged(String),
    /// Lake cannot load the workspace.
    #[error("Lake cannot load the workspace: {0}")]
    Configuration(String),
    /// Anything else that went wrong in there.
    #[error("asking Lake failed: {0}")]
    Failed(String),
    /// It could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Which module a source file is, and where its artifacts go; checks that all it depends on is built. Blocks, for seconds, or until
/// `stop` says so.
///
/// # Errors
/// [`LakeError`]; for a save [`LakeError::NotModule`] is `saveTargetNotModule`, [`LakeError::Stale`] is `saveTraceStale`.
pub fn lake_target(
    tc: &Toolchain,
    ext: &Extension,
    root: &AbsPath,
    path: &AbsPath,
    env: &HostEnv,
    stop: &dyn Fn() -> bool,
) -> Result<LakeTarget, LakeError> {
    ask(tc, ext, root, env, ("target", &json!({"root": root.as_path(), "path": path.as_path()})), stop)
}

/// Makes Lake accept the artifacts that were just written for the text with this hash (Lean's `hash`). Blocks.
///
/// # Errors
/// [`LakeError`]. After any of them there is no trace.
pub fn lake_trace(
    tc: &Toolchain,
    ext: &Extension,
    root: &AbsPath,
    path: &AbsPath,
    text_hash: u64,
    env: &HostEnv,
) -> Result<LakeTrace, LakeError> {
    let params = json!({"root": root.as_path(), "path": path.as_path(), "textHash": format!("{text_hash:016x}")});
    // Too late to stop: the artifacts are there.
    ask(tc, ext, root, env, ("trace", &params), &|| false)
}

fn ask<T: DeserializeOwned>(
    tc: &Toolchain,
    ext: &Extension,
    root: &AbsPath,
    env: &HostEnv,
    (command, params): (&str, &Value),
    stop: &dyn Fn() -> bool,
) -> Result<T, LakeError> {
    let lake = tc.lake.as_ref().ok_or_else(|| LakeError::NoLake(tc.prefix.clone()))?;
    let mut run = Run::new(lake, root).args(["env"]).args([tc.lean.as_os_str()]).limit(LIMIT);
    // `lean` itself does not hold Lake's code; importing its modules without it gives declarations that cannot be run.
    let library = ["so", "dylib"].map(|ext| tc.prefix.join(format!("lib/lean/libLake_shared.{ext}")));
    if let Some(library) = library.into_iter().find(|path| path.is_file()) {
        run = run.args([format!("--load-dynlib={library}")]);
    }
    run = run.args(["--run".into(), ext.dir.join(LAKE).as_os_str().to_owned()]);
    run = run.args([command.to_owned(), params.to_string()]);
    run = run.unset(["LEAN_SYSROOT", "LAKE", "LAKE_HOME"]);
    let done = run.capture_until(env, stop)?;
    if done.status.code() == Some(NO_BUILD) {
        return Err(LakeError::Stale(format!(
            "something that the module depends on would have to be built first; run `lake build`\n{}",
            done.stderr.trim_end()
        )));
    }
    // Our line is the last one: a lakefile may print while it is loaded.
    let line = done.stdout.lines().last().unwrap_or_default();
    let Ok(answer) = serde_json::from_str::<Value>(line) else {
        return Err(LakeError::Failed(format!("{} without an answer\n{}", done.status, done.both())));
    };
    if let Some(error) = answer.get("error") {
        return Err(classify(error, &done.stderr));
    }
    serde_json::from_value(answer).map_err(|e| LakeError::Failed(format!("{e} in the answer {line}")))
}

fn classify(error: &Value, stderr: &str) -> LakeError {
    let text = error["message"].as_str().unwrap_or_default().to_owned();
    let with_log = || format!("{text}\n{}", stderr.trim_end());
    match error["kind"].as_str() {
        Some("notModule") => LakeError::NotModule(text),
        Some("traceStale") => LakeError::Stale(with_log()),
        Some("sourceChanged") => LakeError::SourceChanged(text),
        Some("configuration") => LakeError::Configuration(with_log()),
        _ => LakeError::Failed(with_log()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::{Choice, resolve};
    use crate::extension::model::Verdict;
    use crate::fake_lean;
    use std::fs;

    /// `lake env lean --load-dynlib=… --run LeanBeamLake.lean <command> <json>`, played by a script that tells what it was given.
    fn played(script: &str) -> (tempfile::TempDir, Toolchain, Extension, AbsPath, HostEnv) {
        let tmp = tempfile::tempdir().unwrap();
        let top = AbsPath::canonical(tmp.path()).unwrap();
        fake_lean::make(&top.join("lean"), "4.28.0");
        fs::write(top.join("lean/lib/lean/libLake_shared.so"), "").unwrap();
        let env = HostEnv::from_vars([
            ("PATH", "/usr/bin:/bin"),
            ("LEAN_BEAM_HOME", top.join("store").to_str().unwrap()),
            ("LAKE_HOME", "/outer"),
        ]);
        let tc = resolve(&top, &env, &Choice::Lean(top.join("lean/bin/lean"))).unwrap();
        fs::write(tc.lake.as_ref().unwrap(), format!("#!/bin/sh\n{script}")).unwrap();
        let ext = Extension::new("hash", &top.join("ext"), Verdict::Qualified);
        let root = top.join("project");
        fs::create_dir(&root).unwrap();
        (tmp, tc, ext, root, env)
    }

    const TARGET: &str = r#"{"module": "App.Low", "package": "app", "isModule": false, "artifacts": {"olean": "/b/Low.olean"},
        "trace": "/b/Low.trace", "leanArgs": [], "weakLeanArgs": ["-q"], "options": {"x": true}, "plugins": [], "dynlibs": []}"#;

    #[test]
    fn a_question_and_its_answer() {
        let answer = TARGET.replace('\n', " ");
        let (_tmp, tc, ext, root, env) = played(&format!(
            "printf '%s\\n' \"$@\" > asked; echo \"$LAKE_HOME\" >> asked; echo 'a lakefile prints'; cat <<'END'\n{answer}\nEND\n"
        ));
        let path = root.join("App/Low.lean");
        let target = lake_target(&tc, &ext, &root, &path, &env, &|| false).unwrap();
        assert_eq!((target.module.as_str(), target.artifacts["olean"].to_str()), ("App.Low", Some("/b/Low.olean")));
        let asked = fs::read_to_string(root.join("asked")).unwrap();
        let asked: Vec<&str> = asked.lines().collect();
        let lean = tc.lean.to_string();
        let dynlib = format!("--load-dynlib={}/lib/lean/libLake_shared.so", tc.prefix);
        let program = ext.dir.join(LAKE).to_string();
        assert_eq!(asked[..6], ["env", &lean, &dynlib, "--run", &program, "target"]);
        assert_eq!(
            serde_json::from_str::<Value>(asked[6]).unwrap(),
            json!({"root": root.as_path(), "path": path.as_path()})
        );
        assert_eq!(asked[7], "", "an outer Lake leaked in");
    }

    #[test]
    fn failures_keep_their_kind() {
        let check = |script: &str, want: fn(&LakeError) -> bool, says: &str| {
            let (_tmp, tc, ext, root, env) = played(script);
            let e = lake_trace(&tc, &ext, &root, &root.join("A.lean"), 0xab, &env).unwrap_err();
            assert!(want(&e) && e.to_string().contains(says), "{script}: {e:?}");
        };
        let error = |kind: &str| {
            format!("echo log >&2; echo '{{\"error\": {{\"kind\": \"{kind}\", \"message\": \"words\"}}}}'")
        };
        check(&error("notModule"), |e| matches!(e, LakeError::NotModule(_)), "words");
        check(&error("traceStale"), |e| matches!(e, LakeError::Stale(_)), "words\nlog");
        check(&error("sourceChanged"), |e| matches!(e, LakeError::SourceChanged(_)), "words");
        check(&error("configuration"), |e| matches!(e, LakeError::Configuration(_)), "words\nlog");
        check(&error("failed"), |e| matches!(e, LakeError::Failed(_)), "words");
        check("echo 'target is out-of-date' >&2; exit 3", |e| matches!(e, LakeError::Stale(_)), "out-of-date");
        check("echo gone >&2; exit 1", |e| matches!(e, LakeError::Failed(_)), "gone");
        check("echo '{}'", |e| matches!(e, LakeError::Failed(_)), "missing field");
        check(
            "case \"$*\" in *'\"textHash\":\"00000000000000ab\"'*) exit 3;; esac",
            |e| matches!(e, LakeError::Stale(_)),
            "would have to be built",
        );
    }
}
