//! The diagnostics barrier: what `sync` and `refresh` wait for, and when the answer must be "I do not know" (sync and save sections 2 and 3).
//!
//! R6: the verdict on readiness is Lean's. What is decided here is only whether that verdict can be *believed*: a document judged against
//! imports that are missing, out of date, or known to have changed gives a failure, never a clean result.

use std::sync::Arc;

use beam_session::RequestSpec;
use beam_wire::request::Args;
use beam_wire::stream::Event;
use beam_wire::sync::{BlockingDiagnostic, BlockingMessage, Diagnostics, Readiness};
use beam_wire::{ErrorBody, FailureCode, Progress, StreamDiagnostic, SyncResult};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::diagnostics;
use super::failure;
use super::history::StaleDep;
use super::observe::{Show, Watch};
use super::ops::Document;
use super::staleness;

const METHOD: &str = "$/beam/waitForDiagnostics";

/// What is said, behind their names, when a lakefile, the manifest or `lean-toolchain` changed under a running session.
const CONFIG_CHANGED: &str = "changed since the project's session was started, which goes on with the old configuration; to use the new one, restart it: `lean-beam shutdown`, or lean_drop_workspace";

/// The Lean side's answer. Every field is mandatory where it says so: a missing verdict is a decode error, never "ready".
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BarrierReply {
    version: u64,
    direct_imports: Vec<String>,
    save_readiness: Verdict,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Verdict {
    version: u64,
    text_hash: String,
    current_diagnostics: Vec<Value>,
    #[serde(rename = "currentWarningCount")]
    _current_warning_count: u64,
    save_ready: bool,
    save_ready_reason: String,
    blocking_diagnostics: Vec<diagnostics::Lsp>,
    blocking_command_messages: Vec<LeanMessage>,
}

#[derive(Debug, Deserialize)]
struct LeanMessage {
    message: String,
}

/// Waits for the whole document. Success carries Lean's verdict; an incomplete barrier is a failure with a plan.
pub(crate) async fn sync(
    doc: &Document,
    args: &Args,
    events: mpsc::Sender<Event>,
) -> Result<(SyncResult, Progress), ErrorBody> {
    let scope = args.diagnostic_scope.unwrap_or_default();
    say_config_changed(doc, &events).await?;
    let mut watch = Watch::new(doc.naming(), Show::Scope(scope), events);
    let params = json!({ "uri": doc.uri, "version": doc.applied.version });
    let reply = doc.ask(RequestSpec::new(METHOD, params), &mut watch).await?;
    let barrier: BarrierReply =
        serde_json::from_str(reply.value.get()).map_err(|e| failure::undecodable(METHOD, &e))?;
    check_identity(doc, &barrier)?;
    let verdict = barrier.save_readiness;
    let mut current = diagnostics::read(&verdict.current_diagnostics, Some(doc.applied.version), &doc.naming())
        .map_err(|e| failure::undecodable(METHOD, &e))?;
    let stale =
        staleness::look(&doc.live, &doc.root, &doc.naming(), &barrier.direct_imports, reply.setup.clone()).await;
    current.splice(0..0, stale.evidence.iter().cloned());
    watch.show(&current).await;

    let mut progress = watch.progress().or(reply.progress.map(super::observe::progress)).unwrap_or(Progress {
        updates: 0,
        done: true,
        range_start_line: None,
        range_end_line: None,
    });
    let relative = doc.shown();
    let blocking: Vec<&StreamDiagnostic> =
        watch.published().unwrap_or_default().iter().chain(&current).filter(|d| d.completion_blocking).collect();
    if !blocking.is_empty() || stale.blocks(doc.applied.changed) {
        progress.done = false;
    }
    if !progress.done {
        return Err(incomplete(doc, progress, &blocking, &stale.deps));
    }
    let module = doc.live.module_of(&doc.path);
    doc.live.history().synced(&relative, module.as_deref(), doc.applied.hash);
    let items = args
        .diagnostics_in_result
        .unwrap_or(false)
        .then(|| diagnostics::in_scope(scope, &current).into_iter().cloned().collect());
    let result = SyncResult {
        path: relative,
        version: doc.applied.version,
        readiness: readiness(verdict, &current),
        diagnostics: Diagnostics { counts: diagnostics::count(&current), items },
    };
    Ok((result, progress))
}

/// Says that the session goes by a configuration that is no longer there. Whatever the scope: nobody asks for what they do not expect.
async fn say_config_changed(doc: &Document, events: &mpsc::Sender<Event>) -> Result<(), ErrorBody> {
    let live = Arc::clone(&doc.live);
    let changed = tokio::task::spawn_blocking(move || live.config_changed())
        .await
        .map_err(|e| ErrorBody::new(FailureCode::InternalError, format!("reading the configuration failed: {e}")))?;
    if !changed.is_empty() {
        let files: Vec<String> = changed.iter().map(|path| format!("`{}`", path.display_in(&doc.root))).collect();
        let start = beam_base::Utf16Pos { line: 0, character: 0 };
        let naming = doc.naming();
        let notice = StreamDiagnostic {
            path: naming.path,
            uri: naming.uri,
            version: None,
            severity: Some(2),
            range: beam_base::Utf16Range { start, end: start },
            message: format!("{} {CONFIG_CHANGED}", files.join(", ")),
            save_blocking: Some(false),
            completion_blocking: false,
        };
        drop(events.send(Event::Diagnostic(notice)).await);
    }
    Ok(())
}

/// The verdict must be about this version and this very text.
fn check_identity(doc: &Document, barrier: &BarrierReply) -> Result<(), ErrorBody> {
    let expected = doc.applied.version;
    for version in [barrier.version, barrier.save_readiness.version] {
        if version != expected {
            return Err(failure::version_mismatch(expected, version, &doc.uri, &doc.shown()));
        }
    }
    let hash = format!("{:016x}", doc.applied.hash);
    if barrier.save_readiness.text_hash == hash {
        return Ok(());
    }
    Err(ErrorBody::new(
        FailureCode::ContentModified,
        format!("Lean's text of `{}` is not the one that was read from disk; sync again", doc.shown()),
    )
    .with_data(json!({ "expectedHash": hash, "actualHash": barrier.save_readiness.text_hash, "uri": doc.uri })))
}

fn readiness(verdict: Verdict, current: &[StreamDiagnostic]) -> Readiness {
    let errors = || current.iter().filter(|d| d.severity == Some(1));
    let mut blocking_diagnostics: Vec<BlockingDiagnostic> = verdict
        .blocking_diagnostics
        .into_iter()
        .map(|d| BlockingDiagnostic {
            range: d.full(),
            severity: d.severity,
            completion_blocking: diagnostics::is_incomplete(&d.message),
            message: diagnostics::flatten(&d.message),
            save_blocking: true,
        })
        .collect();
    let blocking_messages: Vec<BlockingMessage> = verdict
        .blocking_command_messages
        .into_iter()
        .map(|m| BlockingMessage {
            completion_blocking: diagnostics::is_incomplete(&m.message),
            message: diagnostics::flatten(&m.message),
            save_blocking: true,
        })
        .collect();
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
                message: diagnostics::flatten(&d.message),
                save_blocking: true,
                completion_blocking: d.completion_blocking,
            })
            .collect();
    }
    Readiness {
        save_ready: verdict.save_ready,
        reason: verdict.save_ready_reason,
        blocking_error_count,
        blocking_diagnostics,
        blocking_messages,
    }
}

/// The failure, with everything a caller needs to get out of it.
fn incomplete(doc: &Document, progress: Progress, blocking: &[&StreamDiagnostic], deps: &[StaleDep]) -> ErrorBody {
    let target = doc.shown();
    let save_deps: Vec<&str> = deps.iter().filter(|d| d.needs_save).map(|d| d.path.as_str()).collect();
    // Quoted as a JSON string: a path with blanks stays one word in every shell that people use.
    let refresh = format!("lean-beam refresh {}", Value::from(target.as_str()));
    // In the order in which it works: a refresh reads artifacts, and builds what lacks them. Lake's own build is the last resort.
    let mut plan: Vec<String> = save_deps.iter().map(|dep| format!("lean-beam save {}", Value::from(*dep))).collect();
    plan.push(refresh);
    let has_lake = doc.live.has_lake();
    if has_lake {
        plan.push("lake build".to_owned());
    }
    let evidence: Vec<BlockingDiagnostic> = {
        let mut seen = std::collections::HashSet::new();
        blocking
            .iter()
            .filter(|d| seen.insert((d.range, d.message.as_str())))
            .map(|d| BlockingDiagnostic {
                range: d.range,
                severity: d.severity,
                message: diagnostics::flatten(&d.message),
                save_blocking: d.save_blocking.unwrap_or(false),
                completion_blocking: true,
            })
            .collect()
    };
    let build = if has_lake { "build its imports (`lake build`), or mend" } else { "mend" };
    let message = format!(
        "the diagnostics of {} version {} are not complete ({progress}): {build} the module they come from, then refresh",
        doc.uri, doc.applied.version
    );
    ErrorBody::new(FailureCode::SyncBarrierIncomplete, message).with_data(json!({
        "targetPath": target,
        "staleDirectDeps": deps,
        "saveDeps": save_deps,
        "completionBlockingDiagnostics": evidence,
        "recoveryPlan": plan,
    }))
}
