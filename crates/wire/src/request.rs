//! Requests: checked against the table first, typed afterwards (broker protocol section 3).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{ErrorBody, FailureCode};
use crate::op::{Op, Scope};
use crate::run::Handle;

/// Which proof assistant an operation speaks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// Lean 4.
    #[default]
    Lean,
    /// Rocq through coq-lsp.
    Rocq,
}

impl Backend {
    /// Spelling on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lean => "lean",
            Self::Rocq => "rocq",
        }
    }
}

/// Which diagnostics are shown (sync and save, section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiagnosticScope {
    /// Errors, or only the texts of an incomplete barrier where there are any.
    #[default]
    Errors,
    /// Everything that is not silent.
    All,
}

/// Side of a tactic whose goals are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GoalsMode {
    /// Before it.
    Before,
    /// After it.
    #[default]
    After,
}

/// What `init_workspace` does with an id that is known, or is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkspaceMode {
    /// Create it, or reuse one of the same configuration.
    #[default]
    Set,
    /// Reuse one of the same configuration; create nothing.
    Verify,
    /// Create it, ending what was there.
    Reset,
}

/// A decoded request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What to do.
    pub op: Op,
    /// To whom; Lean where the operation takes no backend.
    pub backend: Backend,
    /// Correlation and cancellation key of the client's.
    pub client_request_id: Option<String>,
    /// The workspace as the client named it.
    pub workspace_id: Option<String>,
    /// Cross-check of the workspace's root.
    pub root: Option<String>,
    /// The operation's own fields.
    pub args: Args,
}

/// The operation's own fields; which of them an operation has is the table's business.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// File, absolute or relative to the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Document version that the positions are about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Line from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// UTF-16 unit in the line, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub character: Option<u32>,
    /// End line from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_line: Option<u32>,
    /// End character.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_character: Option<u32>,
    /// Tactic or command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Symbol query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Id to cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_request_id: Option<String>,
    /// References: with the declaration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_declaration: Option<bool>,
    /// Keep the resulting state under a handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_handle: Option<bool>,
    /// Consume the parent handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linear: Option<bool>,
    /// Put diagnostics into the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnostics_in_result: Option<bool>,
    /// Which diagnostics are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnostic_scope: Option<DiagnosticScope>,
    /// Kinds of todo items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<String>>,
    /// Whether todo suggests texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggest: Option<String>,
    /// Goals before or after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<GoalsMode>,
    /// Continuation handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<Handle>,
    /// LSP code action to resolve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_action: Option<Map<String, Value>>,
    /// `close`: save first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub save_artifacts: Option<bool>,
    /// How a workspace is initialised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_mode: Option<WorkspaceMode>,
    /// The workspace's `lean`: a path, or `embedded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lean_cmd: Option<String>,
    /// The workspace's coq-lsp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rocq_cmd: Option<String>,
}

/// A decoding's outcome. Boxed, since a rejection is rare and large.
pub type Decoded = Result<Request, Box<Rejected>>;

/// Why a body is no request, with the id to echo if one could be read.
#[derive(Debug)]
pub struct Rejected {
    /// `clientRequestId`, where the body had a readable one.
    pub client_request_id: Option<String>,
    /// The workspace and operation it was about, where they could be read: rejections are counted there.
    pub about: Option<(String, Op)>,
    /// The answer.
    pub error: ErrorBody,
}

impl Request {
    /// A request of our own making.
    #[must_use]
    pub fn new(op: Op, args: Args) -> Self {
        Self { op, backend: Backend::Lean, client_request_id: None, workspace_id: None, root: None, args }
    }

    /// Decodes a frame body.
    pub fn decode(body: &[u8]) -> Result<Self, Box<Rejected>> {
        let plain = |message: String| {
            let error = ErrorBody::new(FailureCode::InvalidParams, message);
            Box::new(Rejected { client_request_id: None, about: None, error })
        };
        let value: Value = serde_json::from_slice(body).map_err(|e| plain(format!("the request is not JSON: {e}")))?;
        match value {
            Value::Object(map) => Self::from_map(map),
            other => Err(plain(format!("the request must be a JSON object, not {other}"))),
        }
    }

    /// Checks an object against the table, then types it. The same check serves sockets and in-process callers.
    pub fn from_map(mut map: Map<String, Value>) -> Result<Self, Box<Rejected>> {
        let client_request_id = map.get("clientRequestId").and_then(Value::as_str).map(str::to_owned);
        let reject = |about, message: String| {
            let error = ErrorBody::new(FailureCode::InvalidParams, message);
            Box::new(Rejected { client_request_id: client_request_id.clone(), about, error })
        };
        let op = match map.remove("op") {
            Some(Value::String(name)) => {
                Op::from_name(&name).ok_or_else(|| reject(None, format!("unknown op \"{name}\"")))?
            }
            Some(other) => return Err(reject(None, format!("`op` must be a string, not {other}"))),
            None => return Err(reject(None, "the request has no `op`".to_owned())),
        };
        let about = map.get("workspaceId").and_then(Value::as_str).map(|id| (id.to_owned(), op));
        check_fields(op, &map).map_err(|message| reject(about.clone(), message))?;

        let mut take = |key: &str| match map.remove(key) {
            Some(Value::String(s)) => Some(s),
            _ => None,
        };
        let id = take("clientRequestId");
        let workspace_id = take("workspaceId");
        let root = take("root");
        let backend = if take("backend").as_deref() == Some("rocq") { Backend::Rocq } else { Backend::Lean };
        if op.spec().scope == Scope::Optional && root.is_some() && workspace_id.is_none() {
            return Err(reject(about, format!("{}: `root` is only allowed together with `workspaceId`", op.name())));
        }
        // The table has checked every type but the inside of a handle.
        let args: Args =
            serde_json::from_value(Value::Object(map)).map_err(|e| reject(about, format!("{}: {e}", op.name())))?;
        Ok(Self { op, backend, client_request_id: id, workspace_id, root, args })
    }

    /// The JSON object: `backend` always on operations that take one, absent options omitted.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("op".into(), self.op.name().into());
        if self.op.spec().backend {
            map.insert("backend".into(), self.backend.as_str().into());
        }
        for (key, value) in
            [("clientRequestId", &self.client_request_id), ("workspaceId", &self.workspace_id), ("root", &self.root)]
        {
            if let Some(value) = value {
                map.insert(key.into(), value.clone().into());
            }
        }
        if let Ok(Value::Object(args)) = serde_json::to_value(&self.args) {
            map.extend(args);
        }
        map
    }

    /// The frame body.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        Value::Object(self.to_map()).to_string().into_bytes()
    }
}

/// Closed key set, types, required fields: in this order, each naming everything it found.
fn check_fields(op: Op, map: &Map<String, Value>) -> Result<(), String> {
    let spec = op.spec();
    let unknown: Vec<_> =
        map.keys().filter(|k| !spec.fields().any(|f| f.name == **k)).map(|k| format!("`{k}`")).collect();
    if !unknown.is_empty() {
        return Err(format!("{}: unexpected field {}", op.name(), unknown.join(", ")));
    }
    for field in spec.fields() {
        if let Some(why) = map.get(field.name).and_then(|v| field.mismatch(v)) {
            return Err(format!("{}: field `{}` {why}", op.name(), field.name));
        }
    }
    let missing: Vec<_> =
        spec.required.iter().filter(|f| !map.contains_key(f.name)).map(|f| format!("`{}`", f.name)).collect();
    if !missing.is_empty() {
        return Err(format!("{}: missing field {}", op.name(), missing.join(", ")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(body: &str, expect: &Expect) {
        let text = match Request::decode(body.as_bytes()) {
            Ok(r) => String::from_utf8(r.encode()).unwrap(),
            Err(e) => format!("{} ({:?})", e.error.message, e.client_request_id),
        };
        expect.assert_eq(&text);
    }

    #[test]
    fn w1_requests_are_closed() {
        check(
            r#"{"op":"update_file","workspaceId":"w","path":"A.lean","text":"x","fullDiagnostics":true,"clientRequestId":"q"}"#,
            &expect!["update_file: unexpected field `text`, `fullDiagnostics` (Some(\"q\"))"],
        );
        check(
            r#"{"op":"cancel","workspaceId":"w","cancelRequestId":"x"}"#,
            &expect!["cancel: unexpected field `workspaceId` (None)"],
        );
        check(r#"{"op":"nope"}"#, &expect![[r#"unknown op "nope" (None)"#]]);
        check(r#"{"path":"x"}"#, &expect!["the request has no `op` (None)"]);
        check("[1]", &expect!["the request must be a JSON object, not [1] (None)"]);
        check("{", &expect!["the request is not JSON: EOF while parsing an object at line 1 column 1 (None)"]);
    }

    #[test]
    fn types_and_required_fields() {
        check(
            r#"{"op":"run_at","workspaceId":"w","path":"A.lean","version":1,"line":0}"#,
            &expect!["run_at: missing field `character`, `text` (None)"],
        );
        check(
            r#"{"op":"run_at","workspaceId":"w","path":"A.lean","version":1,"line":-1,"character":0,"text":""}"#,
            &expect!["run_at: field `line` must be a whole number from 0 to 4294967295, not -1 (None)"],
        );
        check(
            r#"{"op":"sync_file","workspaceId":"w","path":"A.lean","diagnosticScope":true}"#,
            &expect![[r#"sync_file: field `diagnosticScope` must be one of "errors", "all", not true (None)"#]],
        );
        check(
            r#"{"op":"sync_file","workspaceId":"w","path":"A.lean","root":null}"#,
            &expect!["sync_file: field `root` must be a string, not null (None)"],
        );
        check(
            r#"{"op":"run_with","workspaceId":"w","path":"A.lean","text":"x","handle":{"raw":{}}}"#,
            &expect!["run_with: missing field `workspaceId` (None)"],
        );
        check(
            r#"{"op":"stats","root":"/x"}"#,
            &expect!["stats: `root` is only allowed together with `workspaceId` (None)"],
        );
    }

    #[test]
    fn encoding_writes_backend_only_where_it_belongs() {
        check(
            r#"{"op":"goals","workspaceId":"w","path":"A.lean","version":1,"line":2,"character":3,"mode":"before"}"#,
            &expect![[
                r#"{"op":"goals","backend":"lean","workspaceId":"w","path":"A.lean","version":1,"line":2,"character":3,"mode":"before"}"#
            ]],
        );
        check(r#"{"op":"shutdown"}"#, &expect![[r#"{"op":"shutdown"}"#]]);
    }
}
