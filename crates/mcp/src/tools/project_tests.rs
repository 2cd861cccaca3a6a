//! Projections of broker responses as they were recorded from real Lean, and of such as no broker may send.

use beam_wire::{ErrorBody, Request};
use expect_test::{Expect, expect};

use super::super::descriptor::Workspace;
use super::super::table::{TOOLS, find};
use super::super::{stats, version_object};
use super::*;

fn call(tool: &Tool, diagnostics_in_result: bool) -> Call {
    let workspace = Workspace { root: beam_base::AbsPath::new("/p").unwrap() };
    let mut args = beam_wire::Args { path: Some("Main.lean".to_owned()), ..Default::default() };
    args.diagnostics_in_result = diagnostics_in_result.then_some(true);
    let request = Request::new(tool.operation.unwrap().op, args);
    Call { workspace, request }
}

fn projected(name: &str, response: &str) -> ToolOutput {
    let tool = find(name).unwrap();
    let response: Response = serde_json::from_str(response).unwrap();
    project(tool, &call(tool, name == "lean_sync"), response, &OutputLimits::default())
}

fn check(name: &str, result: &str, expect: &Expect) {
    let progress = r#"{"updates":28,"done":true,"rangeEndLine":11}"#;
    let out = projected(name, &format!(r#"{{"ok":true,"result":{result},"fileProgress":{progress}}}"#));
    assert!(!out.is_error, "{}", out.structured);
    assert!(out.structured.to_string().starts_with(r#"{"workspace":{"root":"/p"}"#), "{}", out.structured);
    expect.assert_eq(&out.structured.to_string());
}

fn refused(name: &str, result: &str, why: &str) {
    let out = projected(name, &format!(r#"{{"ok":true,"result":{result}}}"#));
    assert!(out.is_error, "{name}: {}", out.structured);
    assert_eq!(out.structured["code"], "invalidResult", "{}", out.structured);
    assert!(out.structured.get("workspace").is_none());
    let message = out.structured["message"].as_str().unwrap();
    assert!(message.starts_with(name) && message.contains(why), "{message}");
}

const FAILED: &str = r#"{"success":false,"messages":[{"severity":"error","text":"Type mismatch\n  hp"}],"traces":["t"],"proofState":{"goals":[{"userName":"right","goalPrefix":"⊢ ","target":"q","hyps":[{"names":["p","q"],"type":"Prop"},{"names":["x"],"type":"p","value":"hp"}]}]}}"#;
const HANDLE: &str =
    r#"{"workspaceId":"local:/p","backend":"lean","epoch":1,"session":"8b43","raw":{"value":"lbh1-c6a9"}}"#;

#[test]
fn runs_have_exactly_five_keys_and_no_progress() {
    check(
        "lean_run_at",
        FAILED,
        &expect![[
            r#"{"workspace":{"root":"/p"},"success":false,"messages":[{"severity":"error","text":"Type mismatch\n  hp"}],"traces":["t"],"proof_state":{"goals":[{"userName":"right","goalPrefix":"⊢ ","target":"q","hyps":[{"names":["p","q"],"type":"Prop"},{"names":["x"],"type":"p","value":"hp"}]}]},"next_handle":null}"#
        ]],
    );
    check(
        "lean_run_at",
        r#"{"success":true,"messages":[],"traces":[]}"#,
        &expect![[
            r#"{"workspace":{"root":"/p"},"success":true,"messages":[],"traces":[],"proof_state":null,"next_handle":null}"#
        ]],
    );
    for name in ["lean_run_at_handle", "lean_run_with", "lean_run_with_linear"] {
        check(
            name,
            &format!(r#"{{"success":true,"messages":[],"traces":[],"proofState":{{"goals":[]}},"handle":{HANDLE}}}"#),
            &expect![[
                r#"{"workspace":{"root":"/p"},"success":true,"messages":[],"traces":[],"proof_state":{"goals":[]},"next_handle":{"workspaceId":"local:/p","backend":"lean","epoch":1,"session":"8b43","raw":{"value":"lbh1-c6a9"}}}"#
            ]],
        );
    }
}

#[test]
fn what_is_leans_passes_unchanged() {
    check("lean_hover", "null", &expect![[r#"{"workspace":{"root":"/p"},"result":null}"#]]);
    check(
        "lean_hover",
        r#"{"contents":{"kind":"markdown","value":"`twice`"},"range":{"start":{"line":8,"character":6},"end":{"line":8,"character":11}}}"#,
        &expect![[
            r#"{"workspace":{"root":"/p"},"contents":{"kind":"markdown","value":"`twice`"},"range":{"start":{"line":8,"character":6},"end":{"line":8,"character":11}}}"#
        ]],
    );
    check(
        "lean_signature_help",
        r#"{"activeSignature":0,"signatures":[{"label":"(n : Nat) → Nat"}]}"#,
        &expect![[r#"{"workspace":{"root":"/p"},"activeSignature":0,"signatures":[{"label":"(n : Nat) → Nat"}]}"#]],
    );
    check(
        "lean_definition",
        r#"[{"originSelectionRange":{},"targetUri":"file:///p/Main.lean"}]"#,
        &expect![[
            r#"{"workspace":{"root":"/p"},"result":[{"originSelectionRange":{},"targetUri":"file:///p/Main.lean"}]}"#
        ]],
    );
    check(
        "lean_references",
        r#"[{"uri":"file:///p/Main.lean","range":{}}]"#,
        &expect![[r#"{"workspace":{"root":"/p"},"result":[{"uri":"file:///p/Main.lean","range":{}}]}"#]],
    );
    check(
        "lean_document_symbols",
        r#"[{"name":"twice","kind":6,"selectionRange":{}}]"#,
        &expect![[r#"{"workspace":{"root":"/p"},"result":[{"name":"twice","kind":6,"selectionRange":{}}]}"#]],
    );
    check("lean_workspace_symbols", "[]", &expect![[r#"{"workspace":{"root":"/p"},"result":[]}"#]]);
    check("lean_release", "null", &expect![[r#"{"workspace":{"root":"/p"},"result":null}"#]]);
    // The echo is ours, whatever Lean says.
    check(
        "lean_hover",
        r#"{"workspace":"x","contents":"y"}"#,
        &expect![[r#"{"workspace":{"root":"/p"},"contents":"y"}"#]],
    );
}

#[test]
fn goals_todo_and_code_actions() {
    check(
        "lean_goals",
        r#"{"goals":[{"userName":"left","goalPrefix":"⊢ ","target":"p","hyps":[]}]}"#,
        &expect![[
            r#"{"workspace":{"root":"/p"},"goals":[{"userName":"left","goalPrefix":"⊢ ","target":"p","hyps":[]}]}"#
        ]],
    );
    check(
        "lean_todo",
        r#"{"version":1,"range":{"start":{"line":6,"character":0},"end":{"line":7,"character":0}},"items":[
            {"kind":"sorry","range":{"start":{"line":6,"character":4},"end":{"line":6,"character":9}},"runAtPosition":{"line":6,"character":4},"message":"m"},
            {"kind":"incomplete_proof","range":{"start":{"line":6,"character":4},"end":{"line":6,"character":9}},"runAtPosition":{"line":6,"character":9},"runAtText":"exact ?_","proofState":{"goals":[{"goalPrefix":"⊢ "}]}},
            {"kind":"diagnostic","range":{"start":{"line":6,"character":4},"end":{"line":6,"character":9}},"runAtPosition":{"line":6,"character":4},"severity":2,"diagnostic":{"fullRange":{},"leanTags":[1]}},
            {"kind":"code_action","range":{"start":{"line":6,"character":4},"end":{"line":6,"character":9}},"runAtPosition":{"line":6,"character":4},"codeAction":{"title":"Try this","isPreferred":true,"data":{"providerName":"x"}}}]}"#,
        &expect![[
            r#"{"workspace":{"root":"/p"},"version":1,"range":{"start":{"line":6,"character":0},"end":{"line":7,"character":0}},"items":[{"kind":"sorry","range":{"start":{"line":6,"character":4},"end":{"line":6,"character":9}},"run_at_position":{"line":6,"character":4},"message":"m"},{"kind":"incomplete_proof","range":{"start":{"line":6,"character":4},"end":{"line":6,"character":9}},"run_at_position":{"line":6,"character":9},"run_at_text":"exact ?_","proof_state":{"goals":[{"goalPrefix":"⊢ "}]}},{"kind":"diagnostic","range":{"start":{"line":6,"character":4},"end":{"line":6,"character":9}},"run_at_position":{"line":6,"character":4},"severity":2,"diagnostic":{"fullRange":{},"leanTags":[1]}},{"kind":"code_action","range":{"start":{"line":6,"character":4},"end":{"line":6,"character":9}},"run_at_position":{"line":6,"character":4},"code_action":{"title":"Try this","isPreferred":true,"data":{"providerName":"x"}}}]}"#
        ]],
    );
    check(
        "lean_code_action_resolve",
        r#"{"version":2,"codeAction":{"title":"t","edit":{"documentChanges":[]}}}"#,
        &expect![[
            r#"{"workspace":{"root":"/p"},"version":2,"code_action":{"title":"t","edit":{"documentChanges":[]}}}"#
        ]],
    );
}

#[test]
fn update_and_close() {
    check(
        "lean_update",
        r#"{"version":1,"changed":true}"#,
        &expect![[r#"{"workspace":{"root":"/p"},"version":1,"changed":true}"#]],
    );
    check("lean_close", r#"{"closed":true}"#, &expect![[r#"{"workspace":{"root":"/p"},"closed":true}"#]]);
}

const SYNC: &str = r#"{"path":"Main.lean","version":3,"diagnostics":{"counts":{"error":1,"warning":1,"information":0,"hint":0,"unknown":0,"total":2}},"readiness":{"saveReady":false,"reason":"documentErrors","blockingErrorCount":1,"blockingDiagnostics":[{"range":{"start":{"line":1,"character":2},"end":{"line":1,"character":3}},"severity":1,"message":"bad","saveBlocking":true,"completionBlocking":false}],"blockingMessages":[{"message":"m","saveBlocking":true,"completionBlocking":false}]}}"#;

#[test]
fn the_barrier() {
    check(
        "lean_refresh",
        SYNC,
        &expect![[
            r#"{"workspace":{"root":"/p"},"path":"Main.lean","version":3,"diagnostics":{"counts":{"error":1,"warning":1,"information":0,"hint":0,"unknown":0,"total":2}},"readiness":{"save_ready":false,"reason":"documentErrors","blocking_error_count":1,"blocking_diagnostics":[{"range":{"start":{"line":1,"character":2},"end":{"line":1,"character":3}},"severity":"error","message":"bad","save_blocking":true,"completion_blocking":false}],"blocking_messages":[{"message":"m","save_blocking":true,"completion_blocking":false}]},"document_progress":{"updates":28,"done":true,"range_end_line":11}}"#
        ]],
    );
    let items = r#""total":2},"items":[{"path":"Main.lean","uri":"file:///p/Main.lean","version":3,"severity":1,"range":{"start":{"line":1,"character":2},"end":{"line":1,"character":3}},"message":"bad","saveBlocking":true,"completionBlocking":false}]"#;
    check(
        "lean_sync",
        &SYNC.replace(r#""total":2}"#, items),
        &expect![[
            r#"{"workspace":{"root":"/p"},"path":"Main.lean","version":3,"diagnostics":{"counts":{"error":1,"warning":1,"information":0,"hint":0,"unknown":0,"total":2},"items":[{"path":"Main.lean","uri":"file:///p/Main.lean","severity":"error","range":{"start":{"line":1,"character":2},"end":{"line":1,"character":3}},"message":"bad","completion_blocking":false,"save_blocking":true,"version":3}]},"readiness":{"save_ready":false,"reason":"documentErrors","blocking_error_count":1,"blocking_diagnostics":[{"range":{"start":{"line":1,"character":2},"end":{"line":1,"character":3}},"severity":"error","message":"bad","save_blocking":true,"completion_blocking":false}],"blocking_messages":[{"message":"m","save_blocking":true,"completion_blocking":false}]},"document_progress":{"updates":28,"done":true,"range_end_line":11}}"#
        ]],
    );
    refused("lean_refresh", &SYNC.replace(r#""total":2}"#, items), "nobody asked");
    refused("lean_sync", &SYNC.replace(r#""total":2"#, r#""total":3"#), "add up");
    refused("lean_sync", &SYNC.replace(r#""version":3"#, r#""version":3,"delta":1"#), "delta");
    refused("lean_sync", &SYNC.replace(r#""saveReady":false,"#, ""), "saveReady");
    refused("lean_sync", "null", "null");
}

fn saved() -> String {
    let sync = SYNC.replace(r#""error":1,"warning":1"#, r#""error":0,"warning":2"#);
    format!(
        r#"{{"path":"Main.lean","module":"Main","version":3,"sourceHash":"9a9bdc9950870951","olean":"/p/Main.olean","ilean":"/p/Main.ilean","c":"/p/Main.c","trace":"/p/Main.trace","oleanServer":"/p/Main.olean.server","sync":{sync}}}"#
    )
}

#[test]
fn checkpoints_are_closed_shapes() {
    check(
        "lean_save",
        &saved(),
        &expect![[
            r#"{"workspace":{"root":"/p"},"path":"Main.lean","module":"Main","version":3,"source_hash":"9a9bdc9950870951","olean":"/p/Main.olean","ilean":"/p/Main.ilean","c":"/p/Main.c","trace":"/p/Main.trace","olean_server":"/p/Main.olean.server","sync":{"path":"Main.lean","version":3,"diagnostics":{"counts":{"error":0,"warning":2,"information":0,"hint":0,"unknown":0,"total":2}},"readiness":{"save_ready":false,"reason":"documentErrors","blocking_error_count":1,"blocking_diagnostics":[{"range":{"start":{"line":1,"character":2},"end":{"line":1,"character":3}},"severity":"error","message":"bad","save_blocking":true,"completion_blocking":false}],"blocking_messages":[{"message":"m","save_blocking":true,"completion_blocking":false}]}},"document_progress":{"updates":28,"done":true,"range_end_line":11}}"#
        ]],
    );
    check(
        "lean_close_save",
        &format!(r#"{{"closed":true,"saved":{}}}"#, saved()),
        &expect![[
            r#"{"workspace":{"root":"/p"},"closed":true,"saved":{"path":"Main.lean","module":"Main","version":3,"source_hash":"9a9bdc9950870951","olean":"/p/Main.olean","ilean":"/p/Main.ilean","c":"/p/Main.c","trace":"/p/Main.trace","olean_server":"/p/Main.olean.server","sync":{"path":"Main.lean","version":3,"diagnostics":{"counts":{"error":0,"warning":2,"information":0,"hint":0,"unknown":0,"total":2}},"readiness":{"save_ready":false,"reason":"documentErrors","blocking_error_count":1,"blocking_diagnostics":[{"range":{"start":{"line":1,"character":2},"end":{"line":1,"character":3}},"severity":"error","message":"bad","save_blocking":true,"completion_blocking":false}],"blocking_messages":[{"message":"m","save_blocking":true,"completion_blocking":false}]}}},"document_progress":{"updates":28,"done":true,"range_end_line":11}}"#
        ]],
    );
    refused("lean_save", &saved().replace(r#""ilean""#, r#""extraArtifact":"/x","ilean""#), "extraArtifact");
    refused("lean_save", &saved().replacen(r#""version":3"#, r#""version":4"#, 1), "different texts");
    refused("lean_save", &saved().replacen("Main.lean", "Other.lean", 1), "different texts");
    refused("lean_save", r#"{"closed":true}"#, "closed");
    refused("lean_close_save", r#"{"closed":true}"#, "saved");
    refused("lean_close_save", &format!(r#"{{"closed":false,"saved":{}}}"#, saved()), "without having closed");
    refused("lean_close", r#"{"closed":false}"#, "without having closed");
    refused("lean_close", r#"{"closed":true,"saved":null}"#, "saved");
}

#[test]
fn other_answers_are_read_strictly_too() {
    refused("lean_run_at", r#"{"success":true,"messages":[]}"#, "traces");
    refused("lean_run_at", r#"{"success":true,"messages":[],"traces":[],"clientRequestId":"x"}"#, "clientRequestId");
    refused("lean_run_at", r#"{"success":true,"messages":[{"severity":"fatal","text":""}],"traces":[]}"#, "fatal");
    refused("lean_goals", r#"{"goals":null}"#, "null");
    refused("lean_update", r#"{"version":-1,"changed":true}"#, "-1");
    refused("lean_todo", r#"{"version":1,"items":[]}"#, "range");
    refused("lean_code_action_resolve", r#"{"version":1}"#, "codeAction");
    refused("lean_release", r#"{"released":true}"#, "expected null");
}

#[test]
fn failures_pass_with_their_data() {
    let data = json!({ "reason": "documentVersionMismatch", "expectedVersion": 1, "currentVersion": 2 });
    let error = ErrorBody { code: "contentModified".into(), message: "m".into(), data: Some(data.clone()) };
    for tool in TOOLS.iter().filter(|t| t.operation.is_some()) {
        let out = project(tool, &call(tool, false), Response::failed(error.clone()), &OutputLimits::default());
        assert!(out.is_error);
        assert_eq!(out.structured, json!({ "code": "contentModified", "message": "m", "data": data }));
    }
}

#[test]
fn large_results_are_cut_and_say_so() {
    let tool = find("lean_workspace_symbols").unwrap();
    let many: Vec<_> = (0..9000).map(|n| json!({ "name": format!("symbol{n}"), "kind": 14 })).collect();
    let limits = OutputLimits { max_output_bytes: 10_000 };
    let out = project(tool, &call(tool, false), Response::ok(many.into()), &limits);
    assert!(!out.is_error);
    assert!(out.structured.to_string().len() <= 10_000);
    assert_eq!(out.structured["truncated"][0]["field"], "result");
    assert_eq!(out.structured["truncated"][0]["total"], 9000);
}

#[test]
fn logs_use_the_items_shape() {
    let bare: StreamDiagnostic = serde_json::from_str(
        r#"{"path":"A.lean","uri":"file:///p/A.lean","range":{"start":{"line":0,"character":0},"end":{"line":1,"character":0}},"message":"ℹ [2/7] Replayed Foo.Bar","severity":3}"#,
    )
    .unwrap();
    expect![[r#"{"path":"A.lean","uri":"file:///p/A.lean","severity":"information","range":{"start":{"line":0,"character":0},"end":{"line":1,"character":0}},"message":"ℹ [2/7] Replayed Foo.Bar","completion_blocking":false}"#]].assert_eq(&diagnostic_data(&bare).to_string());
    assert!(super::super::is_setup_line(&bare));
    let words: Vec<_> = [Some(1), Some(2), Some(3), Some(4), None, Some(9)].into_iter().map(severity).collect();
    assert_eq!(words, ["error", "warning", "information", "hint", "unknown", "unknown"]);
}

#[test]
fn drops() {
    let target = DropTarget { root: beam_base::AbsPath::new("/p").unwrap() };
    let text = |dropped, invalidated_handles| {
        dropped_text(&super::dropped(&target, &Dropped { dropped, invalidated_handles }))
    };
    expect![[r#"{"workspace":{"root":"/p"},"dropped":true,"invalidated_handles":true}"#]].assert_eq(&text(true, true));
    expect![[r#"{"workspace":{"root":"/p"},"dropped":false,"invalidated_handles":false,"reason":"notFound"}"#]]
        .assert_eq(&text(false, false));
}

fn dropped_text(output: &ToolOutput) -> String {
    assert!(!output.is_error);
    output.structured.to_string()
}

#[test]
fn the_process_itself() {
    let version = version_object(false);
    let keys: Vec<_> = version.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["name", "version", "mcp_protocol", "server_binary", "runtime_active"]);
    assert_eq!(version["name"], "lean-beam-mcp");
    assert_eq!(version["mcp_protocol"], "2026-07-28");
    assert_eq!(version["runtime_active"], false);
    assert_eq!(version_object(true)["runtime_active"], true);
    let limits = OutputLimits::default();
    assert_eq!(stats(None, &limits).structured, json!({ "uptimeMs": 0, "workspaces": {} }));
    assert_eq!(stats(Some(json!({ "uptimeMs": 5 })), &limits).structured, json!({ "uptimeMs": 5 }));
}
