//! What a tool takes: the fields of its operation in snake case, the workspace, and what only MCP has.

use beam_broker::feedback::{BUNDLES, KINDS, SEVERITIES};
use beam_wire::field::Field;

use super::table::{Tool, ToolKind, ToolOperation};

/// Cap of one result in bytes of JSON.
pub(crate) const MAX_OUTPUT_BYTES: &str = "max_output_bytes";
/// Long messages and traces are given whole.
pub(crate) const FULL_MESSAGES: &str = "full_messages";
/// The one field of the report that only MCP has.
pub(crate) const INCLUDE_COLLECTED: &str = "include_collected";

/// An argument of a tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Argument {
    /// As callers spell it.
    pub name: &'static str,
    /// Whether it must be there.
    pub required: bool,
    /// What it is.
    pub ty: ArgumentType,
}

/// What an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArgumentType {
    /// The workspace descriptor.
    Workspace,
    /// A field of the operation.
    Operation(Field),
    /// How the result is shown: a number of bytes.
    OutputBytes,
    /// How the result is shown: a boolean.
    FullMessages,
    /// A field of the feedback report.
    Report(ReportFieldType),
}

/// JSON type of a report's field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportFieldType {
    /// A string.
    Text,
    /// A boolean.
    Bool,
    /// One of these.
    Choice(&'static [&'static str]),
    /// Strings.
    Texts,
    /// An object.
    Object,
    /// Pieces of evidence.
    Evidence,
}

/// The report's fields: name, whether required, type. What they may hold is checked by the collector, for all fronts alike.
const REPORT: &[(&str, bool, ReportFieldType)] = &[
    ("title", true, ReportFieldType::Text),
    ("summary", true, ReportFieldType::Text),
    ("reproduction", true, ReportFieldType::Text),
    ("expected", true, ReportFieldType::Text),
    ("actual", true, ReportFieldType::Text),
    ("kind", false, ReportFieldType::Choice(KINDS)),
    ("severity", false, ReportFieldType::Choice(SEVERITIES)),
    ("impact", false, ReportFieldType::Text),
    ("workaround", false, ReportFieldType::Text),
    ("tags", false, ReportFieldType::Texts),
    ("client_request_id", false, ReportFieldType::Text),
    ("request", false, ReportFieldType::Object),
    ("response", false, ReportFieldType::Object),
    ("evidence", false, ReportFieldType::Evidence),
    ("bundle", false, ReportFieldType::Choice(BUNDLES)),
    ("redact", false, ReportFieldType::Bool),
    ("confidential", false, ReportFieldType::Bool),
    (INCLUDE_COLLECTED, false, ReportFieldType::Bool),
];

/// What a tool takes, required ones first, the workspace last of them, how the result is shown last of all.
pub(crate) fn arguments(tool: &Tool) -> Vec<Argument> {
    let own: Vec<Argument> = match (tool.kind, tool.operation) {
        (_, Some(operation)) => operation_arguments(operation).collect(),
        (ToolKind::Feedback, None) => REPORT
            .iter()
            .map(|(name, required, ty)| Argument { name, required: *required, ty: ArgumentType::Report(*ty) })
            .collect(),
        (_, None) => Vec::new(),
    };
    let (mut all, optional): (Vec<_>, Vec<_>) = own.into_iter().partition(|a| a.required);
    if !matches!(tool.kind, ToolKind::Version | ToolKind::Stats) {
        all.push(Argument { name: "workspace", required: true, ty: ArgumentType::Workspace });
    }
    all.extend(optional);
    if tool.tells_messages() {
        all.push(Argument { name: FULL_MESSAGES, required: false, ty: ArgumentType::FullMessages });
    }
    if tool.is_large() {
        all.push(Argument { name: MAX_OUTPUT_BYTES, required: false, ty: ArgumentType::OutputBytes });
    }
    all
}

fn operation_arguments(operation: &'static ToolOperation) -> impl Iterator<Item = Argument> {
    operation
        .op
        .spec()
        .own
        .iter()
        .filter(|field| !operation.hidden.contains(field) && !operation.fixed.iter().any(|(fixed, _)| fixed == *field))
        .map(|field| Argument {
            name: operation.renamed.iter().find(|(f, _)| f == field).map_or(field.snake, |(_, name)| name),
            required: field.required || operation.required.contains(field),
            ty: ArgumentType::Operation(*field),
        })
}
