//! Lines for people, as data.

use beam_base::{Utf16Pos, Utf16Range};
use expect_test::expect;
use serde_json::json;

use super::*;

fn diagnostic(severity: Option<u8>, blocking: bool, message: &str) -> StreamDiagnostic {
    let start = Utf16Pos { line: 2, character: 0 };
    StreamDiagnostic {
        path: "A/B.lean".into(),
        uri: "file:///p/A/B.lean".into(),
        version: Some(1),
        severity,
        range: Utf16Range { start, end: start },
        message: message.into(),
        save_blocking: None,
        completion_blocking: blocking,
    }
}

#[test]
fn diagnostics_are_one_line_each_and_count_from_one() {
    let shown: Vec<_> = [
        diagnostic(Some(1), true, "  first\n\n   second  "),
        diagnostic(Some(2), false, "w"),
        diagnostic(Some(3), false, "i"),
        diagnostic(Some(4), false, "h"),
        diagnostic(None, false, "?"),
    ]
    .iter()
    .map(diagnostic_line)
    .collect();
    expect![[r#"
        diagnostic error completionBlocking=true A/B.lean:3:1: first / second
        diagnostic warning A/B.lean:3:1: w
        diagnostic info A/B.lean:3:1: i
        diagnostic hint A/B.lean:3:1: h
        diagnostic diagnostic A/B.lean:3:1: ?"#]]
    .assert_eq(&shown.join("\n"));
}

fn progress(done: bool) -> Progress {
    Progress { updates: 5, done, range_start_line: (!done).then_some(3), range_end_line: Some(13) }
}

#[test]
fn completion_says_what_a_barrier_found() {
    let sync = |ready: bool| {
        Response::ok(json!({
            "version": 4,
            "readiness": {"saveReady": ready, "reason": "documentErrors", "blockingErrorCount": 2},
        }))
        .with_progress(Some(progress(true)))
    };
    expect!["sync A.lean: done, version 4, rangeEndLine=13 updates=5"].assert_eq(&completion_line(
        "sync A.lean",
        Op::SyncFile,
        &sync(true),
    ));
    expect![
        "sync A.lean: done, version 4, rangeEndLine=13 updates=5, saveReady=false (documentErrors, blockingErrorCount=2)"
    ]
    .assert_eq(&completion_line("sync A.lean", Op::SyncFile, &sync(false)));
    assert_eq!(completion_line("hover A.lean", Op::Hover, &sync(false)), "hover A.lean: done");
    assert_eq!(progress_text(&progress(false)), "range=3..13 updates=5 done=false");
}

#[test]
fn failures_name_command_boundary_and_code() {
    let stale = ErrorBody::new(FailureCode::ContentModified, "the file is at version 3");
    expect!["run-at failed before the text was run: contentModified: the file is at version 3"]
        .assert_eq(&failure_line("run-at", Op::RunAt, &stale));
    expect!["lean-sync failed before the diagnostics barrier was complete: contentModified: the file is at version 3"]
        .assert_eq(&failure_line("lean-sync", Op::SyncFile, &stale));
    assert_eq!(recovery_line(&stale), None);
}

#[test]
fn recovery_follows_the_plan() {
    let incomplete = |data| ErrorBody::new(FailureCode::SyncBarrierIncomplete, "m").with_data(data);
    expect![[r#"to recover: lean-beam save "A.lean", then lean-beam refresh "B.lean", then lake build"#]].assert_eq(
        &recovery_line(&incomplete(
            json!({"targetPath":"B.lean","recoveryPlan":["lean-beam save \"A.lean\"","lean-beam refresh \"B.lean\"","lake build"]}),
        ))
        .unwrap(),
    );
    expect![[r#"to recover: lean-beam refresh "B.lean", then lake build"#]]
        .assert_eq(&recovery_line(&incomplete(json!({"targetPath":"B.lean","recoveryPlan":[]}))).unwrap());
}

#[test]
fn rejected_texts_are_noted_and_literal_backslash_n_is_explained() {
    let failed = Response::ok(json!({"success": false}));
    let notes = |op, response: &Response, text| rejected_notes(op, response, Some(text)).len();
    assert_eq!(notes(Op::RunAt, &failed, "exact h"), 1);
    assert_eq!(notes(Op::RunWith, &failed, r"intro h\n exact h"), 2);
    assert_eq!(notes(Op::RunAt, &failed, "intro h\n exact h \\n"), 1);
    assert_eq!(notes(Op::RunAt, &Response::ok(json!({"success": true})), r"a\nb"), 0);
    assert_eq!(notes(Op::Hover, &failed, r"a\nb"), 0);
    assert_eq!(notes(Op::RunAt, &Response::failed(ErrorBody::new(FailureCode::InternalError, "x")), r"a\nb"), 0);
}

#[test]
fn debug_text_shows_every_byte() {
    expect![[r#"
        text source=argv utf8Bytes=5 containsNewline=true containsLiteralBackslashN=false
        text json="⊢\n\t"
        text hex=e28aa20a09"#]]
    .assert_eq(&debug_text("argv", "⊢\n\t").join("\n"));
}

#[test]
fn switches() {
    for off in ["", "0", "false", "no", " NO "] {
        assert_eq!(switch(&HostEnv::from_vars([("BEAM_PROGRESS", off)]), "BEAM_PROGRESS"), Some(false), "{off:?}");
    }
    for on in ["1", "yes", "x"] {
        assert_eq!(switch(&HostEnv::from_vars([("BEAM_PROGRESS", on)]), "BEAM_PROGRESS"), Some(true));
    }
    assert_eq!(switch(&HostEnv::default(), "BEAM_PROGRESS"), None);
}

/// C1: one place writes answers; the daemon's word on its starter's pipe (ready, or why not) is none, and the MCP server's whole stdout is its protocol's.
#[test]
fn c1_only_one_place_writes_to_stdout() {
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut writers = Vec::new();
    for entry in std::fs::read_dir(sources).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let writes =
            |l: &str| !l.trim_start().starts_with("//") && (l.contains("io::stdout()") || l.contains(" println!("));
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.ends_with("_tests.rs") {
            writers.extend(text.lines().filter(|l| writes(l)).map(|_| name.clone()));
        }
    }
    writers.sort();
    // The daemon tells its starter that it is ready, or why it will not be.
    writers.dedup();
    assert_eq!(writers, ["daemon.rs", "mcp.rs", "ui.rs"]);
}
