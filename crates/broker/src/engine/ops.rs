//! The operations that are about a document or a handle.

use std::sync::Arc;

use beam_base::{AbsPath, LineIndex, Utf16Pos, uri};
use beam_session::{Applied, Reply, RequestSpec, Snapshot};
use beam_wire::request::{Args, GoalsMode};
use beam_wire::stream::Event;
use beam_wire::{Backend, ErrorBody, FailureCode, Goals, Handle, Op, Progress, Request, Response, RunResult};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::diagnostics::Naming;
use super::observe::{Show, Watch};
use super::workspace::{Live, Workspace};
use super::{barrier, failure, save, source, to_value};

/// A result, and the document's progress where it was observed.
type Done = (Value, Option<Progress>);

/// Runs a tracked operation.
pub(crate) async fn run(workspace: &Arc<Workspace>, request: &Request, events: mpsc::Sender<Event>) -> Response {
    match dispatch(workspace, request, events).await {
        Ok((result, progress)) => Response::ok(result).with_progress(progress),
        Err(e) => Response::failed(e),
    }
}

async fn dispatch(
    workspace: &Arc<Workspace>,
    request: &Request,
    events: mpsc::Sender<Event>,
) -> Result<Done, ErrorBody> {
    if request.backend == Backend::Rocq {
        return Err(bad(format!("`{}` is not available for Rocq in this version", request.op.name())));
    }
    match request.op {
        Op::Ensure => {
            let live = workspace.live().await?;
            live.session.prestart().await.map_err(|e| failure::session(&e))?;
            let result = json!({
                "workspace_id": workspace.id(), "backend": request.backend, "root": workspace.root(), "epoch": live.session.epoch(),
            });
            Ok((result, None))
        }
        Op::UpdateFile => {
            let doc = Document::open(workspace, &request.args).await?;
            Ok((json!({ "version": doc.applied.version, "changed": doc.applied.changed }), None))
        }
        Op::SyncFile | Op::RefreshFile => {
            if request.op == Op::RefreshFile {
                close(workspace, &request.args).await?;
            }
            let doc = Document::open(workspace, &request.args).await?;
            let (result, progress) = barrier::sync(&doc, &request.args, events).await?;
            Ok((to_value(&result)?, Some(progress)))
        }
        Op::SaveOlean => {
            let (saved, progress, _) = save::save(workspace, &request.args, events).await?;
            Ok((to_value(&saved)?, Some(progress)))
        }
        Op::Close if request.args.save_artifacts == Some(true) => {
            let (saved, progress, doc) = save::save(workspace, &request.args, events).await?;
            forget(workspace, &doc.path).await;
            Ok((json!({ "closed": true, "saved": saved }), Some(progress)))
        }
        Op::Close => {
            close(workspace, &request.args).await?;
            Ok((json!({ "closed": true }), None))
        }
        Op::RunAt => run_at(workspace, &request.args, events).await,
        Op::RunWith => run_with(workspace, &request.args, events).await,
        Op::Release => release(workspace, &request.args, events).await,
        Op::Goals => goals(workspace, &request.args, events).await,
        Op::Hover => position_query(workspace, &request.args, "textDocument/hover", events).await,
        Op::SignatureHelp => position_query(workspace, &request.args, "textDocument/signatureHelp", events).await,
        Op::Definition => position_query(workspace, &request.args, "textDocument/definition", events).await,
        Op::References => position_query(workspace, &request.args, "textDocument/references", events).await,
        Op::WorkspaceSymbols => {
            let live = workspace.live().await?;
            let query = required(request.args.query.as_deref(), "query")?;
            Ok((to_value(&live.session.workspace_symbols(query).await)?, None))
        }
        Op::DocumentSymbols => document_symbols(workspace, &request.args, events).await,
        Op::Todo => todo(workspace, &request.args, events).await,
        Op::CodeActionResolve => code_action_resolve(workspace, &request.args, events).await,
        Op::OpenDocs
        | Op::Cancel
        | Op::Stats
        | Op::ResetStats
        | Op::Shutdown
        | Op::InitWorkspace
        | Op::ListWorkspaces
        | Op::DropWorkspace => Err(ErrorBody::new(
            FailureCode::InternalError,
            format!("`{}` is not a document operation", request.op.name()),
        )),
    }
}

fn bad(message: impl Into<String>) -> ErrorBody {
    ErrorBody::new(FailureCode::InvalidParams, message)
}

/// A required field: the table has seen to it, so its absence is a defect of ours.
fn required<T>(field: Option<T>, name: &str) -> Result<T, ErrorBody> {
    field.ok_or_else(|| bad(format!("missing field `{name}`")))
}

fn asked_path(workspace: &Workspace, args: &Args) -> Result<AbsPath, ErrorBody> {
    Ok(source::locate(workspace.root(), required(args.path.as_deref(), "path")?))
}

/// Forgets a document; one that is not open is closed already.
async fn close(workspace: &Workspace, args: &Args) -> Result<(), ErrorBody> {
    let path = source::canonical_or_gone(&asked_path(workspace, args)?);
    forget(workspace, &path).await;
    Ok(())
}

async fn forget(workspace: &Workspace, path: &AbsPath) {
    if let Some(live) = workspace.running() {
        live.session.close(path).await;
        live.ledger.closed(path);
        live.reopened(path);
        live.history().closed(&path.display_in(workspace.root()));
    }
}

/// A document whose mirror holds what is on disk now.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) live: Arc<Live>,
    pub(crate) root: AbsPath,
    pub(crate) path: AbsPath,
    pub(crate) uri: String,
    pub(crate) applied: Applied,
}

impl Document {
    /// Reads the file and brings the mirror up to date (section 10).
    pub(crate) async fn open(workspace: &Workspace, args: &Args) -> Result<Self, ErrorBody> {
        let asked = asked_path(workspace, args)?;
        // A bad path is told before a session is started for it.
        source::canonical(&asked)?;
        let live = workspace.live().await?;
        // R1: the place in the order is taken before the file is looked at.
        let seq = live.session.reserve();
        let source = tokio::task::spawn_blocking(move || source::read(&asked))
            .await
            .map_err(|e| ErrorBody::new(FailureCode::InternalError, format!("reading the file failed: {e}")))??;
        let snapshot = Snapshot::new(seq, &source.text, source.modified);
        let applied = live.session.apply(&source.path, snapshot).await.map_err(|e| failure::session(&e))?;
        Ok(Self { live, root: workspace.root().clone(), uri: uri::from_path(&source.path), path: source.path, applied })
    }

    /// Opens and insists on the version that the request names; nothing has been sent to Lean about it when this fails.
    async fn at_version(workspace: &Workspace, args: &Args) -> Result<Self, ErrorBody> {
        let wanted = required(args.version, "version")?;
        let doc = Self::open(workspace, args).await?;
        if doc.applied.version == wanted {
            Ok(doc)
        } else {
            Err(failure::version_mismatch(wanted, doc.applied.version, &doc.uri, &doc.shown()))
        }
    }

    /// The path as people see it.
    pub(crate) fn shown(&self) -> String {
        self.path.display_in(&self.root)
    }

    pub(crate) fn naming(&self) -> Naming {
        Naming::of(&self.root, &self.path)
    }

    /// Asks the document's worker and waits, bound to the version just applied.
    pub(crate) async fn ask(&self, spec: RequestSpec, watch: &mut Watch) -> Result<Reply, ErrorBody> {
        let (observer, seen) = beam_session::observer();
        let pending = self.live.session.request(&self.path, spec.at_version(self.applied.version), Some(observer));
        watch.until(pending, seen).await.map_err(|e| failure::request(e, &self.shown()))
    }

    fn watch(&self, show: Show, events: mpsc::Sender<Event>) -> Watch {
        Watch::new(self.naming(), show, events)
    }

    fn text_document(&self) -> Value {
        json!({ "uri": self.uri, "version": self.applied.version })
    }
}

fn position(args: &Args) -> Result<Utf16Pos, ErrorBody> {
    Ok(Utf16Pos { line: required(args.line, "line")?, character: required(args.character, "character")? })
}

fn decode<T: DeserializeOwned>(method: &str, reply: &Reply) -> Result<T, ErrorBody> {
    serde_json::from_str(reply.value.get()).map_err(|e| failure::undecodable(method, &e))
}

fn progress_of(reply: &Reply) -> Option<Progress> {
    reply.progress.map(super::observe::progress)
}

async fn run_at(workspace: &Workspace, args: &Args, events: mpsc::Sender<Event>) -> Result<Done, ErrorBody> {
    const METHOD: &str = "$/lean/runAt";
    let doc = Document::at_version(workspace, args).await?;
    let params = json!({
        "textDocument": doc.text_document(),
        "position": position(args)?,
        "text": args.text,
        "storeHandle": args.store_handle.unwrap_or(false),
    });
    let mut watch = doc.watch(Show::SetupLines, events);
    let reply = doc.ask(RequestSpec::new(METHOD, params).running_text(), &mut watch).await?;
    finish_run(workspace, &doc, METHOD, &reply)
}

async fn run_with(workspace: &Workspace, args: &Args, events: mpsc::Sender<Event>) -> Result<Done, ErrorBody> {
    const METHOD: &str = "$/lean/runWith";
    let handle = required(args.handle.as_ref(), "handle")?;
    let doc = open_for_handle(workspace, args, handle).await?;
    let linear = args.linear.unwrap_or(false);
    let params = json!({
        "textDocument": { "uri": doc.uri },
        "handle": handle.raw,
        "text": args.text,
        "storeHandle": args.store_handle.unwrap_or(false),
        "linear": linear,
    });
    if linear {
        // Consumed whatever comes of it. Should Lean refuse the handle instead, it did not hold it either.
        doc.live.ledger.ended(&doc.path, &handle.raw);
    }
    let mut watch = doc.watch(Show::SetupLines, events);
    let spec = RequestSpec::new(METHOD, params).running_text();
    // A worker that replaces another does not know the handle; and a linear continuation must not run twice.
    let reply = doc.ask(spec.once(), &mut watch).await?;
    finish_run(workspace, &doc, METHOD, &reply)
}

fn finish_run(workspace: &Workspace, doc: &Document, method: &str, reply: &Reply) -> Result<Done, ErrorBody> {
    let result: RunResult<Value> = decode(method, reply)?;
    if let Some(raw) = &result.handle {
        doc.live.ledger.minted(&doc.path, (reply.version, reply.worker), raw);
    }
    let result = result.wrap(|raw| Handle {
        workspace_id: workspace.id().to_owned(),
        backend: Backend::Lean,
        epoch: doc.live.session.epoch(),
        session: doc.live.session.token().to_owned(),
        raw,
    });
    Ok((to_value(&result)?, progress_of(reply)))
}

async fn release(workspace: &Workspace, args: &Args, events: mpsc::Sender<Event>) -> Result<Done, ErrorBody> {
    let handle = required(args.handle.as_ref(), "handle")?;
    let doc = open_for_handle(workspace, args, handle).await?;
    let params = json!({ "textDocument": { "uri": doc.uri }, "handle": handle.raw });
    let mut watch = doc.watch(Show::Nothing, events);
    let reply = doc.ask(RequestSpec::new("$/lean/releaseHandle", params).once(), &mut watch).await?;
    doc.live.ledger.ended(&doc.path, &handle.raw);
    Ok((Value::Null, progress_of(&reply)))
}

/// The broker's own checks of a handle, then the file; the rest is Lean's to decide (section 7).
async fn open_for_handle(workspace: &Workspace, args: &Args, handle: &Handle) -> Result<Document, ErrorBody> {
    let Some(live) = workspace.running() else {
        return Err(failure::stale_handle("no session is running"));
    };
    if handle.backend != Backend::Lean {
        return Err(failure::stale_handle("it belongs to another backend"));
    }
    if handle.epoch != live.session.epoch() || handle.session != live.session.token() {
        return Err(failure::stale_handle("the session that made it is gone"));
    }
    Document::open(workspace, args).await
}

async fn goals(workspace: &Workspace, args: &Args, events: mpsc::Sender<Event>) -> Result<Done, ErrorBody> {
    if args.text.is_some() {
        return Err(bad("goals: `text` is not for Lean; use run_at to see the goals after a text"));
    }
    let method = match args.mode.unwrap_or_default() {
        GoalsMode::Before => "$/lean/goalsPrev",
        GoalsMode::After => "$/lean/goalsAfter",
    };
    let doc = Document::at_version(workspace, args).await?;
    let params = json!({ "textDocument": doc.text_document(), "position": position(args)? });
    let mut watch = doc.watch(Show::Nothing, events);
    let reply = doc.ask(RequestSpec::new(method, params), &mut watch).await?;
    let goals: Goals = decode(method, &reply)?;
    Ok((to_value(&goals)?, progress_of(&reply)))
}

/// A standard LSP request about a position: the answer is Lean's, unchanged.
async fn position_query(
    workspace: &Workspace,
    args: &Args,
    method: &str,
    events: mpsc::Sender<Event>,
) -> Result<Done, ErrorBody> {
    let doc = Document::at_version(workspace, args).await?;
    let at = position(args)?;
    // Lean answers `null` for a position that does not exist, which reads like "nothing there".
    LineIndex::new(&doc.applied.text)
        .to_byte(&doc.applied.text, at)
        .map_err(|e| bad(format!("`{}`: {e}", doc.shown())))?;
    let mut params = json!({ "textDocument": { "uri": doc.uri }, "position": at });
    if method == "textDocument/references" {
        params["context"] = json!({ "includeDeclaration": args.include_declaration.unwrap_or(true) });
    }
    let mut watch = doc.watch(Show::Nothing, events);
    let reply = doc.ask(RequestSpec::new(method, params), &mut watch).await?;
    Ok((decode(method, &reply)?, progress_of(&reply)))
}

async fn document_symbols(workspace: &Workspace, args: &Args, events: mpsc::Sender<Event>) -> Result<Done, ErrorBody> {
    const METHOD: &str = "textDocument/documentSymbol";
    let doc = Document::at_version(workspace, args).await?;
    let params = json!({ "textDocument": { "uri": doc.uri } });
    let mut watch = doc.watch(Show::Nothing, events);
    let reply = doc.ask(RequestSpec::new(METHOD, params), &mut watch).await?;
    Ok((decode(METHOD, &reply)?, progress_of(&reply)))
}

async fn todo(workspace: &Workspace, args: &Args, events: mpsc::Sender<Event>) -> Result<Done, ErrorBody> {
    const METHOD: &str = "$/lean/todo";
    let doc = Document::at_version(workspace, args).await?;
    let end = Utf16Pos {
        line: required(args.end_line, "endLine")?,
        character: required(args.end_character, "endCharacter")?,
    };
    let mut params = json!({ "textDocument": doc.text_document(), "range": { "start": position(args)?, "end": end } });
    if let Some(kinds) = &args.kinds {
        params["kinds"] = json!(kinds);
    }
    if let Some(suggest) = &args.suggest {
        params["suggest"] = json!(suggest);
    }
    let mut watch = doc.watch(Show::Nothing, events);
    let reply = doc.ask(RequestSpec::new(METHOD, params), &mut watch).await?;
    let result: TodoReply = decode(METHOD, &reply)?;
    Ok((json!({ "version": result.version, "range": result.range, "items": result.items }), progress_of(&reply)))
}

/// The parts of a todo answer that must be there; the items pass unchanged.
#[derive(Debug, serde::Deserialize)]
struct TodoReply {
    version: u64,
    range: beam_base::Utf16Range,
    items: Vec<Value>,
}

/// Order of checks: the file, the action's target, the version (section 10).
async fn code_action_resolve(
    workspace: &Workspace,
    args: &Args,
    events: mpsc::Sender<Event>,
) -> Result<Done, ErrorBody> {
    const METHOD: &str = "codeAction/resolve";
    let action = required(args.code_action.as_ref(), "codeAction")?;
    let doc = Document::open(workspace, args).await?;
    let target = action
        .get("data")
        .ok_or_else(|| bad("code_action_resolve: the action has no `data`; pass it exactly as todo returned it"))
        .and_then(|data| {
            serde_json::from_value::<ResolveData>(data.clone())
                .map_err(|e| bad(format!("code_action_resolve: the action's `data` is not Lean's: {e}")))
        })?;
    if target.params.text_document.uri != doc.uri {
        let other = target.params.text_document.uri;
        return Err(bad(format!("code_action_resolve: the action is about {other}, not about `{}`", doc.shown())));
    }
    let wanted = required(args.version, "version")?;
    if doc.applied.version != wanted {
        return Err(failure::version_mismatch(wanted, doc.applied.version, &doc.uri, &doc.shown()));
    }
    let mut watch = doc.watch(Show::Nothing, events);
    let reply = doc.ask(RequestSpec::new(METHOD, Value::Object(action.clone())), &mut watch).await?;
    let resolved: Value = decode(METHOD, &reply)?;
    Ok((json!({ "version": reply.version, "codeAction": resolved }), progress_of(&reply)))
}

/// What Lean puts into an action that is resolved later.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResolveData {
    params: ResolveParams,
    #[serde(rename = "providerName")]
    _provider_name: String,
    #[serde(rename = "providerResultIndex")]
    _provider_result_index: u64,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResolveParams {
    text_document: DocumentId,
}

#[derive(Debug, serde::Deserialize)]
struct DocumentId {
    uri: String,
}
