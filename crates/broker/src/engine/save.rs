//! Checkpoints: `save_olean`, and `close` with `saveArtifacts` (sync and save section 6).
//!
//! The text that was synced gets its artifacts and a trace that says what they were made from. Lean writes the artifacts out of its own
//! snapshot; who decides what they are called and what the trace holds is the project's [`Authority`]. The old trace is taken away before the
//! first artifact changes and the new one comes last, so that at every moment a trace vouches for the artifacts beside it, or there is none and
//! the next build makes them anew.

use std::sync::Arc;

use beam_base::AbsPath;
use beam_lean::lake_text_hash;
use beam_session::RequestSpec;
use beam_wire::request::Args;
use beam_wire::stream::Event;
use beam_wire::{ErrorBody, FailureCode, Progress, SaveResult, SyncResult};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Mutex, mpsc};

use super::authority::Begun;
use super::observe::{Show, Watch};
use super::ops::Document;
use super::workspace::Workspace;
use super::{barrier, failure, to_value};

const METHOD: &str = "$/beam/saveArtifacts";

/// One save at a time in this process: saves of modules that import each other must see each other whole.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Where a module's artifacts go, and what is known about how they are made.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// Lean module name.
    pub(crate) module: String,
    /// By the names of Lean's reply.
    pub(crate) outputs: Outputs,
    pub(crate) trace: AbsPath,
    /// Arguments that only a batch compile gets; with any, what the worker holds is not what a build would make.
    pub(crate) batch_only_args: Vec<String>,
}

/// Every file that Lean may write for a module.
#[derive(Debug, Clone, serde::Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outputs {
    pub(crate) olean: AbsPath,
    pub(crate) ilean: AbsPath,
    pub(crate) olean_server: AbsPath,
    pub(crate) olean_private: AbsPath,
    pub(crate) ir: AbsPath,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ir_sig: Option<AbsPath>,
    pub(crate) c: AbsPath,
}

/// What Lean wrote.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Saved {
    version: u64,
    text_hash: String,
    module: String,
    written: Written,
}

/// The files that the answer names.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    olean: WrittenFile,
    ilean: WrittenFile,
    olean_server: Option<WrittenFile>,
    olean_private: Option<WrittenFile>,
    ir: Option<WrittenFile>,
    c: Option<WrittenFile>,
}

#[derive(Debug, Deserialize)]
struct WrittenFile {
    path: String,
}

/// Why a target cannot be saved, as the authority sees it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TargetError {
    #[error("`{path}` is no module of this project: {why}; only modules have artifacts")]
    NotModule { path: String, why: String },
    #[error(
        "something that `{path}` is built from would have to be built first: {what}; {hint}, then refresh and save again"
    )]
    Stale { path: String, what: String, hint: &'static str },
    #[error("the project's configuration cannot be used: {0}")]
    Other(String),
}

impl From<TargetError> for ErrorBody {
    fn from(e: TargetError) -> Self {
        let code = match e {
            TargetError::NotModule { .. } => FailureCode::SaveTargetNotModule,
            TargetError::Stale { .. } => FailureCode::SaveTraceStale,
            TargetError::Other(_) => FailureCode::InternalError,
        };
        Self::new(code, e.to_string())
    }
}

/// Runs one save. Dropping the future before Lean begins to put files in place changes nothing but the trace; afterwards all artifacts are
/// new.
pub(crate) async fn save(
    workspace: &Arc<Workspace>,
    args: &Args,
    events: mpsc::Sender<Event>,
) -> Result<(SaveResult, Progress, Document), ErrorBody> {
    let _alone = ONE_AT_A_TIME.lock().await;
    let doc = Document::open(workspace, args).await?;
    let (sync, progress) = barrier::sync(&doc, args, events.clone()).await?;
    let target = doc.live.authority().target(&doc).await?;
    refuse_unready(&doc, &sync, &target)?;
    let begun = doc.live.authority().begin(&doc, &target).await?;
    let saved = write(&doc, &target, events).await?;
    // From here on a cancellation is too late: there are new artifacts, and they get their trace.
    let finish = finish(begun, doc, sync, target, saved);
    let (result, doc) = tokio::spawn(finish)
        .await
        .map_err(|e| ErrorBody::new(FailureCode::InternalError, format!("writing the trace failed: {e}")))??;
    Ok((result, progress, doc))
}

fn refuse_unready(doc: &Document, sync: &SyncResult, target: &Target) -> Result<(), ErrorBody> {
    let shown = doc.shown();
    if !target.batch_only_args.is_empty() {
        let reason = format!("moreLeanArgs is set to {:?}", target.batch_only_args);
        let message = format!(
            "`{shown}` is built with arguments that the server does not get ({reason}); move `-D` settings to `leanOptions`, or use `lake build`"
        );
        let data = json!({ "sync": to_value(sync)?, "reason": reason, "path": shown });
        return Err(ErrorBody::new(FailureCode::SaveUnsupportedSetup, message).with_data(data));
    }
    if !sync.readiness.save_ready {
        let message = format!(
            "`{shown}` has errors and cannot be saved ({}, {} blocking); mend them and save again",
            sync.readiness.reason, sync.readiness.blocking_error_count
        );
        let data = json!({ "sync": to_value(sync)? });
        return Err(ErrorBody::new(FailureCode::InvalidParams, message).with_data(data));
    }
    Ok(())
}

async fn write(doc: &Document, target: &Target, events: mpsc::Sender<Event>) -> Result<Saved, ErrorBody> {
    let hash = format!("{:016x}", doc.applied.hash);
    let params = json!({
        "textDocument": { "uri": doc.uri, "version": doc.applied.version },
        "textHash": hash,
        "module": target.module,
        "outputs": target.outputs,
    });
    let mut watch = Watch::new(doc.naming(), Show::Nothing, events);
    let reply = doc.ask(RequestSpec::new(METHOD, params).once(), &mut watch).await?;
    let saved: Saved = serde_json::from_str(reply.value.get()).map_err(|e| failure::undecodable(METHOD, &e))?;
    if saved.version == doc.applied.version && saved.text_hash == hash && saved.module == target.module {
        return Ok(saved);
    }
    let message = format!(
        "Lean saved version {} of {} with the text {}, not version {} of {} with {hash}; build it anew",
        saved.version, saved.module, saved.text_hash, doc.applied.version, target.module
    );
    Err(ErrorBody::new(FailureCode::InternalError, message))
}

/// The trace, the marks, the answer.
async fn finish(
    begun: Begun,
    doc: Document,
    sync: SyncResult,
    target: Target,
    saved: Saved,
) -> Result<(SaveResult, Document), ErrorBody> {
    begun.trace(&doc).await?;
    doc.live.history().saved(&target.module);
    doc.live.checkpointed(&doc.path, sync.version);
    let written = saved.written;
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
