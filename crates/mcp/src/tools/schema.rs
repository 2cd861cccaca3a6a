//! `tools/list`: schemas from the operation types, descriptions; and what all of them have in common, told once.
//!
//! Schemas are flat, without `$ref`, every property with a `type`: several clients read no more of JSON Schema than that.

use std::sync::LazyLock;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::arguments::{Argument, ArgumentType, ReportFieldType, arguments};
use super::table::{TOOLS, Tool, ToolHint};

/// What a client tells its model about the server as a whole: what the description of each tool would repeat.
pub(crate) const INSTRUCTIONS: &str = "Lean 4 for agents: try tactics at a position of a real file, see goals, branch from states, wait for diagnostics.\n\
    Every Lean tool call names its project: put \"workspace\": {\"root\": \"/absolute/path\"} into the arguments of each workspace-bound call; \
    nothing is remembered between calls. path is relative to that root, or absolute. Lines and characters count from 0.\n\
    Beam never edits .lean source; the client does. After each edit call lean_update (or lean_sync, which also waits for the whole file's \
    diagnostics) and use the version it returns.\n\
    lean_run_at, lean_try, lean_run_at_handle, lean_run_with, lean_run_with_linear and lean_snippet are speculative: the text is tried, \
    not persisted. To keep it, edit and save the file first, then lean_update or lean_sync. No OS sandbox: Lean code may do IO.\n\
    One tactic per text; to try several in a row use handles or write (a; b), to compare candidates use lean_try. success: true means that \
    Lean accepted the text without an error, goals: [] that the goal is solved. caveats says what such a success leaves open: sorry (not \
    proved), recursion (termination not checked yet), unsafe (the kernel would refuse it). stale_imports: imports that changed since, the \
    answer is about the old ones: save them and lean_refresh. lean_check gives the verdict on what is written.\n\
    Goals as JSON cost nearly twice Lean's own text: pass goals: \"text\" and state: \"changed\" (only what differs, state_unchanged where \
    nothing does) to tools that offer them; --goals text makes the first the server's default.\n\
    Slow calls: pass _meta.progressToken for progress; without it one beam.status log comes after two seconds.\n\
    A message or trace over 6000 characters is cut, and truncated says its full length: full_messages: true gives it whole. \
    max_output_bytes (4096 to 3145728, default 65536) caps one result; what is cut is listed in truncated.\n\
    Errors carry code, message and data; data.recoveryPlan lists the calls that mend it, in order.";

/// The `tools` array, in the table's order, made once.
pub(crate) fn list_json() -> &'static RawValue {
    static LIST: LazyLock<Box<RawValue>> = LazyLock::new(|| {
        let tools: Vec<Value> = TOOLS.iter().map(descriptor).collect();
        serde_json::value::to_raw_value(&tools).unwrap_or_else(|e| unreachable!("descriptors are plain JSON: {e}"))
    });
    &LIST
}

fn descriptor(tool: &Tool) -> Value {
    let mut out = Map::new();
    out.insert("name".into(), tool.name.into());
    out.insert("description".into(), description(tool).into());
    out.insert("inputSchema".into(), input_schema(tool));
    let hint = match tool.hint {
        ToolHint::None => None,
        ToolHint::ReadOnly => Some(json!({ "readOnlyHint": true })),
        ToolHint::Additive => Some(json!({ "destructiveHint": false })),
        ToolHint::Idempotent => Some(json!({ "idempotentHint": true })),
    };
    if let Some(hint) = hint {
        out.insert("annotations".into(), hint);
    }
    Value::Object(out)
}

/// The one duty that clients which show no instructions still read: the boundary of what runs the caller's text.
fn description(tool: &Tool) -> String {
    if tool.is_speculative() {
        format!("{} Speculative: nothing is written; no OS sandbox.", tool.about)
    } else {
        tool.about.to_owned()
    }
}

fn input_schema(tool: &Tool) -> Value {
    let arguments = arguments(tool);
    let required: Vec<Value> = arguments.iter().filter(|a| a.required).map(|a| a.name.into()).collect();
    let properties: Map<String, Value> = arguments.iter().map(|a| (a.name.to_owned(), property(a))).collect();
    let mut out = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
    });
    if !required.is_empty() {
        out["required"] = required.into();
    }
    out["additionalProperties"] = false.into();
    out
}

fn property(argument: &Argument) -> Value {
    match argument.ty {
        // That it is absolute is told once, in the instructions, and by the error: each word here is said by every tool.
        ArgumentType::Workspace => json!({
            "type": "object",
            "properties": { "root": { "type": "string" } },
            "required": ["root"],
            "additionalProperties": false,
        }),
        ArgumentType::Operation(field) => {
            let mut schema = field.schema();
            // A default is what an absent argument means: where the tool insists on it, nothing is absent.
            if argument.required {
                schema.remove("default");
            }
            if let Some(note) = field.note {
                schema.insert("description".to_owned(), note.into());
            }
            schema.into()
        }
        // The bounds are told once, in the instructions, and by the error.
        ArgumentType::OutputBytes => json!({ "type": "integer" }),
        ArgumentType::FullMessages => json!({ "type": "boolean" }),
        ArgumentType::Report(ty) => report_property(argument.name, ty),
    }
}

fn report_property(name: &str, ty: ReportFieldType) -> Value {
    let mut schema = match ty {
        ReportFieldType::Text => json!({ "type": "string" }),
        ReportFieldType::Bool => json!({ "type": "boolean" }),
        ReportFieldType::Choice(names) => json!({ "type": "string", "enum": names }),
        ReportFieldType::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        ReportFieldType::Object => json!({ "type": "object" }),
        ReportFieldType::Evidence => json!({
            "type": "array",
            "items": {
                "type": "object",
                "properties": { "name": { "type": "string" }, "content": { "type": "string" }, "path": { "type": "string" } },
                "required": ["name"],
                "additionalProperties": false,
            },
        }),
    };
    if name == "evidence" {
        schema["description"] = "content, or path in the project".into();
    }
    schema
}
