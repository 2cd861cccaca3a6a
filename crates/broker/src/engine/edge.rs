//! The one place where the engine's failures become the wire's: code, message, data (broker protocol section 8).

use beam_base::rpc::RpcError;
use beam_project::SaveError;
use beam_session::{ExitReason, Modified, RequestFailure, SessionError, WorkerExit};
use beam_wire::error::backend_code_name;
use beam_wire::{ErrorBody, FailureCode, Op};
use serde_json::{Value, json};

use super::admission::AdmissionRefused;
use super::artifacts::target::ArtifactError;
use super::error::{
    AnswerError, EngineError, HandleError, IncompleteBarrier, SaveRefusal, VersionMismatch, WorkerFailure,
};
use super::registry::OpenError;
use super::source::SourceError;
use super::workspace::SetupFailure;

impl From<EngineError> for ErrorBody {
    fn from(e: EngineError) -> Self {
        if let EngineError::Worker(worker) = &e
            && let RequestFailure::Server(RpcError { code, message, data }) = &worker.failure
        {
            // A backend's own JSON-RPC error keeps its code name, message and data.
            return Self { code: backend_code_name(*code), message: message.clone(), data: data.clone() };
        }
        let mut message = message(&e);
        if let Some(hint) = hint(&e) {
            message.push_str(if matches!(e, EngineError::Incomplete(_)) { ": " } else { "; " });
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
    match e {
        EngineError::Admission(AdmissionRefused::Closed)
        | EngineError::Open(OpenError::Closing)
        | EngineError::Setup(SetupFailure::Closing)
        | EngineError::Cancelled(_) => FailureCode::RequestCancelled,
        // An unreadable disk is nobody's bad parameter; everything else that is wrong with a file is.
        EngineError::Source(SourceError::Io { .. })
        | EngineError::Disk(_)
        | EngineError::Setup(SetupFailure::Toolchain(_) | SetupFailure::Defect(_))
        | EngineError::Session(SessionError::Spawn(_))
        | EngineError::Answer(AnswerError::Undecodable { .. } | AnswerError::OtherSave { .. })
        | EngineError::Defect(_) => FailureCode::InternalError,
        EngineError::Version(_)
        | EngineError::Answer(AnswerError::OtherText { .. })
        | EngineError::Handle(HandleError::NoSession | HandleError::OtherBackend | HandleError::OtherSession) => {
            FailureCode::ContentModified
        }
        EngineError::Admission(AdmissionRefused::Active(_))
        | EngineError::Open(_)
        | EngineError::Selector(_)
        | EngineError::Parameter(_)
        | EngineError::Source(_)
        | EngineError::Handle(HandleError::Consumed | HandleError::TooMany { .. })
        | EngineError::Save(SaveRefusal::Errors { .. }) => FailureCode::InvalidParams,
        EngineError::Session(SessionError::Closed) => FailureCode::WorkerExited,
        EngineError::Incomplete(_) => FailureCode::SyncBarrierIncomplete,
        EngineError::Save(SaveRefusal::BatchOnlyArgs { .. }) => FailureCode::SaveUnsupportedSetup,
        EngineError::Save(SaveRefusal::ImportsMoved { .. }) => FailureCode::SaveTraceStale,
        EngineError::Worker(worker) => worker_code(&worker.failure),
        EngineError::Artifact(e) => artifact_code(e),
    }
}

fn worker_code(failure: &RequestFailure) -> FailureCode {
    match failure {
        RequestFailure::Cancelled => FailureCode::RequestCancelled,
        RequestFailure::StaleVersion { .. } | RequestFailure::ContentModified { .. } | RequestFailure::NotOpen(_) => {
            FailureCode::ContentModified
        }
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
    let EngineError::Worker(worker) = e else { return e.to_string() };
    let WorkerFailure { failure, path } = &**worker;
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
        EngineError::Worker(worker) => return worker_hint(worker),
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

fn worker_hint(WorkerFailure { failure, path }: &WorkerFailure) -> Option<String> {
    if let Some(mismatch) = mismatch(failure, path) {
        return Some(mismatch_hint(&mismatch));
    }
    let fixed = match failure {
        RequestFailure::ContentModified { .. } | RequestFailure::NotOpen(_) | RequestFailure::SessionClosed => {
            ASK_AGAIN
        }
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
        EngineError::Worker(worker) => worker_data(worker),
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

fn worker_data(WorkerFailure { failure, path }: &WorkerFailure) -> Option<Value> {
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
    // In the order in which it works: a refresh reads artifacts, and builds what lacks them. Lake's own build is the last resort.
    let mut steps: Vec<Value> =
        save_deps.iter().map(|dep| json!({ "op": Op::SaveOlean.name(), "path": dep })).collect();
    steps.push(json!({ "op": Op::RefreshFile.name(), "path": path }));
    // The same for a shell. Quoted as a JSON string: a path with blanks stays one word in every shell that people use.
    let line = |verb: &str, path: &str| format!("lean-beam {verb} {}", Value::from(path));
    let mut plan: Vec<String> = save_deps.iter().map(|dep| line("save", dep)).collect();
    plan.push(line("refresh", path));
    if *has_lake {
        steps.push(json!({ "command": "lake build" }));
        plan.push("lake build".to_owned());
    }
    json!({
        "targetPath": path,
        "staleDirectDeps": deps,
        "saveDeps": save_deps,
        "completionBlockingDiagnostics": evidence,
        "recoveryPlan": plan,
        "recovery": steps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::error::{Defect, ParameterError, RequestCancelled, SelectorError};
    use crate::engine::history::StaleDep;
    use beam_base::AbsPath;
    use beam_session::EndStatus;
    use beam_wire::{Op, Progress};

    /// One plan, for a shell and for fronts that call operations: the same steps in the same order.
    #[test]
    fn a_recovery_plan_is_told_in_both_languages() {
        let dep = |path: &str, needs_save| StaleDep { module: "M".to_owned(), path: path.to_owned(), needs_save };
        let mut barrier = IncompleteBarrier {
            path: "B c.lean".to_owned(),
            uri: "file:///p/B%20c.lean".to_owned(),
            version: 1,
            progress: Progress { updates: 1, done: true, range_start_line: None, range_end_line: None },
            deps: vec![dep("A.lean", true), dep("S.lean", false)],
            evidence: Vec::new(),
            has_lake: true,
        };
        let data = incomplete_data(&barrier);
        assert_eq!(
            data["recoveryPlan"],
            json!(["lean-beam save \"A.lean\"", "lean-beam refresh \"B c.lean\"", "lake build"])
        );
        assert_eq!(
            data["recovery"],
            json!([
                { "op": "save_olean", "path": "A.lean" },
                { "op": "refresh_file", "path": "B c.lean" },
                { "command": "lake build" },
            ])
        );
        barrier.has_lake = false;
        barrier.deps.clear();
        assert_eq!(incomplete_data(&barrier)["recovery"], json!([{ "op": "refresh_file", "path": "B c.lean" }]));
    }

    fn body(e: impl Into<EngineError>) -> ErrorBody {
        e.into().into()
    }

    fn worker(failure: RequestFailure) -> ErrorBody {
        body(Box::new(WorkerFailure { failure, path: "A.lean".into() }))
    }

    fn uri() -> String {
        "file:///r/A.lean".into()
    }

    /// What happened, and what to do next: one sentence each, in this order.
    #[test]
    fn a_failure_of_the_worker_is_told_in_words_about_the_document() {
        let exit = |reason| WorkerExit {
            reason,
            status: Some(EndStatus::Signal(9)),
            stderr_tail: vec!["last".into()],
            uri: uri(),
        };
        for (failure, code, message) in [
            (
                RequestFailure::StaleVersion { expected: 1, accepted: 3, uri: uri() },
                "contentModified",
                "`A.lean` is at version 3, the request is about version 1; look at the file again and use version 3",
            ),
            (
                RequestFailure::ContentModified { how: Modified::Edited { version: 3 }, expected: Some(1), uri: uri() },
                "contentModified",
                "`A.lean` is at version 3, the request is about version 1; look at the file again and use version 3",
            ),
            (
                RequestFailure::ContentModified { how: Modified::Closed, expected: Some(1), uri: uri() },
                "contentModified",
                "`A.lean` was closed while the request was pending; ask again",
            ),
            (
                RequestFailure::NotOpen(AbsPath::new("/r/A.lean").unwrap()),
                "contentModified",
                "`A.lean` was closed while the request was on its way; ask again",
            ),
            (
                RequestFailure::WorkerExited(Box::new(exit(ExitReason::StartFailed))),
                "workerExited",
                "the file worker of file:///r/A.lean ended before it was ready (signal 9); its last words: last; `lean-beam doctor` shows which Lean was started",
            ),
            (
                RequestFailure::WorkerExited(Box::new(exit(ExitReason::Crash))),
                "workerExited",
                "the file worker of file:///r/A.lean ended unexpectedly (signal 9); its last words: last; the next request starts a fresh worker, handles of the old one are gone",
            ),
            (
                RequestFailure::BuildRefused { modules: vec!["B".into(), "C".into()], uri: uri() },
                "syncBarrierIncomplete",
                "`A.lean` imports modules that would have to be built first, and builds are switched off (`--no-build` or BEAM_BUILD=never): B, C; build them, or allow builds, then refresh",
            ),
            (
                RequestFailure::SessionClosed,
                "workerExited",
                "the session was shut down while the request was in flight; ask again",
            ),
            (RequestFailure::TimedOut, "internalError", "Lean did not answer in time"),
            (RequestFailure::Lost, "internalError", "a defect of lean-beam lost this request"),
            (RequestFailure::Cancelled, "requestCancelled", "the request was cancelled"),
        ] {
            let told = worker(failure);
            assert_eq!((told.code.as_str(), told.message.as_str()), (code, message));
        }
        let told = worker(RequestFailure::WorkerExited(Box::new(exit(ExitReason::Crash))));
        assert_eq!(told.data.unwrap()["stderrTail"], json!(["last"]));
        let told = worker(RequestFailure::BuildRefused { modules: vec!["B".into()], uri: uri() });
        assert_eq!(told.data.unwrap(), json!({ "reason": "buildRefused", "uri": uri(), "modules": ["B"] }));
    }

    #[test]
    fn an_error_of_leans_passes_as_it_is() {
        let lean = RpcError { code: -32602, message: "no; such".into(), data: Some(json!({ "a": 1 })) };
        let told = worker(RequestFailure::Server(lean));
        assert_eq!(
            (told.code.as_str(), told.message.as_str(), told.data),
            ("invalidParams", "no; such", Some(json!({ "a": 1 })))
        );
    }

    #[test]
    fn every_other_failure_has_its_code() {
        for (e, code) in [
            (EngineError::from(AdmissionRefused::Active("q".into())), "invalidParams"),
            (AdmissionRefused::Closed.into(), "requestCancelled"),
            (RequestCancelled.into(), "requestCancelled"),
            (OpenError::Closing.into(), "requestCancelled"),
            (OpenError::Unknown("w".into()).into(), "invalidParams"),
            (SetupFailure::Closing.into(), "requestCancelled"),
            (SetupFailure::Defect("x".into()).into(), "internalError"),
            (SelectorError::Missing(Op::Goals).into(), "invalidParams"),
            (ParameterError::RocqCommand.into(), "invalidParams"),
            (SourceError::Missing(AbsPath::new("/a").unwrap()).into(), "invalidParams"),
            (SourceError::PathNotUtf8(AbsPath::new("/a").unwrap()).into(), "invalidParams"),
            (
                SourceError::Io { path: AbsPath::new("/a").unwrap(), error: std::io::Error::other("x") }.into(),
                "internalError",
            ),
            (HandleError::OtherSession.into(), "contentModified"),
            (HandleError::Consumed.into(), "invalidParams"),
            (HandleError::TooMany { path: "A".into(), limit: 1, oldest: None }.into(), "invalidParams"),
            (SessionError::Closed.into(), "workerExited"),
            (SessionError::Spawn("x".into()).into(), "internalError"),
            (SaveRefusal::ImportsMoved { path: "A".into(), moved: vec![] }.into(), "saveTraceStale"),
            (ArtifactError::NotModule { path: "A".into(), why: "x".into() }.into(), "saveTargetNotModule"),
            (ArtifactError::Stale { path: "A".into(), what: "x".into(), hint: "y" }.into(), "saveTraceStale"),
            (ArtifactError::Configuration("x".into()).into(), "internalError"),
            (Defect::Aborted.into(), "internalError"),
        ] {
            let text = format!("{e:?}");
            assert_eq!(body(e).code, code, "{text}");
        }
    }

    #[test]
    fn an_incomplete_barrier_has_a_plan() {
        let dep = |path: &str, needs_save| StaleDep { module: "M".into(), path: path.into(), needs_save };
        let barrier = |path: &str, deps, has_lake| IncompleteBarrier {
            path: path.into(),
            uri: "u".into(),
            version: 2,
            progress: Progress { updates: 1, done: false, range_start_line: None, range_end_line: None },
            deps,
            evidence: Vec::new(),
            has_lake,
        };
        let told = body(Box::new(barrier("a b.lean", vec![dep("Low.lean", true), dep("Other.lean", false)], true)));
        assert_eq!(
            told.message,
            "the diagnostics of u version 2 are not complete (updates=1 done=false): build its imports (`lake build`), or mend the module they come from, then refresh"
        );
        let data = told.data.unwrap();
        assert_eq!(data["saveDeps"], json!(["Low.lean"]));
        assert_eq!(
            data["recoveryPlan"],
            json!(["lean-beam save \"Low.lean\"", "lean-beam refresh \"a b.lean\"", "lake build"])
        );
        let data = body(Box::new(barrier("A.lean", Vec::new(), false))).data.unwrap();
        assert_eq!(data["recoveryPlan"], json!(["lean-beam refresh \"A.lean\""]));
    }
}
