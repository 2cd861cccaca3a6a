//! The one place where inner failures become wire errors: code, message, data (broker protocol section 8).

use beam_base::rpc::RpcError;
use beam_session::{ExitReason, Modified, RequestFailure, SessionError};
use beam_wire::error::backend_code_name;
use beam_wire::{ErrorBody, FailureCode};
use serde_json::{Value, json};

use super::admission::Refused;

impl From<Refused> for ErrorBody {
    fn from(e: Refused) -> Self {
        let code = match e {
            Refused::Active(_) => FailureCode::InvalidParams,
            Refused::Closed => FailureCode::RequestCancelled,
        };
        Self::new(code, e.to_string())
    }
}

/// Version `expected` was named, the document is at `accepted`.
pub(crate) fn version_mismatch(expected: u64, accepted: u64, uri: &str, path: &str) -> ErrorBody {
    ErrorBody::new(
        FailureCode::ContentModified,
        format!("`{path}` is at version {accepted}, the request is about version {expected}; look at the file again and use version {accepted}"),
    )
    .with_data(json!({
        "reason": "documentVersionMismatch",
        "expectedVersion": expected,
        "acceptedVersion": accepted,
        "currentVersion": accepted,
        "uri": uri,
    }))
}

/// A backend's own JSON-RPC error keeps its code name, message and data.
fn backend(e: RpcError) -> ErrorBody {
    ErrorBody { code: backend_code_name(e.code), message: e.message, data: e.data }
}

/// A failed backend request about the document shown as `path`.
pub(crate) fn request(e: RequestFailure, path: &str) -> ErrorBody {
    match e {
        RequestFailure::Server(e) => backend(e),
        RequestFailure::Cancelled => ErrorBody::new(FailureCode::RequestCancelled, "the request was cancelled"),
        RequestFailure::StaleVersion { expected, accepted, uri } => version_mismatch(expected, accepted, &uri, path),
        RequestFailure::ContentModified { how: Modified::Edited { version }, expected: Some(expected), uri } => {
            version_mismatch(expected, version, &uri, path)
        }
        RequestFailure::ContentModified { how, uri, .. } => ErrorBody::new(
            FailureCode::ContentModified,
            format!("`{path}` was {how} while the request was pending; ask again"),
        )
        .with_data(json!({ "uri": uri })),
        RequestFailure::WorkerExited(exit) => {
            let mut message = exit.to_string();
            message.push_str(match exit.reason {
                ExitReason::SpawnFailed(_) | ExitReason::StartFailed => {
                    "; `lean-beam doctor` shows which Lean was started"
                }
                _ => "; the next request starts a fresh worker, handles of the old one are gone",
            });
            let data = json!({
                "uri": exit.uri,
                "exitStatus": exit.status.map(|s| s.to_string()),
                "stderrTail": exit.stderr_tail,
            });
            ErrorBody::new(FailureCode::WorkerExited, message).with_data(data)
        }
        RequestFailure::BuildRefused { modules, uri } => build_refused(&uri, path, &modules),
        RequestFailure::NotOpen(_) => ErrorBody::new(
            FailureCode::ContentModified,
            format!("`{path}` was closed while the request was on its way; ask again"),
        ),
        RequestFailure::SessionClosed => ErrorBody::new(
            FailureCode::WorkerExited,
            "the session was shut down while the request was in flight; ask again",
        ),
        RequestFailure::TimedOut => ErrorBody::new(FailureCode::InternalError, "Lean did not answer in time"),
        RequestFailure::Lost => ErrorBody::new(FailureCode::InternalError, "a defect of lean-beam lost this request"),
    }
}

/// What the document imports would have to be built, and may not be.
fn build_refused(uri: &str, path: &str, modules: &[String]) -> ErrorBody {
    let message = format!(
        "`{path}` imports modules that would have to be built first, and builds are switched off (`--no-build` or BEAM_BUILD=never): {}; build them, or allow builds, then refresh",
        modules.join(", ")
    );
    let data = json!({ "reason": "buildRefused", "uri": uri, "modules": modules });
    ErrorBody::new(FailureCode::SyncBarrierIncomplete, message).with_data(data)
}

/// The session itself failed.
pub(crate) fn session(e: &SessionError) -> ErrorBody {
    match e {
        SessionError::Closed => ErrorBody::new(
            FailureCode::WorkerExited,
            "the session was shut down while the request was in flight; ask again",
        ),
        SessionError::Spawn(_) => {
            ErrorBody::new(FailureCode::InternalError, format!("{e}; `lean-beam doctor` shows which Lean was started"))
        }
    }
}

/// The backend answered something that is not what its method promises.
pub(crate) fn undecodable(method: &str, e: &serde_json::Error) -> ErrorBody {
    ErrorBody::new(FailureCode::InternalError, format!("Lean's answer to {method} cannot be understood: {e}"))
}

/// A stale handle: minted by a session that is gone.
pub(crate) fn stale_handle(why: &str) -> ErrorBody {
    ErrorBody::new(
        FailureCode::ContentModified,
        format!("the handle is stale: {why}; make a new one with run-at-handle"),
    )
    .with_data(Value::Object(serde_json::Map::from_iter([("reason".to_owned(), "staleSession".into())])))
}
