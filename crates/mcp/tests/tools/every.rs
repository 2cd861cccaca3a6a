//! Every tool once, on one warm worker.

use std::collections::BTreeSet;

use super::*;

const MAIN: &str = "/-- Twice a number. -/
def twice (n : Nat) : Nat := n + n

theorem both (p q : Prop) (hp : p) (hq : q) : p ∧ q := by
  constructor
  · exact hp
  · sorry

#eval twice 21

example : twice 1 = 3 := by rfl
";

fn at(line: u32, character: u32) -> Value {
    json!({ "path": "Main.lean", "version": 1, "line": line, "character": character })
}

fn with(mut arguments: Value, key: &str, value: impl Into<Value>) -> Value {
    arguments[key] = value.into();
    arguments
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn every_tool_answers_in_its_shape() {
    let mut beam = Beam::start();
    beam.write("Main.lean", MAIN);

    before_there_is_a_runtime(&mut beam).await;

    let updated = beam.lean("lean_update", json!({ "path": "Main.lean" })).await;
    assert_eq!(keys(&updated), ["workspace", "version", "changed"]);
    assert_eq!((&updated["version"], &updated["changed"]), (&json!(1), &json!(true)));
    // An absolute path is the same document.
    let again = beam.lean("lean_update", json!({ "path": beam.root.join("Main.lean") })).await;
    assert_eq!((&again["version"], &again["changed"]), (&json!(1), &json!(false)));
    let uri = beam_base::uri::from_path(&beam.root.join("Main.lean"));
    assert_eq!(beam.lean("lean_update", json!({ "path": uri })).await, again);

    runs(&mut beam).await;
    candidates(&mut beam).await;
    handles(&mut beam).await;
    reading(&mut beam).await;
    questions(&mut beam).await;
    barriers(&mut beam).await;
    reports(&mut beam).await;

    let dropped = beam.lean("lean_drop_workspace", json!({})).await;
    assert_eq!(dropped["dropped"], true);
    let again = beam.lean("lean_drop_workspace", json!({})).await;
    assert_eq!(keys(&again), ["workspace", "dropped", "invalidated_handles", "reason"]);
    assert_eq!((&again["dropped"], &again["reason"]), (&json!(false), &json!("notFound")));
    beam.end().await;
}

async fn before_there_is_a_runtime(beam: &mut Beam) {
    let (version, _) = beam.call("beam_version", json!({})).await;
    assert_eq!(version["runtime_active"], false);
    assert_eq!(beam.call("beam_stats", json!({})).await.0, json!({ "uptimeMs": 0, "workspaces": {} }));
    // What is refused leaves nothing behind.
    let (refused, is_error) =
        beam.call("lean_update", json!({ "path": "Main.lean", "workspace": { "root": "/no/such" } })).await;
    assert!(is_error && refused["code"] == "invalidInput", "{refused}");
    let (refused, _) = beam.call("lean_update", json!({ "workspace": { "root": beam.root } })).await;
    assert_eq!(refused["code"], "invalidInput", "{refused}");
    assert_eq!(beam.call("beam_stats", json!({})).await.0["workspaces"], json!({}));
}

async fn runs(beam: &mut Beam) {
    const KEYS: [&str; 6] = ["workspace", "success", "messages", "traces", "proof_state", "next_handle"];
    let solved = beam.lean("lean_run_at", with(at(6, 4), "text", "exact hq")).await;
    assert_eq!(keys(&solved), KEYS);
    assert_eq!((&solved["success"], &solved["proof_state"]["goals"]), (&json!(true), &json!([])));
    let rejected = beam.lean("lean_run_at", with(at(6, 4), "text", "exact hp")).await;
    assert_eq!(keys(&rejected)[..6], KEYS);
    assert_eq!(rejected["at"], json!({ "line_text": "  · sorry", "basis": "tactic" }), "{rejected}");
    assert_eq!(rejected["success"], false);
    assert_eq!(rejected["messages"][0]["severity"], "error");
    assert_eq!(rejected["proof_state"]["goals"][0]["userName"], "right");
    // A command has no proof state at all.
    let command = beam.lean("lean_run_at", with(at(8, 0), "text", "#check twice")).await;
    assert_eq!(command["messages"][0]["text"], "twice (n : Nat) : Nat");
    assert!(command["proof_state"].is_null() && command["next_handle"].is_null());
    // A success that proves nothing says so.
    let open = beam.lean("lean_run_at", with(at(6, 4), "text", "sorry")).await;
    assert_eq!((&open["success"], &open["proof_state"]["goals"]), (&json!(true), &json!([])));
    assert_eq!(open["caveats"], json!(["sorry"]), "{open}");
    // The cheap form: as Lean draws it, and nothing where nothing changed.
    let drawn = with(with(with(at(6, 4), "text", "exact hp"), "goals", "text"), "state", "changed");
    let drawn = beam.lean("lean_run_at", drawn).await;
    assert_eq!((&drawn["state_unchanged"], &drawn["proof_state"]), (&json!(true), &Value::Null), "{drawn}");
    let stale = with(with(at(6, 4), "text", "exact hq"), "version", 7);
    let (stale, is_error) = beam.call("lean_run_at", with(stale, "workspace", json!({ "root": beam.root }))).await;
    assert!(is_error && stale["code"] == "contentModified" && stale.get("workspace").is_none(), "{stale}");
}

/// `lean_try` says of each text what `lean_run_at` says of it alone, and what follows a handle is what `lean_run_with` would say.
async fn candidates(beam: &mut Beam) {
    const TEXTS: [&str; 4] = ["exact hp", "skip", "sorry", "exact hq"];
    let texts = with(at(6, 4), "texts", TEXTS.as_slice());
    let tried = beam.lean("lean_try", texts.clone()).await;
    assert_eq!(keys(&tried), ["workspace", "results", "solved"]);
    for (index, text) in TEXTS.into_iter().enumerate() {
        let one = beam.lean("lean_run_at", with(at(6, 4), "text", text)).await;
        let line = &tried["results"][index];
        let goals = one["proof_state"]["goals"].as_array().unwrap().len();
        let outcome = match (one["success"].as_bool().unwrap(), goals) {
            (false, _) => "failed",
            (true, 0) => "solved",
            (true, _) => "goals",
        };
        assert_eq!((&line["index"], &line["outcome"]), (&json!(index), &json!(outcome)), "{text}: {line}");
        assert_eq!(line.get("caveats"), one.get("caveats"), "{text}: {line}");
        assert!(line.get("handle").is_none(), "{line}");
        if let Some(first) = one["messages"].get(0) {
            let head = first["text"].as_str().unwrap().lines().next().unwrap();
            assert!(line["message"].as_str().unwrap().starts_with(head), "{line}");
        }
    }
    let outcomes: Vec<_> = (0..4).map(|n| tried["results"][n]["outcome"].as_str().unwrap()).collect();
    // A `sorry` leaves no goals, and is not what solves.
    assert_eq!(
        (outcomes.as_slice(), &tried["solved"]),
        (["failed", "goals", "solved", "solved"].as_slice(), &json!(3))
    );
    let kept = beam.lean("lean_run_at_handle", with(at(4, 2), "text", "constructor")).await;
    let from = json!({ "path": "Main.lean", "handle": kept["next_handle"], "texts": ["exact hq", "exact hp"] });
    let tried = beam.lean("lean_try", from).await;
    assert_eq!(tried["results"][0]["outcome"], "failed");
    // One of two goals is solved, the other is left.
    assert_eq!((&tried["results"][1]["outcome"], tried.get("solved")), (&json!("goals"), None), "{tried}");
    let neither = json!({ "path": "Main.lean", "texts": ["skip"], "workspace": { "root": beam.root } });
    let (neither, is_error) = beam.call("lean_try", neither).await;
    assert!(is_error && neither["code"] == "invalidParams", "{neither}");
}

/// Questions about declarations and texts.
async fn questions(beam: &mut Beam) {
    let main = json!({ "path": "Main.lean", "version": 1 });
    let both = beam.lean("lean_goals", with(at(5, 4), "mode", "both")).await;
    assert_eq!(keys(&both), ["workspace", "before", "after"]);
    assert_eq!((&both["before"]["goals"][0]["target"], &both["after"]["goals"]), (&json!("p"), &json!([])), "{both}");
    let term = beam.lean("lean_goals", with(with(at(1, 29), "mode", "both"), "goals", "text")).await;
    assert!(term["expected_type"]["text"][0].as_str().unwrap().ends_with("⊢ Nat"), "{term}");

    let found = beam.lean("lean_search", with(with(main.clone(), "pattern", "_ + _ = _ + _"), "limit", 200)).await;
    let hits = found["hits"].as_array().unwrap();
    let hit = hits.iter().find(|hit| hit["name"] == "Nat.add_comm").unwrap_or_else(|| panic!("{found}"));
    assert_eq!((&hit["kind"], &hit["origin"]), (&json!("theorem"), &json!("library")), "{hit}");
    let own = beam.lean("lean_search", with(main.clone(), "name", "twice")).await;
    assert_eq!((&own["hits"][0]["name"], &own["hits"][0]["origin"]), (&json!("twice"), &json!("file")), "{own}");
    let nothing = with(main.clone(), "workspace", json!({ "root": beam.root }));
    let (nothing, is_error) = beam.call("lean_search", nothing).await;
    assert!(is_error && nothing["code"] == "invalidParams", "{nothing}");

    let both = beam.lean("lean_check", with(main.clone(), "name", "both")).await;
    assert_eq!((&both["verdict"], &both["declarations"]), (&json!("sorry"), &json!(["both"])), "{both}");
    assert_eq!(both["sorries"][0]["declaration"], "both", "{both}");
    let twice = beam.lean("lean_check", with(main.clone(), "name", "twice")).await;
    assert_eq!((&twice["verdict"], &twice["sorries"]), (&json!("proved"), &json!([])), "{twice}");
    assert!(twice.get("unusual_axioms").is_some() && twice.get("unusualAxioms").is_none(), "{twice}");
    let all = beam.lean("lean_check", main.clone()).await;
    assert_eq!(all["verdict"], "errors", "the last example is wrong: {all}");

    let two = "def three : Nat := 3\n#eval three + 1\n";
    let ran = beam.lean("lean_snippet", with(main.clone(), "text", two)).await;
    assert_eq!((&ran["success"], ran["diagnostics"].as_array().unwrap().len()), (&json!(true), 1), "{ran}");
    let said = &ran["diagnostics"][0];
    assert_eq!((&said["severity"], &said["message"]), (&json!("information"), &json!("4")), "{ran}");
    assert_eq!(said["range"]["start"]["line"], 1);
    let wrong = beam.lean("lean_snippet", with(main.clone(), "text", "example : 1 = 2 := rfl")).await;
    assert_eq!((&wrong["success"], &wrong["diagnostics"][0]["severity"]), (&json!(false), &json!("error")), "{wrong}");
    // It has the imports of the file, not its declarations.
    let alone = beam.lean("lean_snippet", with(main.clone(), "text", "#check twice")).await;
    assert_eq!(alone["success"], false, "{alone}");

    let told = beam.lean("lean_diagnostics", main.clone()).await;
    assert_eq!((&told["total"], told["diagnostics"].as_array().unwrap().len()), (&json!(3), 3), "{told}");
    let errors = beam.lean("lean_diagnostics", with(main.clone(), "severities", ["error"].as_slice())).await;
    let severities: Vec<_> =
        errors["diagnostics"].as_array().unwrap().iter().map(|d| d["severity"].as_str().unwrap()).collect();
    assert_eq!((&errors["total"], severities.as_slice()), (&json!(3), ["error"].as_slice()), "{errors}");
    let lines = with(with(main, "start_line", 8), "end_line", 8);
    let lines = beam.lean("lean_diagnostics", lines).await;
    assert_eq!(lines["diagnostics"][0]["message"], "42", "{lines}");
}

async fn handles(beam: &mut Beam) {
    let first = beam.lean("lean_run_at_handle", with(at(4, 2), "text", "constructor")).await;
    let handle = first["next_handle"].clone();
    assert!(handle.is_object());
    let go_on = |handle: &Value, text: &str| json!({ "path": "Main.lean", "handle": handle, "text": text });
    let left = beam.lean("lean_run_with", go_on(&handle, "exact hp")).await;
    // A client that quotes what it does not know.
    let quoted = beam.lean("lean_run_with", go_on(&handle.to_string().into(), "exact hp")).await;
    assert_eq!(quoted["proof_state"], left["proof_state"]);
    assert_eq!(left["proof_state"]["goals"][0]["userName"], "right");
    let other = beam.lean("lean_run_with", go_on(&handle, "exact hq")).await;
    assert_eq!((&other["success"], &other["next_handle"]), (&json!(false), &Value::Null));
    let done = beam.lean("lean_run_with_linear", go_on(&left["next_handle"], "exact hq")).await;
    assert_eq!(done["proof_state"]["goals"], json!([]));
    let used_up = with(go_on(&left["next_handle"], "exact hq"), "workspace", json!({ "root": beam.root }));
    assert!(beam.call("lean_run_with", used_up).await.1);
    let released = beam.lean("lean_release", json!({ "path": "Main.lean", "handle": handle })).await;
    assert_eq!(released["result"], Value::Null);
    assert_eq!(keys(&released), ["workspace", "result"]);
}

async fn reading(beam: &mut Beam) {
    let hover = beam.lean("lean_hover", at(8, 8)).await;
    assert!(hover["contents"]["value"].as_str().unwrap().contains("Twice a number."), "{hover}");
    assert_eq!(keys(&beam.lean("lean_hover", at(2, 0)).await), ["workspace", "result"]);
    let signature = beam.lean("lean_signature_help", at(8, 12)).await;
    assert!(signature["signatures"][0]["label"].as_str().unwrap().contains("Nat"), "{signature}");
    let definition = beam.lean("lean_definition", at(8, 8)).await;
    assert_eq!(definition["result"][0]["targetSelectionRange"]["start"], json!({ "line": 1, "character": 4 }));
    let all = beam.lean("lean_references", at(8, 8)).await["result"].as_array().unwrap().len();
    let uses = beam.lean("lean_references", with(at(8, 8), "include_declaration", false)).await;
    assert_eq!(uses["result"].as_array().unwrap().len() + 1, all);
    let symbols = beam.lean("lean_document_symbols", json!({ "path": "Main.lean", "version": 1 })).await;
    assert_eq!(symbols["result"][0]["name"], "twice");
    let named = beam.lean("lean_workspace_symbols", json!({ "query": "twice" })).await;
    assert_eq!(named["result"][0]["name"], "twice", "{named}");
    let before = beam.lean("lean_goals", with(at(5, 4), "mode", "before")).await;
    assert_eq!(before["goals"][0]["target"], "p");
    let after = beam.lean("lean_goals", with(at(5, 4), "mode", "after")).await;
    assert_eq!(keys(&after), ["workspace", "goals"]);

    const TRY: &str = "#guard_msgs in\n#eval 7\n";
    beam.write("Try.lean", TRY);
    beam.lean("lean_sync", json!({ "path": "Try.lean" })).await;
    let range = json!({ "path": "Try.lean", "version": 1, "start_line": 0, "start_character": 0, "end_line": 2, "end_character": 0 });
    let todo = beam.lean("lean_todo", range).await;
    let item_keys: BTreeSet<&str> = todo["items"].as_array().unwrap().iter().flat_map(keys).collect();
    assert!(item_keys.contains("run_at_position") && !item_keys.contains("runAtPosition"), "{todo}");
    let action = todo["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|i| i["kind"] == "code_action")
        .expect("an action that writes the message down");
    let ask = json!({ "path": "Try.lean", "version": 1, "code_action": action["code_action"] });
    let resolved = beam.lean("lean_code_action_resolve", ask).await;
    assert_eq!(keys(&resolved), ["workspace", "version", "code_action"]);
    assert!(resolved["code_action"]["edit"].is_object(), "{resolved}");
    // The same action with its edit, in one call.
    let lines = json!({ "path": "Try.lean", "version": 1, "start_line": 0, "end_line": 1 });
    let actions = beam.lean("lean_code_actions", lines).await;
    let same = actions["actions"].as_array().unwrap().iter().find(|a| a["title"] == action["code_action"]["title"]);
    assert_eq!(same.unwrap()["edit"], resolved["code_action"]["edit"], "{actions}");
    assert_eq!(std::fs::read_to_string(beam.root.join("Try.lean")).unwrap(), TRY, "nothing is applied");
}

async fn barriers(beam: &mut Beam) {
    let sync = beam.lean("lean_sync", json!({ "path": "Main.lean" })).await;
    assert_eq!(
        keys(&sync),
        ["workspace", "path", "version", "diagnostics", "readiness", "sorries", "document_progress"]
    );
    assert_eq!(sync["sorries"], json!([{ "line": 6, "character": 4, "declaration": "both" }]), "{sync}");
    assert_eq!(sync["diagnostics"]["counts"]["total"], 3);
    assert!(sync["diagnostics"].get("items").is_none());
    assert_eq!(sync["readiness"]["save_ready"], false);
    assert_eq!(sync["readiness"]["blocking_diagnostics"][0]["severity"], "error");
    assert_eq!(sync["document_progress"]["done"], true);
    let all = json!({ "path": "Main.lean", "diagnostic_scope": "all", "diagnostics_in_result": true });
    let refreshed = beam.lean("lean_refresh", all).await;
    let items = refreshed["diagnostics"]["items"].as_array().unwrap();
    assert_eq!(items.len(), 3);
    assert_eq!(items[0]["path"], "Main.lean");
    assert!(items.iter().all(|i| i["severity"].is_string() && i["completion_blocking"] == false), "{refreshed}");
    // A file with errors is not saved, and says why.
    let save = json!({ "path": "Main.lean", "workspace": { "root": beam.root } });
    let (refused, is_error) = beam.call("lean_save", save.clone()).await;
    assert!(is_error && refused["code"].is_string(), "{refused}");
    let (refused, is_error) = beam.call("lean_close_save", save).await;
    assert!(is_error && refused["code"].is_string(), "{refused}");
    checkpoints(beam).await;
    recovery(beam).await;
    let closed = beam.lean("lean_close", json!({ "path": "Main.lean" })).await;
    assert_eq!(keys(&closed), ["workspace", "closed"]);
    assert_eq!(beam.lean("lean_close", json!({ "path": "Main.lean" })).await, closed);
}

async fn checkpoints(beam: &mut Beam) {
    beam.write("Good.lean", "def good : Nat := 1\n");
    let saved = beam.lean("lean_save", json!({ "path": "Good.lean" })).await;
    assert_eq!((&saved["path"], &saved["module"], &saved["version"]), (&json!("Good.lean"), &json!("Good"), &json!(1)));
    assert_eq!(saved["source_hash"].as_str().unwrap().len(), 16, "{saved}");
    for artifact in ["olean", "ilean", "trace"] {
        assert!(std::path::Path::new(saved[artifact].as_str().unwrap()).is_file(), "{artifact}: {saved}");
    }
    assert_eq!(keys(&saved["sync"]), ["path", "version", "diagnostics", "readiness"]);
    assert_eq!(saved["document_progress"]["done"], true);
    let closed = beam.lean("lean_close_save", json!({ "path": "Good.lean" })).await;
    assert_eq!(keys(&closed), ["workspace", "closed", "saved", "document_progress"]);
    assert_eq!(closed["saved"]["source_hash"], saved["source_hash"]);
    assert!(closed["saved"].get("document_progress").is_none());
    // What was saved is what an importer sees.
    beam.write("User.lean", "import Good\nexample : good = 1 := rfl\n");
    let sync = beam.lean("lean_sync", json!({ "path": "User.lean" })).await;
    assert_eq!(sync["diagnostics"]["counts"]["total"], 0, "{sync}");
}

/// A plan is made of calls that can be sent as they stand, and it works.
async fn recovery(beam: &mut Beam) {
    beam.write("Good.lean", "def good : Nat := 2\n");
    beam.lean("lean_sync", json!({ "path": "Good.lean" })).await;
    let sync = json!({ "path": "User.lean", "workspace": { "root": beam.root } });
    let (stale, is_error) = beam.call("lean_sync", sync.clone()).await;
    assert!(is_error && stale["code"] == "syncBarrierIncomplete", "{stale}");
    let plan = stale["data"]["recoveryPlan"].as_array().unwrap().clone();
    let names: Vec<_> = plan.iter().map(|call| call["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["lean_save", "lean_refresh"], "{stale}");
    assert!(stale["data"].get("recovery").is_none());
    for call in plan {
        let (done, is_error) = beam.call(call["name"].as_str().unwrap(), call["arguments"].clone()).await;
        assert!(!is_error, "{call}: {done}");
    }
    // The importer's text is wrong now: the barrier is complete and says so, with Lean's lines.
    let (sync, is_error) = beam.call("lean_sync", sync).await;
    assert!(!is_error && sync["diagnostics"]["counts"]["error"] == 1, "{sync}");
    let blocking = sync["readiness"]["blocking_diagnostics"].as_array().unwrap();
    assert!(blocking.len() == 1 && blocking[0]["message"].as_str().unwrap().contains('\n'), "{sync}");
}

async fn reports(beam: &mut Beam) {
    let (version, _) = beam.call("beam_version", json!({})).await;
    assert_eq!(version["runtime_active"], true);
    let key = format!("local:{}", beam.root);
    let (stats, _) = beam.call("beam_stats", json!({})).await;
    assert_eq!(keys(&stats["workspaces"]), [key.as_str()]);
    let words = json!({ "title": "t", "summary": "s", "reproduction": "r", "expected": "e", "actual": "a", "include_collected": true });
    let report = beam.lean("beam_feedback_report", words.clone()).await;
    assert!(report["collected"]["stats"].is_object() && report["collected"]["openFiles"].is_object(), "{report}");
    let secret = with(with(words, "confidential", true), "workspace", json!({ "root": beam.root }));
    let (report, is_error) = beam.call("beam_feedback_report", secret).await;
    assert!(!is_error && report.get("workspace").is_none(), "{report}");
    assert!(!report.to_string().contains(&beam.root.to_string()));
}
