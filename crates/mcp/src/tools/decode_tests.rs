//! Arguments to requests: what every tool refuses, in which order, and what the broker is asked.

use expect_test::expect;
use serde_json::json;

use super::super::schema::ReportKind;
use super::super::table::{TOOLS, find};
use super::super::testing::Project;
use super::*;

impl Project {
    fn workspace(&self) -> Value {
        json!({ "root": self.root() })
    }
}

fn handle() -> Value {
    json!({ "workspaceId": "local:/p", "backend": "lean", "epoch": 1, "session": "s", "raw": { "v": 1 } })
}

/// A value that the argument takes.
fn good(argument: &Argument, project: &Project) -> Value {
    match argument.of {
        Of::Workspace => project.workspace(),
        Of::Field(field) => match field.kind {
            FieldKind::Str | FieldKind::NonEmpty => json!("A.lean"),
            FieldKind::Coordinate | FieldKind::Version => json!(3),
            FieldKind::Bool => json!(true),
            FieldKind::Choice(names) => json!(names[0]),
            FieldKind::Choices(names) => json!(names),
            FieldKind::Handle => handle(),
            FieldKind::Object => json!({ "title": "x" }),
        },
        Of::Report(kind) => match kind {
            ReportKind::Str => json!("text"),
            ReportKind::Bool => json!(false),
            ReportKind::Choice(names) => json!(names[0]),
            ReportKind::Strings => json!(["a"]),
            ReportKind::Object => json!({}),
            ReportKind::Evidence => json!([{ "name": "n", "content": "c" }]),
        },
    }
}

/// Values that no argument of that type takes.
fn wrong(argument: &Argument) -> Vec<Value> {
    match argument.of {
        Of::Workspace | Of::Report(_) => Vec::new(),
        Of::Field(field) => match field.kind {
            FieldKind::Str => vec![json!(1), json!(null), json!(["x"])],
            FieldKind::NonEmpty => vec![json!(""), json!(1), json!(null)],
            FieldKind::Coordinate => vec![json!(-1), json!(1.5), json!("1"), json!(4_294_967_296u64), json!(null)],
            FieldKind::Version => vec![json!(-1), json!(0.5), json!("1"), json!(null)],
            FieldKind::Bool => vec![json!("true"), json!(1), json!(null)],
            FieldKind::Choice(_) => vec![json!("Errors"), json!(true), json!(null)],
            FieldKind::Choices(_) => vec![json!("sorry"), json!(["nope"]), json!(null)],
            FieldKind::Handle => vec![json!("{}"), json!({}), json!({ "raw": {} }), json!(null), {
                let mut open = handle();
                open["extra"] = json!(1);
                open
            }],
            FieldKind::Object => vec![json!("{}"), json!([]), json!(null)],
        },
    }
}

fn all_good(tool: &Tool, project: &Project) -> Map<String, Value> {
    schema::arguments(tool).iter().map(|a| (a.name.clone(), good(a, project))).collect()
}

fn refused(tool: &Tool, arguments: Map<String, Value>) -> String {
    let e = decode(tool, arguments).expect_err(tool.name);
    assert_eq!(e.code, "invalidInput", "{}: {}", tool.name, e.message);
    assert!(e.message.starts_with(&format!("{}: ", tool.name)), "{}", e.message);
    e.message
}

#[test]
fn every_tool_takes_all_its_arguments_and_only_those() {
    let project = Project::new();
    for tool in TOOLS {
        decode(tool, all_good(tool, &project)).unwrap_or_else(|e| panic!("{}: {}", tool.name, e.message));
        for extra in
            ["root", "workspace_id", "workspaceId", "storeHandle", "store_handle", "full_diagnostics", "Path", ""]
        {
            let mut arguments = all_good(tool, &project);
            arguments.insert(extra.to_owned(), json!(true));
            let message = refused(tool, arguments);
            assert!(message.contains(&format!("undeclared argument `{extra}`")), "{message}");
        }
    }
}

#[test]
fn every_tool_insists_on_what_is_required() {
    let project = Project::new();
    for tool in TOOLS.iter().filter(|t| t.kind == ToolKind::Operation) {
        for argument in schema::arguments(tool) {
            let mut arguments = all_good(tool, &project);
            arguments.remove(&argument.name);
            let outcome = decode(tool, arguments);
            match outcome {
                Ok(_) => assert!(!argument.required, "{}: {}", tool.name, argument.name),
                Err(e) => {
                    assert!(argument.required && e.message.contains(&argument.name), "{}: {}", tool.name, e.message);
                }
            }
        }
    }
}

#[test]
fn every_argument_of_a_wrong_type_is_named() {
    let project = Project::new();
    for tool in TOOLS {
        for argument in schema::arguments(tool) {
            for value in wrong(&argument) {
                let mut arguments = all_good(tool, &project);
                arguments.insert(argument.name.clone(), value.clone());
                let message = refused(tool, arguments);
                assert!(message.contains(&format!("`{}`", argument.name)), "{value}: {message}");
            }
        }
    }
}

#[test]
fn checks_come_in_order() {
    let tool = find("lean_sync").unwrap();
    let bad_path_and_root = json!({ "workspace": { "root": "x" }, "path": 1 }).as_object().unwrap().clone();
    let mut and_unknown = bad_path_and_root.clone();
    and_unknown.insert("fast".to_owned(), json!(1));
    expect!["lean_sync: undeclared argument `fast`; it takes path, workspace, diagnostic_scope, diagnostics_in_result"]
        .assert_eq(&refused(tool, and_unknown));
    expect![[r#"lean_sync: the workspace cannot be used: `root` must be an absolute path, not "x"; pass "workspace": {"root": "/absolute/path/of/the/project"}"#]]
        .assert_eq(&refused(tool, bad_path_and_root));
    let project = Project::new();
    let only_path = json!({ "workspace": project.workspace(), "path": 1 }).as_object().unwrap().clone();
    expect!["lean_sync: `path` must be a non-empty string, not 1"].assert_eq(&refused(tool, only_path));
    let several = json!({ "workspace": project.workspace(), "path": "A.lean" }).as_object().unwrap().clone();
    expect!["lean_run_at: missing argument `version`, `line`, `character`, `text`"]
        .assert_eq(&refused(find("lean_run_at").unwrap(), several));
    expect!["beam_version: undeclared argument `workspace`; it takes no arguments"]
        .assert_eq(&refused(find("beam_version").unwrap(), json!({ "workspace": {} }).as_object().unwrap().clone()));
}

/// W3: the request as the broker gets it, for every tool with all its arguments.
#[test]
fn requests_of_every_tool() {
    let project = Project::new();
    let mut out = String::new();
    for tool in TOOLS {
        if let Decoded::Operation(call) = decode(tool, all_good(tool, &project)).unwrap() {
            let text = serde_json::to_string(&call.request.to_map()).unwrap();
            let text = text.replace(&project.root().to_string(), "ROOT");
            out.push_str(&format!("{} {} {text}\n", tool.name, call.request.args.path.as_deref().unwrap_or("-")));
        }
    }
    expect![[r#"
        lean_run_at A.lean {"op":"run_at","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"line":3,"character":3,"text":"A.lean"}
        lean_run_at_handle A.lean {"op":"run_at","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"line":3,"character":3,"text":"A.lean","storeHandle":true}
        lean_hover A.lean {"op":"hover","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"line":3,"character":3}
        lean_signature_help A.lean {"op":"signature_help","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"line":3,"character":3}
        lean_definition A.lean {"op":"definition","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"line":3,"character":3}
        lean_references A.lean {"op":"references","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"line":3,"character":3,"includeDeclaration":true}
        lean_document_symbols A.lean {"op":"document_symbols","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3}
        lean_workspace_symbols - {"op":"workspace_symbols","backend":"lean","workspaceId":"local:ROOT","query":"A.lean"}
        lean_goals A.lean {"op":"goals","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"line":3,"character":3,"mode":"before"}
        lean_todo A.lean {"op":"todo","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"line":3,"character":3,"endLine":3,"endCharacter":3,"kinds":["sorry","hole","diagnostic","code_action","incomplete_proof"],"suggest":"none"}
        lean_code_action_resolve A.lean {"op":"code_action_resolve","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"codeAction":{"title":"x"}}
        lean_run_with A.lean {"op":"run_with","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","text":"A.lean","storeHandle":true,"linear":false,"handle":{"workspaceId":"local:/p","backend":"lean","epoch":1,"session":"s","raw":{"v":1}}}
        lean_run_with_linear A.lean {"op":"run_with","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","text":"A.lean","storeHandle":true,"linear":true,"handle":{"workspaceId":"local:/p","backend":"lean","epoch":1,"session":"s","raw":{"v":1}}}
        lean_release A.lean {"op":"release","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","handle":{"workspaceId":"local:/p","backend":"lean","epoch":1,"session":"s","raw":{"v":1}}}
        lean_update A.lean {"op":"update_file","backend":"lean","workspaceId":"local:ROOT","path":"A.lean"}
        lean_sync A.lean {"op":"sync_file","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","diagnosticsInResult":true,"diagnosticScope":"errors"}
        lean_refresh A.lean {"op":"refresh_file","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","diagnosticsInResult":true,"diagnosticScope":"errors"}
        lean_save A.lean {"op":"save_olean","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","diagnosticScope":"errors"}
        lean_close_save A.lean {"op":"close","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","diagnosticScope":"errors","saveArtifacts":true}
        lean_close A.lean {"op":"close","backend":"lean","workspaceId":"local:ROOT","path":"A.lean"}
    "#]].assert_eq(&out);
}

#[test]
fn a_bare_call_asks_for_nothing_more() {
    let project = Project::new();
    let arguments = json!({ "workspace": project.workspace(), "path": "A.lean" }).as_object().unwrap().clone();
    let Decoded::Operation(call) = decode(find("lean_sync").unwrap(), arguments).unwrap() else { panic!() };
    assert_eq!(call.request.args.diagnostic_scope, None);
    assert_eq!(call.request.args.diagnostics_in_result, None);
    assert_eq!(call.request.root, None);
    assert_eq!(call.request.client_request_id, None);
    assert_eq!(call.workspace.root, project.root());
}

#[test]
fn a_report_and_a_drop() {
    let project = Project::new();
    let feedback = find("beam_feedback_report").unwrap();
    let Decoded::Feedback(call) = decode(feedback, all_good(feedback, &project)).unwrap() else { panic!() };
    assert!(!call.confidential());
    assert_eq!(call.workspace.root, project.root());
    let mut arguments = all_good(feedback, &project);
    arguments.remove("workspace");
    assert!(refused(feedback, arguments).contains("the workspace cannot be used: it is missing"));

    let drop = find("lean_drop_workspace").unwrap();
    assert!(refused(drop, Map::new()).contains("the workspace cannot be used"));
    let gone = json!({ "workspace": { "root": "/no/such/place" } }).as_object().unwrap().clone();
    let Decoded::Drop(target) = decode(drop, gone).unwrap() else { panic!() };
    assert_eq!(target.id(), "local:/no/such/place");
}
