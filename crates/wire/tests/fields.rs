//! Operations and their fields as a list of their own. It is written by hand from the promise and compared with what the decoder
//! accepts, so that a row of the product's table that is lost, renamed or moved does not take its test with it.

use beam_wire::Request;
use serde_json::{Map, Value};

/// Of each operation: what must be there, and what may be, beside `op` and `clientRequestId`.
const FIELDS: &[(&str, &str, &str)] = &[
    ("cancel", "cancelRequestId", ""),
    ("check", "path version", "workspaceId backend root name line character"),
    ("close", "path", "workspaceId backend root diagnosticScope saveArtifacts"),
    ("code_action_resolve", "path version codeAction", "workspaceId backend root"),
    ("code_actions", "path version line", "workspaceId backend root endLine"),
    ("definition", "path version line character", "workspaceId backend root"),
    ("diagnostics", "path version", "workspaceId backend root severities line endLine contains"),
    ("document_symbols", "path version", "workspaceId backend root"),
    ("drop_workspace", "", "workspaceId"),
    ("ensure", "", "workspaceId backend root"),
    ("goals", "path version line character", "workspaceId backend root mode goals state explain text"),
    ("hover", "path version line character", "workspaceId backend root"),
    ("init_workspace", "root", "workspaceId workspaceMode leanCmd rocqCmd"),
    ("list_workspaces", "", ""),
    ("open_docs", "", "workspaceId root"),
    ("references", "path version line character", "workspaceId backend root includeDeclaration"),
    ("refresh_file", "path", "workspaceId backend root diagnosticScope diagnosticsInResult"),
    ("release", "path handle", "workspaceId backend root"),
    ("reset_stats", "", ""),
    ("run_at", "path version line character text", "workspaceId backend root storeHandle kernel goals state"),
    ("run_with", "path handle text", "workspaceId backend root storeHandle linear kernel goals state"),
    ("save_olean", "path", "workspaceId backend root diagnosticScope"),
    ("search", "path version", "workspaceId backend root name constants pattern kinds line character limit start"),
    ("shutdown", "", ""),
    ("signature_help", "path version line character", "workspaceId backend root"),
    ("snippet", "path version text", "workspaceId backend root line character goals"),
    ("stats", "", "workspaceId root"),
    ("sync_file", "path", "workspaceId backend root diagnosticScope diagnosticsInResult"),
    ("todo", "path version", "workspaceId backend root line character endLine endCharacter kinds suggest"),
    ("try", "path texts", "workspaceId backend root version line character handle first storeHandle kernel goals"),
    ("update_file", "path", "workspaceId backend root"),
    ("workspace_symbols", "query", "workspaceId backend root"),
];

/// Spellings that clients have tried or that other operations have: nobody takes them here.
const NEVER: &[&str] = &[
    "noSuchField",
    "full_diagnostics",
    "fullDiagnostics",
    "include_diagnostics",
    "includeDiagnostics",
    "syncSummary",
    "content",
    "fileContent",
    "store_handle",
    "workspace_id",
];

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

/// What the decoder says of an object with these keys, each null.
fn complaint(op: &str, keys: &[&str]) -> Option<String> {
    let mut map: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), Value::Null)).collect();
    map.insert("op".to_owned(), op.into());
    Request::decode(Value::Object(map).to_string().as_bytes()).err().map(|rejected| rejected.error.message)
}

/// The names in backticks behind these words, if the message says them.
fn named<'a>(message: &'a str, before: &str) -> Vec<&'a str> {
    let Some((_, list)) = message.split_once(before) else { return Vec::new() };
    let mut names: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
    names.sort_unstable();
    names
}

#[test]
fn every_operation_takes_these_fields_and_no_others() {
    let mut every: Vec<&str> = FIELDS.iter().flat_map(|(_, must, may)| words(must).chain(words(may))).collect();
    every.extend(NEVER);
    every.push("clientRequestId");
    every.sort_unstable();
    every.dedup();
    for (op, must, may) in FIELDS {
        let allowed: Vec<&str> = words(must).chain(words(may)).chain(["clientRequestId"]).collect();
        let refused: Vec<&str> = every.iter().copied().filter(|name| !allowed.contains(name)).collect();
        let message = complaint(op, &every).unwrap_or_default();
        assert_eq!(named(&message, "unexpected field"), refused, "{op}: {message}");

        let mut required: Vec<&str> = words(must).collect();
        required.sort_unstable();
        let message = complaint(op, &[]).unwrap_or_default();
        assert_eq!(named(&message, "missing field"), required, "{op}: {message}");
    }
}

#[test]
fn there_are_these_operations_and_no_others() {
    for (op, ..) in FIELDS {
        let unknown = complaint(op, &[]).is_some_and(|message| message.contains("unknown op"));
        assert!(!unknown, "{op} is gone");
    }
    // Spellings of the command line, of the tools and of other products are none.
    for op in
        ["run-at", "lean_run_at", "sync", "save", "save_ilean", "feedback_report", "prune", "proof_goals", "", "RunAt"]
    {
        let message = complaint(op, &[]).unwrap_or_default();
        assert!(message.contains("unknown op"), "{op}: {message}");
    }
}
