//! Asking Lake, on a native toolchain, what it would have to build.
//!
//! Lake is the authority: it is run with `--no-build`, and what it says is read. Facts about its output that this relies on (stable
//! since Lean 4.9): a target that would be built is reported as failed, by a line `✖ [3/7] Building App.Mid` with `error: target is
//! out-of-date and needs to be rebuilt` below it; importers of such a target are not reported, for they wait for it in vain; newer
//! Lakes end with status 3, and older ones with 3 at the first such target, without naming it.

use std::time::Duration;

use beam_base::AbsPath;

use beam_lean::Header;
use beam_lean::ModuleName;
use beam_process::{HostEnv, Run, RunError};

/// How Lake ends if something would have to be built.
const NO_BUILD: i32 = 3;
/// How `setup-file` ends if there is no lakefile.
const NO_LAKEFILE: i32 = 2;
/// What Lake says of what would have to be built.
const OUT_OF_DATE: &str = "error: target is out-of-date and needs to be rebuilt";
/// What must not leak from an outer project into this one.
const FOREIGN: [&str; 3] = ["LEAN_SYSROOT", "LAKE", "LAKE_HOME"];

/// What Lake says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NativeBuild {
    /// Nothing has to be built.
    UpToDate,
    /// Something has to be built.
    Needed {
        /// What Lake names: of each chain of stale modules the lowest. Empty with a Lake that names none.
        modules: Vec<ModuleName>,
        /// All that Lake said.
        text: String,
    },
    /// Lake cannot tell: a module it does not know, a source that is gone, a broken configuration.
    Failed {
        /// All that Lake said.
        text: String,
    },
}

/// Asks Lake, as Lean's own file worker does (`lake setup-file`), whether what a text imports is built. `file` need not be a module;
/// without a lakefile nothing has to be built. Works with Lean 4.28 and newer. Lake may note in its build folder that it was asked
/// (`….trace.nobuild`); it builds nothing. Blocks, for seconds with a large package, or until `stop` says so.
///
/// # Errors
/// Lake cannot be run, does not end in time, or was stopped.
pub fn native_needs_build(
    lake: &AbsPath,
    root: &AbsPath,
    env: &HostEnv,
    file: &AbsPath,
    header: &Header,
    limit: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<NativeBuild, RunError> {
    let import = |module: String, all, exported, meta| serde_json::json!({"module": module, "importAll": all, "isExported": exported, "isMeta": meta});
    let init = (!header.prelude).then(|| import("Init".into(), false, true, false));
    let named = header.imports.iter().map(|i| import(i.module.to_string(), i.all, i.exported, i.meta));
    let imports: Vec<_> = init.into_iter().chain(named).collect();
    let header = serde_json::json!({"imports": imports, "isModule": header.is_module}).to_string();
    let run = Run::new(lake, root).args([
        "setup-file".into(),
        file.as_os_str().to_owned(),
        header.into(),
        "--no-build".into(),
    ]);
    let done = run.limit(limit).unset(FOREIGN).capture_until(env, stop)?;
    let text = done.both();
    if done.ok() || done.status.code() == Some(NO_LAKEFILE) {
        return Ok(NativeBuild::UpToDate);
    }
    let stale = stale_targets(&text);
    // A configuration that is broken ends with 1, whatever else is stale.
    if done.status.code() == Some(NO_BUILD) || (!stale.is_empty() && stale.len() == failures(&text)) {
        return Ok(NativeBuild::Needed { modules: stale, text });
    }
    Ok(NativeBuild::Failed { text })
}

/// The modules of jobs that are reported as out of date.
fn stale_targets(text: &str) -> Vec<ModuleName> {
    let mut out = Vec::new();
    let mut job = None;
    for line in text.lines() {
        if let Some(target) = failed_job(line) {
            job = Some(target);
        } else if line.trim_end() == OUT_OF_DATE
            && let Some(module) = job.take().and_then(module_of)
            && !out.contains(&module)
        {
            out.push(module);
        }
    }
    out
}

/// How many jobs failed for whatever reason.
fn failures(text: &str) -> usize {
    text.lines().filter_map(failed_job).collect::<std::collections::HashSet<_>>().len()
}

/// `App.Mid` of `✖ [3/7] Building App.Mid (1.2s)`.
fn failed_job(line: &str) -> Option<&str> {
    let rest = line.trim().strip_prefix("✖ [")?;
    let (count, rest) = rest.split_once("] ")?;
    let (done, total) = count.split_once('/')?;
    let number = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    if !number(done) || !number(total) {
        return None;
    }
    let (_verb, target) = rest.trim_start_matches("(Optional) ").split_once(' ')?;
    // A time follows only where Lake shows times.
    Some(target.rsplit_once(" (").map_or(target, |(name, time)| if time.ends_with("s)") { name } else { target }))
}

/// The module of a job's caption: `App.Mid`, `App.Mid:c.o`, `+App.Mid:leanArts`, `pkg/App.Mid`.
fn module_of(caption: &str) -> Option<ModuleName> {
    let name = caption.split(':').next()?;
    let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
    ModuleName::parse(name.trim_start_matches('+').trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use beam_toolchain::testing::with_program;

    const TWO: &str = "✖ [2/9] Building App.Low (1.2s)\nerror: target is out-of-date and needs to be rebuilt\n⚠ [3/9] Replayed App.Ok\nwarning: App/Ok.lean:1:0: declaration uses `sorry`\n✖ [4/9] Building App.«foo bar»\nerror: target is out-of-date and needs to be rebuilt\nSome required targets logged failures:\n- App.Low\n- App.«foo bar»\nerror: build failed\n";
    const BOTH: &str = "✖ [2/9] Building App.Low\nerror: target is out-of-date and needs to be rebuilt\n✖ [3/9] Running App.Gone\nerror: no such file or directory (error code: 2)\n  file: /p/App/Gone.lean\n";

    /// A stand-in that checks how it is called and says what it is told to.
    fn stand_in(called: &str, output: &str, status: i32) -> (tempfile::TempDir, AbsPath, HostEnv) {
        let tmp = tempfile::tempdir().unwrap();
        let root = AbsPath::canonical(tmp.path()).unwrap();
        std::fs::write(root.join("said"), output).unwrap();
        let script = format!(
            "#!/bin/sh\n[ \"$*\" = '{called}' ] || {{ echo \"called: $*\"; exit 9; }}\n[ -z \"$LAKE_HOME\" ] || exit 8\ncat said; exit {status}\n"
        );
        let env = with_program(&HostEnv::capture().with("LAKE_HOME", "/x"), &root.join("bin"), "lake", &script);
        (tmp, root, env)
    }

    fn ask(output: &str, status: i32) -> NativeBuild {
        let header = beam_lean::imports_of("module\nimport all App.Low\n");
        let json = r#"{"imports":[{"module":"Init","importAll":false,"isExported":true,"isMeta":false},{"module":"App.Low","importAll":true,"isExported":false,"isMeta":false}],"isModule":true}"#;
        let (_tmp, root, env) = stand_in(&format!("setup-file /p/X.lean {json} --no-build"), output, status);
        let file = AbsPath::new("/p/X.lean").unwrap();
        native_needs_build(&root.join("bin/lake"), &root, &env, &file, &header, Duration::from_secs(60), &|| false)
            .unwrap()
    }

    fn names(answer: &NativeBuild) -> Vec<String> {
        match answer {
            NativeBuild::Needed { modules, .. } => modules.iter().map(ToString::to_string).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_lake_would_build_is_named() {
        assert_eq!(ask("{\"name\":\"X\"}\n", 0), NativeBuild::UpToDate);
        assert_eq!(ask("", 2), NativeBuild::UpToDate, "there is no lakefile");
        assert_eq!(names(&ask(TWO, 3)), ["App.Low", "App.«foo bar»"]);
        assert_eq!(names(&ask(TWO, 1)), ["App.Low", "App.«foo bar»"]);
        // An old Lake, which ends at once.
        assert_eq!(names(&ask("", 3)), [""; 0]);
    }

    #[test]
    fn another_failure_is_no_stale_build() {
        assert!(matches!(ask(BOTH, 1), NativeBuild::Failed { text } if text.contains("App/Gone.lean")));
        assert!(matches!(ask("error: lakefile.toml:1:2: unexpected\n", 1), NativeBuild::Failed { .. }));
        assert!(matches!(ask("", 9), NativeBuild::Failed { .. }));
    }

    /// Fault 9: Lake is ended when nobody waits for its answer any more, and whatever it has started with it.
    #[test]
    fn whoever_wants_no_answer_any_more_stops_lake() {
        let tmp = tempfile::tempdir().unwrap();
        let root = AbsPath::canonical(tmp.path()).unwrap();
        let script = "#!/bin/sh\nsh -c 'echo $$ >pid.new; mv pid.new pid; exec sleep 600' &\nwait\n";
        let env = with_program(&HostEnv::capture(), &root.join("bin"), "lake", script);
        let (file, header) = (root.join("X.lean"), beam_lean::imports_of(""));
        let limit = Duration::from_secs(300);
        let stop = || root.join("pid").is_file();
        let e = native_needs_build(&root.join("bin/lake"), &root, &env, &file, &header, limit, &stop).unwrap_err();
        assert!(matches!(e, RunError::Stopped { .. }), "{e}");
        let pid = std::fs::read_to_string(root.join("pid")).unwrap();
        let begun = std::time::Instant::now();
        while std::path::Path::new("/proc").join(pid.trim()).join("exe").exists() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it is still running");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn captions_of_jobs() {
        for (line, want) in [
            ("✖ [3/7] Building App.Mid", Some("App.Mid")),
            ("✖ [3/7] Building App.Mid:c.o (850ms)", Some("App.Mid")),
            ("  ✖ [10/10] (Optional) Fetching pkg/X", Some("X")),
            ("✔ [3/7] Built App.Mid", None),
            ("✖ [a/7] Building App.Mid", None),
            ("error: target is out-of-date and needs to be rebuilt", None),
        ] {
            let shown = failed_job(line).and_then(module_of).map(|m| m.to_string());
            assert_eq!(shown.as_deref(), want, "{line}");
        }
    }
}
