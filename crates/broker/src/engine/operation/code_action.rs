//! The edit behind a code action.

use beam_session::RequestSpec;

use beam_wire::stream::Event;
use beam_wire::todo::{CodeActionResolve, CodeActionResult};
use beam_wire::{Answer, Progress};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::engine::document::{Document, decode, progress_of};
use crate::engine::error::{EngineError, ParameterError};
use crate::engine::observe::Shown;
use crate::engine::workspace::Workspace;

/// `code_action_resolve`. Order of checks: the file, the action's target, the version (section 10).
pub(super) async fn resolve(
    workspace: &Workspace,
    op: &CodeActionResolve,
    events: mpsc::Sender<Event>,
) -> Result<(Answer, Option<Progress>), EngineError> {
    const METHOD: &str = "codeAction/resolve";
    let doc = Document::open(workspace, &op.path).await?;
    // Lean leaves out the data of an action that has its edit already: there is nothing to resolve.
    if !op.code_action.contains_key("data") && op.code_action.contains_key("edit") {
        doc.insist(op.version)?;
        let code_action = Value::Object(op.code_action.clone());
        return Ok((CodeActionResult { version: op.version, code_action }.into(), None));
    }
    let data = op.code_action.get("data").ok_or(ParameterError::ActionWithoutData)?;
    let target = ResolveData::deserialize(data).map_err(ParameterError::ActionData)?;
    let uri = target.params.text_document.uri;
    if uri != doc.uri {
        return Err(ParameterError::ActionOfAnother { uri, path: doc.shown() }.into());
    }
    doc.insist(op.version)?;
    let mut observer = doc.observer(Shown::Nothing, events);
    let spec = RequestSpec::new(METHOD, Value::Object(op.code_action.clone()));
    let reply = doc.ask(spec, &mut observer).await?;
    let code_action = decode(METHOD, &reply)?;
    Ok((CodeActionResult { version: reply.version, code_action }.into(), progress_of(&reply)))
}

/// What Lean puts into an action that is resolved later.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResolveData {
    params: ResolveParams,
    #[serde(rename = "providerName")]
    _provider_name: String,
    #[serde(rename = "providerResultIndex")]
    _provider_result_index: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResolveParams {
    text_document: DocumentId,
}

#[derive(Debug, Deserialize)]
struct DocumentId {
    uri: String,
}
