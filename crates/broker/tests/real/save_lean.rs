//! `$/beam/saveReadiness` and `$/beam/saveArtifacts` against a real worker: what is written, who can import it, and what remains after
//! a failure.
//!
//! A worker takes 0.6 GB and more, so one test runs at a time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use beam_base::{AbsPath, Deadline};
use beam_broker::qualify::Qualifier;
use beam_broker::worker_command;
use beam_embedded::testing;
use beam_lean::{lean_text_hash, normalize_newlines};
use beam_session::{CommandSpawn, RequestFailure, RequestSpec, Session, SessionConfig, Snapshot, WorkerCommand};
use beam_toolchain::{Choice, Silent, Store, ensure_extension, worker_launch};
use serde_json::{Value, json};
use testkit::{Fixture, TempProject};
use tokio::sync::{Mutex, MutexGuard};

/// Memory for one worker at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Long enough for a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(300);

/// Everything that an importer may depend on.
const LOW: &str = r#"/-- A point of the plane. -/
structure Point where
  x : Nat
  y : Nat
  deriving Repr, BEq, Hashable, DecidableEq, Inhabited

private def hidden := 3
def shown := hidden + 1
@[simp] theorem shown_eq : shown = 4 := rfl
instance : Add Point := ⟨fun a b => ⟨a.x + b.x, a.y + b.y⟩⟩
syntax "twice! " term : term
macro_rules | `(twice! $t) => `($t + $t)
initialize counter : IO.Ref Nat ← IO.mkRef 5

inductive Chain | last | next (rest : Chain)
def Chain.size : Chain → Nat | last => 0 | next rest => rest.size + 1
theorem Chain.size_next (c : Chain) : c.next.size = c.size + 1 := by
  cases c with
  | last => simp [Chain.size]
  | next rest => simp [Chain.size]
axiom assumed : 1 = 1
theorem uses_it : 1 = 1 := assumed
namespace Deep
scoped notation "⟪" t "⟫" => Point.mk t t
end Deep
"#;

/// A file with a `module` header: four files of binary artifacts.
const FAMILY: &str = "module\n/-- One. -/\npublic def one := 1\ndef kept := 2\n@[expose] public def two := one + 1\n\
    public theorem one_eq : one = 1 := by simp [one]\npublic def three := 3\n";

/// What takes effect in importers by its `initialize` blocks.
const ATTRIBUTES: &str = r#"import Lean
open Lean
register_simp_attr my_simps
initialize names : SimplePersistentEnvExtension Name (Array Name) ←
  registerSimplePersistentEnvExtension { addEntryFn := Array.push, addImportedFn := fun all => all.flatMap id }
initialize registerBuiltinAttribute {
  name := `mark, descr := "remembers", add := fun name _ _ => modifyEnv (names.addEntry · name) }
elab "marked" : command => do
  logInfo m!"{names.getState (← getEnv)}"
def last := 1
"#;

/// Uses all of the others.
const IMPORTER: &str = r#"import App.Low
import App.Family
import App.Attributes
open Deep
@[mark, my_simps] theorem marked_one : shown = 4 := rfl
example : shown = 4 := by simp only [my_simps]
marked
#guard (twice! shown) == 8
#guard (⟨1, 2⟩ : Point) + ⟨3, 4⟩ == (⟨4, 6⟩ : Point)
#guard (default : Point) == ⟨0, 0⟩ && hash (⟨1, 2⟩ : Point) == hash (⟨1, 2⟩ : Point)
#guard ⟪7⟫.x == 7
#eval (⟨1, 2⟩ : Point)
#eval counter.get
#guard two == 2
example : shown = 4 := by simp
example (c : Chain) : c.next.next.size = c.size + 2 := by simp [Chain.size_next]
example (a b : Point) : Decidable (a = b) := inferInstance
#print axioms uses_it
#check @one_eq
#check_failure hidden
#eval show Lean.Elab.Command.CommandElabM Unit from do
  let env ← Lean.getEnv
  Lean.logInfo s!"{(← Lean.findDocString? env `Point).getD "no doc"}"
  let some ranges ← Lean.findDeclarationRanges? `Chain.size | throwError "no ranges"
  Lean.logInfo s!"{ranges.range.pos.line}"
  let home := (env.getModuleIdxFor? `Point).map fun n => env.header.moduleNames[n]!
  Lean.logInfo s!"{env.contains (Lean.mkPrivateNameCore `App.Low `hidden)} {home.getD `nowhere}"
"#;

/// What [`IMPORTER`] prints, wherever the artifacts come from.
const IMPORTED: [&str; 9] = [
    "[marked_one]",
    "{ x := 1, y := 2 }",
    "5",
    "'uses_it' depends on axioms: [assumed]",
    "one_eq : one = 1",
    "Unknown identifier `hidden`",
    "A point of the plane.",
    "16",
    "true App.Low",
];

/// Compares two compiled modules as to what is in them. The bytes of two batch compiles differ as well (sharing, padding).
const COMPARE: &str = r#"import Lean
open Lean
def parts (olean : String) : IO (Array System.FilePath) := do
  let all : Array System.FilePath := #[olean, olean ++ ".server", olean ++ ".private"]
  all.filterM (·.pathExists)
def main : List String → IO Unit
  | [a, b] => do
    let as ← readModuleDataParts (← parts a)
    let bs ← readModuleDataParts (← parts b)
    unless as.size == bs.size do throw <| IO.userError "another number of parts"
    for ((a, _), (b, _)) in as.zip bs do
      unless a.isModule == b.isModule do throw <| IO.userError "isModule"
      unless toJson a.imports == toJson b.imports do throw <| IO.userError "imports"
      unless a.constNames == b.constNames do throw <| IO.userError s!"names: {a.constNames} {b.constNames}"
      unless a.extraConstNames == b.extraConstNames do throw <| IO.userError "extra names"
      for (c, d) in a.constants.zip b.constants do
        unless c.levelParams == d.levelParams && c.type == d.type &&
            c.value? (allowOpaque := true) == d.value? (allowOpaque := true) do
          throw <| IO.userError s!"{c.name} differs"
      let sizes (m : ModuleData) := m.entries.map fun (name, entries) => (name, entries.size)
      unless sizes a == sizes b do throw <| IO.userError s!"entries: {sizes a} {sizes b}"
    IO.println s!"the same {as.size} {as.foldl (fun n (m, _) => n + m.constNames.size) 0}"
  | _ => throw <| IO.userError "two paths"
"#;

struct Lean {
    program: PathBuf,
    command: WorkerCommand,
}

/// The worker's command line, for a root that is put in later, and Lean itself.
fn lean() -> &'static Lean {
    static LEAN: OnceLock<Lean> = OnceLock::new();
    fn make() -> Lean {
        let entry = testing::shared_embedded_for_tests(&Qualifier);
        let env = testing::shared_env();
        let store = Store::open(&env).unwrap();
        let root = store.home().clone();
        let tc = beam_toolchain::resolve(&root, &env, &Choice::Embedded).unwrap();
        let ext = ensure_extension(&tc, &store, &env, &Qualifier, &Silent).unwrap();
        let launch = worker_launch(&tc, &ext, &root, &env).unwrap();
        Lean { program: entry.lean().as_path().to_path_buf(), command: worker_command(launch) }
    }
    // A thread of its own: qualifying a fresh install brings up a runtime, and the caller is inside one.
    LEAN.get_or_init(|| std::thread::spawn(make).join().unwrap())
}

struct Stage {
    project: TempProject,
    session: Session,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    async fn new() -> Self {
        Self::with_sources(&["."]).await
    }

    /// With source folders as a project's configuration would name them, relative to the root.
    async fn with_sources(folders: &[&str]) -> Self {
        let turn = ONE_AT_A_TIME.lock().await;
        let project = TempProject::with(&Fixture::parse("")).unwrap();
        std::fs::create_dir_all(project.path("App")).unwrap();
        let mut command = lean().command.clone();
        command.cwd = project.root().clone();
        let sources = std::env::join_paths(folders.iter().map(|f| match *f {
            "." => project.root().as_path().to_path_buf(),
            f => project.path(f).as_path().to_path_buf(),
        }));
        let library = project.path("build");
        for (key, value) in &mut command.env {
            if key == "LEAN_SRC_PATH" {
                *value = sources.as_ref().unwrap().clone();
            } else if key == "LEAN_PATH" {
                *value = std::env::join_paths([library.as_path(), value.as_ref()]).unwrap();
            }
        }
        let session = Session::new(SessionConfig::new(project.root().clone(), 1, Arc::new(CommandSpawn(command))));
        Self { project, session, _turn: turn }
    }

    fn file(&self, name: &str) -> AbsPath {
        self.project.path(name)
    }

    async fn apply(&self, name: &str, text: &str) -> u64 {
        std::fs::write(self.file(name), text).unwrap();
        let snap = Snapshot::new(self.session.reserve(), text, None);
        self.session.apply(&self.file(name), snap).await.unwrap().version
    }

    async fn ask(&self, name: &str, method: &str, params: Value) -> Result<Value, RequestFailure> {
        let spec = RequestSpec::new(method, params).with_deadline(Deadline::after(PATIENCE));
        let reply = self.session.request(&self.file(name), spec, None).await?;
        Ok(serde_json::from_str(reply.value.get()).unwrap())
    }

    fn document(&self, name: &str, version: u64) -> Value {
        json!({"uri": self.session.uri_of(&self.file(name)), "version": version})
    }

    async fn readiness(&self, name: &str, version: u64) -> Value {
        let params = json!({"textDocument": self.document(name, version)});
        self.ask(name, "$/beam/saveReadiness", params).await.unwrap()["saveReadiness"].clone()
    }

    /// The parameters of a save into `folder`.
    fn params(&self, name: &str, version: u64, text: &str, module: &str, folder: &str) -> Value {
        let outputs: serde_json::Map<_, _> = self
            .outputs(folder, module)
            .into_iter()
            .map(|(kind, path)| (kind.to_owned(), path.to_string_lossy().into_owned().into()))
            .collect();
        let hash = format!("{:016x}", lean_text_hash(&normalize_newlines(text)));
        json!({"textDocument": self.document(name, version), "textHash": hash, "module": module, "outputs": outputs})
    }

    fn outputs(&self, folder: &str, module: &str) -> BTreeMap<&'static str, PathBuf> {
        let path = self.file(folder).join(module.replace('.', "/"));
        [
            ("olean", "olean"),
            ("oleanServer", "olean.server"),
            ("oleanPrivate", "olean.private"),
            ("ir", "ir"),
            ("irSig", "ir.sig"),
            ("ilean", "ilean"),
            ("c", "c"),
        ]
        .map(|(kind, ext)| (kind, PathBuf::from(format!("{path}.{ext}"))))
        .into()
    }

    async fn save(&self, name: &str, version: u64, text: &str, module: &str) -> Value {
        self.ask(name, "$/beam/saveArtifacts", self.params(name, version, text, module, "build")).await.unwrap()
    }

    /// The error of a save that must not succeed: its code and message.
    async fn refused(&self, name: &str, params: Value) -> (i64, String) {
        match self.ask(name, "$/beam/saveArtifacts", params).await {
            Err(RequestFailure::Server(e)) => (e.code, e.message),
            other => panic!("{other:?}"),
        }
    }

    fn lean(&self, args: &[&str]) -> Output {
        let done = Command::new(&lean().program)
            .args(args)
            .env("LEAN_PATH", self.file("build").as_os_str())
            .env_remove("LEAN_SRC_PATH")
            .current_dir(self.project.root())
            .output()
            .unwrap();
        assert!(done.status.success(), "{args:?}: {done:?}");
        done
    }

    /// A batch compile into `folder`.
    fn compile(&self, module: &str, folder: &str) {
        let outputs = self.outputs(folder, module);
        std::fs::create_dir_all(outputs["c"].parent().unwrap()).unwrap();
        let path = |kind: &str| outputs[kind].to_str().unwrap().to_owned();
        let source = format!("{}.lean", module.replace('.', "/"));
        self.lean(&["-o", &path("olean"), "-i", &path("ilean"), "-c", &path("c"), &source]);
    }

    /// Name and contents of every file below a folder.
    fn files(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.file(folder).as_path().to_path_buf()];
        while let Some(dir) = open.pop() {
            for entry in std::fs::read_dir(dir).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    // A file may be renamed away between the two looks.
                    let Ok(bytes) = std::fs::read(&path) else { continue };
                    found.insert(path.strip_prefix(self.file(folder)).unwrap().to_string_lossy().into_owned(), bytes);
                }
            }
        }
        found
    }
}

fn names(files: &BTreeMap<String, Vec<u8>>) -> Vec<&str> {
    files.keys().map(String::as_str).collect()
}

/// Lake's content hash of an artifact, which is Lean's hash of its bytes: MurmurHash64A, seed 11. The session has it for texts only,
/// against which it is checked here.
fn lake_hash(bytes: &[u8]) -> String {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut h = 11 ^ (bytes.len() as u64).wrapping_mul(M);
    for word in bytes.chunks(8) {
        let mut padded = [0; 8];
        padded[..word.len()].copy_from_slice(word);
        let mut k = u64::from_le_bytes(padded);
        if word.len() == 8 {
            k = k.wrapping_mul(M);
            k = (k ^ (k >> 47)).wrapping_mul(M);
        }
        h = (h ^ k).wrapping_mul(M);
    }
    h = (h ^ (h >> 47)).wrapping_mul(M);
    h ^= h >> 47;
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.contains('\r')
    {
        assert_eq!(h, lean_text_hash(text));
    }
    format!("{h:016x}")
}

/// What was written is what the answer says, and nothing else is there.
fn check_written(stage: &Stage, answer: &Value, module: &str) {
    let outputs = stage.outputs("build", module);
    let written = answer["written"].as_object().unwrap();
    for (kind, path) in &outputs {
        let Some(said) = written.get(*kind) else {
            assert!(!path.exists(), "{kind} was not announced");
            continue;
        };
        assert_eq!(said["path"], json!(path));
        assert_eq!(said["hash"], lake_hash(&std::fs::read(path).unwrap()), "{kind}");
    }
    let strays: Vec<String> = stage.files("build").into_keys().filter(|name| name.contains("beam-")).collect();
    assert!(strays.is_empty(), "{strays:?}");
}

/// The artifacts of both kinds of file are those of a batch compile, and importers cannot tell: not one that is compiled, not one
/// that is open, not one that is itself saved. Probes and hovers before the save leave no trace in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn artifacts_are_those_of_a_batch_compile() {
    let stage = Stage::new().await;
    std::fs::write(stage.file("Compare.lean"), COMPARE).unwrap();
    for (module, text) in [("App.Low", LOW), ("App.Family", FAMILY), ("App.Attributes", ATTRIBUTES)] {
        let name = format!("{}.lean", module.replace('.', "/"));
        let version = stage.apply(&name, text).await;
        let verdict = stage.readiness(&name, version).await;
        assert_eq!((&verdict["saveReady"], &verdict["saveReadyReason"]), (&json!(true), &json!("ok")), "{verdict}");
        assert_eq!(verdict["textHash"], format!("{:016x}", lean_text_hash(text)));
        let last = u32::try_from(text.lines().count()).unwrap();
        let probe = json!({"textDocument": stage.document(&name, version), "position": {"line": last, "character": 0},
            "text": "theorem probe (n : Nat) : n = n := by simp"});
        assert_eq!(stage.ask(&name, "$/lean/runAt", probe).await.unwrap()["success"], true);
        let answer = stage.save(&name, version, text, module).await;
        assert_eq!(
            (&answer["version"], &answer["isModule"], &answer["module"]),
            (&json!(version), &json!(module == "App.Family"), &json!(module))
        );
        check_written(&stage, &answer, module);
        stage.session.close(&stage.file(&name)).await;
        if module == "App.Attributes" {
            // A macro that makes several commands: a server counts the scopes of their names differently (Lean's
            // `internal.cmdlineSnapshots`), so `initFn` blocks have other numbers.
            continue;
        }
        stage.compile(module, "batch");
        let (ours, theirs) = (stage.files("build"), stage.files("batch"));
        assert_eq!(names(&ours), names(&theirs));
        for (name, bytes) in &ours {
            if ["ilean", "c", "ir"].iter().any(|ext| name.ends_with(&format!(".{ext}"))) {
                assert!(*bytes == theirs[name], "{name} differs from that of a batch compile");
            }
        }
        let olean = |folder: &str| stage.outputs(folder, module)["olean"].to_str().unwrap().to_owned();
        let done = stage.lean(&["--run", "Compare.lean", &olean("build"), &olean("batch")]);
        let said = String::from_utf8(done.stdout).unwrap();
        let parts = if module == "App.Family" { 3 } else { 1 };
        assert!(said.starts_with(&format!("the same {parts} ")), "{said}");
    }
    let source = format!("import Lean\n{IMPORTER}");
    std::fs::write(stage.file("App/Top.lean"), &source).unwrap();
    let compiled = String::from_utf8(stage.lean(&["App/Top.lean"]).stdout).unwrap();
    for line in IMPORTED {
        assert!(compiled.contains(line), "{line:?} is missing in {compiled}");
    }
    let version = stage.apply("App/Top.lean", &source).await;
    let verdict = stage.readiness("App/Top.lean", version).await;
    assert_eq!(verdict["saveReady"], true, "{verdict}");
    let shown: String = verdict["currentDiagnostics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["message"].as_str().unwrap().to_owned() + "\n")
        .collect();
    for line in IMPORTED {
        assert!(shown.contains(line), "{line:?} is missing in {shown}");
    }
    let answer = stage.save("App/Top.lean", version, &source, "App.Top").await;
    check_written(&stage, &answer, "App.Top");
    std::fs::write(stage.file("Last.lean"), "import App.Top\n#eval twice! shown\n").unwrap();
    assert_eq!(stage.lean(&["Last.lean"]).stdout, b"8\n");
}

/// Every refusal comes before anything is touched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_change_nothing() {
    const NAME: &str = "App/Main.lean";
    const INVALID: i64 = -32602;
    const MODIFIED: i64 = -32801;
    let stage = Stage::new().await;
    let text = "module\npublic def a := 1\n";
    let version = stage.apply(NAME, text).await;
    stage.save(NAME, version, text, "App.Main").await;
    let before = stage.files("build");
    assert_eq!(before.len(), 6);
    let good = stage.params(NAME, version, text, "App.Main", "build");
    let path = |name: &str| json!(stage.file(name).as_path());
    std::fs::create_dir(stage.file("folder.olean")).unwrap();
    std::fs::write(stage.file("plain"), "").unwrap();
    let mut cases = Vec::new();
    let mut case = |pointer: &str, value: Option<Value>, code: i64, says: &'static str| {
        let mut params = good.clone();
        match value {
            Some(value) => *params.pointer_mut(pointer).unwrap() = value,
            None => drop(params["outputs"].as_object_mut().unwrap().remove(pointer)),
        }
        cases.push((params, code, says));
    };
    case("/textDocument/version", Some(json!(version + 1)), MODIFIED, "documentVersionMismatch");
    case("/textHash", Some(json!("0000000000000000")), MODIFIED, "textHashMismatch");
    case("/module", Some(json!("Other.Main")), INVALID, "elaborated this file as App.Main");
    case("/textDocument/uri", Some(json!("file:///other.lean")), INVALID, "serves");
    case("ir", None, INVALID, "`ir`");
    case("/outputs/c", Some(json!("build/x.c")), INVALID, "not absolute");
    case("/outputs/c", Some(good["outputs"]["ilean"].clone()), INVALID, "the same path");
    case("/outputs/c", Some(path("build/App/../App/Main.ilean")), INVALID, "the same path");
    case("/outputs/olean", Some(path("folder.olean")), INVALID, "is a folder");
    case("/outputs/c", Some(path("plain/x.c")), -32603, "no artifact was changed");
    for (params, code, says) in cases {
        let (got, message) = stage.refused(NAME, params.clone()).await;
        assert!(got == code && message.contains(says), "{params}: {got} {message}");
        assert!(stage.files("build") == before, "{params}");
    }
    // A document with errors, and one without a usable header.
    for (text, reason) in [
        ("module\npublic def a : Nat := true\n", "documentErrors"),
        ("module\nimport Not.There\n", "documentDidNotElaborate"),
    ] {
        let version = stage.apply(NAME, text).await;
        let verdict = stage.readiness(NAME, version).await;
        assert!(verdict["saveReadyReason"].as_str().unwrap().starts_with(reason), "{verdict}");
        let (code, message) = stage.refused(NAME, stage.params(NAME, version, text, "App.Main", "build")).await;
        assert!(code == INVALID && message.contains(reason), "{code} {message}");
        assert!(stage.files("build") == before);
    }
    // A plain file has no use for the parts of a family, and they must not stay beside it.
    let text = "def a := 2\n";
    let version = stage.apply(NAME, text).await;
    // Lake keeps hashes beside the files and trusts them.
    std::fs::write(stage.file("build/App/Main.olean.hash"), "0123456789abcdef").unwrap();
    let answer = stage.save(NAME, version, text, "App.Main").await;
    check_written(&stage, &answer, "App.Main");
    assert_eq!(names(&stage.files("build")), ["App/Main.c", "App/Main.ilean", "App/Main.olean"]);
}

/// The last file that cannot be put in place brings the first ones back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_fails_half_way_is_taken_back() {
    const NAME: &str = "App/Main.lean";
    let stage = Stage::new().await;
    // Another file system: Lean writes the parts of a family side by side, so this one cannot be renamed to its place.
    let elsewhere = tempfile::tempdir_in("/dev/shm").expect("a second file system at /dev/shm");
    let old = "module\npublic def a := 1\n";
    let version = stage.apply(NAME, old).await;
    stage.save(NAME, version, old, "App.Main").await;
    let text = "module\npublic def a := 2\n";
    let version = stage.apply(NAME, text).await;
    for (kind, there_before) in [("oleanServer", false), ("ir", true), ("ir", false)] {
        let mut params = stage.params(NAME, version, text, "App.Main", "build");
        let target = elsewhere.path().join(kind);
        if there_before {
            std::fs::write(&target, "old").unwrap();
        }
        params["outputs"][kind] = json!(target);
        // With and without an old set.
        for module in ["App/Main", "App/Fresh"] {
            for (_, path) in params["outputs"].as_object_mut().unwrap() {
                let changed = path.as_str().unwrap().replace("App/Main", module);
                *path = json!(changed);
            }
            let before = stage.files("build");
            let (code, message) = stage.refused(NAME, params.clone()).await;
            assert!(code == -32603 && message.contains("no artifact was changed"), "{code} {message}");
            assert!(stage.files("build") == before, "{:?}", names(&stage.files("build")));
            let left: Vec<_> = std::fs::read_dir(elsewhere.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
            assert_eq!(left.len(), usize::from(there_before), "{left:?}");
        }
        drop(std::fs::remove_file(&target));
    }
    let answer = stage.save(NAME, version, text, "App.Main").await;
    check_written(&stage, &answer, "App.Main");
}

/// A text whose every artifact shows which version it came from.
fn marked(n: usize) -> String {
    // Some hundred definitions, so that writing takes long enough to be met in the middle.
    let body: String = (0..150).map(|k| format!("def filler{k} (n : Nat) : Nat := n * {k} + {n}\n")).collect();
    format!("def marker{n}x := {n}\n{body}")
}

/// Which version each artifact of the set is of.
fn marks(stage: &Stage) -> Vec<usize> {
    let outputs = stage.outputs("build", "App.Main");
    ["olean", "ilean", "c"]
        .map(|kind| {
            let bytes = std::fs::read(&outputs[kind]).unwrap();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let rest = text.split("marker").nth(1).unwrap_or_else(|| panic!("{kind} has no mark"));
            rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
        })
        .into()
}

async fn settled(stage: &Stage) {
    let end = tokio::time::Instant::now() + PATIENCE;
    while stage.files("build").keys().any(|name| name.contains("beam-")) {
        assert!(tokio::time::Instant::now() < end, "files of an unfinished save stay");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Cancelled and overtaken at ever later moments, from before the work to after its end: always one version's set, never a mixture,
/// and nothing else in the folder. Then two saves at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancellations_edits_and_rivals_never_mix_versions() {
    const NAME: &str = "App/Main.lean";
    let stage = Stage::new().await;
    let mut text = marked(0);
    let mut version = stage.apply(NAME, &text).await;
    let begun = std::time::Instant::now();
    stage.readiness(NAME, version).await;
    stage.save(NAME, version, &text, "App.Main").await;
    assert_eq!(marks(&stage), [0, 0, 0]);
    let again = std::time::Instant::now();
    stage.save(NAME, version, &text, "App.Main").await;
    let takes = again.elapsed().max(Duration::from_millis(50));
    let whole = begun.elapsed();
    let (mut kept, mut replaced) = (0, 0);
    for n in 1..=16_usize {
        let before = marks(&stage)[0];
        text = marked(n);
        version = stage.apply(NAME, &text).await;
        stage.readiness(NAME, version).await;
        let params = stage.params(NAME, version, &text, "App.Main", "build");
        let spec = RequestSpec::new("$/beam/saveArtifacts", params).with_deadline(Deadline::after(PATIENCE));
        let pending = stage.session.request(&stage.file(NAME), spec, None);
        let canceller = pending.canceller();
        let waiting = tokio::spawn(pending);
        tokio::time::sleep(takes * u32::try_from(n).unwrap() / 12).await;
        if n % 2 == 0 {
            canceller.cancel();
        } else {
            version = stage.apply(NAME, &marked(n + 1000)).await;
        }
        let outcome = waiting.await.unwrap();
        // The session answers a cancellation itself; the worker is done when it answers the next request about the same files.
        let last = if n % 2 == 0 { text.clone() } else { marked(n + 1000) };
        let readiness = stage.readiness(NAME, version).await;
        assert_eq!(readiness["textHash"], format!("{:016x}", lean_text_hash(&last)));
        settled(&stage).await;
        let now = marks(&stage);
        assert!(now.iter().all(|m| *m == now[0]) && (now[0] == before || now[0] == n), "{now:?} after {before}, {n}");
        if outcome.is_ok() {
            assert_eq!(now[0], n, "a save that was answered has happened");
        }
        if now[0] == n { replaced += 1 } else { kept += 1 }
    }
    assert!(kept > 0, "no cancellation came in time: {kept} {replaced}, {takes:?} of {whole:?}");
    // Two saves at once, of the same version.
    text = marked(77);
    version = stage.apply(NAME, &text).await;
    let (one, two) =
        tokio::join!(stage.save(NAME, version, &text, "App.Main"), stage.save(NAME, version, &text, "App.Main"));
    assert_eq!(one["version"], two["version"]);
    assert_eq!(marks(&stage), [77, 77, 77]);
    let hash = lake_hash(&std::fs::read(&stage.outputs("build", "App.Main")["olean"]).unwrap());
    assert!([&one, &two].iter().any(|it| it["written"]["olean"]["hash"] == hash), "{hash}: {one} {two}");
    assert_eq!(names(&stage.files("build")), ["App/Main.c", "App/Main.ilean", "App/Main.olean"]);
    // What a killed process left is removed when it is old, and not before.
    let stray = |mark: &str, age: &str| {
        let path = stage.file("build/App").join(format!(".Main.beam-{mark}.olean"));
        std::fs::write(&path, "").unwrap();
        assert!(Command::new("touch").args(["-d", age]).arg(path.as_path()).status().unwrap().success());
        path
    };
    let (old, young) = (stray("1", "2 hours ago"), stray("2", "10 minutes ago"));
    stage.save(NAME, version, &text, "App.Main").await;
    assert!(!old.is_file() && young.is_file());
}

/// A module's name comes from the source folders that the worker was told; under another one its names would be wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn source_folders_give_the_module_its_name() {
    let stage = Stage::with_sources(&["src", "."]).await;
    std::fs::create_dir_all(stage.file("src/App")).unwrap();
    let text = "private def secret := 1\r\ndef open_ := secret\r\n";
    let version = stage.apply("src/App/Odd name.lean", text).await;
    let answer = stage.save("src/App/Odd name.lean", version, text, "App.Odd name").await;
    check_written(&stage, &answer, "App.Odd name");
    let olean = std::fs::read(stage.file("build/App/Odd name.olean")).unwrap();
    assert!(String::from_utf8_lossy(&olean).contains("secret"));
    std::fs::write(
        stage.file("Use.lean"),
        "import App.«Odd name»\nimport Lean\n#eval open_\n#eval show Lean.CoreM Unit from do\n  \
         IO.println ((← Lean.getEnv).contains (Lean.mkPrivateNameCore `App.«Odd name» `secret))\n",
    )
    .unwrap();
    assert_eq!(String::from_utf8(stage.lean(&["Use.lean"]).stdout).unwrap(), "1\ntrue\n");
}

/// The program that asks Lake is elaborated at each run, on the user's toolchain; here against Lake's declarations, which is all that
/// this Lean has of Lake. In a file with a `module` header, since other files run what they import.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lake_program_fits_lake() {
    let stage = Stage::new().await;
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../lean/LeanBeamLake.lean");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("import Lake\n"), "{}", path.display());
    let text =
        format!("module\n{}", text.replace("\nimport ", "\npublic import ").replacen("import", "public import", 1));
    std::fs::write(stage.file("Fits.lean"), text).unwrap();
    let done = stage.lean(&["Fits.lean"]);
    assert!(done.stdout.is_empty(), "{done:?}");
}
