//! Checkpoints: `save_olean`, and `close` with `saveArtifacts` (sync and save section 6).
//!
//! The text that was synced gets its artifacts and a trace that says what they were made from. Lean writes the artifacts out of its own
//! snapshot; who decides what they are called and what the trace holds is the project's `Authority`. The old trace is taken away before the
//! first artifact changes and the new one comes last, so that at every moment a trace vouches for the artifacts beside it, or there is none and
//! the next build makes them anew.
//!
//! Waiting for Lean is done by everybody for himself; from the look at what the module is built from to its new trace, a package's artifacts
//! belong to one save. What was imported is compared with the disk twice: before anything is written, since another save may have been waited
//! for; and after the trace is written, since a trace names the inputs as they are by then, and they must be those that Lean had loaded.

use std::sync::Arc;

use beam_lean::lake_text_hash;
use beam_session::{RequestSpec, SetupReport};
use beam_wire::document::{Close, Closed, DiagnosticScope, SaveOlean};
use beam_wire::stream::Event;
use beam_wire::{Answer, Progress, SaveResult, SyncResult};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{OwnedMutexGuard, mpsc};

use super::sync;
use crate::engine::artifacts::authority::BegunSave;
use crate::engine::artifacts::target::{ArtifactError, SaveTarget};
use crate::engine::barrier::{self, Passed, Wanted};
use crate::engine::document::{Document, decode};
use crate::engine::error::{AnswerError, EngineError, SaveIdentity, SaveRefusal};
use crate::engine::observe::Shown;
use crate::engine::save_locks::package_of;
use crate::engine::staleness;
use crate::engine::workspace::Workspace;

const METHOD: &str = "$/beam/saveArtifacts";

type Answered = (Answer, Option<Progress>);

/// `save_olean`.
pub(super) async fn save_olean(
    workspace: &Workspace,
    op: &SaveOlean,
    events: mpsc::Sender<Event>,
) -> Result<Answered, EngineError> {
    let (saved, progress, _) = save(workspace, &op.path, op.diagnostic_scope, events).await?;
    Ok((saved.into(), Some(progress)))
}

/// `close`; one that was to save and could not leaves the document open.
pub(super) async fn close(
    workspace: &Workspace,
    op: &Close,
    events: mpsc::Sender<Event>,
) -> Result<Answered, EngineError> {
    if op.save_artifacts != Some(true) {
        sync::close(workspace, &op.path).await?;
        return Ok((Closed { closed: true, saved: None }.into(), None));
    }
    let (saved, progress, doc) = save(workspace, &op.path, op.diagnostic_scope, events).await?;
    Document::forget(workspace, &doc.path).await;
    Ok((Closed { closed: true, saved: Some(saved) }.into(), Some(progress)))
}

/// What Lean wrote.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SaveReply {
    version: u64,
    text_hash: String,
    module: String,
    #[serde(rename = "isModule")]
    _is_module: bool,
    written: WrittenFiles,
}

/// The files that were written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenFiles {
    olean: WrittenFile,
    ilean: WrittenFile,
    olean_server: Option<WrittenFile>,
    olean_private: Option<WrittenFile>,
    ir: Option<WrittenFile>,
    #[serde(rename = "irSig")]
    _ir_sig: Option<WrittenFile>,
    c: Option<WrittenFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFile {
    path: String,
    #[serde(rename = "hash")]
    _hash: String,
}

/// Runs one save. Dropping the future before Lean begins to put files in place changes nothing but the trace; afterwards all artifacts are
/// new.
async fn save(
    workspace: &Workspace,
    path: &str,
    scope: Option<DiagnosticScope>,
    events: mpsc::Sender<Event>,
) -> Result<(SaveResult, Progress, Document), EngineError> {
    let doc = Document::open(workspace, path).await?;
    let wanted = Wanted { scope: scope.unwrap_or(DiagnosticScope::Errors), in_result: false };
    let Passed { result: sync, progress, setup } = barrier::pass(&doc, wanted, events.clone()).await?;
    let alone = alone(&doc).await?;
    refuse_moved(&doc, setup.as_ref()).await?;
    let source = doc.save_source();
    let target = doc.live.authority().target(&source).await?;
    refuse_unready(&doc, &sync, &target)?;
    let begun = doc.live.authority().begin(&source, &target).await?;
    let reply = write(&doc, &target, events).await?;
    // From here on a cancellation is too late: there are new artifacts, and they get their trace.
    let finish = finish(alone, begun, doc, setup, sync, target, reply);
    let (result, doc) = tokio::spawn(finish)
        .await
        .map_err(|e| ArtifactError::Defect { what: "writing the trace", error: e.to_string() })??;
    Ok((result, progress, doc))
}

/// Waits until the artifacts of the document's package are nobody else's.
async fn alone(doc: &Document) -> Result<OwnedMutexGuard<()>, EngineError> {
    let (path, root) = (doc.path.clone(), doc.root.clone());
    let package = doc.live.disk.need(move || package_of(&path, &root)).await?;
    Ok(doc.live.common.saves.of(&package).await)
}

/// Fails if a file that was imported holds another text by now.
async fn refuse_moved(doc: &Document, setup: Option<&Arc<SetupReport>>) -> Result<(), EngineError> {
    let Some(setup) = setup else { return Ok(()) };
    let moved = staleness::moved(&doc.live, Arc::clone(setup)).await?;
    if moved.is_empty() {
        return Ok(());
    }
    let moved = moved.iter().map(|source| format!("`{}`", source.path.display_in(&doc.root))).collect();
    Err(SaveRefusal::ImportsMoved { path: doc.shown(), moved }.into())
}

fn refuse_unready(doc: &Document, sync: &SyncResult, target: &SaveTarget) -> Result<(), SaveRefusal> {
    let (path, sync_result) = (doc.shown(), || Box::new(sync.clone()));
    if !target.batch_only_args.is_empty() {
        return Err(SaveRefusal::BatchOnlyArgs { path, args: target.batch_only_args.clone(), sync: sync_result() });
    }
    if !sync.readiness.save_ready {
        return Err(SaveRefusal::Errors { path, sync: sync_result() });
    }
    Ok(())
}

async fn write(doc: &Document, target: &SaveTarget, events: mpsc::Sender<Event>) -> Result<SaveReply, EngineError> {
    let wanted = SaveIdentity {
        version: doc.applied.version,
        module: target.module.clone(),
        hash: format!("{:016x}", doc.applied.hash),
    };
    let params = json!({
        "textDocument": doc.versioned(),
        "textHash": wanted.hash,
        "module": target.module,
        "outputs": target.outputs,
    });
    let mut observer = doc.observer(Shown::Nothing, events);
    let reply = doc.ask(RequestSpec::new(METHOD, params).once(), &mut observer).await?;
    let reply: SaveReply = decode(METHOD, &reply)?;
    let saved = SaveIdentity { version: reply.version, module: reply.module.clone(), hash: reply.text_hash.clone() };
    if saved == wanted { Ok(reply) } else { Err(AnswerError::OtherSave { saved, wanted }.into()) }
}

/// The trace, the marks, the answer.
async fn finish(
    alone: OwnedMutexGuard<()>,
    begun: BegunSave,
    doc: Document,
    setup: Option<Arc<SetupReport>>,
    sync: SyncResult,
    target: SaveTarget,
    reply: SaveReply,
) -> Result<(SaveResult, Document), EngineError> {
    let trace = begun.trace().await?;
    if let Err(moved) = refuse_moved(&doc, setup.as_ref()).await {
        trace.withdraw(&doc.save_source()).await?;
        return Err(moved);
    }
    drop(alone);
    doc.live.history().saved(&target.module);
    doc.live.checkpointed(&doc.path, sync.version);
    let written = reply.written;
    let path = |file: Option<WrittenFile>| file.map(|f| f.path);
    let result = SaveResult {
        path: sync.path.clone(),
        module: target.module,
        version: sync.version,
        source_hash: format!("{:016x}", lake_text_hash(doc.applied.hash)),
        olean: written.olean.path,
        ilean: written.ilean.path,
        c: path(written.c).unwrap_or_default(),
        trace: target.trace.to_string(),
        olean_server: path(written.olean_server),
        olean_private: path(written.olean_private),
        ir: path(written.ir),
        bc: None,
        sync: SyncResult { diagnostics: beam_wire::sync::Diagnostics { items: None, ..sync.diagnostics }, ..sync },
    };
    Ok((result, doc))
}
