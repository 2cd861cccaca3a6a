//! Projections of broker responses as they were recorded from real Lean, and of such as no broker may send.

use beam_wire::field::FieldType;
use beam_wire::{ErrorBody, Request};
use expect_test::{Expect, expect};

use super::super::descriptor::Workspace;
use super::super::table::{TOOLS, find};
use super::super::truncate::OutputLimits;
use super::super::{stats, version_object};
use super::*;

fn call(tool: &Tool, diagnostics_in_result: bool) -> OperationCall {
    let workspace = Workspace { root: beam_base::AbsPath::new("/p").unwrap() };
    let operation = tool.operation.unwrap();
    let mut fields = Map::new();
    // Values that the types take; which ones does not matter.
    for field in operation.op.spec().required() {
        let value = match field.ty {
            FieldType::Coordinate | FieldType::Number => json!(1),
            FieldType::Handle => serde_json::from_str(HANDLE).unwrap(),
            FieldType::Object => json!({}),
            FieldType::Texts => json!(["x"]),
            _ => json!("Main.lean"),
        };
        fields.insert(field.name.to_owned(), value);
    }
    fields.extend(operation.fixed.iter().map(|(field, value)| (field.name.to_owned(), (*value).into())));
    if diagnostics_in_result {
        fields.insert("diagnosticsInResult".to_owned(), true.into());
    }
    fields.insert("op".to_owned(), operation.op.name().into());
    fields.insert("workspaceId".to_owned(), "w".into());
    let request = Request::from_map(fields).unwrap();
    OperationCall { workspace, request, limits: OutputLimits::default(), outside: false }
}

fn answered(tool: &Tool, response: &str) -> serde_json::Result<Response<Answer>> {
    let response: Response = serde_json::from_str(response).unwrap();
    let shape = tool.operation.unwrap().op.spec().answer;
    let outcome = match response.outcome {
        Ok(value) => Ok(Answer::decode(shape, value)?),
        Err(e) => Err(e),
    };
    Ok(Response { outcome, file_progress: response.file_progress })
}

fn projected(name: &str, response: &str) -> ToolOutput {
    let tool = find(name).unwrap();
    project(tool, &call(tool, name == "lean_sync"), answered(tool, response).unwrap())
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

/// What the answer's type refuses: it never gets here.
fn undecodable(name: &str, result: &str, why: &str) {
    let e = answered(find(name).unwrap(), &format!(r#"{{"ok":true,"result":{result}}}"#)).expect_err(name);
    assert!(e.to_string().contains(why), "{name}: {e}");
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
fn what_a_success_leaves_open_and_what_helps_a_failure() {
    let run = |more: &str| format!(r#"{{"success":true,"messages":[],"traces":[],"proofState":{{"goals":[]}}{more}}}"#);
    check(
        "lean_run_at",
        &run(r#","caveats":["sorry","recursion"],"staleImports":["A.B"]"#),
        &expect![[
            r#"{"workspace":{"root":"/p"},"success":true,"messages":[],"traces":[],"proof_state":{"goals":[]},"next_handle":null,"caveats":["sorry","recursion"],"stale_imports":["A.B"]}"#
        ]],
    );
    check(
        "lean_run_at",
        r#"{"success":false,"messages":[],"traces":[],"at":{"lineText":"  rfl","basis":"tactic"},"hint":{"code":"leadingBy","text":"t"},"stateUnchanged":true}"#,
        &expect![[
            r#"{"workspace":{"root":"/p"},"success":false,"messages":[],"traces":[],"proof_state":null,"next_handle":null,"at":{"line_text":"  rfl","basis":"tactic"},"hint":{"code":"leadingBy","text":"t"},"state_unchanged":true}"#
        ]],
    );
    check(
        "lean_run_at",
        r#"{"success":true,"messages":[],"traces":[],"proofState":{"text":["⊢ p"],"unchangedHyps":[2],"removedHyps":[["h"]]}}"#,
        &expect![[
            r#"{"workspace":{"root":"/p"},"success":true,"messages":[],"traces":[],"proof_state":{"text":["⊢ p"],"unchangedHyps":[2],"removedHyps":[["h"]]},"next_handle":null}"#
        ]],
    );
    check(
        "lean_try",
        r#"{"results":[{"index":0,"outcome":"failed","message":"m","hint":{"code":"fence","text":"t"}},{"index":1,"outcome":"goals","proofState":{"goals":[{"userName":"left","goalPrefix":"⊢ ","target":"p","hyps":[]}]}},{"index":2,"outcome":"solved","caveats":["sorry"],"proofState":{"count":0}}]}"#,
        &expect![[
            r#"{"workspace":{"root":"/p"},"results":[{"index":0,"outcome":"failed","message":"m","hint":{"code":"fence","text":"t"}},{"index":1,"outcome":"goals","proof_state":{"goals":[{"userName":"left","goalPrefix":"⊢ ","target":"p","hyps":[]}]}},{"index":2,"outcome":"solved","caveats":["sorry"],"proof_state":{"count":0}}]}"#
        ]],
    );
}

#[test]
fn goals_of_both_sides() {
    let goal = r#"{"goals":[{"userName":"left","goalPrefix":"⊢ ","target":"p","hyps":[]}]}"#;
    check(
        "lean_goals",
        &format!(r#"{{"before":{goal},"after":{{"goals":[]}}}}"#),
        &expect![[
            r#"{"workspace":{"root":"/p"},"before":{"goals":[{"userName":"left","goalPrefix":"⊢ ","target":"p","hyps":[]}]},"after":{"goals":[]}}"#
        ]],
    );
    check(
        "lean_goals",
        &format!(
            r#"{{"expectedType":{goal},"at":{{"lineText":"x","basis":"term"}},"hint":{{"code":"notReached","text":"t"}}}}"#
        ),
        &expect![[
            r#"{"workspace":{"root":"/p"},"expected_type":{"goals":[{"userName":"left","goalPrefix":"⊢ ","target":"p","hyps":[]}]},"at":{"line_text":"x","basis":"term"},"hint":{"code":"notReached","text":"t"}}"#
        ]],
    );
    check(
        "lean_snippet",
        &format!(
            r#"{{"success":false,"imports":["Init"],"diagnostics":[{{"range":{{"start":{{"line":0,"character":0}},"end":{{"line":0,"character":1}}}},"severity":"error","message":"m"}}],"output":"o","goals":{{"before":{goal},"expectedType":{goal}}}}}"#
        ),
        &expect![[
            r#"{"workspace":{"root":"/p"},"success":false,"imports":["Init"],"diagnostics":[{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":1}},"severity":"error","message":"m"}],"output":"o","goals":{"before":{"goals":[{"userName":"left","goalPrefix":"⊢ ","target":"p","hyps":[]}]},"expected_type":{"goals":[{"userName":"left","goalPrefix":"⊢ ","target":"p","hyps":[]}]}}}"#
        ]],
    );
}

#[test]
fn questions() {
    check(
        "lean_search",
        r#"{"version":1,"hits":[{"name":"Nat.add_comm","kind":"theorem","signature":"s","module":"Init","origin":"library","matched":"conclusion"}],"next":7,"outOfTime":true}"#,
        &expect![[
            r#"{"workspace":{"root":"/p"},"version":1,"hits":[{"name":"Nat.add_comm","kind":"theorem","signature":"s","module":"Init","origin":"library","matched":"conclusion"}],"next":7,"out_of_time":true}"#
        ]],
    );
    check(
        "lean_check",
        r#"{"version":1,"declarations":["t"],"verdict":"sorry","axioms":["sorryAx"],"unusualAxioms":[],"sorries":[{"declaration":"t"}],"unsafeParts":[{"declaration":"u","why":"implemented_by"}],"errors":[{"fullRange":{},"severity":1,"message":"m"}],"importedWithoutProof":3}"#,
        &expect![[
            r#"{"workspace":{"root":"/p"},"version":1,"declarations":["t"],"verdict":"sorry","axioms":["sorryAx"],"unusual_axioms":[],"sorries":[{"declaration":"t"}],"unsafe_parts":[{"declaration":"u","why":"implemented_by"}],"errors":[{"fullRange":{},"severity":1,"message":"m"}],"imported_without_proof":3}"#
        ]],
    );
    check(
        "lean_code_actions",
        r#"{"version":1,"actions":[{"title":"t","isPreferred":true,"edit":{"documentChanges":[{"textDocument":{"uri":"u"}}]}}]}"#,
        &expect![[
            r#"{"workspace":{"root":"/p"},"version":1,"actions":[{"title":"t","isPreferred":true,"edit":{"documentChanges":[{"textDocument":{"uri":"u"}}]}}]}"#
        ]],
    );
    check(
        "lean_diagnostics",
        r#"{"version":1,"total":2,"diagnostics":[{"path":"A.lean","uri":"file:///p/A.lean","version":1,"severity":2,"range":{"start":{"line":0,"character":0},"end":{"line":1,"character":0}},"message":"m","completionBlocking":false}]}"#,
        &expect![[
            r#"{"workspace":{"root":"/p"},"version":1,"total":2,"diagnostics":[{"path":"A.lean","uri":"file:///p/A.lean","version":1,"severity":"warning","range":{"start":{"line":0,"character":0},"end":{"line":1,"character":0}},"message":"m","completion_blocking":false}],"document_progress":{"updates":28,"done":true,"range_end_line":11}}"#
        ]],
    );
    check(
        "lean_todo",
        r#"{"version":1,"range":{"start":{"line":0,"character":0},"end":{"line":1,"character":0}},"lineCount":2,"staleImports":["A"],"items":[]}"#,
        &expect![[
            r#"{"workspace":{"root":"/p"},"version":1,"range":{"start":{"line":0,"character":0},"end":{"line":1,"character":0}},"line_count":2,"stale_imports":["A"],"items":[]}"#
        ]],
    );
    let sorries = SYNC.replacen(
        r#","readiness":"#,
        r#","sorries":[{"line":1,"character":2,"declaration":"t"}],"sorriesTotal":101,"readiness":"#,
        1,
    );
    check(
        "lean_sync",
        &sorries,
        &expect![[
            r#"{"workspace":{"root":"/p"},"path":"Main.lean","version":3,"diagnostics":{"counts":{"error":1,"warning":1,"information":0,"hint":0,"unknown":0,"total":2}},"readiness":{"save_ready":false,"reason":"documentErrors","blocking_error_count":1,"blocking_diagnostics":[{"range":{"start":{"line":1,"character":2},"end":{"line":1,"character":3}},"severity":"error","message":"bad","save_blocking":true,"completion_blocking":false}],"blocking_messages":[{"message":"m","save_blocking":true,"completion_blocking":false}]},"sorries":[{"line":1,"character":2,"declaration":"t"}],"sorries_total":101,"document_progress":{"updates":28,"done":true,"range_end_line":11}}"#
        ]],
    );
}

/// An edit is whole or not there: half of one would be applied.
#[test]
fn code_actions_lose_no_part() {
    let tool = find("lean_code_actions").unwrap();
    let action = |n: usize| json!({ "title": "t", "edit": { "newText": "x".repeat(n) }, "diagnostics": [{ "message": "m".repeat(7000) }] });
    let mut call = call(tool, false);
    call.limits.max_output_bytes = 20_000;
    for sizes in [[100, 12_000], [30_000, 100]] {
        let actions = sizes.map(action);
        let answer = json!({ "version": 1, "actions": actions });
        let answer = Answer::decode(AnswerType::CodeActions, answer).unwrap();
        let out = project(tool, &call, Response::ok(answer));
        assert!(!out.is_error, "{}", out.structured);
        let shown = out.structured["actions"].as_array().unwrap();
        assert!(shown.len() < 2 && shown.iter().all(|a| actions.contains(a)), "{sizes:?}: {}", shown.len());
        assert_eq!(out.structured["truncated"][0]["field"], "actions");
        assert_eq!(out.structured["truncated"][0]["total"], 2);
    }
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
            r#"{"workspace":{"root":"/p"},"path":"Main.lean","version":3,"diagnostics":{"counts":{"error":1,"warning":1,"information":0,"hint":0,"unknown":0,"total":2},"items":[{"path":"Main.lean","uri":"file:///p/Main.lean","version":3,"severity":"error","range":{"start":{"line":1,"character":2},"end":{"line":1,"character":3}},"message":"bad","save_blocking":true,"completion_blocking":false}]},"readiness":{"save_ready":false,"reason":"documentErrors","blocking_error_count":1,"blocking_diagnostics":[{"range":{"start":{"line":1,"character":2},"end":{"line":1,"character":3}},"severity":"error","message":"bad","save_blocking":true,"completion_blocking":false}],"blocking_messages":[{"message":"m","save_blocking":true,"completion_blocking":false}]},"document_progress":{"updates":28,"done":true,"range_end_line":11}}"#
        ]],
    );
    refused("lean_refresh", &SYNC.replace(r#""total":2}"#, items), "nobody asked");
    undecodable("lean_sync", &SYNC.replace(r#""total":2"#, r#""total":3"#), "add up");
    undecodable("lean_sync", &SYNC.replace(r#""version":3"#, r#""version":3,"delta":1"#), "delta");
    undecodable("lean_sync", &SYNC.replace(r#""saveReady":false,"#, ""), "saveReady");
    undecodable("lean_sync", "null", "null");
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
    undecodable("lean_save", &saved().replace(r#""ilean""#, r#""extraArtifact":"/x","ilean""#), "extraArtifact");
    refused("lean_save", &saved().replacen(r#""version":3"#, r#""version":4"#, 1), "different texts");
    refused("lean_save", &saved().replacen("Main.lean", "Other.lean", 1), "different texts");
    undecodable("lean_save", r#"{"closed":true}"#, "closed");
    refused("lean_close_save", r#"{"closed":true}"#, "saved");
    refused("lean_close_save", &format!(r#"{{"closed":false,"saved":{}}}"#, saved()), "without having closed");
    refused("lean_close", r#"{"closed":false}"#, "without having closed");
    refused("lean_close", &format!(r#"{{"closed":true,"saved":{}}}"#, saved()), "nobody asked");
}

#[test]
fn other_answers_are_read_strictly_too() {
    undecodable("lean_run_at", r#"{"success":true,"messages":[]}"#, "traces");
    undecodable(
        "lean_run_at",
        r#"{"success":true,"messages":[],"traces":[],"clientRequestId":"x"}"#,
        "clientRequestId",
    );
    undecodable("lean_run_at", r#"{"success":true,"messages":[{"severity":"fatal","text":""}],"traces":[]}"#, "fatal");
    undecodable("lean_goals", r#"{"goals":1}"#, "expected a sequence");
    // The forms share one type, so an answer of no form at all can be read; it would look like a goal that is solved.
    refused("lean_goals", r#"{"goals":null}"#, "no goals");
    refused("lean_goals", "{}", "no goals");
    undecodable("lean_try", r#"{"results":[{"index":0}]}"#, "outcome");
    undecodable("lean_search", r#"{"version":1}"#, "hits");
    undecodable("lean_check", r#"{"version":1,"verdict":"fine"}"#, "fine");
    undecodable("lean_snippet", r#"{"success":true,"imports":[]}"#, "diagnostics");
    undecodable("lean_code_actions", r#"{"actions":[]}"#, "version");
    undecodable("lean_diagnostics", r#"{"version":1,"diagnostics":[]}"#, "total");
    undecodable("lean_update", r#"{"version":-1,"changed":true}"#, "-1");
    undecodable("lean_todo", r#"{"version":1,"items":[]}"#, "range");
    undecodable("lean_code_action_resolve", r#"{"version":1}"#, "codeAction");
    undecodable("lean_release", r#"{"released":true}"#, "unit");
}

/// An answer of another operation than the one that was asked for.
#[test]
fn an_answer_to_something_else_is_not_passed_on() {
    for tool in TOOLS.iter().filter(|t| t.operation.is_some()) {
        let other = if tool.name == "lean_close" { "lean_update" } else { "lean_close" };
        let text = if tool.name == "lean_close" { r#"{"version":1,"changed":true}"# } else { r#"{"closed":true}"# };
        let response = answered(find(other).unwrap(), &format!(r#"{{"ok":true,"result":{text}}}"#)).unwrap();
        let out = project(tool, &call(tool, false), response);
        // `close` and `close_save` have one shape, and differ in what it holds.
        assert_eq!(out.structured["code"], "invalidResult", "{}: {}", tool.name, out.structured);
    }
}

/// W3: whatever is added to an answer's type appears here by itself, behind the five keys that are always there.
#[test]
fn what_an_answer_has_besides_its_promised_keys_comes_last() {
    let answer: Map<String, Value> = serde_json::from_value(json!({
        "newKey": 1, "success": true, "messages": [], "handle": { "a": 1 }, "traces": [], "caveats": ["sorry"],
    }))
    .unwrap();
    assert_eq!(
        Value::Object(five_keys(answer)).to_string(),
        r#"{"success":true,"messages":[],"traces":[],"proof_state":null,"next_handle":{"a":1},"newKey":1,"caveats":["sorry"]}"#
    );
}

#[test]
fn a_file_outside_of_the_root_is_said_to_be_so() {
    let tool = find("lean_close").unwrap();
    let mut call = call(tool, false);
    for outside in [true, false] {
        call.outside = outside;
        let out = project(tool, &call, answered(tool, r#"{"ok":true,"result":{"closed":true}}"#).unwrap());
        assert_eq!(out.structured.get("outside_workspace"), outside.then_some(&json!(true)));
    }
}

#[test]
fn failures_pass_with_their_data() {
    let data = json!({ "reason": "documentVersionMismatch", "expectedVersion": 1, "currentVersion": 2 });
    let error = ErrorBody { code: "contentModified".into(), message: "m".into(), data: Some(data.clone()) };
    for tool in TOOLS.iter().filter(|t| t.operation.is_some()) {
        let out = project(tool, &call(tool, false), Response::failed(error.clone()));
        assert!(out.is_error);
        assert_eq!(out.structured, json!({ "code": "contentModified", "message": "m", "data": data }));
    }
}

#[test]
fn large_results_are_cut_and_say_so() {
    let tool = find("lean_workspace_symbols").unwrap();
    let many: Vec<_> = (0..9000).map(|n| json!({ "name": format!("symbol{n}"), "kind": 14 })).collect();
    let mut call = call(tool, false);
    call.limits.max_output_bytes = 10_000;
    let out = project(tool, &call, Response::ok(Answer::Lsp(many.into())));
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
    let long = StreamDiagnostic { message: "é".repeat(500_000), ..bare.clone() };
    let told = diagnostic_data(&long);
    assert_eq!(told["message"].as_str().unwrap().chars().count(), 6001);
    assert_eq!(
        told["truncated"],
        json!([{ "field": "message", "unit": "characters", "shown": 6000, "total": 500_000 }])
    );
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
