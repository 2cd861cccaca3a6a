//! Servers that go wrong in each phase, played by shell scripts.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// Answers to discovery and to the call, as a server that is well gives them.
const DISCOVERED: &str =
    r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"]}}"#;
const SYNCED: &str = r#"{"jsonrpc":"2.0","id":2,"result":{"isError":false,"structuredContent":{"document_progress":{"updates":1,"done":true}}}}"#;
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;

fn say(line: &str) -> String {
    format!("echo '{line}'\n")
}

/// A server that runs this script; `$request` is the first line it was sent.
fn check(script: &str, limit: Duration) -> (Result<String, Failed>, Duration) {
    // A program cannot be started while a child of another test, just forked, still has it open for writing.
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let root = AbsPath::canonical(dir.path()).unwrap();
    std::fs::write(root.join("A.lean"), "").unwrap();
    let program = root.join("server");
    std::fs::write(&program, format!("#!/bin/sh\nread request\n{script}")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let check = SelfCheck {
        program: program.as_path().to_owned(),
        args: vec!["--lean-cmd".into(), "embedded".into()],
        root: root.clone(),
        file: "A.lean".to_owned(),
        limit,
    };
    let began = Instant::now();
    let outcome = check.run().map(|text| text.replace(&root.to_string(), "ROOT"));
    (outcome, began.elapsed())
}

const LONG: Duration = Duration::from_secs(120);

fn fails(script: &str, phase: CheckPhase, why: &str) {
    let failed = check(script, LONG).0.unwrap_err();
    assert_eq!(failed.phase, phase, "{failed}");
    let text = failed.to_string();
    assert!(text.starts_with(&format!("lean-beam-mcp self-check failed in phase {phase}: ")), "{text}");
    assert!(text.contains(why), "{text}");
}

#[test]
fn a_server_that_is_well_passes() {
    // It insists on what it must be sent, skips nothing, and ends when its input does.
    let script = format!(
        "case \"$request\" in *server/discover*2026-07-28*) ;; *) exit 9 ;; esac\n[ \"$1 $2\" = '--lean-cmd embedded' ] || exit 8\n\
         {}{}read call\ncase \"$call\" in *lean_sync*'\"root\"'*A.lean*) ;; *) exit 7 ;; esac\n{}{}cat >/dev/null\n",
        say(NOTE),
        say(DISCOVERED),
        say(NOTE),
        say(SYNCED)
    );
    let text = check(&script, LONG).0.unwrap();
    expect_test::expect![[r#"
        lean-beam-mcp self-check passed
        root: ROOT
        file: A.lean
        workspace: {"root":"ROOT"}
        protocol: 2026-07-28
        lean_sync: ok"#]]
    .assert_eq(&text);
}

#[test]
fn discovery_goes_wrong() {
    let answer = |result: &str| say(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#));
    fails("exit 0\n", CheckPhase::Discover, "closed its output");
    fails("echo 'beam: no' >&2\n", CheckPhase::Discover, "the server's stderr:\nbeam: no");
    fails("echo nonsense\n", CheckPhase::Discover, "no JSON");
    fails(
        &answer(r#"{"resultType":"complete","supportedVersions":["2031-01-01"]}"#),
        CheckPhase::Discover,
        "does not speak 2026-07-28",
    );
    fails(&answer(r#"{"supportedVersions":["2026-07-28"]}"#), CheckPhase::Discover, "not complete");
    fails(
        &say(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"family"}}"#),
        CheckPhase::Discover,
        "error -32600: family",
    );
    fails(
        &say(r#"{"jsonrpc":"2.0","id":5,"method":"roots/list"}"#),
        CheckPhase::Discover,
        "a request of its own: \"roots/list\"",
    );
    fails(&say(r#"{"jsonrpc":"2.0","id":"1","result":{}}"#), CheckPhase::Discover, "an answer to something else");
}

#[test]
fn the_call_goes_wrong() {
    let after = |line: &str| format!("{}read call\n{}", say(DISCOVERED), say(line));
    fails(
        &after(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"could not set up"}}"#),
        CheckPhase::Sync,
        "error -32600: could not set up",
    );
    fails(
        &after(
            r#"{"jsonrpc":"2.0","id":2,"result":{"isError":true,"structuredContent":{"code":"invalidInput","message":"m"}}}"#,
        ),
        CheckPhase::Sync,
        "lean_sync failed: invalidInput: m",
    );
    fails(
        &after(r#"{"jsonrpc":"2.0","id":2,"result":{"isError":false,"structuredContent":{}}}"#),
        CheckPhase::Sync,
        "no document_progress",
    );
    fails(&say(DISCOVERED), CheckPhase::Sync, "closed its output");
}

#[test]
fn the_end_goes_wrong() {
    let after = |end: &str| format!("{}read call\n{}cat >/dev/null\n{end}", say(DISCOVERED), say(SYNCED));
    fails(&after("exit 3\n"), CheckPhase::Shutdown, "exit status: 3");
    fails(&after("echo oops >&2\n"), CheckPhase::Shutdown, "the server's stderr:\noops");
}

/// A server that says nothing, or does not end, is not waited for longer than the limit, and is gone afterwards.
#[test]
fn silence_is_bounded_in_each_phase() {
    let limit = Duration::from_millis(300);
    for (script, phase) in [
        ("exec sleep 600\n".to_owned(), CheckPhase::Discover),
        (format!("{}read call\nexec sleep 600\n", say(DISCOVERED)), CheckPhase::Sync),
        (format!("{}read call\n{}exec sleep 600\n", say(DISCOVERED), say(SYNCED)), CheckPhase::Shutdown),
    ] {
        let (outcome, took) = check(&script, limit);
        let failed = outcome.unwrap_err();
        // On a machine so busy that a shell needs longer than the limit, an earlier phase may be the one.
        assert!(matches!(failed.why, CheckError::TimedOut(_)), "{phase}: {failed}");
        assert!(
            failed.to_string().contains("no answer within 300 ms; LEAN_BEAM_MCP_SELF_CHECK_TIMEOUT_MS"),
            "{failed}"
        );
        assert!(took < Duration::from_secs(300), "the server was waited for: {took:?}");
    }
}

#[test]
fn the_file_must_be_there_and_the_limit_a_number() {
    let check = SelfCheck {
        program: "/no/such/program".into(),
        args: Vec::new(),
        root: AbsPath::new("/").unwrap(),
        file: "None.lean".to_owned(),
        limit: LONG,
    };
    let failed = check.run().unwrap_err();
    assert!(
        failed.phase == CheckPhase::Start && failed.to_string().contains("None.lean does not exist in /"),
        "{failed}"
    );
    assert_eq!(limit(None), Ok(Duration::from_secs(120)));
    assert_eq!(limit(Some(" 250 ")), Ok(Duration::from_millis(250)));
    for bad in ["0", "-1", "", "soon", "1.5"] {
        assert!(limit(Some(bad)).unwrap_err().contains(LIMIT_VARIABLE), "{bad}");
    }
}
