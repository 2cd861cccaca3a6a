//! The extension's questions, asked of a real worker in its own requests: the forms of goals, `$/beam/goals`, `$/beam/search`,
//! `$/beam/check`, `$/beam/snippet` and `$/beam/codeActions`. What they mean is written in `lean/REQUESTS.md`.
//!
//! A worker takes 0.6 GB and more, so one test runs at a time, each with one document.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use beam_base::{AbsPath, Deadline};
use beam_broker::qualify::Qualifier;
use beam_broker::worker_command;
use beam_embedded::testing;
use beam_session::{CommandSpawn, RequestFailure, RequestSpec, Session, SessionConfig, Snapshot, WorkerCommand};
use beam_toolchain::{Choice, Silent, Store, ensure_extension, worker_launch};
use serde_json::{Value, json};
use testkit::{Fixture, TempProject};
use tokio::sync::{Mutex, MutexGuard};

/// Memory for one worker at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Long enough for a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(300);

const INVALID: i64 = -32602;

/// The worker's command line, for a root that is put in later.
fn command() -> &'static WorkerCommand {
    static COMMAND: OnceLock<WorkerCommand> = OnceLock::new();
    fn make() -> WorkerCommand {
        drop(testing::shared_embedded_for_tests(&Qualifier));
        let env = testing::shared_env();
        let store = Store::open(&env).unwrap();
        let root = store.home().clone();
        let tc = beam_toolchain::resolve(&root, &env, &Choice::Embedded).unwrap();
        let ext = ensure_extension(&tc, &store, &env, &Qualifier, &Silent).unwrap();
        worker_command(worker_launch(&tc, &ext, &root, &env).unwrap())
    }
    // A thread of its own: qualifying a fresh install brings up a runtime, and the caller is inside one.
    COMMAND.get_or_init(|| std::thread::spawn(make).join().unwrap())
}

/// One open document.
struct Stage {
    session: Session,
    file: AbsPath,
    _project: TempProject,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    async fn new(text: &str) -> Self {
        let turn = ONE_AT_A_TIME.lock().await;
        let project = TempProject::with(&Fixture::parse("")).unwrap();
        let mut command = command().clone();
        command.cwd = project.root().clone();
        for (key, value) in &mut command.env {
            if key == "LEAN_SRC_PATH" {
                *value = project.root().as_path().into();
            }
        }
        let session = Session::new(SessionConfig::new(project.root().clone(), 1, Arc::new(CommandSpawn(command))));
        let file = project.path("Main.lean");
        std::fs::write(&file, text).unwrap();
        session.apply(&file, Snapshot::new(session.reserve(), text, None)).await.unwrap();
        Self { session, file, _project: project, _turn: turn }
    }

    /// With the document put into the parameters.
    fn spec(&self, method: &str, mut params: Value) -> RequestSpec {
        params["textDocument"] = json!({"uri": self.session.uri_of(&self.file), "version": 1});
        RequestSpec::new(method, params).with_deadline(Deadline::after(PATIENCE))
    }

    async fn try_ask(&self, method: &str, params: Value) -> Result<Value, RequestFailure> {
        let reply = self.session.request(&self.file, self.spec(method, params), None).await?;
        Ok(serde_json::from_str(reply.value.get()).unwrap())
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        self.try_ask(method, params).await.unwrap()
    }

    /// The message of a request that is refused for its parameters.
    async fn refused(&self, method: &str, params: Value) -> String {
        match self.try_ask(method, params).await {
            Err(RequestFailure::Server(e)) if e.code == INVALID => e.message,
            other => panic!("{other:?}"),
        }
    }

    /// A probe at the start of the second line's tactic.
    async fn probe(&self, text: &str, goals: &str, state: &str) -> Value {
        let at = json!({"line": 1, "character": 2});
        self.ask("$/lean/runAt", json!({"position": at, "text": text, "goals": goals, "state": state})).await
    }

    async fn names(&self, params: Value) -> Vec<String> {
        let found = self.ask("$/beam/search", params).await;
        found["hits"].as_array().unwrap().iter().map(|hit| hit["name"].as_str().unwrap().to_owned()).collect()
    }
}

fn place(line: u32, character: u32) -> Value {
    json!({"line": line, "character": character})
}

const GOALS: &str = "theorem t (a b : Nat) (h : a = b) (f : Nat → Nat) : f a + 0 = f b := by\n  skip\n  subst h\n  constructor\n\
    def one : Nat := 0 + 1\n";

/// Lean's own drawing is the text form; the forms say as much as they are asked to, and the default is as it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn goals_in_each_form() {
    let stage = Stage::new(GOALS).await;
    let drawn = "a b : Nat\nh : a = b\nf : Nat → Nat\n⊢ f a + 0 = f b";
    let plain = stage.ask("$/lean/plainGoal", json!({"position": place(1, 2)})).await;
    assert_eq!(plain["goals"], json!([drawn]));
    let full = json!({"goals": [{"goalPrefix": "⊢ ", "target": "f a + 0 = f b", "hyps": [{"names": ["a", "b"], "type": "Nat"},
        {"names": ["h"], "type": "a = b"}, {"names": ["f"], "type": "Nat → Nat"}]}]});
    let default = stage.ask("$/lean/runAt", json!({"position": place(1, 2), "text": "skip"})).await;
    assert_eq!(default, json!({"success": true, "messages": [], "traces": [], "proofState": full}));
    // Twice: the second is answered from what has been drawn.
    for _ in 0..2 {
        for (form, view) in [
            ("json", full.clone()),
            ("text", json!({"text": [drawn]})),
            ("targets", json!({"targets": ["⊢ f a + 0 = f b"]})),
            ("count", json!({"count": 1})),
            ("none", Value::Null),
        ] {
            assert_eq!(stage.probe("skip", form, "full").await["proofState"], view, "{form}");
            let failed = stage.probe("exact nope", form, "full").await;
            assert_eq!((&failed["success"], &failed["proofState"]), (&json!(false), &view), "{form}");
        }
    }
    let solved = stage.probe("simp [h]", "text", "full").await;
    assert_eq!((&solved["success"], &solved["proofState"]), (&json!(true), &json!({"text": []})));
    let prev = json!({"position": place(1, 2), "goals": "text"});
    assert_eq!(stage.ask("$/lean/goalsPrev", prev).await, json!({"text": [drawn]}));
    let bad = json!({"position": place(1, 2), "text": "skip", "goals": "pretty"});
    assert!(stage.refused("$/lean/runAt", bad).await.contains("unknown form of goals 'pretty'"));
    let bad = json!({"position": place(1, 2), "text": "skip", "state": "new"});
    assert!(stage.refused("$/lean/runAt", bad).await.contains("unknown value 'new' of `state`"));
}

/// What is left out with `changed` is what looks the same, whatever its internal names; what has gone is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_shows_what_differs() {
    let stage = Stage::new(GOALS).await;
    for text in ["skip", "exact nope", "(revert h; intro h)", "intro x"] {
        let answer = stage.probe(text, "text", "changed").await;
        assert_eq!(answer["stateUnchanged"], true, "{text}: {answer}");
        assert!(answer.get("proofState").is_none(), "{text}: {answer}");
    }
    for (text, goals, unchanged, removed) in [
        ("have k := h", json!(["k : a = b\n⊢ f a + 0 = f b"]), json!([4]), Value::Null),
        ("simp", json!(["⊢ f a = f b"]), json!([4]), Value::Null),
        ("clear h", json!(["⊢ f a + 0 = f b"]), json!([3]), json!([["h"]])),
        // A dagger is a difference, and so is what mentions the daggered name.
        ("have a := 1", json!(["a✝ a : Nat\n⊢ f a✝ + 0 = f b"]), json!([3]), Value::Null),
        (
            "cases a",
            json!([
                "case zero\nh : 0 = b\n⊢ f 0 + 0 = f b",
                "case succ\nn✝ : Nat\nh : n✝ + 1 = b\n⊢ f (n✝ + 1) + 0 = f b"
            ]),
            json!([2, 2]),
            json!([["a"], ["a"]]),
        ),
        ("simp [h]", json!([]), json!([]), Value::Null),
    ] {
        let answer = stage.probe(text, "text", "changed").await;
        let state = &answer["proofState"];
        assert!(answer.get("stateUnchanged").is_none(), "{text}: {answer}");
        assert_eq!(
            (&state["text"], &state["unchangedHyps"], &state["removedHyps"]),
            (&goals, &unchanged, &removed),
            "{text}"
        );
    }
    let around = json!({"position": place(2, 2), "goals": "text", "state": "changed"});
    let answer = stage.ask("$/beam/goals", around).await;
    assert_eq!(answer["before"], json!({"text": ["a b : Nat\nh : a = b\nf : Nat → Nat\n⊢ f a + 0 = f b"]}));
    assert_eq!(
        answer["after"],
        json!({"text": ["⊢ f a + 0 = f a"], "unchangedHyps": [2], "removedHyps": [["b", "h"]]})
    );
    let only = stage.ask("$/beam/goals", json!({"position": place(2, 2), "mode": "before", "goals": "count"})).await;
    assert_eq!(only, json!({"before": {"count": 1}}));
    // No tactic here: the type that Lean expects, and no list of goals.
    let term = stage.ask("$/beam/goals", json!({"position": place(4, 17), "goals": "text"})).await;
    assert_eq!(term, json!({"expectedType": {"text": ["⊢ Nat"]}}));
    let nothing = json!({"position": place(4, 0)});
    assert!(stage.refused("$/beam/goals", nothing).await.contains("no goals and no term"));
}

const SEARCHED: &str = "def ownThing (n : Nat) : Nat := n + 1\ntheorem ownThing_pos (n : Nat) : 0 < ownThing n := Nat.succ_pos n\n\
    theorem later : True := by\n  trivial\n";

/// The library is searched together with the file, by each of the three questions, in pages; a first answer takes no more than seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn search_by_name_constants_and_pattern() {
    let stage = Stage::new(SEARCHED).await;
    let found = stage.ask("$/beam/search", json!({"name": "ownThing"})).await;
    let own = &found["hits"];
    assert_eq!(
        (own[0]["name"].as_str(), own[1]["name"].as_str(), own.as_array().unwrap().len()),
        (Some("ownThing"), Some("ownThing_pos"), 2)
    );
    assert_eq!(
        (&own[0]["kind"], &own[1]["kind"], &own[0]["origin"]),
        (&json!("def"), &json!("theorem"), &json!("file"))
    );
    assert_eq!(own[1]["signature"], "ownThing_pos (n : Nat) : 0 < ownThing n");
    assert_eq!(own[1]["range"]["start"], place(1, 8));
    assert!(found.get("next").is_none(), "{found}");

    let add = stage.ask("$/beam/search", json!({"name": "add_comm Nat", "limit": 3})).await;
    assert_eq!((&add["hits"][0]["name"], &add["hits"][0]["kind"]), (&json!("Nat.add_comm"), &json!("theorem")));
    assert_eq!(
        (&add["hits"][0]["origin"], &add["hits"][0]["module"]),
        (&json!("library"), &json!("Init.Data.Nat.Basic"))
    );
    // A name in the wrong case, beyond its first letter.
    assert!(stage.names(json!({"name": "SUCC_POS"})).await.contains(&"Nat.succ_pos".to_owned()));
    // Pages do not overlap and go on where they ended.
    let all = stage.names(json!({"name": "append", "limit": 20})).await;
    let first = stage.ask("$/beam/search", json!({"name": "append", "limit": 7})).await;
    let rest = stage.names(json!({"name": "append", "limit": 13, "start": first["next"]})).await;
    assert_eq!((all.len(), rest.len()), (20, 13));
    assert_eq!(rest[..], all[7..]);

    let mentions = stage.names(json!({"constants": ["List.map", "List.filter"], "limit": 200})).await;
    assert!(mentions.contains(&"List.filter_map".to_owned()) && !mentions.contains(&"List.map_append".to_owned()));
    assert_eq!(stage.names(json!({"constants": ["ownThing"]})).await, ["ownThing_pos"]);
    assert!(stage.refused("$/beam/search", json!({"constants": ["No.Such"]})).await.contains("no constant `No.Such`"));

    // Nonlinear holes: commutativity, and not every sum.
    let begun = Instant::now();
    let commutes = stage.names(json!({"pattern": "?a + ?b = ?b + ?a", "limit": 5})).await;
    assert_eq!(commutes[0], "Nat.add_comm");
    assert!(commutes.iter().all(|name| !name.contains("assoc")), "{commutes:?}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let sums = stage.names(json!({"pattern": "_ + _ = _ + _", "name": "Nat.add", "limit": 200})).await;
    assert!(sums.contains(&"Nat.add_assoc".to_owned()) && !sums.contains(&"Nat.add_zero".to_owned()), "{sums:?}");
    let positive = stage.ask("$/beam/search", json!({"pattern": "0 < _", "name": "ownThing"})).await;
    assert_eq!(positive["hits"][0]["matched"], "conclusion");
    let inside = stage.names(json!({"pattern": "List.map _ (_ ++ _)", "limit": 200})).await;
    assert!(inside.contains(&"List.map_append".to_owned()), "{inside:?}");
    assert!(stage.refused("$/beam/search", json!({"pattern": "(Nat"})).await.contains("does not parse"));
    assert!(stage.refused("$/beam/search", json!({})).await.contains("give `name`"));
    let kinds = json!({"name": "succ_pos", "kinds": ["def"]});
    assert!(!stage.names(kinds).await.contains(&"Nat.succ_pos".to_owned()));
    // In front of its own command a declaration is not in scope.
    assert!(
        stage.names(json!({"name": "ownThing", "position": place(0, 0)})).await.iter().all(|it| it != "ownThing_pos")
    );

    // A search that is called off is answered as that, and the next one as if it had not been.
    let spec = stage.spec("$/beam/search", json!({"pattern": "?a * ?b = ?b * ?a", "limit": 200}));
    let waiting = stage.session.request(&stage.file, spec, None);
    waiting.canceller().cancel();
    assert!(matches!(waiting.await, Err(RequestFailure::Cancelled)));
    assert_eq!(stage.names(json!({"constants": ["ownThing"]})).await, ["ownThing_pos"]);
}

const CHECKED: &str = "theorem fine (a b : Nat) : a + b = b + a := Nat.add_comm a b\ntheorem prop (p q : Prop) (h : p ↔ q) : p = q := propext h\n\
    theorem bad (a : Nat) : a = a + 0 := by\n  sorry\ntheorem usesBad : 1 = 1 + 0 := bad 1\naxiom magic : 1 = 2\n\
    theorem usesMagic : 1 = 2 := magic\nunsafe def danger : Nat := unsafeCast 1\npartial def spin (n : Nat) : Nat := spin (n + 1)\n\
    theorem aboutSpin : spin 1 = spin 1 := rfl\ntheorem broken : 1 = 3 := rfl\nexample : 1 = 4 := sorry\n";

/// Each verdict, for what makes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_gives_each_verdict() {
    let stage = Stage::new(CHECKED).await;
    for (name, verdict, axioms) in [
        ("fine", "proved", json!([])),
        ("prop", "proved", json!(["propext"])),
        ("bad", "sorry", json!(["sorryAx"])),
        ("usesBad", "sorry", json!(["sorryAx"])),
        ("usesMagic", "axioms", json!(["magic"])),
        ("aboutSpin", "proved", json!([])),
        ("broken", "errors", json!(["sorryAx"])),
    ] {
        let answer = stage.ask("$/beam/check", json!({"name": name})).await;
        assert_eq!((&answer["verdict"], &answer["axioms"]), (&json!(verdict), &axioms), "{name}: {answer}");
        assert_eq!(answer["declarations"], json!([name]));
    }
    let danger = stage.ask("$/beam/check", json!({"name": "danger"})).await;
    assert_eq!((&danger["verdict"], &danger["unsafeParts"][0]["why"]), (&json!("unsafe"), &json!("unsafe")));
    let spin = stage.ask("$/beam/check", json!({"name": "aboutSpin"})).await;
    assert_eq!(
        (&spin["unsafeParts"][0]["declaration"], &spin["unsafeParts"][0]["why"]),
        (&json!("spin"), &json!("partial"))
    );
    // The sorry is named where it is, not where it was asked about.
    let through = stage.ask("$/beam/check", json!({"name": "usesBad"})).await;
    assert_eq!(
        through["sorries"],
        json!([{"declaration": "bad", "range": {"start": place(2, 8), "end": place(2, 11)}}])
    );
    // The embedded library has statements only: said, and not taken for an axiom of the proof.
    let fine = stage.ask("$/beam/check", json!({"name": "fine"})).await;
    assert_eq!((&fine["libraryTheorems"], &fine["unusualAxioms"]), (&json!(1), &json!([])));
    let at = stage.ask("$/beam/check", json!({"position": place(3, 3)})).await;
    assert_eq!((&at["declarations"], &at["verdict"]), (&json!(["bad"]), &json!("sorry")));
    let whole = stage.ask("$/beam/check", json!({})).await;
    assert_eq!((&whole["verdict"], &whole["unusualAxioms"]), (&json!("errors"), &json!(["lcProof", "magic"])));
    let sorries: Vec<_> =
        whole["sorries"].as_array().unwrap().iter().map(|it| it["declaration"].as_str().unwrap()).collect();
    assert!(sorries.contains(&"bad") && sorries.contains(&"example"), "{whole}");
    assert!(whole["errors"].as_array().unwrap().iter().all(|it| it["range"]["start"]["line"] == 10), "{whole}");
    assert!(stage.refused("$/beam/check", json!({"name": "no.such"})).await.contains("no declaration `no.such`"));
    assert!(
        stage
            .refused("$/beam/check", json!({"position": place(11, 3)}))
            .await
            .contains("no declaration at this position")
    );
    assert!(stage.refused("$/beam/check", json!({"name": "fine", "position": place(0, 0)})).await.contains("not both"));
}

const HOST: &str = "def mine := 1\nexample (p : Prop) (h : p) : p ∧ p := by\n  simp?\n";

/// A snippet sees the header's world and leaves nothing in it; actions come with their edits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snippets_and_code_actions() {
    let stage = Stage::new(HOST).await;
    let text = "theorem x (a b : Nat) : a + b = b + a := by\n  rw [Nat.add_comm]\n-- 😀\n#eval 1 + 1\n";
    for _ in 0..2 {
        // Twice, since a name that had stayed would be declared already.
        let answer = stage.ask("$/beam/snippet", json!({"text": text, "position": place(1, 2), "goals": "text"})).await;
        assert_eq!(answer["success"], true, "{answer}");
        assert_eq!(answer["goals"], json!({"before": {"text": ["a b : Nat\n⊢ a + b = b + a"]}, "after": {"text": []}}));
        assert_eq!(
            answer["diagnostics"],
            json!([{"range": {"start": place(3, 0), "end": place(3, 5)}, "severity": "information",
            "message": "2"}])
        );
    }
    let foreign = stage.ask("$/beam/snippet", json!({"text": "#check mine\n"})).await;
    assert_eq!((&foreign["success"], &foreign["diagnostics"][0]["severity"]), (&json!(false), &json!("error")));
    let broken = stage.ask("$/beam/snippet", json!({"text": "def é : Nat := \"😀\" ++ )\n"})).await;
    assert_eq!(broken["success"], false, "{broken}");
    let other = stage.refused("$/beam/snippet", json!({"text": "import Lean\n#eval 1\n"})).await;
    assert!(other.starts_with("otherImports:"), "{other}");
    let outside = json!({"text": "#eval 1", "position": place(4, 0)});
    assert!(stage.refused("$/beam/snippet", outside).await.contains("outside the document"));

    let range = json!({"range": {"start": place(2, 0), "end": place(2, 7)}});
    let answer = stage.ask("$/beam/codeActions", range).await;
    let action = &answer["actions"][0];
    assert_eq!(action["title"], "Try this: simp only [and_self]", "{answer}");
    let edit = &action["edit"]["documentChanges"][0]["edits"][0];
    assert_eq!((&edit["newText"], &edit["range"]["start"]), (&json!("simp only [and_self]"), &place(2, 2)));
    let none = json!({"range": {"start": place(0, 0), "end": place(0, 3)}});
    assert_eq!(stage.ask("$/beam/codeActions", none).await["actions"], json!([]));
}
