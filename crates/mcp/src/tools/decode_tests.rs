//! Arguments to requests: what every tool refuses, in which order, and what the broker is asked.

use expect_test::expect;
use serde_json::json;

use super::super::arguments::ReportFieldType;
use super::super::table::{TOOLS, find};
use super::super::testing::Project;
use super::*;

impl Project {
    fn workspace(&self) -> Value {
        json!({ "root": self.root() })
    }
}

fn a_handle() -> Value {
    json!({ "workspaceId": "local:/p", "backend": "lean", "epoch": 1, "session": "s", "raw": { "v": 1 } })
}

/// A value that the argument takes.
fn good(argument: &Argument, project: &Project) -> Value {
    match argument.ty {
        ArgumentType::Workspace => project.workspace(),
        ArgumentType::Operation(field) => match field.ty {
            FieldType::Text | FieldType::NonEmpty => json!("A.lean"),
            FieldType::Coordinate | FieldType::Number => json!(3),
            FieldType::Bool => json!(true),
            FieldType::Choice(names) => json!(names[0]),
            FieldType::Choices(names) => json!(names),
            FieldType::Texts => json!(["a"]),
            FieldType::Handle => a_handle(),
            FieldType::Object => json!({ "title": "x" }),
        },
        ArgumentType::OutputBytes => json!(5000),
        ArgumentType::FullMessages => json!(true),
        ArgumentType::Report(kind) => match kind {
            ReportFieldType::Text => json!("text"),
            ReportFieldType::Bool => json!(false),
            ReportFieldType::Choice(names) => json!(names[0]),
            ReportFieldType::Texts => json!(["a"]),
            ReportFieldType::Object => json!({}),
            ReportFieldType::Evidence => json!([{ "name": "n", "content": "c" }]),
        },
    }
}

/// Values that no argument of that type takes.
fn wrong(argument: &Argument) -> Vec<Value> {
    match argument.ty {
        ArgumentType::Workspace | ArgumentType::Report(_) => Vec::new(),
        ArgumentType::OutputBytes => vec![json!(4095), json!(3_145_729), json!("5000"), json!(null)],
        ArgumentType::FullMessages => vec![json!("true"), json!(1), json!(null)],
        ArgumentType::Operation(field) => match field.ty {
            FieldType::Text => vec![json!(1), json!(null), json!(["x"])],
            FieldType::NonEmpty => vec![json!(""), json!(1), json!(null)],
            FieldType::Coordinate => vec![json!(-1), json!(1.5), json!("1"), json!(4_294_967_296u64), json!(null)],
            FieldType::Number => vec![json!(-1), json!(0.5), json!("1"), json!(null)],
            FieldType::Bool => vec![json!("true"), json!(1), json!(null)],
            FieldType::Choice(_) => vec![json!("Errors"), json!(true), json!(null)],
            FieldType::Texts => vec![json!("x"), json!([1]), json!(null)],
            FieldType::Choices(_) => vec![json!("sorry"), json!(["nope"]), json!(null)],
            FieldType::Handle => vec![json!("{}"), json!({}), json!({ "raw": {} }), json!(null), {
                let mut open = a_handle();
                open["extra"] = json!(1);
                open
            }],
            FieldType::Object => vec![json!("{}"), json!([]), json!(null)],
        },
    }
}

fn decoded(tool: &Tool, given: Map<String, Value>) -> Result<DecodedCall, ToolError> {
    decode(tool, given, &Defaults::default(), &OutputLimits::default())
}

fn path_of(call: &OperationCall) -> String {
    call.request.to_map().get("path").and_then(Value::as_str).unwrap_or("-").to_owned()
}

fn all_good(tool: &Tool, project: &Project) -> Map<String, Value> {
    arguments(tool).iter().map(|a| (a.name.to_owned(), good(a, project))).collect()
}

fn refused(tool: &Tool, arguments: Map<String, Value>) -> String {
    let e = decoded(tool, arguments).expect_err(tool.name);
    assert_eq!(e.code, "invalidInput", "{}: {}", tool.name, e.message);
    assert!(e.message.starts_with(&format!("{}: ", tool.name)), "{}", e.message);
    e.message
}

#[test]
fn every_tool_takes_all_its_arguments_and_only_those() {
    let project = Project::new();
    for tool in TOOLS {
        decoded(tool, all_good(tool, &project)).unwrap_or_else(|e| panic!("{}: {}", tool.name, e.message));
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
        for argument in arguments(tool) {
            let mut arguments = all_good(tool, &project);
            arguments.remove(argument.name);
            let outcome = decoded(tool, arguments);
            match outcome {
                Ok(_) => assert!(!argument.required, "{}: {}", tool.name, argument.name),
                Err(e) => {
                    assert!(argument.required && e.message.contains(argument.name), "{}: {}", tool.name, e.message);
                }
            }
        }
    }
}

#[test]
fn every_argument_of_a_wrong_type_is_named() {
    let project = Project::new();
    for tool in TOOLS {
        for argument in arguments(tool) {
            for value in wrong(&argument) {
                let mut arguments = all_good(tool, &project);
                arguments.insert(argument.name.to_owned(), value.clone());
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
    expect!["lean_sync: undeclared argument `fast`; it takes path, workspace, diagnostic_scope, diagnostics_in_result, full_messages, max_output_bytes"]
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
        if let DecodedCall::Operation(call) = decoded(tool, all_good(tool, &project)).unwrap() {
            let text = serde_json::to_string(&call.request.to_map()).unwrap();
            let text = text.replace(&project.root().to_string(), "ROOT");
            out.push_str(&format!("{} {} {text}\n", tool.name, path_of(&call)));
        }
    }
    expect![[r#"
        lean_run_at A.lean {"op":"run_at","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"line":3,"character":3,"text":"A.lean","kernel":true,"goals":"json","state":"full"}
        lean_run_at_handle A.lean {"op":"run_at","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"line":3,"character":3,"text":"A.lean","storeHandle":true,"kernel":true,"goals":"json","state":"full"}
        lean_hover A.lean {"op":"hover","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"line":3,"character":3}
        lean_signature_help A.lean {"op":"signature_help","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"line":3,"character":3}
        lean_definition A.lean {"op":"definition","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"line":3,"character":3}
        lean_references A.lean {"op":"references","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"line":3,"character":3,"includeDeclaration":true}
        lean_document_symbols A.lean {"op":"document_symbols","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3}
        lean_workspace_symbols - {"op":"workspace_symbols","backend":"lean","workspaceId":"local:ROOT","query":"A.lean"}
        lean_goals A.lean {"op":"goals","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"line":3,"character":3,"mode":"before","goals":"json","state":"full","explain":true}
        lean_diagnostics A.lean {"op":"diagnostics","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"severities":["error","warning","information","hint"],"line":3,"endLine":3,"contains":"A.lean"}
        lean_search A.lean {"op":"search","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"name":"A.lean","constants":["a"],"pattern":"A.lean","kinds":["theorem","def","abbrev","instance","axiom","opaque","inductive","structure","class","constructor","recursor","quotient"],"line":3,"character":3,"limit":3,"start":3}
        lean_check A.lean {"op":"check","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"name":"A.lean","line":3,"character":3}
        lean_todo A.lean {"op":"todo","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"line":3,"character":3,"endLine":3,"endCharacter":3,"kinds":["sorry","hole","diagnostic","code_action","incomplete_proof"],"suggest":"none"}
        lean_code_actions A.lean {"op":"code_actions","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"line":3,"endLine":3}
        lean_code_action_resolve A.lean {"op":"code_action_resolve","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"codeAction":{"title":"x"}}
        lean_run_with A.lean {"op":"run_with","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","handle":{"workspaceId":"local:/p","backend":"lean","epoch":1,"session":"s","raw":{"v":1}},"text":"A.lean","storeHandle":true,"linear":false,"kernel":true,"goals":"json","state":"full"}
        lean_run_with_linear A.lean {"op":"run_with","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","handle":{"workspaceId":"local:/p","backend":"lean","epoch":1,"session":"s","raw":{"v":1}},"text":"A.lean","storeHandle":true,"linear":true,"kernel":true,"goals":"json","state":"full"}
        lean_try A.lean {"op":"try","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","texts":["a"],"version":3,"line":3,"character":3,"handle":{"workspaceId":"local:/p","backend":"lean","epoch":1,"session":"s","raw":{"v":1}},"first":true,"kernel":true,"goals":"json"}
        lean_snippet A.lean {"op":"snippet","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","version":3,"text":"A.lean","line":3,"character":3,"goals":"json"}
        lean_release A.lean {"op":"release","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","handle":{"workspaceId":"local:/p","backend":"lean","epoch":1,"session":"s","raw":{"v":1}}}
        lean_update A.lean {"op":"update_file","backend":"lean","workspaceId":"local:ROOT","path":"A.lean"}
        lean_sync A.lean {"op":"sync_file","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","diagnosticScope":"errors","diagnosticsInResult":true}
        lean_refresh A.lean {"op":"refresh_file","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","diagnosticScope":"errors","diagnosticsInResult":true}
        lean_save A.lean {"op":"save_olean","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","diagnosticScope":"errors"}
        lean_close_save A.lean {"op":"close","backend":"lean","workspaceId":"local:ROOT","path":"A.lean","diagnosticScope":"errors","saveArtifacts":true}
        lean_close A.lean {"op":"close","backend":"lean","workspaceId":"local:ROOT","path":"A.lean"}
    "#]].assert_eq(&out);
}

#[test]
fn a_bare_call_asks_for_nothing_more() {
    let project = Project::new();
    let arguments = json!({ "workspace": project.workspace(), "path": "A.lean" }).as_object().unwrap().clone();
    let DecodedCall::Operation(call) = decoded(find("lean_sync").unwrap(), arguments).unwrap() else { panic!() };
    let keys: Vec<_> = call.request.to_map().keys().cloned().collect();
    assert_eq!(keys, ["op", "backend", "workspaceId", "path"]);
    assert_eq!(call.request.root, None);
    assert_eq!(call.request.client_request_id, None);
    assert_eq!(call.workspace.root, project.root());
}

#[test]
fn a_report_and_a_drop() {
    let project = Project::new();
    let feedback = find("beam_feedback_report").unwrap();
    let DecodedCall::Feedback(call) = decoded(feedback, all_good(feedback, &project)).unwrap() else { panic!() };
    assert!(!call.confidential());
    assert_eq!(call.workspace.root, project.root());
    let mut arguments = all_good(feedback, &project);
    arguments.remove("workspace");
    assert!(refused(feedback, arguments).contains("the workspace cannot be used: it is missing"));

    let drop = find("lean_drop_workspace").unwrap();
    assert!(refused(drop, Map::new()).contains("the workspace cannot be used"));
    let gone = json!({ "workspace": { "root": "/no/such/place" } }).as_object().unwrap().clone();
    let DecodedCall::Drop(target) = decoded(drop, gone).unwrap() else { panic!() };
    assert_eq!(target.id(), "local:/no/such/place");
}

fn operation(tool: &str, given: Value) -> OperationCall {
    let Value::Object(given) = given else { panic!("{given}") };
    match decoded(find(tool).unwrap(), given).unwrap() {
        DecodedCall::Operation(call) => *call,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_handle_may_be_its_own_json_text() {
    let project = Project::new();
    let call = |handle: Value| {
        operation(
            "lean_run_with",
            json!({ "workspace": project.workspace(), "path": "A.lean", "text": "x", "handle": handle }),
        )
    };
    assert_eq!(call(a_handle().to_string().into()).request, call(a_handle()).request);
}

#[test]
fn a_path_may_be_the_uri_that_results_have() {
    let project = Project::new();
    let path = |path: &str| {
        let call = operation("lean_sync", json!({ "workspace": project.workspace(), "path": path }));
        (path_of(&call), call.outside)
    };
    let file = project.root().join("A b.lean");
    std::fs::write(&file, "").unwrap();
    assert_eq!(path(&beam_base::uri::from_path(&file)), (file.to_string(), false));
    assert_eq!(path("A b.lean"), ("A b.lean".to_owned(), false));
    // What is no local file is left to the engine, which says what is wrong with it.
    assert_eq!(path("file://elsewhere/A.lean").0, "file://elsewhere/A.lean");
}

#[test]
fn a_file_elsewhere_is_known_to_be_elsewhere() {
    let (project, other) = (Project::new(), Project::new());
    let file = other.root().join("B.lean");
    std::fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(&file, project.root().join("Link.lean")).unwrap();
    let outside =
        |path: String| operation("lean_sync", json!({ "workspace": project.workspace(), "path": path })).outside;
    assert!(outside(file.to_string()));
    assert!(outside(beam_base::uri::from_path(&file)));
    assert!(outside("Link.lean".to_owned()), "a link is where it leads to");
    assert!(!outside("None.lean".to_owned()), "what is not there is not elsewhere");
}

#[test]
fn a_call_may_say_how_much_it_wants_to_see() {
    let project = Project::new();
    let limits = |more: Value| {
        let mut given = json!({ "workspace": project.workspace(), "path": "A.lean" });
        for (key, value) in more.as_object().unwrap() {
            given[key] = value.clone();
        }
        operation("lean_sync", given).limits
    };
    let default = OutputLimits::default();
    assert_eq!(limits(json!({})), default);
    assert_eq!((default.max_output_bytes, default.full_messages), (65_536, false));
    assert_eq!(limits(json!({ "max_output_bytes": 4096 })), OutputLimits { max_output_bytes: 4096, ..default });
    assert_eq!(limits(json!({ "full_messages": true })), OutputLimits { full_messages: true, ..default });
}
