//! The questions of agents as verbs: what reaches the engine, and what people are told about its answer.

use expect_test::expect;
use serde_json::{Value, json};

use crate::env::Env;
use crate::tests;

tests! {
    try_takes_its_candidates_from_one_place
    every_question_reaches_the_engine_as_it_was_asked
    mistakes_are_told_before_a_daemon_starts
    caveats_and_hints_are_said_in_sentences
    sorries_and_old_imports_are_said
}

/// What the scripted engine got, without the file's place on disk.
fn args(env: &Env, input: &str, line: &[&str]) -> (String, Value) {
    let done = env.run_input(input, line);
    assert_eq!(done.code, Some(0), "{done:?}");
    let mut result = done.json()["result"].clone();
    assert_eq!(result["args"]["path"], env.root.join("A.lean").to_string(), "{done:?}");
    result["args"].as_object_mut().unwrap().remove("path");
    (result["op"].as_str().unwrap().to_owned(), result["args"].clone())
}

fn try_takes_its_candidates_from_one_place() {
    let env = Env::new();
    let place = ["--version", "1", "--line", "2", "--character", "3"];
    let wanted = |texts: &[&str]| json!({"texts": texts, "version": 1, "line": 2, "character": 3});
    let ask = |input: &str, rest: &[&str]| {
        let (op, got) = args(&env, input, &[&["try", "A.lean"], rest, &place[..]].concat());
        assert_eq!(op, "try");
        got
    };
    assert_eq!(ask("", &["simp", "exact ⟨h, k⟩"]), wanted(&["simp", "exact ⟨h, k⟩"]));
    assert_eq!(ask("simp\n\n  exact h\r\n", &["--stdin"]), wanted(&["simp", "  exact h"]));
    std::fs::write(env.path("texts"), "rfl\n· simp\n").unwrap();
    assert_eq!(ask("", &["--text-file", "../texts"]), wanted(&["rfl", "· simp"]));
    let (_, got) =
        args(&env, "", &[&["try", "A.lean"], &place[..], &["--first", "--kernel", "--", "--x", "rfl"]].concat());
    assert_eq!((&got["texts"], &got["first"], &got["kernel"]), (&json!(["--x", "rfl"]), &json!(true), &json!(true)));

    // From a handle: of an answer, on standard input or in a file; then the candidates cannot be there too.
    let answer = env.run(&["run-at-handle", "A.lean", "1", "2", "3", "constructor"]);
    let handle = answer.json()["result"]["handle"].clone();
    let (_, got) = args(&env, &answer.stdout, &["try", "A.lean", "simp", "--handle", "-"]);
    assert_eq!(got, json!({"texts": ["simp"], "handle": handle}));
    std::fs::write(env.path("answer"), &answer.stdout).unwrap();
    let (_, got) = args(&env, "simp\nrfl\n", &["try", "A.lean", "--stdin", "--handle-file", "../answer"]);
    assert_eq!(got, json!({"texts": ["simp", "rfl"], "handle": handle}));
}

fn every_question_reaches_the_engine_as_it_was_asked() {
    let env = Env::new();
    let check = |line: &[&str], op: &str, wanted: &Value| {
        let (asked, got) = args(&env, "", line);
        assert_eq!((asked.as_str(), &got), (op, wanted), "{line:?}");
    };
    check(
        &[
            "search",
            "A.lean",
            "1",
            "--name",
            "add comm",
            "--constant",
            "Nat",
            "--constant",
            "Eq",
            "--kind",
            "theorem",
            "--limit",
            "5",
        ],
        "search",
        &json!({"constants":["Nat","Eq"],"kinds":["theorem"],"limit":5,"name":"add comm","version":1}),
    );
    check(
        &["search", "A.lean", "1", "--pattern", "_ + _ = _ + _"],
        "search",
        &json!({"pattern":"_ + _ = _ + _","version":1}),
    );
    check(&["check", "A.lean", "1"], "check", &json!({"version":1}));
    check(&["check", "A.lean", "1", "--name", "Foo.bar"], "check", &json!({"name":"Foo.bar","version":1}));
    check(
        &["snippet", "A.lean", "1", "--line", "0", "--character", "3", "#eval", "1", "+", "1"],
        "snippet",
        &json!({"character":3,"line":0,"text":"#eval 1 + 1","version":1}),
    );
    check(
        &["code-actions", "A.lean", "1", "4", "--end-line", "6"],
        "code_actions",
        &json!({"endLine":6,"line":4,"version":1}),
    );
    check(
        &["diagnostics", "A.lean", "1", "--severity", "error", "--severity", "warning", "--contains", "sorry"],
        "diagnostics",
        &json!({"contains":"sorry","severities":["error","warning"],"version":1}),
    );
    check(&["todo", "A.lean", "1"], "todo", &json!({"version":1}));
    check(
        &["todo", "A.lean", "1", "2", "0", "5", "9", "--kind", "sorry"],
        "todo",
        &json!({"character":0,"endCharacter":9,"endLine":5,"kinds":["sorry"],"line":2,"version":1}),
    );
    check(
        &["goals", "both", "A.lean", "1", "2", "3", "--goals", "text", "--state", "changed", "--explain"],
        "goals",
        &json!({"character":3,"explain":true,"goals":"text","line":2,"mode":"both","state":"changed","version":1}),
    );
    let (_, got) = args(&env, "def a := 1\n", &["snippet", "A.lean", "1", "--stdin"]);
    assert_eq!(got["text"], "def a := 1\n");
}

fn mistakes_are_told_before_a_daemon_starts() {
    let env = Env::new();
    for (line, why) in [
        (&["try", "A.lean"][..], "no candidates"),
        (&["try", "A.lean", "simp", "--stdin"], "come from one place"),
        (&["try", "A.lean", "--stdin", "--text-file", "x"], "come from one place"),
        (&["try", "A.lean", "--stdin", "--handle", "-"], "cannot both be read"),
        (&["try", "A.lean", "simp", "--handle", "-", "--handle-file", "x"], "cannot be used with"),
        (&["try", "A.lean", "simp", "--line", "one"], "must be"),
        (&["search", "A.lean"], "<VERSION>"),
        (&["search", "A.lean", "1", "--kind", "lemma"], "theorem"),
        (&["diagnostics", "A.lean", "1", "--severity", "bad"], "error, warning, information, hint"),
        (&["code-actions", "A.lean", "1"], "<LINE>"),
        (&["goals", "at", "A.lean", "1", "2", "3"], "before, after, both"),
    ] {
        let done = env.run(line);
        assert!(done.stderr.contains(why) && done.stdout.is_empty() && done.code == Some(2), "{line:?}: {done:?}");
    }
    assert!(!env.root.join(".beam").exists());
}

fn caveats_and_hints_are_said_in_sentences() {
    let env = Env::new();
    let said = |line: &[&str]| {
        let done = env.run(line);
        assert_eq!(done.code, Some(0), "{done:?}");
        done.stderr
    };
    expect![[r#"
        beam: note: the text was accepted, but it leaves a `sorry`; the declaration is not proved
        beam: note: the text was accepted, but it uses the declaration that is being proved; whether that terminates is checked only when the file is
    "#]]
    .assert_eq(&said(&["run-at", "A.lean", "1", "2", "3", "caveats"]));
    expect![[r#"
        beam: note: the request completed, but Lean rejected the text; see result.messages
        beam: hint: leave out the `by`
    "#]]
    .assert_eq(&said(&["run-at", "A.lean", "1", "2", "3", "failhint"]));
    assert_eq!(said(&["run-at", "A.lean", "1", "2", "3", "fine"]), "");
}

fn sorries_and_old_imports_are_said() {
    let env = Env::new();
    std::fs::write(env.root.join("Open.lean"), "").unwrap();
    expect![[r#"
        beam: diagnostic error A.lean:2:1: first line / second line
        beam: note: sorry Open.lean:4:3: `left` is not proved
        beam: note: sorry Open.lean:8:1
    "#]]
    .assert_eq(&env.run(&["sync", "Open.lean"]).stderr);
    expect![[r#"
        beam: note: imports changed since A.lean was opened: B; this answer is about the old ones; run: lean-beam refresh A.lean
    "#]]
    .assert_eq(&env.run(&["run-at", "A.lean", "1", "2", "3", "old"]).stderr);
}
