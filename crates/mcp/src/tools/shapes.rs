//! What the broker promised, read strictly: an answer with other fields, or one that contradicts itself, is not passed on.

use beam_base::Utf16Range;
use beam_wire::run::Message;
use beam_wire::{Goals, Handle, SaveResult};
use serde::Deserialize;
use serde_json::Value;

/// Result of `run_at` and `run_with`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Run {
    pub(super) success: bool,
    pub(super) messages: Vec<Message>,
    pub(super) traces: Vec<String>,
    #[serde(default)]
    pub(super) proof_state: Option<Goals>,
    #[serde(default)]
    pub(super) handle: Option<Handle>,
}

/// Result of `todo`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Todo {
    pub(super) version: u64,
    pub(super) range: Utf16Range,
    pub(super) items: Vec<TodoItem>,
}

/// What is Lean's or LSP's own inside an item is not looked at.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct TodoItem {
    pub(super) kind: String,
    pub(super) range: Utf16Range,
    pub(super) run_at_position: Value,
    #[serde(default)]
    pub(super) run_at_text: Option<String>,
    #[serde(default)]
    pub(super) message: Option<String>,
    #[serde(default)]
    pub(super) severity: Option<u8>,
    #[serde(default)]
    pub(super) diagnostic: Option<Value>,
    #[serde(default)]
    pub(super) code_action: Option<Value>,
    #[serde(default)]
    pub(super) proof_state: Option<Value>,
}

/// Result of `code_action_resolve`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct CodeAction {
    pub(super) version: u64,
    pub(super) code_action: Value,
}

/// Result of `update_file`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Update {
    pub(super) version: u64,
    pub(super) changed: bool,
}

/// Result of `close`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Close {
    pub(super) closed: bool,
}

/// Result of `close` that saves.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CloseSave {
    pub(super) closed: bool,
    pub(super) saved: SaveResult,
}
