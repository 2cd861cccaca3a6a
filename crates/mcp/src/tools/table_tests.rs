//! The catalogue as clients see it: size, names, hints, schemas, and every duty of a description.

use std::collections::{BTreeMap, BTreeSet};

use beam_wire::Scope;
use beam_wire::operation::OPERATIONS;
use expect_test::expect;
use serde_json::{Value, json};

use super::super::arguments::arguments;
use super::super::schema::{INSTRUCTIONS, list_json};
use super::*;

fn listed() -> Vec<Value> {
    serde_json::from_str(list_json().get()).unwrap()
}

fn description(name: &str) -> String {
    listed().iter().find(|t| t["name"] == name).unwrap()["description"].as_str().unwrap().to_owned()
}

/// They run, or elaborate, a text of the caller's.
const EXECUTING: [&str; 7] = [
    "lean_run_at",
    "lean_run_at_handle",
    "lean_run_with",
    "lean_run_with_linear",
    "lean_try",
    "lean_search",
    "lean_snippet",
];

/// A client pays for the list in every session.
#[test]
fn the_list_is_under_its_limit() {
    // The envelope around it takes up to two hundred more.
    let bytes = list_json().get().len() + 200;
    assert!(bytes < 24_000, "{bytes} bytes");
}

#[test]
fn names_are_unique_short_and_in_order() {
    let names: Vec<_> = TOOLS.iter().map(|t| t.name).collect();
    expect![[r#"
        beam_version
        beam_stats
        beam_feedback_report
        lean_drop_workspace
        lean_run_at
        lean_run_at_handle
        lean_hover
        lean_signature_help
        lean_definition
        lean_references
        lean_document_symbols
        lean_workspace_symbols
        lean_goals
        lean_diagnostics
        lean_search
        lean_check
        lean_todo
        lean_code_actions
        lean_code_action_resolve
        lean_run_with
        lean_run_with_linear
        lean_try
        lean_snippet
        lean_release
        lean_update
        lean_sync
        lean_refresh
        lean_save
        lean_close_save
        lean_close"#]]
    .assert_eq(&names.join("\n"));
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    for name in names {
        assert!(name.len() <= 40, "{name}");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
        assert_eq!(find(name).unwrap().name, name);
    }
    assert!(find("lean_init_workspace").is_none());
    assert!(find("Lean_sync").is_none());
}

/// W3: an operation that a client of a workspace can ask for has a tool, and there is no other tool.
#[test]
fn w3_every_operation_on_a_workspace_has_a_tool() {
    // A session starts with the first call that needs it, and workspaces with the first call that names them.
    const WITHOUT: [Op; 3] = [Op::Ensure, Op::InitWorkspace, Op::DropWorkspace];
    for spec in OPERATIONS {
        let has = TOOLS.iter().any(|t| t.operation.is_some_and(|o| o.op == spec.op));
        let wants = spec.scope == Scope::Workspace && spec.tracked && !WITHOUT.contains(&spec.op);
        assert_eq!(has, wants, "{}", spec.name);
    }
    for tool in TOOLS {
        assert_eq!(tool.operation.is_some(), tool.kind == ToolKind::Operation, "{}", tool.name);
    }
}

#[test]
fn what_the_table_says_of_fields_is_about_fields_of_the_operation() {
    for (tool, operation) in TOOLS.iter().filter_map(|t| Some((t, t.operation?))) {
        let spec = operation.op.spec();
        let optional = |f: &Field| spec.optional().any(|g| g == *f);
        assert!(operation.fixed.iter().all(|(f, _)| optional(f)), "{}: fixed", tool.name);
        assert!(operation.hidden.iter().all(optional), "{}: hidden", tool.name);
        assert!(operation.required.iter().all(optional), "{}: required", tool.name);
        assert!(operation.renamed.iter().all(|(f, _)| spec.fields().any(|g| g == *f)), "{}: renamed", tool.name);
    }
}

#[test]
fn arguments_of_every_tool() {
    let lines: Vec<String> = TOOLS
        .iter()
        .map(|tool| {
            let all = arguments(tool);
            let names = |required| {
                let names: Vec<_> = all.iter().filter(|a| a.required == required).map(|a| a.name).collect();
                names.join(" ")
            };
            format!("{}: {} [{}]", tool.name, names(true), names(false))
        })
        .collect();
    expect![[r#"
        beam_version:  []
        beam_stats:  []
        beam_feedback_report: title summary reproduction expected actual workspace [kind severity impact workaround tags client_request_id request response evidence bundle redact confidential include_collected]
        lean_drop_workspace: workspace []
        lean_run_at: path version line character text workspace [kernel goals state full_messages max_output_bytes]
        lean_run_at_handle: path version line character text workspace [kernel goals state full_messages max_output_bytes]
        lean_hover: path version line character workspace [max_output_bytes]
        lean_signature_help: path version line character workspace [max_output_bytes]
        lean_definition: path version line character workspace [max_output_bytes]
        lean_references: path version line character workspace [include_declaration max_output_bytes]
        lean_document_symbols: path version workspace [max_output_bytes]
        lean_workspace_symbols: query workspace [max_output_bytes]
        lean_goals: path version line character mode workspace [goals state explain max_output_bytes]
        lean_diagnostics: path version workspace [severities start_line end_line contains full_messages max_output_bytes]
        lean_search: path version workspace [name constants pattern kinds line character limit start max_output_bytes]
        lean_check: path version workspace [name line character max_output_bytes]
        lean_todo: path version workspace [start_line start_character end_line end_character kinds suggest full_messages max_output_bytes]
        lean_code_actions: path version start_line workspace [end_line max_output_bytes]
        lean_code_action_resolve: path version code_action workspace [max_output_bytes]
        lean_run_with: path handle text workspace [kernel goals state full_messages max_output_bytes]
        lean_run_with_linear: path handle text workspace [kernel goals state full_messages max_output_bytes]
        lean_try: path texts workspace [version line character handle first kernel goals max_output_bytes]
        lean_snippet: path version text workspace [line character goals full_messages max_output_bytes]
        lean_release: path handle workspace []
        lean_update: path workspace []
        lean_sync: path workspace [diagnostic_scope diagnostics_in_result full_messages max_output_bytes]
        lean_refresh: path workspace [diagnostic_scope diagnostics_in_result full_messages max_output_bytes]
        lean_save: path workspace [diagnostic_scope full_messages max_output_bytes]
        lean_close_save: path workspace [diagnostic_scope full_messages max_output_bytes]
        lean_close: path workspace []"#]].assert_eq(&lines.join("\n"));
}

#[test]
fn hints_are_exactly_the_promised_ones() {
    let hints: BTreeMap<String, Value> =
        listed().iter().filter_map(|t| Some((t["name"].as_str()?.to_owned(), t.get("annotations")?.clone()))).collect();
    let mut wanted = BTreeMap::new();
    for name in [
        "beam_version",
        "beam_stats",
        "lean_run_at",
        "lean_hover",
        "lean_signature_help",
        "lean_definition",
        "lean_references",
        "lean_document_symbols",
        "lean_workspace_symbols",
        "lean_goals",
        "lean_diagnostics",
        "lean_search",
        "lean_check",
        "lean_todo",
        "lean_code_actions",
        "lean_code_action_resolve",
        "lean_try",
        "lean_snippet",
    ] {
        wanted.insert(name.to_owned(), json!({ "readOnlyHint": true }));
    }
    for name in ["lean_run_at_handle", "lean_run_with"] {
        wanted.insert(name.to_owned(), json!({ "destructiveHint": false }));
    }
    for name in ["lean_drop_workspace", "lean_close"] {
        wanted.insert(name.to_owned(), json!({ "idempotentHint": true }));
    }
    assert_eq!(hints, wanted);
}

#[test]
fn schemas_are_closed_and_flat() {
    fn flat(schema: &Value, path: &str) {
        let map = schema.as_object().unwrap();
        assert!(map["type"].is_string(), "{path}");
        for key in map.keys() {
            assert!(
                [
                    "$schema",
                    "type",
                    "properties",
                    "required",
                    "additionalProperties",
                    "description",
                    "enum",
                    "items",
                    "minimum",
                    "minLength",
                    "default"
                ]
                .contains(&key.as_str()),
                "{path}: {key}"
            );
        }
        if let Some(items) = map.get("items") {
            flat(items, path);
        }
        if let Some(properties) = map.get("properties") {
            assert_eq!(map["additionalProperties"], false, "{path}");
            for (name, property) in properties.as_object().unwrap() {
                flat(property, &format!("{path}.{name}"));
            }
        }
    }
    for tool in listed() {
        let name = tool["name"].as_str().unwrap();
        let keys: Vec<_> = tool.as_object().unwrap().keys().map(String::as_str).collect();
        assert!(
            keys == ["name", "description", "inputSchema"]
                || keys == ["name", "description", "inputSchema", "annotations"],
            "{name}: {keys:?}"
        );
        let schema = &tool["inputSchema"];
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
        flat(schema, name);
        let required = schema.get("required").map(|r| r.as_array().unwrap().clone()).unwrap_or_default();
        assert!(required.iter().all(|r| schema["properties"].get(r.as_str().unwrap()).is_some()), "{name}");
        if name.starts_with("lean_") || name == "beam_feedback_report" {
            assert_eq!(required.last().unwrap(), "workspace", "{name}: the workspace comes last");
            let root = &schema["properties"]["workspace"];
            assert_eq!(root["required"], json!(["root"]), "{name}");
            assert_eq!(root["properties"].as_object().unwrap().len(), 1, "{name}");
        } else {
            assert_eq!(schema["properties"], json!({}), "{name}");
        }
    }
}

#[test]
fn no_tool_takes_a_selector_or_a_spelling_of_another_front() {
    for tool in TOOLS {
        for argument in arguments(tool) {
            let name = argument.name;
            assert!(
                !["root", "workspace_id", "full_diagnostics", "include_diagnostics", "backend"].contains(&name),
                "{}: {name}",
                tool.name
            );
            assert!(!name.chars().any(|c| c.is_ascii_uppercase()), "{}: {name}", tool.name);
        }
    }
}

/// What holds of many tools is told once, and not again in each description.
#[test]
fn duty_words_of_the_server_stand_in_its_instructions() {
    for words in [
        "Beam never edits .lean source; the client does.",
        "_meta.progressToken",
        "one beam.status",
        "not persisted",
        "edit and save the file first, then lean_update or lean_sync",
        "No OS sandbox: Lean code may do IO",
        "\"workspace\": {\"root\": \"/absolute/path\"}",
        "Lines and characters count from 0",
        "full_messages",
        "max_output_bytes",
        "recoveryPlan",
        "pass goals: \"text\" and state: \"changed\"",
        "caveats says what such a success leaves open: sorry",
        "stale_imports: imports that changed since",
    ] {
        assert!(INSTRUCTIONS.contains(words), "{words}");
        for tool in TOOLS {
            assert!(!description(tool.name).contains(words), "{}: {words}", tool.name);
        }
    }
    assert!(INSTRUCTIONS.len() < 2600, "{} bytes", INSTRUCTIONS.len());
}

/// No two descriptions share a sentence, but for the boundary of what runs the caller's text.
#[test]
fn no_sentence_is_told_twice() {
    let mut seen = BTreeMap::new();
    for tool in TOOLS {
        for sentence in description(tool.name).split_inclusive(['.', ';']).map(|s| s.trim().to_owned()) {
            if let Some(other) = seen.insert(sentence.clone(), tool.name) {
                assert!(
                    tool.is_speculative() && find(other).unwrap().is_speculative(),
                    "{other}, {}: {sentence}",
                    tool.name
                );
            }
        }
    }
}

#[test]
fn duty_speculation_is_no_edit_and_no_sandbox() {
    for tool in TOOLS {
        let executing = EXECUTING.contains(&tool.name);
        assert_eq!(tool.is_speculative(), executing, "{}", tool.name);
        let words = "Speculative: nothing is written; no OS sandbox.";
        assert_eq!(description(tool.name).contains(words), executing, "{}", tool.name);
    }
}

#[test]
fn duty_words_of_single_tools() {
    let says = |name: &str, words: &[&str]| {
        let text = description(name);
        for w in words {
            assert!(text.contains(w), "{name} does not say {w:?}: {text}");
        }
    };
    says("lean_run_at_handle", &["may carry next_handle"]);
    says("lean_sync", &["Read the saved source", "Never applies speculative text", "sorries", "a sorry does not"]);
    says("lean_run_at", &["unless caveats says what stays open", "at (what stands there) and hint"]);
    says("lean_try", &["no goals and no caveats"]);
    says("lean_check", &["errors, sorry, unsafe, axioms (unusual ones), proved"]);
    says("lean_snippet", &["never on disk", "a sorry is a warning"]);
    says("lean_code_actions", &["Nothing is applied"]);
    says("lean_update", &["Read the on-disk source"]);
    says("lean_refresh", &["read the on-disk source"]);
    for name in ["lean_save", "lean_close_save"] {
        says(name, &["Lean/Lake build artifacts"]);
    }
    says("lean_save", &["checkpoint", "not a batch-build or CI success"]);
    says("lean_code_action_resolve", &["the client applies any WorkspaceEdit"]);
    assert!(description("beam_feedback_report").starts_with("Beam does not upload or submit anything"));
    says("lean_drop_workspace", &["lakefile", "lean-toolchain", "handles"]);
}

/// The rows of the display-control matrix: preparation, setup lines, file progress, status, diagnostics.
#[test]
fn events_per_tool() {
    let lines: Vec<String> = TOOLS
        .iter()
        .map(|t| {
            let p = t.progress;
            let all = [
                (p.preparation, "preparation"),
                (p.setup_lines, "setup"),
                (p.file_progress, "file"),
                (p.status, "status"),
                (p.diagnostics, "diagnostics"),
            ];
            let on: Vec<_> = all.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
            format!("{}: {}", t.name, on.join(" "))
        })
        .collect();
    expect![[r#"
        beam_version: 
        beam_stats: 
        beam_feedback_report: preparation status
        lean_drop_workspace: preparation status
        lean_run_at: preparation setup file status
        lean_run_at_handle: preparation setup file status
        lean_hover: preparation file status
        lean_signature_help: preparation file status
        lean_definition: preparation file status
        lean_references: preparation file status
        lean_document_symbols: preparation file status
        lean_workspace_symbols: preparation status
        lean_goals: preparation file status
        lean_diagnostics: preparation setup file status
        lean_search: preparation file status
        lean_check: preparation file status
        lean_todo: preparation file status
        lean_code_actions: preparation file status
        lean_code_action_resolve: preparation file status
        lean_run_with: preparation file status
        lean_run_with_linear: preparation file status
        lean_try: preparation setup file status
        lean_snippet: preparation setup file status
        lean_release: preparation file status
        lean_update: preparation status
        lean_sync: preparation setup file status diagnostics
        lean_refresh: preparation setup file status diagnostics
        lean_save: preparation setup file status diagnostics
        lean_close_save: preparation setup file status diagnostics
        lean_close: preparation status"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn one_tool_in_full() {
    let tool = listed().into_iter().find(|t| t["name"] == "lean_goals").unwrap();
    expect![[r#"
        {
          "name": "lean_goals",
          "description": "Goals before or after the tactic at a position; an error outside proofs. both: also the expected_type of a term. Runs nothing.",
          "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
              "path": {
                "type": "string",
                "minLength": 1
              },
              "version": {
                "type": "integer",
                "minimum": 0,
                "description": "of lean_update"
              },
              "line": {
                "type": "integer",
                "minimum": 0
              },
              "character": {
                "type": "integer",
                "minimum": 0,
                "description": "UTF-16 units, from 0"
              },
              "mode": {
                "type": "string",
                "enum": [
                  "before",
                  "after",
                  "both"
                ]
              },
              "workspace": {
                "type": "object",
                "properties": {
                  "root": {
                    "type": "string"
                  }
                },
                "required": [
                  "root"
                ],
                "additionalProperties": false
              },
              "goals": {
                "type": "string",
                "enum": [
                  "json",
                  "text",
                  "targets",
                  "count",
                  "none"
                ],
                "default": "json"
              },
              "state": {
                "type": "string",
                "enum": [
                  "full",
                  "changed"
                ],
                "default": "full"
              },
              "explain": {
                "type": "boolean"
              },
              "max_output_bytes": {
                "type": "integer"
              }
            },
            "required": [
              "path",
              "version",
              "line",
              "character",
              "mode",
              "workspace"
            ],
            "additionalProperties": false
          },
          "annotations": {
            "readOnlyHint": true
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&tool).unwrap());
}
