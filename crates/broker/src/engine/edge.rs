//! The one place where the engine's failures become the wire's: code, message, data (broker protocol section 8).

use beam_base::rpc::RpcError;
use beam_session::{ExitReason, Modified, RequestFailure, SessionError, WorkerExit};
use beam_toolchain::project::SaveError;
use beam_wire::error::backend_code_name;
use beam_wire::{ErrorBody, FailureCode};
use serde_json::{Value, json};

use super::admission::AdmissionRefused;
use super::build::target::ArtifactError;
use super::error::{AnswerError, EngineError, HandleError, IncompleteBarrier, SaveRefusal, VersionMismatch};
use super::registry::OpenError;
use super::source::SourceError;
use super::workspace::SetupFailure;

impl From<EngineError> for ErrorBody {
    fn from(e: EngineError) -> Self {
        // A backend's own JSON-RPC error keeps its code name, message and data.
        if let EngineError::Worker { failure: RequestFailure::Server(RpcError { code, message, data }), .. } = e {
            return Self { code: backend_code_name(code), message, data };
        }
        let mut message = message(&e);
        if let Some(hint) = hint(&e) {
            message.push_str("; ");
            message.push_str(&hint);
        }
        Self { code: code(&e).as_str().to_owned(), message, data: data(&e) }
    }
}

impl From<OpenError> for ErrorBody {
    fn from(e: OpenError) -> Self {
        EngineError::from(e).into()
    }
}

fn code(e: &EngineError) -> FailureCode {
    use FailureCode as Code;
    match e {
        EngineError::Admission(AdmissionRefused::Active(_)) => Code::InvalidParams,
        EngineError::Admission(AdmissionRefused::Closed) | EngineError::Cancelled(_) => Code::RequestCancelled,
        EngineError::Open(OpenError::Closing) | EngineError::Setup(SetupFailure::Closing) => Code::RequestCancelled,
        EngineError::Setup(SetupFailure::Toolchain(_) | SetupFailure::Defect(_)) => Code::InternalError,
        EngineError::Open(_) | EngineError::Selector(_) | EngineError::Parameter(_) => Code::InvalidParams,
        // An unreadable disk is nobody's bad parameter; everything else is.
        EngineError::Source(SourceError::Io { .. }) | EngineError::Disk(_) => Code::InternalError,
        EngineError::Source(_) => Code::InvalidParams,
        EngineError::Version(_) => Code::ContentModified,
        EngineError::Handle(HandleError::TooMany { .. }) => Code::InvalidParams,
        EngineError::Handle(_) => Code::ContentModified,
        EngineError::Worker { failure, .. } => worker_code(failure),
        EngineError::Session(SessionError::Closed) => Code::WorkerExited,
        EngineError::Session(SessionError::Spawn(_)) => Code::InternalError,
        EngineError::Answer(AnswerError::OtherText { .. }) => Code::ContentModified,
        EngineError::Answer(_) => Code::InternalError,
        EngineError::Incomplete(_) => Code::SyncBarrierIncomplete,
        EngineError::Save(SaveRefusal::BatchOnlyArgs { .. }) => Code::SaveUnsupportedSetup,
        EngineError::Save(SaveRefusal::Errors { .. }) => Code::InvalidParams,
        EngineError::Save(SaveRefusal::ImportsMoved { .. }) => Code::SaveTraceStale,
        EngineError::Artifact(e) => artifact_code(e),
        EngineError::Defect(_) => Code::InternalError,
    }
}

fn worker_code(failure: &RequestFailure) -> FailureCode {
    match failure {
        RequestFailure::Cancelled => FailureCode::RequestCancelled,
        RequestFailure::StaleVersion { .. }
        | RequestFailure::ContentModified { .. }
        | RequestFailure::NotOpen(_) => FailureCode::ContentModified,
        RequestFailure::WorkerExited(_) | RequestFailure::SessionClosed => FailureCode::WorkerExited,
        RequestFailure::BuildRefused { .. } => FailureCode::SyncBarrierIncomplete,
        RequestFailure::Server(_) | RequestFailure::TimedOut | RequestFailure::Lost => FailureCode::InternalError,
    }
}

fn artifact_code(e: &ArtifactError) -> FailureCode {
    match e {
        ArtifactError::NotModule { .. } => FailureCode::SaveTargetNotModule,
        ArtifactError::Stale { .. } => FailureCode::SaveTraceStale,
        ArtifactError::Refused { error, .. } => match error {
            SaveError::Cancelled => FailureCode::RequestCancelled,
            SaveError::MoreArgs { .. } => FailureCode::SaveUnsupportedSetup,
            SaveError::NoPath { .. } => FailureCode::SaveTargetNotModule,
            SaveError::ImportNotBuilt { .. } | SaveError::ImportMoved { .. } => FailureCode::SaveTraceStale,
            SaveError::Fs(_) | SaveError::Lock(_) => FailureCode::InternalError,
        },
        ArtifactError::Configuration(_)
        | ArtifactError::TraceStays { .. }
        | ArtifactError::NoTrace { .. }
        | ArtifactError::Defect { .. } => FailureCode::InternalError,
    }
}

/// What happened. The session does not know how documents are shown to people; its failures are put into words here.
fn message(e: &EngineError) -> String {
    let EngineError::Worker { failure, path } = e else { return e.to_string() };
    if let Some(mismatch) = mismatch(failure, path) {
        return mismatch.to_string();
    }
    match failure {
        RequestFailure::ContentModified { how, .. } => format!("`{path}` was {how} while the request was pending"),
        RequestFailure::WorkerExited(exit) => exit.to_string(),
        RequestFailure::BuildRefused { modules, .. } => format!(
            "`{path}` imports modules that would have to be built first, and builds are switched off (`--no-build` or BEAM_BUILD=never): {}",
            modules.join(", ")
        ),
        RequestFailure::NotOpen(_) => format!("`{path}` was closed while the request was on its way"),
        RequestFailure::SessionClosed => SESSION_CLOSED.to_owned(),
        RequestFailure::TimedOut => "Lean did not answer in time".to_owned(),
        RequestFailure::Lost => "a defect of lean-beam lost this request".to_owned(),
        RequestFailure::Cancelled | RequestFailure::Server(_) | RequestFailure::StaleVersion { .. } => {
            failure.to_string()
        }
    }
}

const SESSION_CLOSED: &str = "the session was shut down while the request was in flight";
const ASK_AGAIN: &str = "ask again";
const DOCTOR: &str = "`lean-beam doctor` shows which Lean was started";

/// What to do next, where the failure itself does not say it.
fn hint(e: &EngineError) -> Option<String> {
    let fixed = match e {
        EngineError::Version(mismatch) => return Some(mismatch_hint(mismatch)),
        EngineError::Worker { failure, path } => return worker_hint(failure, path),
        EngineError::Incomplete(barrier) => return Some(incomplete_hint(barrier)),
        EngineError::Handle(HandleError::TooMany { .. }) => {
            "release some (data.oldest is the oldest), use them up with `linear`, or leave `storeHandle` out; BEAM_MAX_HANDLES sets another limit"
        }
        EngineError::Handle(_) => "make a new one with run-at-handle",
        EngineError::Disk(_) => "if it is a network mount, see whether that is still there",
        EngineError::Session(SessionError::Closed) => ASK_AGAIN,
        EngineError::Session(SessionError::Spawn(_)) => DOCTOR,
        EngineError::Answer(AnswerError::OtherText { .. }) => "sync again",
        EngineError::Answer(AnswerError::OtherSave { .. }) => "build it anew",
        EngineError::Save(SaveRefusal::BatchOnlyArgs { .. }) => {
            "move `-D` settings to `leanOptions`, or use `lake build`"
        }
        EngineError::Save(SaveRefusal::Errors { .. }) => "mend them and save again",
        EngineError::Save(SaveRefusal::ImportsMoved { .. }) => "refresh this file and save again",
        _ => return None,
    };
    Some(fixed.to_owned())
}

fn mismatch_hint(mismatch: &VersionMismatch) -> String {
    format!("look at the file again and use version {}", mismatch.accepted)
}

fn worker_hint(failure: &RequestFailure, path: &str) -> Option<String> {
    if let Some(mismatch) = mismatch(failure, path) {
        return Some(mismatch_hint(&mismatch));
    }
    let fixed = match failure {
        RequestFailure::ContentModified { .. } | RequestFailure::NotOpen(_) | RequestFailure::SessionClosed => ASK_AGAIN,
        RequestFailure::WorkerExited(exit) => match exit.reason {
            ExitReason::SpawnFailed(_) | ExitReason::StartFailed => DOCTOR,
            _ => "the next request starts a fresh worker, handles of the old one are gone",
        },
        RequestFailure::BuildRefused { .. } => "build them, or allow builds, then refresh",
        _ => return None,
    };
    Some(fixed.to_owned())
}

fn incomplete_hint(barrier: &IncompleteBarrier) -> String {
    let build = if barrier.has_lake { "build its imports (`lake build`), or mend" } else { "mend" };
    format!("{build} the module they come from, then refresh")
}

/// The version mismatch that a failed request is, if it is one.
fn mismatch(failure: &RequestFailure, path: &str) -> Option<VersionMismatch> {
    let (expected, accepted, uri) = match failure {
        RequestFailure::StaleVersion { expected, accepted, uri } => (expected, accepted, uri),
        RequestFailure::ContentModified { how: Modified::Edited { version }, expected: Some(expected), uri } => {
            (expected, version, uri)
        }
        _ => return None,
    };
    Some(VersionMismatch { expected: *expected, accepted: *accepted, uri: uri.clone(), path: path.to_owned() })
}

fn data(e: &EngineError) -> Option<Value> {
    match e {
        EngineError::Version(mismatch) => Some(mismatch_data(mismatch)),
        EngineError::Worker { failure, path } => worker_data(failure, path),
        EngineError::Handle(HandleError::TooMany { limit, oldest, .. }) => {
            Some(json!({ "reason": "tooManyHandles", "limit": limit, "oldest": oldest }))
        }
        EngineError::Handle(_) => Some(json!({ "reason": "staleSession" })),
        EngineError::Answer(AnswerError::OtherText { uri, expected, actual, .. }) => {
            Some(json!({ "expectedHash": expected, "actualHash": actual, "uri": uri }))
        }
        EngineError::Incomplete(barrier) => Some(incomplete_data(barrier)),
        EngineError::Save(SaveRefusal::BatchOnlyArgs { path, args, sync }) => {
            Some(json!({ "sync": sync, "reason": format!("moreLeanArgs is set to {args:?}"), "path": path }))
        }
        EngineError::Save(SaveRefusal::Errors { sync, .. }) => Some(json!({ "sync": sync })),
        _ => None,
    }
}

fn mismatch_data(VersionMismatch { expected, accepted, uri, .. }: &VersionMismatch) -> Value {
    json!({
        "reason": "documentVersionMismatch",
        "expectedVersion": expected,
        "acceptedVersion": accepted,
        "currentVersion": accepted,
        "uri": uri,
    })
}

fn worker_data(failure: &RequestFailure, path: &str) -> Option<Value> {
    if let Some(mismatch) = mismatch(failure, path) {
        return Some(mismatch_data(&mismatch));
    }
    match failure {
        RequestFailure::ContentModified { uri, .. } => Some(json!({ "uri": uri })),
        RequestFailure::WorkerExited(exit) => {
            let WorkerExit { uri, status, stderr_tail, .. } = &**exit;
            let status = status.map(|s| s.to_string());
            Some(json!({ "uri": uri, "exitStatus": status, "stderrTail": stderr_tail }))
        }
        RequestFailure::BuildRefused { modules, uri } => {
            Some(json!({ "reason": "buildRefused", "uri": uri, "modules": modules }))
        }
        _ => None,
    }
}

fn incomplete_data(barrier: &IncompleteBarrier) -> Value {
    let IncompleteBarrier { path, deps, evidence, has_lake, .. } = barrier;
    let save_deps: Vec<&str> = deps.iter().filter(|d| d.needs_save).map(|d| d.path.as_str()).collect();
    // Quoted as a JSON string: a path with blanks stays one word in every shell that people use.
    let line = |verb: &str, path: &str| format!("lean-beam {verb} {}", Value::from(path));
    // In the order in which it works: a refresh reads artifacts, and builds what lacks them. Lake's own build is the last resort.
    let mut plan: Vec<String> = save_deps.iter().map(|dep| line("save", dep)).collect();
    plan.push(line("refresh", path));
    if *has_lake {
        plan.push("lake build".to_owned());
    }
    json!({
        "targetPath": path,
        "staleDirectDeps": deps,
        "saveDeps": save_deps,
        "completionBlockingDiagnostics": evidence,
        "recoveryPlan": plan,
    })
}
