//! Projects on the real embedded Lean: what is built, what is left alone, and what a killed or disturbed build leaves behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use beam_base::AbsPath;
use beam_embedded::testing::{shared_embedded_for_tests, shared_env};
use beam_lean::{ModuleName, imports_of};
use beam_project::{
    BuildError, BuildOutcome, BuildPermission, Builder, Ensured, ModuleStatus, Project, SaveError, Why,
};
use beam_toolchain::{Choice, HostEnv, Silent, Store, Toolchain, ensure_extension, resolve, worker_launch};

#[allow(dead_code)]
#[path = "../../embedded/tests/support/mod.rs"]
mod support;

/// One build at a time: each takes up to two Lean processes, and a gigabyte for each.
static LANE: Mutex<()> = Mutex::new(());

struct Fixture {
    _tmp: tempfile::TempDir,
    _lane: MutexGuard<'static, ()>,
    root: AbsPath,
    env: HostEnv,
    toolchain: Toolchain,
}

fn fixture(files: &[(&str, &str)]) -> Fixture {
    let lane = LANE.lock().unwrap_or_else(PoisonError::into_inner);
    let tmp = tempfile::tempdir().unwrap();
    let root = AbsPath::canonical(tmp.path()).unwrap().join("project");
    fs::create_dir_all(&root).unwrap();
    let fixture = Fixture { _tmp: tmp, _lane: lane, toolchain: toolchain(&root), root, env: shared_env() };
    for (name, text) in files {
        fixture.write(name, text);
    }
    fixture
}

fn toolchain(root: &AbsPath) -> Toolchain {
    drop(shared_embedded_for_tests(&support::probe));
    resolve(root, &shared_env(), &Choice::Embedded).unwrap()
}

fn module(text: &str) -> ModuleName {
    ModuleName::parse(text).unwrap()
}

impl Fixture {
    fn path(&self, name: &str) -> AbsPath {
        AbsPath::resolve(&self.root, name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Sets a file's time, in seconds from now.
    fn touch(&self, name: &str, seconds: i64) {
        let shift = Duration::from_secs(seconds.unsigned_abs());
        let now = SystemTime::now();
        let time = if seconds < 0 { now - shift } else { now + shift };
        fs::File::options().append(true).open(self.path(name)).unwrap().set_modified(time).unwrap();
    }

    fn builder(&self) -> Builder {
        Builder::new(&self.toolchain, Project::read(&self.root), &self.env)
    }

    fn lib(&self, file: &str) -> PathBuf {
        self.path(".lake/build/lib/lean").join(file).into()
    }

    /// Everything in the build folder, with contents.
    fn built(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn walk(dir: &Path, out: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in fs::read_dir(dir).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, out);
                } else {
                    out.insert(path.clone(), fs::read(&path).unwrap());
                }
            }
        }
        let mut out = BTreeMap::new();
        walk(&self.path(".lake"), &mut out);
        out
    }

    /// Nothing half made is left.
    fn is_swept(&self) {
        let left: Vec<_> = self
            .built()
            .into_keys()
            .filter(|p| !p.ends_with("build.lock") && !p.starts_with(self.path(".lake/build/lib/lean")))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        let hidden: Vec<_> =
            self.built().into_keys().filter(|p| p.file_name().unwrap().to_str().unwrap().starts_with('.')).collect();
        assert!(hidden.is_empty(), "{hidden:?}");
    }

    /// What Lean prints for a text that imports what was built.
    fn run(&self, text: &str) -> String {
        self.write("run.txt", text);
        let out = Command::new(self.toolchain.lean.as_path())
            .arg("run.txt")
            .current_dir(self.root.as_path())
            .env("LEAN_PATH", self.builder().lean_path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// Makes artifacts by hand, as somebody else would.
    fn lean(&self, source: &str, out: &str) {
        fs::create_dir_all(self.lib(out).parent().unwrap()).unwrap();
        let status = Command::new(self.toolchain.lean.as_path())
            .args(["-R", ".", source, "-o"])
            .arg(self.lib(&format!("{out}.olean")))
            .arg("-i")
            .arg(self.lib(&format!("{out}.ilean")))
            .current_dir(self.root.as_path())
            .env("LEAN_PATH", self.builder().lean_path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
    }
}

fn build(builder: &Builder, text: &str) -> (Ensured, Vec<String>) {
    let lines = Mutex::new(Vec::new());
    let ensured =
        builder.ensure(text, BuildPermission::Build, &|line| lines.lock().unwrap().push(line.to_owned()), &|| false);
    (ensured.unwrap(), lines.into_inner().unwrap())
}

fn never(builder: &Builder, text: &str) -> Ensured {
    builder.ensure(text, BuildPermission::Never, &|line| panic!("{line}"), &|| false).unwrap()
}

/// The modules that were built, sorted.
fn built(ensured: &Ensured) -> Vec<String> {
    let mut names: Vec<String> = match &ensured.outcome {
        BuildOutcome::Built { modules, .. } => modules.iter().map(ToString::to_string).collect(),
        BuildOutcome::UpToDate { .. } => Vec::new(),
        other => panic!("{other:?}"),
    };
    names.sort();
    names
}

fn failed(ensured: &Ensured) -> (Vec<String>, &str) {
    match &ensured.outcome {
        BuildOutcome::Failed { modules, text } => (modules.iter().map(|m| m.module.to_string()).collect(), text),
        other => panic!("{other:?}"),
    }
}

const DIAMOND: [(&str, &str); 5] = [
    ("App/Low.lean", "module\npublic def low (n : Nat) : Nat := n + 1\n"),
    ("App/Left.lean", "import App.Low\ndef left := low 10\n"),
    ("App/Right.lean", "import App.Low\ndef right := low 20\n"),
    ("App/Top.lean", "import App.Left\nimport App.Right\ndef top := left + right\n"),
    ("App/Other.lean", "theorem other : 1 = 1 := by sorry\n#eval 7\n"),
];

/// P1, P4: built once, then only what changed and what imports it; nothing is written while only asking.
#[test]
fn p1_only_what_changed_is_built() {
    let f = fixture(&DIAMOND);
    let text = "import App.Top\nimport App.Other\n#eval top\n";
    // With nothing known beforehand, nothing may be written while only asking.
    let BuildOutcome::Refused { modules } = never(&f.builder(), text).outcome else { panic!("nothing is built yet") };
    assert_eq!(modules.len(), 5);
    assert!(modules.iter().all(|m| m.why == Why::NeverBuilt));
    assert_eq!(modules[0].module.to_string(), "App.Low");
    assert!(f.built().is_empty());

    let builder = f.builder();
    let (first, lines) = build(&builder, text);
    assert_eq!(built(&first), ["App.Left", "App.Low", "App.Other", "App.Right", "App.Top"]);
    assert!(
        lines.iter().any(|l| l.starts_with("✔ [") && l.contains("/5] Built App.Low (") && l.ends_with("s)")),
        "{lines:#?}"
    );
    let other = lines.iter().position(|l| l.starts_with("⚠ [") && l.contains("/5] Built App.Other (")).unwrap();
    let said = &lines[other + 1..];
    assert!(said[0].starts_with("warning: App/Other.lean:1:8: declaration uses"), "{lines:#?}");
    assert_eq!(said[1], "info: App/Other.lean:2:0: 7");
    assert_eq!(f.run(text), "32\n");
    f.is_swept();

    // Again, also by a builder that remembers nothing; messages are shown again.
    for builder in [&builder, &f.builder()] {
        let (again, lines) = build(builder, text);
        assert_eq!((again.outcome, &again.basis), (BuildOutcome::UpToDate { reused: 5 }, &first.basis));
        assert!(lines[0].starts_with("⚠ [") && lines[0].ends_with("] Replayed App.Other"), "{lines:#?}");
    }
    // Neither a new time nor other line ends are a change.
    f.touch("App/Low.lean", 5);
    f.write("App/Left.lean", "import App.Low\r\ndef left := low 10\r\n");
    assert_eq!(never(&builder, text).outcome, BuildOutcome::UpToDate { reused: 5 });

    f.write("App/Left.lean", "import App.Low\r\ndef left := low 11\r\n");
    let before = f.built();
    let BuildOutcome::Refused { modules } = never(&builder, text).outcome else { panic!("Left has changed") };
    let why: Vec<_> = modules.iter().map(|m| (m.module.to_string(), m.why.clone())).collect();
    let import = |m| Why::ImportChanged { module: module(m) };
    assert_eq!(why, [("App.Left".to_owned(), Why::SourceChanged), ("App.Top".to_owned(), import("App.Left"))]);
    assert_eq!(f.built(), before);
    assert_eq!(builder.status(&module("App.Top")), ModuleStatus::Stale { why: import("App.Left") });
    assert_eq!(builder.status(&module("App.Right")), ModuleStatus::Fresh);
    assert_eq!(builder.status(&module("App.Nothing")), ModuleStatus::Unknown);
    assert_eq!(builder.status(&module("Init.Core")), ModuleStatus::Unknown);
    assert_eq!(built(&build(&builder, text).0), ["App.Left", "App.Top"]);
    assert_eq!(f.run(text), "33\n");
    f.is_swept();
}

#[test]
fn module_files_have_all_their_parts() {
    let f = fixture(&[
        ("A.lean", "module\npublic def a : Nat := 1\ndef secret : Nat := 41\n"),
        ("B.lean", "module\nimport all A\npublic def b : Nat := secret + 1\n"),
        ("C.lean", "import B\nimport A\ndef c := a + b\n"),
    ]);
    let text = "import C\n#eval c\n";
    assert_eq!(built(&build(&f.builder(), text).0), ["A", "B", "C"]);
    assert_eq!(f.run(text), "43\n");
    let parts = ["olean", "ilean", "olean.server", "olean.private", "ir"];
    let there = |m: &str| parts.map(|p| f.lib(&format!("{m}.{p}")).is_file());
    assert_eq!((there("A"), there("B")), ([true; 5], [true; 5]));
    assert_eq!(there("C"), [true, true, false, false, false]);
    // Without one of its parts a module is not whole.
    fs::remove_file(f.lib("B.olean.private")).unwrap();
    assert_eq!(f.builder().status(&module("B")), ModuleStatus::Stale { why: Why::Damaged });
    // No longer a module: nothing may be left that says it is one.
    f.write("B.lean", "def b : Nat := 2\n");
    assert_eq!(built(&build(&f.builder(), text).0), ["B", "C"]);
    assert_eq!(there("B"), [true, true, false, false, false]);
    assert_eq!(f.run(text), "3\n");
}

/// A file worker imports what was built, as plain file and as `module` (for which it reads the parts made for servers).
#[test]
fn a_worker_sees_what_was_built() {
    let f = fixture(&[
        ("A.lean", "module\npublic def a : Nat := 40\npublic theorem a_eq : a = 40 := by rfl\n"),
        ("B.lean", "import A\ndef b := a + 1\n"),
    ]);
    let plain = "import B\n#eval b\n";
    let strict = "module\nimport A\n#eval a + 2\nexample : a = 40 := a_eq\n";
    assert_eq!(built(&build(&f.builder(), plain).0), ["A", "B"]);
    assert_eq!(build(&f.builder(), strict).0.outcome, BuildOutcome::UpToDate { reused: 1 });
    let store = Store::open(&f.env).unwrap();
    let ext =
        ensure_extension(&f.toolchain, &store, &f.env, &|_: &_| Err("qualified already".into()), &Silent).unwrap();
    let env = f.env.clone().with("LEAN_PATH", f.builder().lean_path());
    let launch = worker_launch(&f.toolchain, &ext, &f.root, &env).unwrap();
    for (text, want) in [(plain, "41"), (strict, "42")] {
        let mut worker = support::Worker::open(&launch, text).unwrap();
        assert_eq!(worker.elaborated().unwrap(), [want]);
    }
}

#[test]
fn a_failing_dependency_is_told_as_lake_tells_it() {
    let f = fixture(&[
        ("lakefile.toml", "[[lean_lib]]\nname = \"App\"\n"),
        ("App/Bad.lean", "def ok := 1\ndef bad : Nat := \"no\"\n"),
        ("App/Mid.lean", "import App.Bad\ndef mid := ok\n"),
        ("App/Fine.lean", "def fine := 1\n"),
        ("App/Lost.lean", "import Nowhere.To.Be.Found\n"),
        ("App/Gap.lean", "import App.NotThere\n"),
        ("App/One.lean", "import App.Two\n"),
        ("App/Two.lean", "import App.Three\n"),
        ("App/Three.lean", "import App.Two\n"),
    ]);
    let builder = f.builder();
    let text = "import App.Mid\nimport App.Fine\nimport Nowhere\n";
    let (ensured, lines) = build(&builder, text);
    let (modules, report) = failed(&ensured);
    assert_eq!(modules, ["App.Bad"]);
    assert!(report.starts_with("Failed to build module dependencies.\n✖ ["), "{report}");
    assert!(report.contains("/3] Building App.Bad (") && report.contains("\nerror: App/Bad.lean:2:17: "), "{report}");
    assert!(
        report.ends_with("error: Lean exited with code 1\nSome required targets logged failures:\n- App.Bad\n"),
        "{report}"
    );
    assert!(lines.iter().any(|l| l.starts_with("error: App/Bad.lean:2:17: ")), "{lines:#?}");
    assert_eq!(ensured.missing, [module("Nowhere")]);
    assert!(ensured.basis == Default::default());
    // What does not depend on it was built all the same.
    assert_eq!(builder.status(&module("App.Fine")), ModuleStatus::Fresh);
    assert!(!f.lib("App/Bad.olean").exists());
    f.is_swept();
    f.write("App/Bad.lean", "def ok := 1\n");
    let (ensured, _) = build(&builder, text);
    assert_eq!(built(&ensured), ["App.Bad", "App.Mid"]);
    assert_eq!(ensured.missing, [module("Nowhere")]);

    // What nobody has is Lean's to tell.
    let (ensured, _) = build(&builder, "import App.Lost");
    let (modules, report) = failed(&ensured);
    assert_eq!(modules, ["App.Lost"]);
    assert!(report.contains("unknown module prefix 'Nowhere'"), "{report}");
    // A module that the configuration promises, and the importer that waits for it in vain.
    for mode in [BuildPermission::Build, BuildPermission::Never] {
        let ensured = builder.ensure("import App.Gap", mode, &|_| {}, &|| false).unwrap();
        let (modules, report) = failed(&ensured);
        assert_eq!(modules, ["App.NotThere"]);
        assert!(report.contains("no such file or directory") && report.contains("App/NotThere.lean"), "{report}");
    }
    let (ensured, _) = build(&builder, "import App.One");
    let (modules, report) = failed(&ensured);
    assert_eq!(modules, ["App.Two", "App.Three"]);
    assert_eq!(
        report,
        "Failed to build module dependencies.\nerror: build cycle detected:\n  +App.Two:deps\n  +App.Three:deps\n  +App.Two:deps\n"
    );
    assert_eq!(builder.status(&module("App.One")), ModuleStatus::Unknown);
    // Lean could not be told where the artifacts are.
    let f = Fixture { root: f.path("a:b"), ..f };
    f.write("A.lean", "");
    let e = f.builder().ensure("import A", BuildPermission::Build, &|_| {}, &|| false).unwrap_err();
    assert!(matches!(e, BuildError::Colon(_)), "{e}");
}

#[test]
fn configuration_folders_options_and_dependencies() {
    let lakefile = |options: &str| {
        format!(
            "srcDir = \"src\"\n{options}\n[[require]]\nname = \"near\"\npath = \"../near\"\n[[lean_lib]]\nname = \"Größe\"\n"
        )
    };
    let f = fixture(&[
        ("lakefile.toml", &lakefile("leanOptions.autoImplicit = false\nleanOptions.weak.not.there = true")),
        ("src/Größe/1x.lean", "import Near.«foo bar»\ndef f (x : α) : α := x\ndef g := f near\n"),
        (
            "../near/lakefile.toml",
            "[[lean_lib]]\nname = \"Near\"\nleanOptions = [[\"weak.linter.unusedVariables\", false]]\n",
        ),
        ("../near/Near/foo bar.lean", "def near := 5\ndef quiet (unused : Nat) := 1\n"),
    ]);
    let text = "import Größe.«1x»\n#eval g\n";
    let (ensured, lines) = build(&f.builder(), text);
    let (modules, report) = failed(&ensured);
    assert_eq!(modules, ["Größe.«1x»"]);
    assert!(report.contains("error: src/Größe/1x.lean:2:11: "), "{report}");
    // The dependency was built, into its own folder, with its own options: no warning of the linter.
    assert!(f.path("../near/.lake/build/lib/lean/Near/foo bar.olean").is_file());
    assert!(lines.iter().any(|l| l.starts_with("✔ [1/2] Built Near.«foo bar» (")), "{lines:#?}");

    f.write("lakefile.toml", &lakefile("leanOptions.autoImplicit = true"));
    let (ensured, _) = build(&f.builder(), text);
    assert_eq!(built(&ensured), ["Größe.«1x»"]);
    assert_eq!(f.run(text), "5\n");
    f.write("lakefile.toml", &lakefile("leanOptions.autoImplicit = true\nmoreLeanArgs = [\"-DmaxRecDepth=700\"]"));
    let settings = ModuleStatus::Stale { why: Why::SettingsChanged };
    assert_eq!(f.builder().status(&module("Größe.«1x»")), settings);
    // Read once, a builder does not follow the file: that takes a restart, and the stamp tells.
    f.write("lakefile.toml", &lakefile("leanOptions.autoImplicit = true\nweakLeanArgs = [\"-j1\"]"));
    let builder = f.builder();
    assert_eq!(builder.status(&module("Größe.«1x»")), ModuleStatus::Fresh);
    assert!(builder.project().config_stamp().changed().is_empty());
    f.write("lakefile.toml", &lakefile(""));
    assert_eq!(builder.project().config_stamp().changed().len(), 1);
    assert_eq!(builder.status(&module("Größe.«1x»")), ModuleStatus::Fresh);
}

/// P2: what others have made stays.
#[test]
fn p2_a_newer_artifact_of_others_is_left_alone() {
    let f = fixture(&[("A.lean", "def a := 1\n"), ("B.lean", "import A\ndef b := a\n")]);
    f.lean("A.lean", "A");
    let olean = f.lib("A.olean");
    let (bytes, time) = (fs::read(&olean).unwrap(), fs::metadata(&olean).unwrap().modified().unwrap());
    // With a trace of Lake's beside it, as a native build leaves one.
    let lakes = r#"{"schemaVersion":"2025-09-10","depHash":"0f3a5c7712ab9d40","inputs":[],"outputs":{},"log":[],"synthetic":false}"#;
    fs::write(f.lib("A.trace"), lakes).unwrap();
    let unchanged = || {
        assert_eq!(fs::read(&olean).unwrap(), bytes);
        assert_eq!(fs::metadata(&olean).unwrap().modified().unwrap(), time);
        assert_eq!(fs::read_to_string(f.lib("A.trace")).unwrap(), lakes);
    };
    let text = "import B\n#eval b\n";
    assert_eq!(built(&build(&f.builder(), text).0), ["B"]);
    unchanged();
    assert_eq!(build(&f.builder(), text).0.outcome, BuildOutcome::UpToDate { reused: 2 });
    assert_eq!(f.run(text), "1\n");

    // Of another Lean it is of no use, and still it stays.
    let alien: Vec<u8> = [b"olean\x02\x004.99.0".as_slice(), &bytes[13..]].concat();
    fs::write(&olean, &alien).unwrap();
    let (ensured, _) = build(&f.builder(), text);
    let (modules, report) = failed(&ensured);
    assert_eq!(modules, ["A"]);
    assert!(report.contains("A.olean was made by another Lean") && report.contains("remove .lake/build"), "{report}");
    assert_eq!(fs::read(&olean).unwrap(), alien);

    // Older than the source, it is stale, and everything is ours from then on.
    f.write("A.lean", "def a := 2\n");
    f.touch("A.lean", 100);
    assert_eq!(built(&build(&f.builder(), text).0), ["A", "B"]);
    assert_eq!(f.run(text), "2\n");
    // What lies in the trace's place is a trace to Lake, and never one that matches.
    let trace: serde_json::Value = serde_json::from_slice(&fs::read(f.lib("A.trace")).unwrap()).unwrap();
    assert_eq!((&trace["schemaVersion"], &trace["depHash"]), (&"2025-09-10".into(), &"0000000000000000".into()));
    assert_eq!((&trace["inputs"], &trace["outputs"]), (&serde_json::json!([]), &serde_json::Value::Null));

    // The source is gone, the artifact is not: it must not be imported for ever.
    fs::remove_file(f.path("A.lean")).unwrap();
    let (ensured, _) = build(&f.builder(), text);
    assert_eq!(failed(&ensured).0, ["A"]);
}

/// Not a test of its own: the process that is killed, and the one that competes. Builds what `PROJECT` says.
#[test]
#[ignore = "run by other tests"]
fn child() {
    let root = AbsPath::new(std::env::var_os("PROJECT").unwrap()).unwrap();
    let builder = Builder::new(&toolchain(&root), Project::read(&root), &shared_env());
    let outcome = build(&builder, "import B\n").0.outcome;
    fs::write(root.join("child.txt"), format!("{outcome:?}")).unwrap();
}

fn spawn_child(f: &Fixture, vars: &[(&str, &str)]) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env("PROJECT", f.root.as_path())
        .envs(vars.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// P3: whatever a killed build leaves, the next one makes it good.
#[test]
fn p3_a_killed_build_is_made_good_by_the_next() {
    let f = fixture(&[("A.lean", "def a := 1\n"), ("B.lean", "import A\ndef b := a\n")]);
    for (n, point) in ["module-compiled", "module-open", "module-renamed"].into_iter().enumerate() {
        f.write("A.lean", &format!("def a := {n}\n"));
        let mark = f.path("mark");
        let vars = [("LEAN_BEAM_TEST_PARK", point), ("LEAN_BEAM_TEST_PARK_MARK", mark.to_str().unwrap())];
        let mut child = spawn_child(&f, &vars);
        let begun = Instant::now();
        while !mark.is_file() {
            assert!(begun.elapsed() < Duration::from_secs(600), "{point} is not reached");
            assert_eq!(child.try_wait().unwrap(), None, "{point} is not reached");
            std::thread::sleep(Duration::from_millis(20));
        }
        // It holds the lock, and says who it is.
        let short = f.builder().with_wait(Duration::from_millis(900));
        let e = short.ensure("import A", BuildPermission::Build, &|_| {}, &|| false).unwrap_err();
        assert!(matches!(e, BuildError::Lock(_)) && e.to_string().contains(&format!("pid {}", child.id())), "{e}");
        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_file(mark).unwrap();
        if point != "module-compiled" {
            assert_eq!(f.builder().status(&module("A")), ModuleStatus::Stale { why: Why::Interrupted });
        }
        assert_eq!(built(&build(&f.builder(), "import B\n").0), ["A", "B"], "{point}");
        f.is_swept();
        assert_eq!(f.run("import B\n#eval b"), format!("{n}\n"));
    }
    // In the middle of compiling: that Lean goes on for a while, into a folder that is gone.
    f.write("A.lean", "#eval IO.sleep 3000\ndef a := 9\n");
    let mut child = spawn_child(&f, &[]);
    let stage = f.path(".lake/build/lean-beam/stage");
    let begun = Instant::now();
    while !stage.read_dir().is_ok_and(|mut d| d.next().is_some()) {
        assert!(begun.elapsed() < Duration::from_secs(600), "no compiler is started");
        assert_eq!(child.try_wait().unwrap(), None, "no compiler is started");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(built(&build(&f.builder(), "import B\n").0), ["A", "B"]);
    f.is_swept();
    assert_eq!(f.run("import B\n#eval b"), "9\n");
}

#[test]
fn builders_take_turns() {
    let f = fixture(&[("A.lean", "def a := 1\n"), ("B.lean", "import A\ndef b := a\n")]);
    let mut child = spawn_child(&f, &[]);
    let outcomes = std::thread::scope(|scope| {
        let threads = [(); 2].map(|()| scope.spawn(|| build(&f.builder(), "import B\n").0.outcome));
        threads.map(|t| format!("{:?}", t.join().unwrap()))
    });
    assert!(child.wait().unwrap().success());
    let all = format!("{}\n{}", outcomes.join("\n"), fs::read_to_string(f.path("child.txt")).unwrap());
    // Who was first built both; or each one, if the lock changed hands in between.
    let built = all.matches("Built {").count();
    assert!(built >= 1, "{all}");
    assert_eq!(all.matches("Built {").count() + all.matches("UpToDate { reused: 2 }").count(), 3, "{all}");
    assert_eq!(all.matches("ModuleName([\"A\"])").count(), 1, "{all}");
    assert_eq!(all.matches("ModuleName([\"B\"])").count(), 1, "{all}");
    f.is_swept();
}

#[test]
fn cancelling_ends_it_at_once_and_editing_starts_it_over() {
    let f = fixture(&[("A.lean", "def a := 1\n"), ("B.lean", "import A\ndef b := a\n")]);
    let asked = AtomicUsize::new(0);
    let stop = || asked.fetch_add(1, Ordering::Relaxed) > 4;
    let ensured = f.builder().ensure("import B", BuildPermission::Build, &|_| {}, &stop).unwrap();
    assert_eq!(ensured.outcome, BuildOutcome::Cancelled);
    assert!(!f.lib("A.olean").exists() && !f.lib("A.trace").exists());
    f.is_swept();

    // A caller that panics over a line of progress gets its panic, and nobody waits for ever.
    let caller = std::panic::AssertUnwindSafe(|| {
        let end = |line: &str| assert!(!line.contains("Built A"), "on purpose");
        let text = "import A\nimport B\n";
        f.builder().ensure(text, BuildPermission::Build, &end, &|| false)
    });
    assert!(std::panic::catch_unwind(caller).is_err());

    // The compiler is at work when the source changes under it.
    let asked = AtomicUsize::new(0);
    let edit = || {
        if asked.fetch_add(1, Ordering::Relaxed) == 4 {
            f.write("A.lean", "def a := 2\n");
        }
        false
    };
    f.write("A.lean", "def a := 3\n");
    let ensured = f.builder().ensure("import B", BuildPermission::Build, &|_| {}, &edit).unwrap();
    assert_eq!(built(&ensured), ["A", "B"]);
    assert_eq!(f.run("import B\n#eval b"), "2\n");
    assert_eq!(f.builder().status(&module("B")), ModuleStatus::Fresh);
}

#[test]
fn a_recorded_save_is_as_good_as_a_build() {
    let f = fixture(&[("A.lean", "def a := 1\n"), ("B.lean", "import A\ndef b := a\n")]);
    let builder = Arc::new(f.builder());
    let (first, _) = build(&builder, "import A\n");
    let b = builder.project().find(&module("B")).unwrap();
    let text = "import A\ndef b := a\n";

    let saving = builder.begin_save(&b, &|| false).unwrap();
    assert_eq!(saving.artifacts(true).len(), 5);
    // Without artifacts there is nothing to record.
    assert!(matches!(saving.record(text, Some(&first.basis)), Err(SaveError::Fs(_))));
    let saving = builder.begin_save(&b, &|| false).unwrap();
    f.lean("B.lean", "B");
    assert_eq!(builder.status(&b.name), ModuleStatus::Stale { why: Why::Interrupted });
    // Left from when it was a `module`.
    fs::write(f.lib("B.olean.private"), "old").unwrap();
    let trace = saving.record(text, Some(&first.basis)).unwrap();
    assert_eq!(trace.as_path(), f.lib("B.trace"));
    assert!(!f.lib("B.olean.private").exists());
    let bytes = fs::read(f.lib("B.olean")).unwrap();
    assert_eq!(build(&builder, "import B\n").0.outcome, BuildOutcome::UpToDate { reused: 2 });
    assert_eq!(fs::read(f.lib("B.olean")).unwrap(), bytes);

    // A save describes its text. If the file says something else by now, it is stale, however new the artifact.
    let saving = builder.begin_save(&b, &|| false).unwrap();
    saving.record("import A\ndef b := a + 1\n", None).unwrap();
    assert_eq!(builder.status(&b.name), ModuleStatus::Stale { why: Why::SourceChanged });
    let saving = builder.begin_save(&b, &|| false).unwrap();
    saving.record(text, None).unwrap();
    assert_eq!(builder.status(&b.name), ModuleStatus::Fresh);

    // An import that is stale at the moment of the save is rebuilt, and then so is this.
    f.write("A.lean", "def a := 3\n");
    builder.begin_save(&b, &|| false).unwrap().record(text, Some(&first.basis)).unwrap();
    assert_eq!(built(&build(&builder, "import B\n").0), ["A", "B"]);
    // And what was opened before that cannot be saved over it.
    let e = builder.begin_save(&b, &|| false).unwrap().record(text, Some(&first.basis)).unwrap_err();
    assert!(matches!(e, SaveError::ImportMoved { .. }), "{e}");
    let e = builder.begin_save(&b, &|| false).unwrap().record("import A\nimport Nowhere\n", None).unwrap_err();
    assert!(matches!(e, SaveError::ImportNotBuilt { .. }), "{e}");
    assert_eq!(builder.status(&b.name), ModuleStatus::Stale { why: Why::Interrupted });
}

/// Lean's own answers for headers of every sort; `Err` is Lean's complaint.
fn leans_headers(f: &Fixture, texts: &[&str]) -> Vec<Result<serde_json::Value, String>> {
    let names: Vec<String> = (0..texts.len()).map(|n| format!("h{n}.lean")).collect();
    for (name, text) in names.iter().zip(texts) {
        f.write(name, text);
    }
    let out = Command::new(f.toolchain.lean.as_path())
        .arg("--deps-json")
        .args(&names)
        .current_dir(f.root.as_path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let one = |a: &serde_json::Value| match a.get("result") {
        Some(result) => Ok(result.clone()),
        None => Err(a["errors"][0].as_str().unwrap().to_owned()),
    };
    answer["imports"].as_array().unwrap().iter().map(one).collect()
}

#[test]
fn headers_are_read_as_lean_reads_them() {
    let f = fixture(&[]);
    let texts = [
        "",
        "def x := 1",
        "import A",
        "import A.B.C import D\nimport E -- c\nimport F/- x -/import G\ndef",
        "-- import A\nimport B --import C\n--",
        "/- a -/ import A /- b /- c -/ import X -/ import B",
        "/-/- a -/ import A",
        "/-/ a -/ import A",
        "/- a --/ -/ import A",
        "/- a /-- b -/ -/ import A",
        "/--/ import A -/ import B",
        "/-! x -/\nimport A",
        "import A /-- doc -/ import B",
        "/- unterminated",
        "import A /- unterminated",
        "prelude",
        "prelude import A",
        "module prelude import A",
        "module",
        "module\nimport A\npublic import B\npublic meta import C\nmeta import D\nimport all E\npublic import all F\npublic meta import all G",
        "module -- c\n\n/- d -/ public/- e -/import A",
        "public import A",
        "meta import A",
        "import all A",
        "import A\nimport all B",
        "module meta def x",
        "module public def x",
        "module\nimport A\npublic meta def x",
        "module import A all import B",
        "moduleimport A",
        "importA",
        "import A.",
        "import A. B",
        "import A..B",
        "import A.1",
        "import 1",
        "import",
        "import \n",
        "import «a b».«c.d».E import F",
        "import «",
        "import «a",
        "import A.«",
        "import «»",
        "import A.«» import B",
        "import Größe.α.x' import Ö_1?!",
        "import λ",
        "import A₁.B",
        "import A-B",
        "import allOfIt",
        "module import allOfIt",
        "module import all",
        "import importer",
        "import A\timport B",
        "\timport A",
        "import\tA",
        "import A\r\nimport B\r\n\r\ndef x := 1\r\n",
        "import A\n\u{a0}import B",
        "import A -",
        "import A /",
        "import A \u{feff}import B",
        "\u{feff}import A",
        "import A;import B",
        "prelude module import A",
        "module module import A",
        "Import A",
    ];
    for (text, theirs) in texts.iter().zip(leans_headers(&f, &texts)) {
        let ours = imports_of(text);
        match (&theirs, ours.error) {
            (Err(theirs), Some(ours)) => assert!(theirs.ends_with(ours), "{text:?}: {theirs}, ours {ours}"),
            (Ok(theirs), None) => {
                assert_eq!(theirs["isModule"], ours.is_module, "{text:?}");
                let mut imports = theirs["imports"].as_array().unwrap().as_slice();
                if !ours.prelude {
                    assert_eq!(imports[0]["module"], "Init", "{text:?}");
                    imports = &imports[1..];
                }
                let ours: Vec<_> = ours
                    .imports
                    .iter()
                    .map(|i| {
                        serde_json::json!({"importAll": i.all, "isExported": i.exported, "isMeta": i.meta, "module": i.module.to_string()})
                    })
                    .collect();
                assert_eq!(imports, ours, "{text:?}");
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }
}

#[test]
fn identifiers_are_leans() {
    let f = fixture(&[]);
    let program = "open Lean\n#eval show IO Unit from do\n  for n in [0:0x20000] do\n    if n.isValidChar then\n      let c := Char.ofNat n\n      if isIdFirst c then IO.println s!\"f{n}\" else if isIdRest c then IO.println s!\"r{n}\"\n";
    let said = f.run(program);
    let said: std::collections::HashSet<&str> = said.lines().collect();
    assert!(said.len() > 500, "{said:?}");
    for n in 0..0x20000 {
        let Some(c) = char::from_u32(n) else { continue };
        let first = said.contains(format!("f{n}").as_str());
        let rest = first || said.contains(format!("r{n}").as_str());
        let is = |text: String| ModuleName::parse(&text).is_some_and(|m| m.parts().len() == 1 && m.parts()[0] == text);
        assert_eq!((is(format!("{c}")), is(format!("A{c}"))), (first, rest), "{n:x}");
    }
}
