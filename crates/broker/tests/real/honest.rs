//! What a success, a barrier and a todo list say of a proof that is not one, against a real worker with the extension, in its own JSON.
//!
//! The texts are data in `tests/honest`. The right value is what batch Lean says about the file with the text in its place. One worker
//! (0.8 GB) serves all of the tests, which take turns.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use beam_base::{AbsPath, Deadline, Utf16Pos};
use beam_broker::qualify::Qualifier;
use beam_broker::worker_command;
use beam_embedded::testing;
use beam_session::{CommandSpawn, RequestFailure, RequestSpec, Session, SessionConfig, Snapshot, WorkerCommand};
use beam_toolchain::{Choice, Silent, Store, ensure_extension, worker_launch};
use serde_json::{Value, json};
use testkit::{Fixture, TempProject};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

/// Long enough for a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(300);
const FILE: &str = "Main.lean";

fn lean() -> &'static (PathBuf, WorkerCommand) {
    static LEAN: OnceLock<(PathBuf, WorkerCommand)> = OnceLock::new();
    fn make() -> (PathBuf, WorkerCommand) {
        let entry = testing::shared_embedded_for_tests(&Qualifier);
        let env = testing::shared_env();
        let store = Store::open(&env).unwrap();
        let root = store.home().clone();
        let tc = beam_toolchain::resolve(&root, &env, &Choice::Embedded).unwrap();
        let ext = ensure_extension(&tc, &store, &env, &Qualifier, &Silent).unwrap();
        let launch = worker_launch(&tc, &ext, &root, &env).unwrap();
        (entry.lean().as_path().to_path_buf(), worker_command(launch))
    }
    // A thread of its own: qualifying a fresh install brings up a runtime, and the caller is inside one.
    LEAN.get_or_init(|| std::thread::spawn(make).join().unwrap())
}

struct Stage {
    project: TempProject,
    session: Session,
}

/// Runs a test on the one worker.
fn on_stage<F: AsyncFnOnce(&Stage)>(test: F) {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static STAGE: OnceLock<Mutex<Stage>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| Runtime::new().unwrap());
    runtime.block_on(async {
        let stage = STAGE.get_or_init(|| Mutex::new(Stage::new()));
        test(&*stage.lock().await).await;
    });
}

impl Stage {
    fn new() -> Self {
        let project = TempProject::with(&Fixture::parse("")).unwrap();
        let mut command = lean().1.clone();
        command.cwd = project.root().clone();
        for (key, value) in &mut command.env {
            if key == "LEAN_SRC_PATH" {
                *value = project.root().as_path().into();
            }
        }
        let session = Session::new(SessionConfig::new(project.root().clone(), 1, Arc::new(CommandSpawn(command))));
        Self { project, session }
    }

    fn file(&self) -> AbsPath {
        self.project.path(FILE)
    }

    async fn apply(&self, text: &str) -> Doc<'_> {
        // The same imports throughout: others would be another worker.
        assert!(text.starts_with("import Lean\n"));
        let snap = Snapshot::new(self.session.reserve(), text, None);
        let version = self.session.apply(&self.file(), snap).await.unwrap().version;
        Doc { stage: self, version }
    }

    /// What batch Lean says: severity, line (from 0) and text.
    fn batch(&self, text: &str) -> Vec<(String, u64, String)> {
        std::fs::write(self.file(), text).unwrap();
        let done = Command::new(&lean().0).args(["--json", FILE]).current_dir(self.project.root()).output().unwrap();
        std::fs::remove_file(self.file()).unwrap();
        let said = String::from_utf8(done.stdout).unwrap();
        said.lines()
            .map(|line| {
                let said: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
                let text = |key: &str| said[key].as_str().unwrap().to_owned();
                (text("severity"), said["pos"]["line"].as_u64().unwrap() - 1, text("data"))
            })
            .collect()
    }
}

/// A version of the document.
struct Doc<'a> {
    stage: &'a Stage,
    version: u64,
}

impl Doc<'_> {
    async fn ask(&self, method: &str, params: Value) -> Result<Value, RequestFailure> {
        let mut params = params;
        let uri = self.stage.session.uri_of(&self.stage.file());
        if method == "$/beam/waitForDiagnostics" {
            params = json!({"uri": uri, "version": self.version});
        } else {
            params["textDocument"] = json!({"uri": uri, "version": self.version});
        }
        let spec = RequestSpec::new(method, params).with_deadline(Deadline::after(PATIENCE));
        let reply = self.stage.session.request(&self.stage.file(), spec, None).await?;
        Ok(serde_json::from_str(reply.value.get()).unwrap())
    }

    async fn run_with(&self, at: Utf16Pos, text: &str, options: Value) -> Value {
        let mut params = json!({"position": at, "text": text});
        params.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        self.ask("$/lean/runAt", params).await.unwrap()
    }

    async fn run(&self, at: Utf16Pos, text: &str) -> Value {
        self.run_with(at, text, json!({})).await
    }

    async fn barrier(&self) -> Value {
        self.ask("$/beam/waitForDiagnostics", json!({})).await.unwrap()
    }

    async fn todo(&self, params: Value) -> Value {
        self.ask("$/lean/todo", params).await.unwrap()
    }
}

fn data(name: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/honest").join(name);
    serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap()
}

/// `text` in the place of `HOLE`, its further lines indented as far as the hole.
fn filled(template: &str, text: &str) -> String {
    let before = template.split("HOLE").next().unwrap();
    let indent = before.len() - before.rfind('\n').map_or(0, |n| n + 1);
    template.replace("HOLE", &text.replace('\n', &format!("\n{}", " ".repeat(indent))))
}

fn names(messages: &[(String, u64, String)], severity: &str, part: &str) -> bool {
    messages.iter().any(|(s, _, text)| s == severity && text.contains(part))
}

/// Success, no goals and no caveats: then batch Lean takes the file with the text in that place, without error and without `sorry`.
#[test]
fn a_success_without_caveats_stands_in_the_file() {
    on_stage(async |stage| {
        let data = data("probes.json");
        let preamble = data["preamble"].as_str().unwrap();
        let templates = data["templates"].as_object().unwrap();
        let mut text = preamble.to_owned();
        let mut places = BTreeMap::new();
        for (name, template) in templates {
            let template = template.as_str().unwrap();
            writeln!(text, "namespace Place_{name}").unwrap();
            let hole = template.split("HOLE").next().unwrap();
            let line = text.matches('\n').count() + hole.matches('\n').count();
            let character = hole.len() - hole.rfind('\n').map_or(0, |n| n + 1);
            // A command runs behind the second character of a keyword.
            let (filler, character) = if name == "command" { ("def here := 1", 1) } else { ("skip", character) };
            places.insert(name.clone(), Utf16Pos { line: u32::try_from(line).unwrap(), character: character as u32 });
            write!(text, "{}\nend Place_{name}\n", filled(template, filler)).unwrap();
        }
        let doc = stage.apply(&text).await;
        doc.barrier().await;
        let mut wrong = Vec::new();
        let mut file = preamble.to_owned();
        let mut claims = Vec::new();
        for (n, probe) in data["probes"].as_array().unwrap().iter().enumerate() {
            let (template, text) = (probe["template"].as_str().unwrap(), probe["text"].as_str().unwrap());
            let answer = doc.run(places[template], text).await;
            let goals = answer["proofState"]["goals"].as_array().map_or(0, Vec::len) as u64;
            let success = probe["success"].as_bool().unwrap_or(true);
            if answer["success"] != success
                || answer["caveats"] != probe["caveats"]
                || success && goals != probe["goals"].as_u64().unwrap_or(0) && probe["caveats"] != json!(["recursion"])
            {
                wrong.push(format!("{probe}\n    {answer}"));
            }
            if answer["success"] == true && goals == 0 {
                let from = file.matches('\n').count() as u64;
                let body = filled(templates[template].as_str().unwrap(), text);
                write!(file, "namespace P{n}\n{body}\nend P{n}\n").unwrap();
                claims.push((probe, answer, from..file.matches('\n').count() as u64));
            }
        }
        assert!(claims.len() > 90, "{} claims", claims.len());
        let said = stage.batch(&file);
        for (probe, answer, lines) in claims {
            let here: Vec<_> = said.iter().filter(|(_, line, _)| lines.contains(line)).cloned().collect();
            let clean = !names(&here, "error", "") && !names(&here, "warning", "sorry");
            let caveats = answer["caveats"].as_array().cloned().unwrap_or_default();
            let exempt = probe["statement"] == true || probe["silent"] == true;
            // Some recursions are found to end after all.
            let may_stand = caveats.is_empty() || caveats == [json!("recursion")];
            if !exempt && (caveats.is_empty() && !clean || !may_stand && clean) {
                wrong.push(format!("{probe}\n    {answer}\n    batch: {here:?}"));
            }
        }
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    });
}

/// With `kernel`, what elaborates and is no proof fails, and what is one passes, also where goals are left.
#[test]
fn the_kernel_is_asked_on_request() {
    on_stage(async |stage| {
        let fixture = Fixture::parse(
            "import Lean\nopen Lean Elab Tactic\ntheorem t (p : Prop) (hp : p) : p ∧ 1 = 2 := by\n  ‹here›skip\n\
             def u {α : Type} (xs : List α) : xs.length = xs.length := by\n  ‹poly›skip\n",
        );
        let doc = stage.apply(fixture.text()).await;
        let forged = "run_tac do (← getMainGoal).assign (mkNatLit 0)";
        let kernel = json!({"kernel": true});
        let here = fixture.at("here");
        assert_eq!(doc.run(here, forged).await["success"], true, "only the kernel finds it");
        for text in [forged, "exact ⟨hp, lcProof⟩", "refine ⟨lcProof, ?_⟩"] {
            let answer = doc.run_with(here, text, kernel.clone()).await;
            assert_eq!(answer["success"], false, "{text}: {answer}");
            let said = answer["messages"].as_array().unwrap().last().unwrap();
            assert!(said["severity"] == "error" && said["text"].as_str().unwrap().contains("(kernel)"), "{answer}");
            assert_eq!(answer["proofState"]["goals"].as_array().unwrap().len(), 1, "the state before: {answer}");
        }
        for (at, text, goals) in [
            (here, "refine ⟨hp, ?_⟩", 1),
            (here, "exact ⟨hp, sorry⟩", 0),
            (here, "constructor", 2),
            (here, "have h (k : Nat) : k + 0 = k := by simp", 1),
            (fixture.at("poly"), "rfl", 0),
            (fixture.at("poly"), "(cases xs <;> simp)", 0),
        ] {
            let answer = doc.run_with(at, text, kernel.clone()).await;
            assert_eq!(answer["success"], true, "{text}: {answer}");
            assert_eq!(answer["proofState"]["goals"].as_array().unwrap().len(), goals, "{answer}");
        }
    });
}

const SORRIES: &str = "import Lean
set_option warn.sorry false
namespace A
macro \"hide\" : tactic => `(tactic| sorry)
macro \"todo!\" : term => `(sorry)
macro \"bluff\" : command => `(example : 1 = 2 := sorry)
theorem a : 1 = 2 := by ‹a›admit
theorem b : 1 = 2 := by ‹b›hide
def c (n : Nat) : Nat := n + ‹c›todo!
def d : Nat := ‹d›sorryAx _ false
theorem e : 1 = 2 ∧ 3 = 4 := by
  constructor
  all_goals ‹e›sorry
example : 1 = 3 := by
  ‹f›stop
  rfl
‹g›bluff
theorem h (n : Nat) : n = n + 1 := aux n
where
  aux (n : Nat) : n = n + 1 := by
    ‹h›sorry
open Nat in
example : 5 = 6 := ‹i›sorry
theorem fine (p q : Prop) (hp : p) (hq : q) : p ∧ q := by
  constructor
  · exact hp
  · exact hq
private theorem pr : 1 = 2 := ‹j›sorry
def used := d
end A
";

#[test]
fn every_sorry_is_told_however_it_is_written() {
    on_stage(async |stage| {
        let fixture = Fixture::parse(SORRIES);
        let doc = stage.apply(fixture.text()).await;
        let answer = doc.barrier().await;
        assert_eq!(answer["saveReadiness"]["currentWarningCount"], 0, "{answer}");
        let mut expected = Vec::new();
        for (mark, name) in [
            ("a", Some("A.a")),
            ("b", Some("A.b")),
            ("c", Some("A.c")),
            ("d", Some("A.d")),
            ("e", Some("A.e")),
            ("f", None),
            ("g", None),
            ("h", Some("A.h.aux")),
            ("i", None),
            ("j", Some("A.pr")),
        ] {
            let at = fixture.at(mark);
            let mut item = json!({"line": at.line, "character": at.character});
            if let Some(name) = name {
                item["declaration"] = name.into();
            }
            expected.push(item);
        }
        assert_eq!(answer["sorries"], json!(expected));
        assert!(answer.get("sorriesTotal").is_none());

        // The list of what is to do has them at the same places, and those in the macros besides.
        let todo = doc.todo(json!({"kinds": ["sorry"]})).await;
        let starts: Vec<_> = todo["items"].as_array().unwrap().iter().map(|it| it["range"]["start"].clone()).collect();
        for item in &expected {
            let start = json!({"line": item["line"], "character": item["character"]});
            assert!(starts.contains(&start), "{start} is missing from {todo}");
        }
        assert_eq!(starts.len(), expected.len() + 3, "{todo}");
        let of = |mark: &str| {
            let start = json!(fixture.at(mark));
            todo["items"].as_array().unwrap().iter().find(|it| it["range"]["start"] == start).unwrap().clone()
        };
        assert_eq!((&of("i")["expectedType"], &of("c")["expectedType"]), (&json!("5 = 6"), &json!("Nat")));
        assert!(of("a").get("expectedType").is_none() && of("i").get("runAtText").is_none());
        // Nothing else is unfinished.
        assert_eq!(doc.todo(json!({"kinds": ["incomplete_proof", "hole"]})).await["items"], json!([]));

        let many: String = (0..130).map(|n| format!("theorem t{n} : 1 = 2 := sorry\n")).collect();
        let answer = stage.apply(&format!("import Lean\n{many}")).await.barrier().await;
        assert_eq!((answer["sorries"].as_array().unwrap().len(), &answer["sorriesTotal"]), (100, &json!(130)));
        let answer = stage.apply("import Lean\ntheorem ok : 1 = 1 := rfl\n").await.barrier().await;
        assert!(answer.get("sorries").is_none() && answer.get("sorriesTotal").is_none(), "{answer}");
    });
}

#[test]
fn todo_lists_what_is_unfinished_in_any_range() {
    on_stage(async |stage| {
        let fixture = Fixture::parse(
            "import Lean\ndef f (n : Nat) : List Nat := ‹open›_\nexample : ∃ n : Nat, n = 1 := ⟨_, rfl⟩\n\
             example : ∃ n : Nat, n = 1 := by exact ⟨_, rfl⟩\nexample (p q : Prop) (hp : p) : p ∧ q := by\n  ‹split›constructor\n  \
             ‹left›· exact hp\n  · ‹skip›skip\nexample (n : Nat) : n = n := by\n  have h : 1 = 1 := by\n    skip\n    rfl\n  exact rfl\n\
             example (a b : Nat) (h : b = a) : a = b := by\n  ‹first›exact?\nexample : 1 + 1 = 2 := by\n  ‹second›simp?\n",
        );
        let doc = stage.apply(fixture.text()).await;
        let lines = fixture.text().matches('\n').count() + 1;
        let starts = |todo: &Value| -> Vec<Value> {
            todo["items"].as_array().unwrap().iter().map(|it| it["range"]["start"].clone()).collect()
        };
        let at = |marks: &[&str]| -> Vec<Value> { marks.iter().map(|mark| json!(fixture.at(mark))).collect() };

        let todo = doc.todo(json!({"kinds": ["hole"]})).await;
        assert_eq!(starts(&todo), at(&["open"]), "{todo}");
        assert_eq!(todo["items"][0]["expectedType"], "List Nat");
        assert_eq!(todo["lineCount"], lines);
        assert_eq!(
            todo["range"],
            json!({"start": {"line": 0, "character": 0}, "end": {"line": lines - 1, "character": 0}})
        );
        let todo = doc.todo(json!({"kinds": ["incomplete_proof"]})).await;
        assert_eq!(starts(&todo), at(&["split", "left", "skip"]), "{todo}");
        let todo = doc.todo(json!({"kinds": ["code_action"]})).await;
        assert_eq!(starts(&todo), at(&["first", "second"]), "{todo}");

        let range = |start: u64, end: Value| json!({"kinds": ["hole"], "range": {"start": {"line": start, "character": 0}, "end": end}});
        let todo = doc.todo(range(0, json!({"line": 9999, "character": 3}))).await;
        assert_eq!((starts(&todo), &todo["range"]["end"]["line"]), (at(&["open"]), &json!(lines - 1)));
        let todo = doc.todo(range(1, json!({"line": 1, "character": 9999}))).await;
        assert_eq!((starts(&todo), &todo["range"]["end"]["line"]), (at(&["open"]), &json!(1)));
        let refused = doc.ask("$/lean/todo", range(9999, json!({"line": 9999, "character": 3}))).await;
        assert!(matches!(&refused, Err(RequestFailure::Server(e)) if e.code == -32602), "{refused:?}");
    });
}

#[test]
fn a_failure_says_where_it_was_and_gives_one_hint() {
    on_stage(async |stage| {
        let data = data("hints.json");
        // Without `import Lean` the lines would be those of the data.
        let fixture = Fixture::parse(data["text"].as_str().unwrap());
        let doc = stage.apply(&format!("import Lean\n{}", fixture.text())).await;
        doc.barrier().await;
        let place = |mark: &str| {
            let at = fixture.at(mark);
            Utf16Pos { line: at.line + 1, ..at }
        };
        let mut wrong = Vec::new();
        for case in data["hints"].as_array().unwrap() {
            let mark = case["at"].as_str().unwrap();
            let answer = doc.run(place(mark), case["text"].as_str().unwrap()).await;
            let line = fixture.text().lines().nth(fixture.at(mark).line as usize).unwrap_or_default();
            let basis = if ["command", "above"].contains(&mark) { "command" } else { "tactic" };
            let placed = answer["at"] == json!({"lineText": line, "basis": basis});
            // One line further down, for the import.
            let says = case["says"].as_str().unwrap_or_default();
            let says = match says.split_once("line ").and_then(|(head, rest)| {
                let (number, tail) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                Some(format!("{head}line {}{tail}", number.parse::<u64>().ok()? + 1))
            }) {
                Some(shifted) => shifted,
                None => says.to_owned(),
            };
            let said = answer["hint"]["text"].as_str().unwrap_or_default();
            if answer["success"] != false || !placed || answer["hint"]["code"] != case["code"] || !said.contains(&says)
            {
                wrong.push(format!("{case}\n    {answer}"));
            }
        }
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
        let answer = doc.run(place("goal"), "constructor").await;
        assert!(answer.get("at").is_none() && answer.get("hint").is_none(), "{answer}");

        let goals = json!({"position": place("behind"), "explain": true});
        let answer = doc.ask("$/lean/goalsAfter", goals).await.unwrap();
        assert_eq!(answer["at"], json!({"lineText": "  exact hp", "basis": "tactic"}));
        assert_eq!(answer["hint"], json!({"code": "notReached", "text": "not reached: error at line 3"}));
        let goals = json!({"position": place("goal"), "explain": true});
        let answer = doc.ask("$/lean/goalsPrev", goals).await.unwrap();
        assert!(answer["at"]["lineText"] == "  constructor" && answer.get("hint").is_none(), "{answer}");
    });
}

#[test]
fn messages_and_traces_of_failed_probes_keep_opened_names() {
    on_stage(async |stage| {
        let fixture = Fixture::parse(
            "import Lean\nnamespace Work\nopaque exec : Nat → Nat\ndef Small (n : Nat) : Prop := n < 3\nend Work\nopen Work\n\
             theorem small : Small (exec 3) := by\n  ‹here›skip\n",
        );
        let doc = stage.apply(fixture.text()).await;
        for text in ["exact exec", "decide", "fail", "simp only", "(trace_state; fail)", "exact (rfl : exec 3 = 3)"] {
            let answer = doc.run(fixture.at("here"), text).await;
            assert_eq!(answer["success"], false, "{answer}");
            let said = json!([answer["messages"], answer["traces"]]).to_string();
            assert!(!said.contains("Work.") && !answer["messages"].as_array().unwrap().is_empty(), "{text}: {said}");
        }
        let answer = doc.run(fixture.at("here"), "(trace_state; fail)").await;
        assert_eq!(answer["traces"], json!(["⊢ Small (exec 3)"]));
    });
}
