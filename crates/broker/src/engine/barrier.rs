//! The diagnostics barrier: what `sync` and `refresh` wait for, and when the answer must be "I do not know" (sync and save sections 2 and 3).
//!
//! R6: the verdict on readiness is Lean's. What is decided here is only whether that verdict can be *believed*: a document judged against
//! imports that are missing, out of date, or known to have changed gives a failure, never a clean result.

use std::collections::HashSet;
use std::sync::Arc;

use beam_session::{RequestSpec, SetupReport};
use beam_wire::document::DiagnosticScope;
use beam_wire::stream::Event;
use beam_wire::sync::{BlockingDiagnostic, BlockingMessage, Diagnostics, Readiness, SorryPlace};
use beam_wire::{Progress, StreamDiagnostic, SyncResult};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::diagnostics;
use super::document::{Document, decode, progress_of};
use super::error::{AnswerError, EngineError, IncompleteBarrier, VersionMismatch};
use super::history::StaleDep;
use super::observe::Shown;
use super::staleness;

const METHOD: &str = "$/beam/waitForDiagnostics";

/// What is said, behind their names, when a lakefile, the manifest or `lean-toolchain` changed under a running session.
const CONFIG_CHANGED: &str = "changed since the project's session was started, which goes on with the old configuration; to use the new one, restart it: `lean-beam shutdown`, or lean_drop_workspace";

/// The Lean side's answer. Closed: a missing verdict is a decode error, never "ready", and so is a field that nobody here knows the meaning of.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BarrierReply {
    version: u64,
    direct_imports: Vec<String>,
    save_readiness: ReadinessVerdict,
    #[serde(default)]
    sorries: Option<Vec<SorryPlace>>,
    #[serde(default)]
    sorries_total: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReadinessVerdict {
    version: u64,
    text_hash: String,
    current_diagnostics: Vec<Value>,
    #[serde(rename = "currentWarningCount")]
    _current_warning_count: u64,
    save_ready: bool,
    save_ready_reason: String,
    #[serde(rename = "saveReadyMessage")]
    _save_ready_message: Option<String>,
    blocking_diagnostics: Vec<diagnostics::LspDiagnostic>,
    blocking_command_messages: Vec<LeanMessage>,
}

#[derive(Debug, Deserialize)]
struct LeanMessage {
    message: String,
}

/// Which diagnostics are wanted, and where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) scope: DiagnosticScope,
    /// In the result, beside the events.
    pub(super) in_result: bool,
}

/// A barrier that was passed.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) result: SyncResult,
    pub(super) progress: Progress,
    /// What the worker's imports were when they were loaded, where somebody looked.
    pub(super) setup: Option<Arc<SetupReport>>,
}

/// Waits for the whole document. Success carries Lean's verdict; an incomplete barrier is a failure with a plan.
pub(super) async fn pass(doc: &Document, wanted: Wanted, events: mpsc::Sender<Event>) -> Result<Passed, EngineError> {
    let scope = wanted.scope;
    say_config_changed(doc, &events).await;
    let mut observer = doc.observer(Shown::Scope(scope), events);
    let params = json!({ "uri": doc.uri, "version": doc.applied.version });
    let reply = doc.ask(RequestSpec::new(METHOD, params), &mut observer).await?;
    let barrier: BarrierReply = decode(METHOD, &reply)?;
    check_identity(doc, &barrier)?;
    let verdict = barrier.save_readiness;
    let mut current = diagnostics::read(&verdict.current_diagnostics, Some(doc.applied.version), &doc.name())
        .map_err(|error| AnswerError::Undecodable { method: METHOD, error })?;
    let stale =
        staleness::look(&doc.live, &doc.root, &doc.name(), &barrier.direct_imports, reply.setup.clone()).await?;
    current.splice(0..0, stale.evidence.iter().cloned());
    observer.show(&current).await;

    let mut progress = observer.progress().or(progress_of(&reply)).unwrap_or(Progress {
        updates: 0,
        done: true,
        range_start_line: None,
        range_end_line: None,
    });
    let relative = doc.shown();
    let blocking: Vec<&StreamDiagnostic> =
        observer.published().unwrap_or_default().iter().chain(&current).filter(|d| d.completion_blocking).collect();
    if !blocking.is_empty() || stale.blocks(doc.applied.changed) {
        progress.done = false;
    }
    if !progress.done {
        return Err(Box::new(incomplete(doc, progress, &blocking, stale.deps)).into());
    }
    let module = doc.live.module_of(&doc.path);
    doc.live.history().synced(&relative, module.as_deref(), doc.applied.hash);
    let items =
        wanted.in_result.then(|| diagnostics::in_scope(scope, &current).into_iter().cloned().collect::<Vec<_>>());
    let result = SyncResult {
        path: relative,
        version: doc.applied.version,
        readiness: readiness(verdict, &current),
        diagnostics: Diagnostics { counts: diagnostics::count(&current), items },
        sorries: barrier.sorries,
        sorries_total: barrier.sorries_total,
    };
    Ok(Passed { result, progress, setup: reply.setup })
}

/// Says that the session goes by a configuration that is no longer there. Whatever the scope: nobody asks for what they do not expect.
async fn say_config_changed(doc: &Document, events: &mpsc::Sender<Event>) {
    let live = Arc::clone(&doc.live);
    // A disk that does not answer says nothing of a change; the barrier itself does not depend on it.
    let changed = doc.live.disk.want(move || live.config_changed()).await.unwrap_or_default();
    if changed.is_empty() {
        return;
    }
    let files: Vec<String> = changed.iter().map(|path| format!("`{}`", path.display_in(&doc.root))).collect();
    let start = beam_base::Utf16Pos { line: 0, character: 0 };
    let name = doc.name();
    let notice = StreamDiagnostic {
        path: name.path,
        uri: name.uri,
        version: None,
        severity: Some(2),
        range: beam_base::Utf16Range { start, end: start },
        message: format!("{} {CONFIG_CHANGED}", files.join(", ")),
        save_blocking: Some(false),
        completion_blocking: false,
    };
    drop(events.send(Event::Diagnostic(notice)).await);
}

/// The verdict must be about this version and this very text.
fn check_identity(doc: &Document, barrier: &BarrierReply) -> Result<(), EngineError> {
    let expected = doc.applied.version;
    for accepted in [barrier.version, barrier.save_readiness.version] {
        if accepted != expected {
            return Err(VersionMismatch { expected, accepted, uri: doc.uri.clone(), path: doc.shown() }.into());
        }
    }
    let expected = format!("{:016x}", doc.applied.hash);
    let actual = &barrier.save_readiness.text_hash;
    if *actual == expected {
        return Ok(());
    }
    let other = AnswerError::OtherText { path: doc.shown(), uri: doc.uri.clone(), expected, actual: actual.clone() };
    Err(other.into())
}

fn readiness(verdict: ReadinessVerdict, current: &[StreamDiagnostic]) -> Readiness {
    let errors = || current.iter().filter(|d| d.severity == Some(1));
    let mut blocking_diagnostics: Vec<BlockingDiagnostic> = verdict
        .blocking_diagnostics
        .into_iter()
        .map(|d| BlockingDiagnostic {
            range: d.full(),
            severity: d.severity,
            completion_blocking: diagnostics::is_incomplete(&d.message),
            message: d.message.trim_end().to_owned(),
            save_blocking: true,
        })
        .collect();
    in_order_once(&mut blocking_diagnostics);
    let mut blocking_messages: Vec<BlockingMessage> = verdict
        .blocking_command_messages
        .into_iter()
        .map(|m| BlockingMessage {
            completion_blocking: diagnostics::is_incomplete(&m.message),
            message: m.message.trim_end().to_owned(),
            save_blocking: true,
        })
        .collect();
    let mut told: HashSet<String> = blocking_diagnostics.iter().map(|d| d.message.clone()).collect();
    blocking_messages.retain(|m| told.insert(m.message.clone()));
    let n = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let blocking_error_count = if verdict.save_ready {
        0
    } else if !blocking_diagnostics.is_empty() {
        n(blocking_diagnostics.len())
    } else if !blocking_messages.is_empty() {
        n(blocking_messages.len())
    } else {
        n(errors().count())
    };
    if !verdict.save_ready && blocking_diagnostics.is_empty() && blocking_messages.is_empty() {
        blocking_diagnostics = errors()
            .map(|d| BlockingDiagnostic {
                range: d.range,
                severity: d.severity,
                message: d.message.trim_end().to_owned(),
                save_blocking: true,
                completion_blocking: d.completion_blocking,
            })
            .collect();
        in_order_once(&mut blocking_diagnostics);
    }
    Readiness {
        save_ready: verdict.save_ready,
        reason: verdict.save_ready_reason,
        blocking_error_count,
        blocking_diagnostics,
        blocking_messages,
    }
}

/// As a reader of the file meets them, each once: Lean may tell one error from several of its snapshots.
fn in_order_once(blocking: &mut Vec<BlockingDiagnostic>) {
    blocking.sort_by_key(|d| d.range);
    let mut seen = HashSet::new();
    blocking.retain(|d| seen.insert((d.range, d.message.clone())));
}

/// The failure, with everything a caller needs to get out of it.
fn incomplete(
    doc: &Document,
    progress: Progress,
    blocking: &[&StreamDiagnostic],
    deps: Vec<StaleDep>,
) -> IncompleteBarrier {
    let mut evidence: Vec<BlockingDiagnostic> = blocking
        .iter()
        .map(|d| BlockingDiagnostic {
            range: d.range,
            severity: d.severity,
            message: d.message.trim_end().to_owned(),
            save_blocking: d.save_blocking.unwrap_or(false),
            completion_blocking: true,
        })
        .collect();
    in_order_once(&mut evidence);
    IncompleteBarrier {
        path: doc.shown(),
        uri: doc.uri.clone(),
        version: doc.applied.version,
        progress,
        deps,
        evidence,
        has_lake: doc.live.has_lake(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn verdict(diagnostics: &[Value], messages: &[&str]) -> ReadinessVerdict {
        let messages: Vec<_> = messages.iter().map(|m| json!({ "message": m })).collect();
        serde_json::from_value(json!({
            "version": 1, "textHash": "0", "currentDiagnostics": [], "currentWarningCount": 0, "saveReady": false,
            "saveReadyReason": "documentErrors", "blockingDiagnostics": diagnostics, "blockingCommandMessages": messages,
        }))
        .unwrap()
    }

    fn at(line: u32, message: &str) -> Value {
        json!({
            "range": { "start": { "line": line, "character": 2 }, "end": { "line": line, "character": 3 } },
            "severity": 1, "message": message,
        })
    }

    /// In the order of the file, each thing once, its lines kept; and the count is of what is told.
    #[test]
    fn what_blocks_is_in_order_and_nothing_twice() {
        let out = readiness(
            verdict(&[at(7, "b\n  c\n"), at(1, "a"), at(7, "b\n  c\n"), at(7, "d")], &["a", "m\nn", "m\nn"]),
            &[],
        );
        let told: Vec<_> = out.blocking_diagnostics.iter().map(|d| d.message.as_str()).collect();
        assert_eq!(told, ["a", "b\n  c", "d"]);
        let messages: Vec<_> = out.blocking_messages.iter().map(|m| m.message.as_str()).collect();
        assert_eq!(messages, ["m\nn"], "`a` has been told with its place");
        assert_eq!(out.blocking_error_count, 3);
    }
}
