//! The LSP we speak to a worker: method names, and the bodies of the few messages we make ourselves. Pure.
//!
//! A worker ends its main loop on *any* notification it does not know, `textDocument/didSave` and `didClose` included (seen on
//! 4.28: "Got unsupported notification method", exit code 1). Lean's watchdog keeps those to itself, and so do we: saving means
//! `$/lean/staleDependency` to the workers of importing files, closing means ending the process.

use beam_base::rpc::{self, RequestId};
use beam_base::{AbsPath, uri};
use beam_lean::denormalize_newlines;
use serde_json::{Map, Value, json};

use crate::config::{BuildMode, SessionConfig};
use crate::request::WireId;

/// JSON-RPC code of an answer to a cancelled request.
pub(crate) const REQUEST_CANCELLED: i64 = -32800;
/// JSON-RPC code of wrong parameters.
pub(crate) const INVALID_PARAMS: i64 = -32602;
/// JSON-RPC code of an unknown method.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;

/// Requests a worker may make of us that want nothing but an acknowledgement.
const ACKNOWLEDGED: [&str; 3] =
    ["workspace/inlayHint/refresh", "workspace/semanticTokens/refresh", "client/registerCapability"];

/// Whether `method`, asked by a worker, is answered with `null`.
pub(crate) fn is_acknowledged(method: &str) -> bool {
    ACKNOWLEDGED.contains(&method)
}

/// The body of `initialize`. The worker reads it and does not answer.
pub(crate) fn initialize(config: &SessionConfig) -> Vec<u8> {
    let root = uri::from_path(&config.root);
    let mut params = json!({
        // No parent pid: a worker that sees its parent gone ends by the closed stdin, and polling for a pid differs per platform.
        "processId": null,
        "rootUri": root,
        "workspaceFolders": [{ "uri": root, "name": "root" }],
        "initializationOptions": { "hasWidgets": false },
        "capabilities": {
            "textDocument": { "completion": { "completionItem": { "insertReplaceSupport": true } } },
            "workspace": { "applyEdit": true, "workspaceEdit": { "documentChanges": true } },
            // Silent diagnostics are one per theorem, and Lean publishes the whole list each time: asked for, they make a long file's
            // first elaboration quadratic. Incremental ones (4.32 and later, unknown before) make each publish what is new only.
            "lean": { "silentDiagnosticSupport": false, "incrementalDiagnosticSupport": true }
        }
    });
    merge(&mut params, &config.init_params);
    encode("0", "initialize", &params)
}

fn merge(into: &mut Value, over: &Map<String, Value>) {
    let Some(map) = into.as_object_mut() else { return };
    for (key, value) in over {
        match (map.get_mut(key), value) {
            (Some(old @ Value::Object(_)), Value::Object(new)) => merge(old, new),
            _ => {
                map.insert(key.clone(), value.clone());
            }
        }
    }
}

/// The body of `textDocument/didOpen`. `text` is what Lean is to have; it normalises line ends of what it is sent.
pub(crate) fn did_open(uri: &str, language_id: &str, version: u64, text: &str, build: BuildMode) -> Vec<u8> {
    let text = denormalize_newlines(text);
    encode_notification(
        "textDocument/didOpen",
        &json!({
            "textDocument": { "uri": uri, "languageId": language_id, "version": version, "text": text },
            "dependencyBuildMode": build.as_lsp(),
        }),
    )
}

/// The body of a full-text `textDocument/didChange`; `text` as in [`did_open`].
pub(crate) fn did_change(uri: &str, version: u64, text: &str) -> Vec<u8> {
    let text = denormalize_newlines(text);
    encode_notification(
        "textDocument/didChange",
        &json!({
            "textDocument": { "uri": uri, "version": version },
            "contentChanges": [{ "text": text }],
        }),
    )
}

/// The body of `$/cancelRequest`.
pub(crate) fn cancel(id: &WireId) -> Vec<u8> {
    encode_notification("$/cancelRequest", &json!({ "id": id.to_wire() }))
}

/// The body of `$/lean/staleDependency`.
pub(crate) fn stale_dependency(uri: &str) -> Vec<u8> {
    encode_notification("$/lean/staleDependency", &json!({ "staleDependency": uri }))
}

/// The body of `exit`.
pub(crate) fn exit() -> Vec<u8> {
    // The worker expects this one notification without a `params` member.
    br#"{"jsonrpc":"2.0","method":"exit"}"#.to_vec()
}

/// The body of a request of ours.
pub(crate) fn encode_request(id: &WireId, method: &str, params: &Value) -> Vec<u8> {
    encode(&format!("\"{}\"", id.to_wire()), method, params)
}

fn encode(id: &str, method: &str, params: &Value) -> Vec<u8> {
    // A `Value` always serialises: its keys are strings and it holds no foreign `Serialize`; and our ids are JSON.
    let id: Result<RequestId, _> = serde_json::from_str(id);
    id.and_then(|id| rpc::request(&id, method, params)).unwrap_or_default()
}

fn encode_notification(method: &str, params: &Value) -> Vec<u8> {
    rpc::notification(method, params).unwrap_or_default()
}

/// The URI of a document.
pub(crate) fn uri_of(path: &AbsPath) -> String {
    uri::from_path(path)
}
