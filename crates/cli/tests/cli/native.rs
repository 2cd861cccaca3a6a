//! Native toolchains from end to end, through elan's folder and `lake env`, with the product itself.
//!
//! No native toolchain can be had here whole. What stands in for one is a folder as elan has it: its `lake` is a script, its `lean`
//! says it is a native Lean and has the embedded one do the work. So the way is a native toolchain's (found through elan, one process
//! for each module, `lake env`, a build of its own), and the Lean at its end is real: it compiles, it is qualified, it answers.

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};

use beam_base::AbsPath;
use beam_broker::qualify::Qualifier;
use beam_embedded::testing::{shared_embedded_for_tests, shared_env};

use crate::tests;

tests! {
    two_projects_at_once_build_one_extension_and_use_it
    a_rejected_extension_is_told_with_its_log_and_not_tried_again
    a_toolchain_that_nothing_admits_fails_before_it_is_run
}

/// Notes each module it compiles, or the worker it becomes. What an outer toolchain left in the environment is none of the embedded
/// Lean's business.
const LEAN: &str = r#"#!/bin/sh
prefix=$(cd "$(dirname "$0")/.." && pwd)
case $1 in
--version) echo "Lean (version VERSION, x86_64-unknown-linux-gnu, commit 0123abcd, Release)"; exit ;;
--print-prefix) echo "$prefix"; exit ;;
--print-libdir) echo "$prefix/lib/lean"; exit ;;
-o) echo "$3" >> "$prefix/compiled" ;;
--run) echo "worker" >> "$prefix/compiled" ;;
esac
[ -f "$prefix/refuses" ] && grep -qxF "$3" "$prefix/refuses" && { echo "$3:1:0: error: says the stand-in"; exit 1; }
unset LEAN_SYSROOT LAKE LAKE_HOME
exec 'REAL' "$@"
"#;

/// As Lake prints them, duplicates and variables without a value included.
const LAKE: &str = r#"#!/bin/sh
prefix=$(cd "$(dirname "$0")/.." && pwd)
case $1 in
--version) echo "Lake version 5.0.0-src (Lean version VERSION)" ;;
setup-file)
  echo "$1 $2 $4" >> "$prefix/lake"
  echo "✖ [2/3] Building Low"
  echo "error: target is out-of-date and needs to be rebuilt"
  exit 3 ;;
env)
  if [ $# -gt 1 ]; then
    # Our program that imports Lake, played.
    for word; do command=$json; json=$word; done
    echo "$command $json" >> "$prefix/lake"
    lib=$PWD/.lake/build/lib/lean
    case $command in
    target)
      [ -f stale ] && { echo "Low is out of date" >&2; exit 3; }
      printf '{"module":"A","package":"p","isModule":false,"artifacts":{'
      for kind in olean olean.server=oleanServer olean.private=oleanPrivate ir ilean c; do
        printf '"%s":"%s",' "${kind#*=}" "$lib/A.${kind%=*}"
      done
      printf '"bc":"%s"},"trace":"%s","leanArgs":[%s],"weakLeanArgs":[],"options":{},"plugins":[],"dynlibs":[]}\n' \
        "$lib/A.bc" "$lib/A.trace" "$(cat args 2>/dev/null)" ;;
    trace)
      echo "made by Lake" > "$lib/A.trace"
      echo "{\"trace\":\"$lib/A.trace\",\"sourceHash\":\"0\"}" ;;
    esac
    exit
  fi
  echo "env $PWD $ELAN_TOOLCHAIN" >> "$prefix/lake"
  [ -f broken ] && { echo "error: lakefile.toml:1:1: this is no TOML" >&2; exit 1; }
  echo "info: a line that is none" >&2
  echo "LAKE_CACHE_DIR="
  echo "LAKE=$prefix/bin/lake"
  echo "LEAN_SYSROOT=$prefix"
  echo "LAKE_CACHE_DIR=$prefix/cache"
  echo "LEAN_CC="
  echo "LEAN_PATH=$PWD/.lake/build/lib/lean"
  echo "LEAN_SRC_PATH=$PWD" ;;
esac
"#;

/// A home, an elan, and projects beside them.
struct Place {
    top: AbsPath,
    path: String,
    projects: Vec<AbsPath>,
    // Removes everything on drop.
    _dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("beam-native-").tempdir().unwrap();
        let top = AbsPath::canonical(dir.path()).unwrap();
        std::fs::create_dir_all(top.join("home")).unwrap();
        // Where Node is, which the real Lean needs.
        let path = shared_env().var("PATH").unwrap().to_owned();
        Self { top, path, projects: Vec::new(), _dir: dir }
    }

    /// Puts a stand-in into elan's folder.
    fn elan_has(&self, version: &str) -> AbsPath {
        let real = shared_embedded_for_tests(&Qualifier).lean();
        let prefix = self.top.join(format!("elan/toolchains/leanprover--lean4---v{version}"));
        for dir in ["bin", "lib/lean"] {
            std::fs::create_dir_all(prefix.join(dir)).unwrap();
        }
        for (name, script) in [("lean", LEAN), ("lake", LAKE)] {
            let file = prefix.join("bin").join(name);
            let real = real.to_string();
            std::fs::write(&file, script.replace("VERSION", version).replace("REAL", &real)).unwrap();
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        }
        prefix
    }

    fn project(&mut self, name: &str, version: &str, files: &[(&str, &str)]) -> AbsPath {
        let root = self.top.join(name);
        std::fs::create_dir_all(&root).unwrap();
        std::fs::write(root.join("lean-toolchain"), format!("leanprover/lean4:v{version}\n")).unwrap();
        for (file, text) in files {
            std::fs::write(root.join(file), text).unwrap();
        }
        self.projects.push(root.clone());
        root
    }

    fn command(&self, root: &AbsPath, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lean-beam"));
        command
            .args(args)
            .current_dir(root.as_path())
            .env_clear()
            .env("HOME", self.top.join("home"))
            .env("ELAN_HOME", self.top.join("elan"))
            .env("PATH", &self.path)
            .stdin(Stdio::null());
        command
    }

    fn start(&self, root: &AbsPath, args: &[&str]) -> Child {
        self.command(root, args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Standard output of a command that must succeed.
    fn run(&self, root: &AbsPath, args: &[&str]) -> String {
        answer(&self.command(root, args).output().unwrap())
    }

    /// Standard output and error of a command that must not.
    fn fails(&self, root: &AbsPath, args: &[&str]) -> String {
        let output = self.command(root, args).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(!output.status.success(), "{args:?} succeeds: {said}");
        said
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for root in &self.projects {
            // The last word of a failing test is its panic; this is only cleaning up.
            let _ended = self.command(root, &["shutdown"]).output();
        }
    }
}

fn answer(output: &Output) -> String {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    stdout.into_owned()
}

fn lines(prefix: &AbsPath, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(prefix.join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn has(text: &str, line: &str) {
    assert!(text.lines().any(|l| l == line), "`{line}` is not a line of:\n{text}");
}

/// Two daemons want the same extension at the same time: one compiles it, the other waits and takes what is there. Then both work,
/// each in the environment that its project's Lake gives.
fn two_projects_at_once_build_one_extension_and_use_it() {
    let mut place = Place::new();
    let prefix = place.elan_has("4.28.0");
    let plain = place.project("plain", "4.28.0", &[("A.lean", "example : 1 = 1 := by\n  rfl\n")]);
    let text = "import Low\nexample : low = 1 := by\n  rfl\n";
    let config = "[[lean_lib]]\nname = \"L\"\nroots = [\"Low\", \"A\"]\n";
    let lake =
        place.project("lake", "4.28.0", &[("lakefile.toml", config), ("Low.lean", "def low := 1\n"), ("A.lean", text)]);
    let built = lake.join(".lake/build/lib/lean");
    std::fs::create_dir_all(&built).unwrap();
    let compile = Command::new(shared_embedded_for_tests(&Qualifier).lean().as_path())
        .current_dir(lake.as_path())
        .arg("-o")
        .arg(built.join("Low.olean"))
        .arg("Low.lean")
        .status();
    assert!(compile.unwrap().success());
    has(&place.run(&plain, &["doctor"]), "extension: not built yet; the first command builds it");

    let children = [&plain, &lake].map(|root| place.start(root, &["update", "A.lean"]));
    for child in children {
        answer(&child.wait_with_output().unwrap());
    }
    let mut modules: Vec<String> =
        lines(&prefix, "compiled").into_iter().filter(|line| line.ends_with(".lean")).collect();
    let all = modules.len();
    modules.sort();
    modules.dedup();
    assert!(all > 5 && all == modules.len(), "each module once: {modules:?}");

    // The states of both kinds of project, through real Lean.
    let found = place.run(&plain, &["run-at", "A.lean", "1", "1", "2", "exact rfl"]);
    assert!(found.contains("\"success\": true") || found.contains("\"success\":true"), "{found}");
    let found = place.run(&lake, &["run-at", "A.lean", "1", "2", "2", "exact (rfl : low = 1)"]);
    assert!(found.contains("\"success\": true") || found.contains("\"success\":true"), "{found}");
    let asked = lines(&prefix, "lake");
    assert_eq!(asked, [format!("env {lake} leanprover/lean4:v4.28.0")], "once a session, where there is a lakefile");

    saves_go_by_what_lake_says(&place, &prefix, &lake);
    what_would_be_built_is_refused_by_name(&place, &prefix, &lake);

    let doctor = place.run(&lake, &["doctor"]);
    for line in [
        "project toolchain: leanprover/lean4:v4.28.0",
        "project toolchain admission: validated",
        "lean version: 4.28.0",
        "lean kind: native",
        "lean found: elan toolchain leanprover/lean4:v4.28.0",
        &format!("lean binary: {prefix}/bin/lean"),
        &format!("lean prefix: {prefix}"),
        &format!("lake: {prefix}/bin/lake"),
        "daemon status: live",
    ] {
        has(&doctor, line);
    }
    assert!(doctor.lines().any(|l| l.starts_with("extension: ready /")), "{doctor}");
    let list = place.run(&plain, &["toolchain", "list"]);
    assert!(list.lines().count() == 1 && list.contains(" extension qualified /"), "{list}");

    // A project whose configuration Lake refuses has no session, and Lake's words say why.
    let broken = place.project("broken", "4.28.0", &[("lakefile.toml", "?"), ("broken", ""), ("A.lean", "#eval 1\n")]);
    let said = place.fails(&broken, &["update", "A.lean"]);
    assert!(said.contains("lakefile.toml:1:1: this is no TOML"), "{said}");
    assert_eq!(lines(&prefix, "compiled").iter().filter(|line| line.ends_with(".lean")).count(), all, "nothing anew");
}

/// Lake names the places and makes the trace; what it refuses is refused in its words.
fn saves_go_by_what_lake_says(place: &Place, prefix: &AbsPath, root: &AbsPath) {
    let lib = root.join(".lake/build/lib/lean");
    let saved: serde_json::Value = serde_json::from_str(&place.run(root, &["save", "A.lean"])).unwrap();
    let result = &saved["result"];
    assert_eq!(result["olean"], lib.join("A.olean").to_string(), "{saved}");
    assert_eq!(result["trace"], lib.join("A.trace").to_string(), "{saved}");
    assert!(lib.join("A.olean").is_file() && lib.join("A.c").is_file());
    assert_eq!(std::fs::read_to_string(lib.join("A.trace")).unwrap(), "made by Lake\n");
    let asked = lines(prefix, "lake");
    let path = root.join("A.lean");
    assert!(asked.contains(&format!("target {{\"root\":\"{root}\",\"path\":\"{path}\"}}")), "{asked:?}");
    assert!(asked.last().unwrap().starts_with("trace {"), "{asked:?}");

    let olean = std::fs::metadata(lib.join("A.olean")).unwrap().modified().unwrap();
    std::fs::write(root.join("stale"), "").unwrap();
    let said = place.fails(root, &["save", "A.lean"]);
    for part in ["saveTraceStale", "Low is out of date", "lake build"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    std::fs::remove_file(root.join("stale")).unwrap();
    std::fs::write(root.join("args"), "\"-DmaxRecDepth=9\"").unwrap();
    assert!(place.fails(root, &["close-save", "A.lean"]).contains("saveUnsupportedSetup"));
    std::fs::remove_file(root.join("args")).unwrap();
    assert_eq!(std::fs::metadata(lib.join("A.olean")).unwrap().modified().unwrap(), olean, "refusals touch nothing");
    assert_eq!(std::fs::read_to_string(lib.join("A.trace")).unwrap(), "made by Lake\n");
}

fn what_would_be_built_is_refused_by_name(place: &Place, prefix: &AbsPath, root: &AbsPath) {
    for args in [&["--no-build", "sync", "A.lean"][..], &["--no-build", "run-at", "A.lean", "1", "2", "2", "rfl"]] {
        let said = place.fails(root, args);
        for part in ["syncBarrierIncomplete", "buildRefused", "\"Low\""] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    assert!(lines(prefix, "lake").contains(&format!("setup-file {} --no-build", root.join("A.lean"))));
    // The usual daemon is back for what follows.
    place.run(root, &["update", "A.lean"]);
}

/// The verdict is kept with Lean's own words. What would change it makes it be tried again: to forget it, here.
fn a_rejected_extension_is_told_with_its_log_and_not_tried_again() {
    let mut place = Place::new();
    let prefix = place.elan_has("4.29.0");
    std::fs::write(prefix.join("refuses"), "LeanBeam/Compat.lean\n").unwrap();
    let root = place.project("p", "4.29.0", &[("A.lean", "#eval 1\n")]);
    let said = place.fails(&root, &["update", "A.lean"]);
    for part in ["LeanBeam/Compat.lean does not compile", "build.log", "lean-beam toolchain remove "] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let tried = lines(&prefix, "compiled");
    let again = place.fails(&root, &["update", "A.lean"]);
    assert!(again.contains("LeanBeam/Compat.lean does not compile"), "{again}");
    assert_eq!(lines(&prefix, "compiled"), tried, "not tried again");

    let doctor = place.run(&root, &["doctor"]);
    let state = doctor.lines().find(|l| l.starts_with("extension: ")).unwrap();
    let (_, log) = state.split_once("(log ").unwrap();
    assert!(state.starts_with("extension: rejected: LeanBeam/Compat.lean does not compile"), "{state}");
    let log = std::fs::read_to_string(log.trim_end_matches(')')).unwrap();
    assert!(log.contains("LeanBeam/Compat.lean:1:0: error: says the stand-in"), "{log}");
    let list = place.run(&root, &["toolchain", "list"]);
    let id = list.split(' ').next().unwrap().to_owned();
    assert!(list.contains(&format!("{id} extension rejected /")), "{list}");

    place.run(&root, &["toolchain", "remove", &id]);
    has(&place.run(&root, &["doctor"]), "extension: not built yet; the first command builds it");
    place.fails(&root, &["update", "A.lean"]);
    assert!(lines(&prefix, "compiled").len() > tried.len());
}

/// By its name alone: nothing is run, nothing is built.
fn a_toolchain_that_nothing_admits_fails_before_it_is_run() {
    let mut place = Place::new();
    let prefix = place.elan_has("4.27.0");
    let root = place.project("p", "4.27.0", &[("A.lean", "#eval 1\n")]);
    let said = place.fails(&root, &["update", "A.lean"]);
    for part in
        ["leanprover/lean4:v4.27.0", "validated-toolchains", "compatible-release-lines", "custom-lean-toolchains"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let doctor = place.run(&root, &["doctor"]);
    for line in ["project toolchain admission: unsupported", "project toolchain accepted: false", "lean binary: (none)"]
    {
        has(&doctor, line);
    }
    // The user's own registry admits it, but a Lean that is too old stays too old.
    let home = place.top.join("home/.local/share/lean-beam");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("custom-lean-toolchains"), "leanprover/lean4:v4.27.0 # ours\n").unwrap();
    let doctor = place.run(&root, &["doctor"]);
    has(&doctor, "project toolchain admission: custom");
    assert!(doctor.contains("is Lean 4.27.0; lean-beam needs 4.28 or newer"), "{doctor}");
    assert!(lines(&prefix, "compiled").is_empty());
}
