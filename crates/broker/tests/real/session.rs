//! The session against a real Lean, its own file worker without any extension.
//!
//! Here and not in the session's own crate, because the shared install needs this crate's qualification. These tests take a second
//! or two each and some 0.6 GB, one at a time.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use beam_base::{AbsPath, Deadline, Utf16Pos};
use beam_lean::lean_text_hash;
use beam_session::{
    CommandSpawn, EndStatus, ExitReason, Modified, Observation, RequestFailure, RequestSpec, Session, SessionConfig,
    Snapshot, WorkerCommand, WorkerState,
};
use serde_json::{Value, json};
use testkit::{Fixture, TempProject};
use tokio::sync::{Mutex, MutexGuard};

/// Memory for one worker at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

fn lean() -> PathBuf {
    static LEAN: OnceLock<PathBuf> = OnceLock::new();
    // A thread of its own: qualifying a fresh install brings up a runtime, and the caller is inside one.
    let install = || beam_embedded::testing::shared_embedded_for_tests(&beam_broker::qualify::Qualifier).lean();
    LEAN.get_or_init(|| std::thread::spawn(install).join().unwrap().as_path().to_path_buf()).clone()
}

/// Where Lean finds its library and what a test built.
fn search_path(root: &AbsPath) -> std::ffi::OsString {
    let library = lean().parent().and_then(|bin| bin.parent()).unwrap().join("lib/lean");
    std::env::join_paths([library.as_path(), root.join("build").as_path()]).unwrap()
}

struct Stage {
    project: TempProject,
    session: Session,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    async fn new(fixture: &Fixture) -> Self {
        let turn = ONE_AT_A_TIME.lock().await;
        let project = TempProject::with(fixture).unwrap();
        let command = WorkerCommand {
            program: lean().into(),
            args: vec!["--worker".into(), "-Dserver.reportDelayMs=0".into()],
            env: vec![
                ("LEAN_PATH".into(), search_path(project.root())),
                ("LEAN_SRC_PATH".into(), project.root().as_path().into()),
            ],
            env_remove: vec!["LEAN_SYSROOT".into()],
            cwd: project.root().clone(),
        };
        let mut config = SessionConfig::new(project.root().clone(), 1, Arc::new(CommandSpawn(command)));
        config.index.ileans.push(project.path("build"));
        let session = Session::new(config);
        Self { project, session, _turn: turn }
    }

    fn file(&self, name: &str) -> AbsPath {
        self.project.path(name)
    }

    async fn apply(&self, name: &str, text: &str) -> u64 {
        let snap = Snapshot::new(self.session.reserve(), text, None);
        self.session.apply(&self.file(name), snap).await.unwrap().version
    }

    fn at(&self, name: &str, pos: Utf16Pos) -> Value {
        json!({"textDocument": {"uri": self.session.uri_of(&self.file(name))}, "position": pos})
    }

    async fn ask(&self, name: &str, method: &str, params: Value) -> Result<Value, RequestFailure> {
        let spec = RequestSpec::new(method, params).with_deadline(Deadline::after(Duration::from_secs(60)));
        let reply = self.session.request(&self.file(name), spec, None).await?;
        Ok(serde_json::from_str(reply.value.get()).unwrap())
    }

    fn barrier(&self, name: &str, version: u64) -> RequestSpec {
        let uri = self.session.uri_of(&self.file(name));
        RequestSpec::new("textDocument/waitForDiagnostics", json!({"uri": uri, "version": version})).at_version(version)
    }

    /// Waits until Lean is at work on this line, 1-based, and no earlier one.
    async fn busy_from(&self, name: &str, line: u64) {
        let begun = std::time::Instant::now();
        loop {
            let progress = self.session.document(&self.file(name)).await.unwrap().progress;
            if progress.is_some_and(|it| it.range_start_line == Some(line)) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "{progress:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until Lean has reported everything about this version; returns the messages of the last publish.
    async fn settle(&self, name: &str, version: u64) -> Vec<String> {
        let (observer, mut observed) = beam_session::observer();
        let spec = self.barrier(name, version).with_deadline(Deadline::after(Duration::from_secs(60)));
        self.session.request(&self.file(name), spec, Some(observer.from_present())).await.unwrap();
        let mut last = Vec::new();
        while let Some(observation) = observed.recv().await {
            if let Observation::Diagnostics(list) = observation {
                assert_eq!(list.version(), version);
                last = list.items().unwrap();
            }
        }
        last.iter().map(|item| item["message"].as_str().unwrap().trim_end().to_owned()).collect()
    }

    /// Compiles a module, as a build would.
    fn build(&self, module: &str) {
        std::fs::create_dir_all(self.file("build")).unwrap();
        let built = Command::new(lean())
            .arg(format!("--root={}", self.project.root()))
            .args([
                "-o",
                &format!("build/{module}.olean"),
                "-i",
                &format!("build/{module}.ilean"),
                &format!("{module}.lean"),
            ])
            .env("LEAN_PATH", search_path(self.project.root()))
            .current_dir(self.project.root())
            .output()
            .unwrap();
        assert!(built.status.success(), "{built:?}");
    }

    async fn pid(&self, name: &str) -> Option<u32> {
        self.session.document(&self.file(name)).await.unwrap().worker.pid
    }
}

fn runs(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

/// Elaborates until it is cancelled. What stands before the endless theorem can be asked about all the time.
const ENDLESS: &str = "import Lean\ndef early : Nat := 1\ntheorem slow : True := by\n  run_tac (do for _ in [0:1000000000] do Lean.checkSystem \"x\")\n  trivial\n#eval 1\n";

/// Hovers over the definition before the endless one.
async fn early(stage: &Stage) -> String {
    let at = stage.at("Main.lean", Utf16Pos { line: 1, character: 5 });
    stage.ask("Main.lean", "textDocument/hover", at).await.unwrap()["contents"]["value"].to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hover_definition_goals_and_fifty_edits() {
    let fixture = Fixture::parse(
        "def ‹def›foo : Nat := 1\n-- 😀 foo\ntheorem bar (n : Nat) : n + 0 = n := by\n  ‹tactic›simp\n#eval ‹eval›foo\n",
    );
    let stage = Stage::new(&fixture).await;
    let text = fixture.text();
    let version = stage.apply("Main.lean", text).await;
    assert_eq!(stage.settle("Main.lean", version).await, ["1"], "Lean's silent messages are gone");
    let progress = stage.session.document(&stage.file("Main.lean")).await.unwrap().progress.unwrap();
    assert!(progress.done && progress.updates > 0 && progress.range_start_line.is_none(), "{progress:?}");

    let hover = stage.ask("Main.lean", "textDocument/hover", stage.at("Main.lean", fixture.at("eval"))).await.unwrap();
    assert!(hover["contents"]["value"].as_str().unwrap().contains("foo : Nat"), "{hover}");
    let found =
        stage.ask("Main.lean", "textDocument/definition", stage.at("Main.lean", fixture.at("eval"))).await.unwrap();
    assert_eq!(found[0]["targetSelectionRange"]["start"], json!(fixture.at("def")), "{found}");
    let goal = stage.ask("Main.lean", "$/lean/plainGoal", stage.at("Main.lean", fixture.at("tactic"))).await.unwrap();
    assert_eq!(goal["goals"], json!(["n : Nat\n⊢ n + 0 = n"]));

    // Alternately right and wrong, so that each verdict is about its own text.
    let mut slowest = Duration::ZERO;
    for n in 1..=50 {
        let tactic = if n % 2 == 0 { "simp" } else { "exact rfll" };
        let begun = Instant::now();
        let version = stage
            .apply("Main.lean", &text.replace("simp", tactic).replace("foo : Nat := 1", &format!("foo : Nat := {n}")))
            .await;
        let messages = stage.settle("Main.lean", version).await;
        slowest = slowest.max(begun.elapsed());
        assert_eq!(version, n + 1);
        assert_eq!(messages.last(), Some(&n.to_string()), "{messages:?}");
        assert_eq!(messages.iter().any(|it| it.contains("rfll")), n % 2 == 1, "{messages:?}");
    }
    let info = stage.session.document(&stage.file("Main.lean")).await.unwrap();
    assert_eq!((info.worker.starts, info.worker.state), (1, WorkerState::Running));
    assert!(slowest < Duration::from_secs(20), "{slowest:?}");
    let pid = stage.pid("Main.lean").await.unwrap();
    assert!(runs(pid));
    stage.session.shutdown(Duration::from_secs(5)).await;
    assert!(!runs(pid));
}

/// A broken header ends a file early, and ends it: progress, references and the barrier all come to an end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_header_is_an_end() {
    let stage = Stage::new(&Fixture::parse("")).await;
    let version = stage.apply("Main.lean", "import Not.There\n\ndef k := 1\n").await;
    let messages = stage.settle("Main.lean", version).await;
    assert!(messages.iter().any(|it| it.contains("Not")), "{messages:?}");
    let at = stage.at("Main.lean", Utf16Pos { line: 2, character: 4 });
    assert_eq!(stage.ask("Main.lean", "textDocument/references", at).await.unwrap(), json!([]));
    let info = stage.session.document(&stage.file("Main.lean")).await.unwrap();
    assert!(info.progress.unwrap().done, "{info:?}");
    assert_eq!((info.worker.starts, info.direct_imports[0].module.as_str()), (1, "Not.There"));
}

/// Lean's hash of a text is ours, for texts of every length modulo eight and beyond ASCII.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_text_hash_is_leans() {
    let stage = Stage::new(&Fixture::parse("")).await;
    let mut texts: Vec<String> = (0..18).map(|n| "abcdefghijklmnopqr"[..n].to_owned()).collect();
    texts.extend(["λ", "∀ x : α, x = x", "日本語", "😀", "a\nb\n"].map(str::to_owned));
    let source: String = texts.iter().map(|text| format!("#eval hash {}\n", json!(text))).collect();
    let version = stage.apply("Main.lean", &source).await;
    let expected: Vec<_> = texts.iter().map(|text| lean_text_hash(text).to_string()).collect();
    assert_eq!(stage.settle("Main.lean", version).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_header_moves_the_document_to_a_fresh_worker() {
    let stage = Stage::new(&Fixture::parse("")).await;
    let version = stage.apply("Main.lean", "#eval 1\n").await;
    assert_eq!(stage.settle("Main.lean", version).await, ["1"]);
    let old = stage.pid("Main.lean").await.unwrap();
    let version = stage.apply("Main.lean", "import Lean\n#eval Lean.versionString.length > 0\n").await;
    // Asked of the old worker, answered by the new one.
    assert_eq!(stage.settle("Main.lean", version).await, ["true"]);
    let info = stage.session.document(&stage.file("Main.lean")).await.unwrap();
    assert_eq!((info.version, info.worker.starts), (2, 2));
    assert_eq!(info.direct_imports.iter().map(|it| it.module.as_str()).collect::<Vec<_>>(), ["Lean"]);
    assert!(!runs(old));
    let counters = stage.session.counters();
    assert_eq!((counters.worker_restarts, counters.worker_losses), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancellation_and_edits_interrupt_a_wait() {
    let stage = Stage::new(&Fixture::parse("")).await;
    let version = stage.apply("Main.lean", ENDLESS).await;
    assert!(early(&stage).await.contains("early : Nat"));
    let waiting = stage.session.request(&stage.file("Main.lean"), stage.barrier("Main.lean", version), None);
    let timed = stage.barrier("Main.lean", version).with_deadline(Deadline::after(Duration::from_millis(200)));
    let timed = stage.session.request(&stage.file("Main.lean"), timed, None);
    assert!(matches!(timed.await, Err(RequestFailure::TimedOut)));
    let canceller = waiting.canceller();
    canceller.cancel();
    assert!(matches!(waiting.await, Err(RequestFailure::Cancelled)));
    let waiting = stage.session.request(&stage.file("Main.lean"), stage.barrier("Main.lean", version), None);
    let version = stage.apply("Main.lean", &ENDLESS.replace("1000000000", "1")).await;
    assert!(matches!(
        waiting.await,
        Err(RequestFailure::ContentModified { how: Modified::Edited { version: 2 }, expected: Some(1), .. })
    ));
    assert_eq!(stage.settle("Main.lean", version).await, ["1"]);
    // The same process throughout: none of this was a reason to replace it.
    assert_eq!(stage.session.document(&stage.file("Main.lean")).await.unwrap().worker.starts, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_worker_is_replaced_at_the_next_use() {
    let stage = Stage::new(&Fixture::parse("")).await;
    stage.apply("Main.lean", "#eval 1\n").await;
    let version = stage.apply("Main.lean", ENDLESS).await;
    let waiting = stage.session.request(&stage.file("Main.lean"), stage.barrier("Main.lean", version), None);
    let pid = loop {
        // The header changed just now, so the process to kill is the second one.
        let info = stage.session.document(&stage.file("Main.lean")).await.unwrap();
        match info.worker.pid {
            Some(pid) if info.worker.starts == 2 && info.progress.is_some() => break pid,
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
    match waiting.await {
        Err(RequestFailure::WorkerExited(exit)) => {
            assert_eq!((exit.reason, exit.status), (ExitReason::Crash, Some(EndStatus::Signal(9))));
        }
        other => panic!("{other:?}"),
    }
    assert!(early(&stage).await.contains("early : Nat"));
    let info = stage.session.document(&stage.file("Main.lean")).await.unwrap();
    assert_eq!((info.version, info.worker.starts), (2, 3));
}

/// A worker started ahead spends its start-up time before there is a document.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spare_worker_answers_the_first_document() {
    let stage = Stage::new(&Fixture::parse("")).await;
    stage.session.prestart().await.unwrap();
    let version = stage.apply("Main.lean", "#eval 1\n").await;
    assert_eq!(stage.settle("Main.lean", version).await, ["1"]);
    assert_eq!(stage.session.counters().worker_starts, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn importers_of_a_changed_file_are_told_by_lean() {
    let fixture = Fixture::parse("-- file: Low.lean\ndef low := 1\n-- file: Top.lean\nimport Low\n#eval low\n");
    let stage = Stage::new(&fixture).await;
    stage.build("Low");
    let version = stage.apply("Top.lean", &fixture.files()[1].1).await;
    assert_eq!(stage.settle("Top.lean", version).await, ["1"]);
    let stale = |messages: Vec<String>| messages.iter().any(|it| it.contains("Imports are out of date"));
    let low = stage.apply("Low.lean", &fixture.files()[0].1).await;
    stage.settle("Low.lean", low).await;
    assert!(!stale(stage.settle("Top.lean", version).await), "opening is no change");
    let (observer, mut observed) = beam_session::observer();
    // Observes until it is dropped.
    let endless = stage.session.request(
        &stage.file("Top.lean"),
        stage.barrier("Top.lean", version + 1).unbound(),
        Some(observer),
    );
    stage.apply("Low.lean", "def low := 2\n").await;
    let told = tokio::time::timeout(Duration::from_secs(20), async {
        while let Some(observation) = observed.recv().await {
            if let Observation::Diagnostics(list) = observation
                && list
                    .items()
                    .unwrap()
                    .iter()
                    .any(|it| it["message"].as_str().unwrap().contains("Imports are out of date"))
            {
                return true;
            }
        }
        false
    });
    assert_eq!(told.await, Ok(true));
    drop(endless);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_and_references_across_files() {
    let fixture = Fixture::parse(
        "-- file: Low.lean\ndef ‹def›low := 1\n-- file: Top.lean\nimport Low\ndef top := low\n-- file: Main.lean\nimport Low\n\
         example (n : Nat) : n + low = n + 1 := by\n  rfl\n#eval ‹use›low\n",
    );
    let stage = Stage::new(&fixture).await;
    stage.build("Low");
    stage.build("Top");
    let version = stage.apply("Main.lean", fixture.text()).await;
    let low = stage.session.uri_of(&stage.file("Low.lean"));
    let at_use = stage.at("Main.lean", fixture.at("use"));
    let references = |declaration: bool| {
        let mut params = at_use.clone();
        params["context"] = json!({"includeDeclaration": declaration});
        stage.ask("Main.lean", "textDocument/references", params)
    };
    // Asked at once; the answer comes when the file is through. `Top` is built and not open.
    let lines = |answer: Value| -> Vec<(String, u64)> {
        let line = |it: &Value| {
            let file = it["uri"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
            (file, it["range"]["start"]["line"].as_u64().unwrap())
        };
        answer.as_array().unwrap().iter().map(line).collect()
    };
    let uses = [("Main.lean".to_owned(), 1), ("Main.lean".to_owned(), 3), ("Top.lean".to_owned(), 1)];
    assert_eq!(lines(references(false).await.unwrap()), uses);
    let with_declaration = lines(references(true).await.unwrap());
    assert_eq!((with_declaration.len(), &with_declaration[0]), (4, &("Low.lean".to_owned(), 0)));
    let definition = |at: Value| stage.ask("Main.lean", "textDocument/definition", at);
    let found = definition(at_use.clone()).await.unwrap();
    assert_eq!(
        (&found[0]["targetUri"], &found[0]["targetSelectionRange"]["start"]),
        (&json!(low), &json!(fixture.at("def")))
    );
    assert!(found[0].get("ident").is_none() && found[0].get("isDefault").is_none(), "{found}");
    // `Low` is opened and edited: both know where `low` is now, although it was not built anew.
    let edited = stage.apply("Low.lean", "-- moved\n\ndef low := 1\ndef more := low\n").await;
    stage.settle("Low.lean", edited).await;
    let found = definition(at_use.clone()).await.unwrap();
    assert_eq!(found[0]["targetSelectionRange"]["start"], json!({"line": 2, "character": 4}));
    let now = lines(references(true).await.unwrap());
    assert_eq!(now[..2], [("Low.lean".to_owned(), 2), ("Low.lean".to_owned(), 3)]);
    let symbols = stage.session.workspace_symbols("low").await;
    assert_eq!(
        symbols.iter().map(|it| (it.name.as_str(), it.location.range.start.line)).collect::<Vec<_>>(),
        [("low", 2)]
    );
    assert_eq!(stage.session.workspace_symbols("top").await[0].name, "top");
    stage.settle("Main.lean", version).await;
}

trait Unbound {
    fn unbound(self) -> Self;
}

impl Unbound for RequestSpec {
    /// A barrier for a version that does not exist yet stays pending.
    fn unbound(mut self) -> Self {
        self.version = None;
        self
    }
}

/// A task prints where the worker speaks, at once and late: the file is elaborated all the same, and what it printed is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_task_prints_is_output_and_ends_no_worker() {
    let stage = Stage::new(&Fixture::parse("")).await;
    let text = "#eval show IO Unit from do\n  let _ ← IO.asTask (IO.println \"at once\")\n  \
                let _ ← IO.asTask (do IO.sleep 1500; IO.println \"late\")\n#eval 1 + 1\n";
    let version = stage.apply("Main.lean", text).await;
    assert_eq!(stage.settle("Main.lean", version).await, ["2"]);
    let begun = std::time::Instant::now();
    loop {
        let info = stage.session.document(&stage.file("Main.lean")).await.unwrap();
        assert_eq!(info.worker.starts, 1);
        let printed = info.stray_output.map_or_else(String::new, |it| it.text.to_string());
        if printed.contains("at once\n") && printed.contains("late\n") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{printed:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let version = stage.apply("Main.lean", "#eval 1 + 2\n").await;
    assert_eq!(stage.settle("Main.lean", version).await, ["3"]);
}

/// An endless `#eval` does not stop when its text is replaced. Two of them keep every thread of Lean's pool, and the corrected file would
/// never be answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_elaboration_of_an_earlier_text_does_not_keep_the_file() {
    let stage = Stage::new(&Fixture::parse("")).await;
    let text = |before: &str, after: &str| format!("partial def spin (n : Nat) : Nat := spin (n + 1)\n{before}{after}");
    let spin = "#eval spin 0\n";
    stage.apply("Main.lean", &text(spin, "")).await;
    // Each time, the endless one is what Lean is at.
    stage.busy_from("Main.lean", 2).await;
    stage.apply("Main.lean", &text(spin, "#eval 2\n")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    stage.apply("Main.lean", &text(&format!("#eval 0\n{spin}"), "#eval 2\n")).await;
    stage.busy_from("Main.lean", 3).await;
    let version = stage.apply("Main.lean", &text("", "#eval 1\n")).await;
    let spec = stage.barrier("Main.lean", version).with_deadline(Deadline::after(Duration::from_secs(240)));
    let reply = stage.session.request(&stage.file("Main.lean"), spec, None).await.unwrap();
    assert_eq!(reply.replaced.as_deref(), Some("an elaboration of an earlier text did not stop"));
    assert_eq!((stage.session.counters().abandoned_elaborations, reply.worker), (1, 2));
    assert_eq!(stage.settle("Main.lean", version).await, ["1"]);
}

/// Elaborated code writes answers to whatever it finds. None is believed, whoever asks meanwhile, and those that arrive are counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_in_a_file_cannot_answer_for_lean() {
    let stage = Stage::new(&Fixture::parse("")).await;
    let text = r#"def answer (id : String) : String :=
  let body := "{\"id\":" ++ id ++ ",\"jsonrpc\":\"2.0\",\"result\":{\"contents\":\"forged\",\"goals\":[]}}"
  s!"Content-Length: {body.utf8ByteSize}\r\n\r\n{body}"
def answers : String := String.join <| (List.range 200).flatMap fun n =>
  [answer (toString n), answer s!"\"{n}\"", answer s!"\"{n}-00000000000000000000000000000000\""]
def forge : IO Unit := do
  -- Writing into the descriptors above these breaks the process itself: that costs its own worker, and answers nobody.
  for path in ["/dev/stdout", "/dev/stderr", "/dev/fd/1", "/proc/self/fd/1", "/proc/self/fd/2"] do
    try IO.FS.withFile path .append (·.putStr answers) catch _ => pure ()
  let printed ← IO.asTask (do (← IO.getStdout).putStr answers; (← IO.getStdout).flush)
  discard <| IO.wait printed
def real := 1
#eval forge
#eval IO.sleep 500
#eval real
"#;
    stage.apply("Main.lean", "def a := 1\n").await;
    let version = stage.apply("Main.lean", text).await;
    let mut hovers = Vec::new();
    for line in [12, 15].repeat(6) {
        let params = stage.at("Main.lean", Utf16Pos { line, character: if line == 12 { 4 } else { 6 } });
        let spec =
            RequestSpec::new("textDocument/hover", params).with_deadline(Deadline::after(Duration::from_secs(120)));
        hovers.push(stage.session.request(&stage.file("Main.lean"), spec, None));
    }
    assert_eq!(stage.settle("Main.lean", version).await.last().map(String::as_str), Some("1"));
    for hover in hovers {
        let reply = hover.await.unwrap();
        assert!(!reply.value.get().contains("forged"), "{}", reply.value.get());
    }
    let counters = stage.session.counters();
    assert!(counters.unknown_answers > 0, "what the file wrote has arrived: {counters:?}");
    assert_eq!(counters.worker_starts, 1, "and cost nobody the worker");
}
