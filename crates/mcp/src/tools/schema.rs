//! `tools/list`: schemas from the operation table, descriptions with the words every tool owes its reader.
//!
//! Schemas are flat, without `$ref`, every property with a `type`: several clients read no more of JSON Schema than that.

use std::sync::LazyLock;

use beam_broker::feedback::{BUNDLES, KINDS, SEVERITIES};
use beam_wire::field::{self, Field, Kind as FieldKind};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::table::{Operation, TOOLS, Tool, ToolHint, ToolKind};

const SPECULATIVE: &str = "Speculative, not persisted: to keep the text, edit and save the file first, then lean_update or lean_sync. \
     No OS sandbox: Lean code may do IO.";
const SLOW: &str = "Progress: _meta.progressToken, else one beam.status if slow.";
const SOURCE: &str = "Beam never edits .lean source; the client does.";

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

fn description(tool: &Tool) -> String {
    let mut parts = vec![tool.about];
    if tool.speculative {
        parts.push(SPECULATIVE);
    }
    if tool.progress.status {
        parts.push(SLOW);
    }
    if matches!(tool.kind, ToolKind::Operation | ToolKind::DropWorkspace) {
        parts.push(SOURCE);
    }
    parts.join(" ")
}

fn input_schema(tool: &Tool) -> Value {
    let arguments = arguments(tool);
    let required: Vec<Value> = arguments.iter().filter(|a| a.required).map(|a| a.name.clone().into()).collect();
    let properties: Map<String, Value> = arguments.iter().map(|a| (a.name.clone(), property(a))).collect();
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

/// An argument of a tool.
#[derive(Debug, Clone)]
pub(crate) struct Argument {
    /// As callers spell it.
    pub name: String,
    /// Whether it must be there.
    pub required: bool,
    /// What it is.
    pub of: Of,
}

/// What an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// The workspace descriptor.
    Workspace,
    /// A field of the operation.
    Field(Field),
    /// A field of the feedback report.
    Report(ReportKind),
}

/// JSON type of a report's field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportKind {
    /// A string.
    Str,
    /// A boolean.
    Bool,
    /// One of these.
    Choice(&'static [&'static str]),
    /// Strings.
    Strings,
    /// An object.
    Object,
    /// Pieces of evidence.
    Evidence,
}

/// The report's fields: name, whether required, type. What they may hold is checked by the collector, for all fronts alike.
const REPORT: &[(&str, bool, ReportKind)] = &[
    ("title", true, ReportKind::Str),
    ("summary", true, ReportKind::Str),
    ("reproduction", true, ReportKind::Str),
    ("expected", true, ReportKind::Str),
    ("actual", true, ReportKind::Str),
    ("kind", false, ReportKind::Choice(KINDS)),
    ("severity", false, ReportKind::Choice(SEVERITIES)),
    ("impact", false, ReportKind::Str),
    ("workaround", false, ReportKind::Str),
    ("tags", false, ReportKind::Strings),
    ("client_request_id", false, ReportKind::Str),
    ("request", false, ReportKind::Object),
    ("response", false, ReportKind::Object),
    ("evidence", false, ReportKind::Evidence),
    ("bundle", false, ReportKind::Choice(BUNDLES)),
    ("redact", false, ReportKind::Bool),
    ("confidential", false, ReportKind::Bool),
    (INCLUDE_COLLECTED, false, ReportKind::Bool),
];

/// The one field of the report that only MCP has.
pub(crate) const INCLUDE_COLLECTED: &str = "include_collected";

/// What a tool takes, required ones first, the workspace last of them.
pub(crate) fn arguments(tool: &Tool) -> Vec<Argument> {
    let own: Vec<Argument> = match (tool.kind, tool.operation) {
        (_, Some(operation)) => operation.arguments(),
        (ToolKind::Feedback, None) => REPORT
            .iter()
            .map(|(name, required, kind)| Argument {
                name: (*name).to_owned(),
                required: *required,
                of: Of::Report(*kind),
            })
            .collect(),
        (_, None) => Vec::new(),
    };
    let (mut all, optional): (Vec<_>, Vec<_>) = own.into_iter().partition(|a| a.required);
    if !matches!(tool.kind, ToolKind::Version | ToolKind::Stats) {
        all.push(Argument { name: "workspace".to_owned(), required: true, of: Of::Workspace });
    }
    all.extend(optional);
    all
}

impl Operation {
    fn arguments(&self) -> Vec<Argument> {
        let spec = self.op.spec();
        let argument =
            |field: Field, required: bool| Argument { name: self.name_of(field), required, of: Of::Field(field) };
        let offered = |f: &Field| {
            *f != field::ROOT && !self.hidden.contains(f) && !self.fixed.iter().any(|(fixed, _)| fixed == f)
        };
        let required = spec.required.iter().map(|f| argument(*f, true));
        let optional = spec.optional.iter().filter(|f| offered(f)).map(|f| argument(*f, self.required.contains(f)));
        required.chain(optional).collect()
    }

    /// How callers of this tool spell a field.
    pub(crate) fn name_of(&self, field: Field) -> String {
        match self.renamed.iter().find(|(f, _)| *f == field) {
            Some((_, name)) => (*name).to_owned(),
            None => snake(field.name),
        }
    }
}

/// `endLine` is `end_line` here.
pub(super) fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

fn property(argument: &Argument) -> Value {
    let mut schema = match argument.of {
        Of::Workspace => json!({
            "type": "object",
            "properties": { "root": { "type": "string", "description": "absolute; path is relative to it" } },
            "required": ["root"],
            "additionalProperties": false,
        }),
        Of::Field(field) => match field.kind {
            FieldKind::Str | FieldKind::NonEmpty => json!({ "type": "string" }),
            FieldKind::Coordinate | FieldKind::Version => json!({ "type": "integer", "minimum": 0 }),
            FieldKind::Bool => json!({ "type": "boolean" }),
            FieldKind::Choice(names) => json!({ "type": "string", "enum": names }),
            FieldKind::Choices(names) => json!({ "type": "array", "items": { "type": "string", "enum": names } }),
            FieldKind::Handle | FieldKind::Object => json!({ "type": "object" }),
        },
        Of::Report(kind) => match kind {
            ReportKind::Str => json!({ "type": "string" }),
            ReportKind::Bool => json!({ "type": "boolean" }),
            ReportKind::Choice(names) => json!({ "type": "string", "enum": names }),
            ReportKind::Strings => json!({ "type": "array", "items": { "type": "string" } }),
            ReportKind::Object => json!({ "type": "object" }),
            ReportKind::Evidence => json!({
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": { "name": { "type": "string" }, "content": { "type": "string" }, "path": { "type": "string" } },
                    "required": ["name"],
                    "additionalProperties": false,
                },
            }),
        },
    };
    if let Some(about) = about(argument) {
        schema["description"] = about.into();
    }
    if let Of::Field(field) = argument.of
        && let Some(default) = default(field)
    {
        schema["default"] = default;
    }
    schema
}

/// What an absent argument means, where that is a value.
fn default(of: Field) -> Option<Value> {
    match of {
        field::DIAGNOSTIC_SCOPE => Some("errors".into()),
        field::INCLUDE_DECLARATION => Some(true.into()),
        _ => None,
    }
}

/// Words for what a name does not say.
fn about(argument: &Argument) -> Option<&'static str> {
    let Of::Field(of) = argument.of else {
        return match argument.name.as_str() {
            "evidence" => Some("content, or path in the project"),
            _ => None,
        };
    };
    Some(match of {
        field::VERSION => "of lean_update or lean_sync",
        field::CHARACTER => "UTF-16 units; lines and characters from 0",
        field::HANDLE => "a next_handle, unchanged",
        field::SUGGEST => "run_at_text; default basic",
        field::KINDS => "default all",
        field::DIAGNOSTICS_IN_RESULT => "as diagnostics.items",
        _ => return None,
    })
}
