//! Requests: checked against the table first, typed afterwards (broker protocol section 3).

use serde_json::{Map, Value};

use crate::backend::Backend;
use crate::error::{ErrorBody, FailureCode};
use crate::field::brief;
use crate::operation::{Op, Operation, Scope};

/// A decoded request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// To whom; Lean where the operation takes no backend.
    pub backend: Backend,
    /// Correlation and cancellation key of the client's.
    pub client_request_id: Option<String>,
    /// The workspace as the client named it.
    pub workspace_id: Option<String>,
    /// Cross-check of the workspace's root.
    pub root: Option<String>,
    /// What to do.
    pub operation: Operation,
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
    pub fn new(operation: impl Into<Operation>) -> Self {
        let operation = operation.into();
        Self { backend: Backend::Lean, client_request_id: None, workspace_id: None, root: None, operation }
    }

    /// Which operation is asked for.
    #[must_use]
    pub fn op(&self) -> Op {
        self.operation.op()
    }

    /// Decodes a frame body.
    ///
    /// # Errors
    /// The body is not JSON, or no request.
    pub fn decode(body: &[u8]) -> Decoded {
        let plain = |message: String| {
            let error = ErrorBody::new(FailureCode::InvalidParams, message);
            Box::new(Rejected { client_request_id: None, about: None, error })
        };
        let value: Value = serde_json::from_slice(body).map_err(|e| plain(format!("the request is not JSON: {e}")))?;
        match value {
            Value::Object(map) => Self::from_map(map),
            other => Err(plain(format!("the request must be a JSON object, not {}", brief(&other)))),
        }
    }

    /// Checks an object against the table, then types it. The same check serves sockets and in-process callers.
    ///
    /// # Errors
    /// An unknown operation, or fields that do not fit it; one error names all that are unexpected, or all that are missing.
    pub fn from_map(mut map: Map<String, Value>) -> Decoded {
        let client_request_id = map.get("clientRequestId").and_then(Value::as_str).map(str::to_owned);
        let reject = |about, message: String| {
            let error = ErrorBody::new(FailureCode::InvalidParams, message);
            Box::new(Rejected { client_request_id: client_request_id.clone(), about, error })
        };
        let op = match map.remove("op") {
            Some(Value::String(name)) => Op::from_name(&name)
                .ok_or_else(|| reject(None, format!("unknown op {}", brief(&Value::String(name.clone())))))?,
            Some(other) => return Err(reject(None, format!("`op` must be a string, not {}", brief(&other)))),
            None => return Err(reject(None, "the request has no `op`".to_owned())),
        };
        let about = map.get("workspaceId").and_then(Value::as_str).map(|id| (id.to_owned(), op));
        check_fields(op, &map).map_err(|message| reject(about.clone(), message))?;

        let spec = op.spec();
        let mut take = |key: &str| match map.remove(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let id = take("clientRequestId");
        let workspace_id = take("workspaceId");
        // `init_workspace` has a root of its own.
        let root = if spec.root_check { take("root") } else { None };
        let backend = if take("backend").as_deref() == Some("rocq") { Backend::Rocq } else { Backend::Lean };
        if spec.scope == Scope::Optional && root.is_some() && workspace_id.is_none() {
            return Err(reject(about, format!("{}: `root` is only allowed together with `workspaceId`", op.name())));
        }
        let operation = Operation::from_fields(op, map).map_err(|e| reject(about, format!("{}: {e}", op.name())))?;
        Ok(Self { backend, client_request_id: id, workspace_id, root, operation })
    }

    /// The JSON object: `backend` always on operations that take one, absent options omitted.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        let mut map = Map::new();
        let spec = self.op().spec();
        map.insert("op".into(), spec.name.into());
        if spec.backend {
            map.insert("backend".into(), self.backend.as_str().into());
        }
        for (key, value) in
            [("clientRequestId", &self.client_request_id), ("workspaceId", &self.workspace_id), ("root", &self.root)]
        {
            if let Some(value) = value {
                map.insert(key.into(), value.clone().into());
            }
        }
        map.extend(self.operation.to_fields());
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
    let unknown: Vec<_> = map
        .keys()
        .filter(|k| !spec.fields().any(|f| f.name == **k))
        .map(|k| format!("`{}`", k.chars().take(60).collect::<String>()))
        .collect();
    if !unknown.is_empty() {
        return Err(format!("{}: unexpected field {}", op.name(), unknown.join(", ")));
    }
    for field in spec.fields() {
        if let Some(why) = map.get(field.name).and_then(|v| field.mismatch(v)) {
            return Err(format!("{}: field `{}` {why}", op.name(), field.name));
        }
    }
    let missing: Vec<_> =
        spec.required().filter(|f| !map.contains_key(f.name)).map(|f| format!("`{}`", f.name)).collect();
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
