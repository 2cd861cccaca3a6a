//! What a command prints where, and how it exits.

use expect_test::expect;

use crate::env::Env;
use crate::tests;

tests! {
    c1_stdout_is_one_answer_and_stderr_the_rest
    c2_a_rejected_text_is_an_answer
    c2_a_refused_request_prints_its_answer_and_exits_1
    diagnostics_progress_and_completion_go_to_stderr
    progress_is_silent_off_a_terminal
    an_incomplete_barrier_says_how_to_recover
    the_users_request_id_is_shown_and_ours_is_not
    debug_text_shows_what_was_sent
    missing_text_is_the_brokers_to_refuse
    texts_and_handles_come_from_where_they_are_said_to
    paths_start_where_the_user_stands
    the_client_tool_adds_nothing
}

fn c1_stdout_is_one_answer_and_stderr_the_rest() {
    let env = Env::new();
    expect![[r#"
        --- stdout
        {
          "ok": true,
          "result": {
            "path": "$ROOT/A.lean",
            "version": 1,
            "changed": true,
            "choice": "Auto"
          }
        }
        --- exit 0
    "#]]
    .assert_eq(&env.run(&["update", "A.lean"]).snapshot());
}

fn c2_a_rejected_text_is_an_answer() {
    let env = Env::new();
    expect![[r#"
        --- stdout
        {
          "ok": true,
          "result": {
            "messages": [],
            "proofState": {
              "goals": []
            },
            "success": false,
            "traces": []
          }
        }
        --- stderr
        beam: note: the request completed, but Lean rejected the text; see result.messages
        beam: hint: the text holds a backslash and an n, not a line break; use --stdin, --text-file, or $'...' in the shell
        --- exit 0
    "#]]
    .assert_eq(&env.run(&["run-at", "A.lean", "1", "2", "3", r"fail\nover"]).snapshot());
}

fn c2_a_refused_request_prints_its_answer_and_exits_1() {
    let env = Env::new();
    expect![[r#"
        --- stdout
        {
          "ok": false,
          "error": {
            "message": "the file is at version 3, the request named 1",
            "code": "contentModified"
          }
        }
        --- stderr
        beam: run-at failed before the text was run: contentModified: the file is at version 3, the request named 1
        --- exit 1
    "#]]
    .assert_eq(&env.run(&["run-at", "A.lean", "1", "2", "3", "stale"]).snapshot());
}

fn diagnostics_progress_and_completion_go_to_stderr() {
    let env = Env::new().with("BEAM_PROGRESS", "1");
    let _started = env.run(&["ensure"]);
    let done = env.run(&["sync", "A.lean"]);
    expect![[r#"
        beam: sync A.lean: asking
        beam: sync A.lean: range=1..9 updates=2 done=false
        beam: diagnostic error A.lean:2:1: first line / second line
        beam: sync A.lean: done, version 1, rangeEndLine=9 updates=2, saveReady=false (documentErrors, blockingErrorCount=1)
    "#]]
    .assert_eq(&done.stderr);
    assert_eq!(done.code, Some(0));
}

fn progress_is_silent_off_a_terminal() {
    let env = Env::new();
    let done = env.run(&["sync", "A.lean", "+all-diagnostics"]);
    expect![[r#"
        beam: diagnostic error A.lean:2:1: first line / second line
    "#]]
    .assert_eq(&done.stderr);
}

fn an_incomplete_barrier_says_how_to_recover() {
    let env = Env::new();
    std::fs::write(env.root.join("Bad.lean"), "").unwrap();
    let done = env.run(&["sync", "Bad.lean"]);
    expect![[r#"
        beam: diagnostic error A.lean:2:1: first line / second line
        beam: sync failed before the diagnostics barrier was complete: syncBarrierIncomplete: imports are out of date
        beam: to recover: lean-beam refresh "Bad.lean", then lake build
    "#]]
    .assert_eq(&done.stderr);
    assert_eq!(done.code, Some(1));
    assert_eq!(done.json()["error"]["data"]["targetPath"], "Bad.lean");
}

fn the_users_request_id_is_shown_and_ours_is_not() {
    let env = Env::new();
    let done = env.run_with(&[("BEAM_REQUEST_ID", "  q7 ")], &["run-at", "A.lean", "1", "2", "3", "stale"]);
    assert_eq!(done.json()["clientRequestId"], "q7");
    assert!(done.stderr.starts_with("beam[q7]: run-at failed"), "{done:?}");
    let hidden = env.run_with(&[("BEAM_REQUEST_ID", "  ")], &["run-at", "A.lean", "1", "2", "3", "ok"]);
    assert!(!hidden.snapshot().contains("clientRequestId") && !hidden.snapshot().contains("cli-"), "{hidden:?}");
}

fn debug_text_shows_what_was_sent() {
    let env = Env::new().with("BEAM_DEBUG_TEXT", "1");
    let done = env.run(&["run-at", "A.lean", "1", "2", "3", "intro", r"h\n"]);
    expect![[r#"
        beam: text source=argv utf8Bytes=9 containsNewline=false containsLiteralBackslashN=true
        beam: text json="intro h\\n"
        beam: text hex=696e74726f20685c6e
    "#]]
    .assert_eq(&done.stderr);
}

fn missing_text_is_the_brokers_to_refuse() {
    let env = Env::new();
    let done = env.run(&["run-at", "A.lean", "1", "2", "3"]);
    assert_eq!(done.json()["error"]["code"], "invalidParams");
    expect![[r#"
        beam: run-at failed before the text was run: invalidParams: run_at: missing field `text`
    "#]]
    .assert_eq(&done.stderr);
    assert_eq!(done.code, Some(1));
}

fn texts_and_handles_come_from_where_they_are_said_to() {
    let env = Env::new();
    let at = ["run-at-handle", "A.lean", "1", "2", "3"];
    let with = |rest: &[&'static str]| [&at[..], rest].concat();
    std::fs::write(env.path("text"), "from a file\n").unwrap();
    let value = |done: &crate::env::Done| done.json()["result"]["handle"]["raw"]["value"].clone();
    // As they are: no line break is trimmed.
    let first = env.run_input("from stdin\n", &with(&["--stdin"]));
    assert_eq!(value(&first), "from stdin\n");
    assert_eq!(value(&env.run(&with(&["--text-file", "../text"]))), "from a file\n");
    assert_eq!(value(&env.run(&with(&["--", "--stdin"]))), "--stdin");

    // The whole answer is a handle, from stdin, from a file, and written out.
    std::fs::write(env.path("answer"), &first.stdout).unwrap();
    let next = ["run-with", "A.lean"];
    let runs = [
        env.run_input(&first.stdout, &[&next[..], &["-", "next"]].concat()),
        env.run(&[&next[..], &["--handle-file", "../answer", "next"]].concat()),
        env.run(&[&next[..], &[first.stdout.as_str(), "next"]].concat()),
    ];
    for done in runs {
        assert_eq!(value(&done), "next", "{done:?}");
    }
    let done = env.run_input(&env.run(&with(&["fail"])).stdout, &["release", "A.lean", "-"]);
    expect![[r#"
        --- stderr
        beam: HANDLE is an answer without a handle: its text was rejected
        --- exit 1
    "#]]
    .assert_eq(&done.snapshot());
    let done = env.run(&["run-with", "A.lean", "--handle-file", "none", "next"]);
    assert!(done.stderr.contains("cannot read HANDLE from none"), "{done:?}");
}

fn paths_start_where_the_user_stands() {
    let env = Env::new();
    let path = |done: crate::env::Done| done.json()["result"]["path"].as_str().unwrap().to_owned();
    let root = &env.root;
    assert_eq!(path(env.run_in(&root.join("Sub"), &["update", "B.lean"])), root.join("Sub/B.lean").to_string());
    assert_eq!(path(env.run_in(&root.join("Sub"), &["update", "A.lean"])), root.join("A.lean").to_string());
    assert_eq!(
        path(env.run_in(&env.path(""), &["--root", "proj", "update", "Sub/B.lean"])),
        root.join("Sub/B.lean").to_string()
    );
}

fn the_client_tool_adds_nothing() {
    let env = Env::new();
    let none = env.run_as("beam-client", &["request", "{}"]);
    assert!(none.stderr.contains("no live daemon") && none.code == Some(1), "{none:?}");
    let _started = env.run(&["ensure"]);
    expect![[r#"
        --- stdout
        {
          "ok": true,
          "result": {
            "files": []
          }
        }
        --- exit 0
    "#]]
    .assert_eq(&env.run_as("/somewhere/beam-client", &["request", r#"{"op":"open_docs"}"#]).snapshot());
    expect![[r#"
        --- stdout
        {"kind":"fileProgress","payload":{"updates":2,"done":false,"rangeStartLine":1,"rangeEndLine":9},"clientRequestId":"q"}
        {"kind":"diagnostic","payload":{"path":"A.lean","uri":"file:///A.lean","version":1,"severity":1,"range":{"start":{"line":1,"character":0},"end":{"line":2,"character":0}},"message":"first line\n  second line","saveBlocking":true,"completionBlocking":false},"clientRequestId":"q"}
        {"kind":"response","payload":{"ok":true,"result":{"path":"A.lean","version":1,"diagnostics":{"counts":{"error":1,"warning":0,"information":0,"hint":0,"unknown":0,"total":1}},"readiness":{"saveReady":false,"reason":"documentErrors","blockingErrorCount":1,"blockingDiagnostics":[],"blockingMessages":[]}},"fileProgress":{"updates":2,"done":true,"rangeEndLine":9}},"clientRequestId":"q"}
        --- exit 0
    "#]]
    .assert_eq(
        &env.run_input(
            r#"{"op":"sync_file","workspaceId":"beam-cli-project","path":"A.lean","clientRequestId":"q"}"#,
            &["client", "request-stream", "-"],
        )
        .snapshot(),
    );
    let bad = env.run(&["client", "request", "nonsense"]);
    assert_eq!(bad.json()["error"]["code"], "invalidParams");
    assert_eq!((bad.code, bad.stderr.as_str()), (Some(1), ""));
}
