//! Speculative execution: what is asked, and its result: messages, goals, handles (run-at semantics sections 6 and 7, broker protocol section 7).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::backend::Backend;
use crate::field::{FieldType, FieldValue, NonEmpty, fields};

/// Severity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Only told.
    Information,
    /// Does not fail the text.
    Warning,
    /// Fails the text.
    Error,
}

/// A message that the text produced. It has no position: the text is not in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// How bad.
    pub severity: Severity,
    /// Lean's words.
    pub text: String,
}

/// Hypotheses of one type that stand side by side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hypothesis {
    /// Names, inaccessible ones with their dagger.
    pub names: Vec<String>,
    /// Type, pretty-printed.
    #[serde(rename = "type")]
    pub ty: String,
    /// Value of a let binding, where Lean would show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// One goal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Goal {
    /// Case name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    /// Usually the turnstile and a blank; `| ` in conv mode.
    pub goal_prefix: String,
    /// What is to be shown, pretty-printed.
    pub target: String,
    /// Context, in order.
    pub hyps: Vec<Hypothesis>,
}

/// A list of goals; empty means solved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Goals {
    /// In Lean's order.
    pub goals: Vec<Goal>,
}

/// A stored state, as callers see it: opaque, handed back unchanged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Handle {
    /// Workspace that minted it.
    pub workspace_id: String,
    /// Backend that minted it.
    pub backend: Backend,
    /// Session generation in the workspace, from 1.
    pub epoch: u64,
    /// The session's token.
    pub session: String,
    /// What the Lean side minted.
    pub raw: Value,
}

impl FieldValue for Handle {
    const TYPE: FieldType = FieldType::Handle;
}

fields! {
    /// Try one tactic or command at a position, without touching the file.
    RunAt {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    /// Version of the document that the position is about.
    version "version": u64 [note "of lean_update or lean_sync"],
    /// Line, from 0.
    line "line": u32,
    /// UTF-16 unit in the line, from 0.
    character "character": u32 [note "UTF-16 units; lines and characters from 0"],
    /// One tactic or one command.
    text "text": String,
    optional
    /// Keep the resulting state under a handle.
    store_handle "storeHandle": bool,
    }
    /// Try one tactic or command from the state that a handle holds.
    RunWith {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    /// The handle, exactly as it was given.
    handle "handle": Handle [note "a next_handle, unchanged"],
    /// One tactic or one command.
    text "text": String,
    optional
    /// Keep the resulting state under a handle.
    store_handle "storeHandle": bool,
    /// Use the handle up, whatever comes of it.
    linear "linear": bool,
    }
    /// Forget a handle.
    Release {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    /// The handle, exactly as it was given.
    handle "handle": Handle [note "a next_handle, unchanged"],
    }
}

/// Result of `run_at` and `run_with`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RunResult {
    /// No error message and no exception.
    pub success: bool,
    /// In order, only new ones.
    pub messages: Vec<Message>,
    /// Rendered trace output.
    pub traces: Vec<String>,
    /// Only on a proof basis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof_state: Option<Goals>,
    /// Only if asked for and successful.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<Handle>,
}

impl RunResult {
    /// Reads what the Lean side answered, which is the same but for its handle: that becomes a [`Handle`] by `wrap`.
    ///
    /// # Errors
    /// The answer is not what is promised.
    pub fn from_lean(json: &str, wrap: impl FnOnce(Value) -> Handle) -> serde_json::Result<Self> {
        let mut answer: Map<String, Value> = serde_json::from_str(json)?;
        let handle = answer.remove("handle").map(wrap);
        let result: Self = serde_json::from_value(Value::Object(answer))?;
        Ok(Self { handle, ..result })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lean_answer_is_wrapped_without_loss() {
        let lean = r#"{"success":true,"messages":[{"severity":"warning","text":"w"}],"traces":[],"proofState":{"goals":[{"userName":"left","goalPrefix":"⊢ ","target":"p","hyps":[{"names":["h"],"type":"p","value":"x"}]}]},"handle":{"value":"v"}}"#;
        let out = RunResult::from_lean(lean, |raw| Handle {
            workspace_id: "w".into(),
            backend: Backend::Lean,
            epoch: 1,
            session: "s".into(),
            raw,
        })
        .unwrap();
        let text = serde_json::to_string(&out).unwrap();
        assert!(text.starts_with(lean.split(r#","handle""#).next().unwrap()), "{text}");
        assert!(
            text.ends_with(
                r#""handle":{"workspaceId":"w","backend":"lean","epoch":1,"session":"s","raw":{"value":"v"}}}"#
            ),
            "{text}"
        );
        // Absent stays absent: a command has no proof state at all.
        let bare: RunResult = serde_json::from_str(r#"{"success":false,"messages":[],"traces":[]}"#).unwrap();
        assert_eq!(serde_json::to_string(&bare).unwrap(), r#"{"success":false,"messages":[],"traces":[]}"#);
    }

    #[test]
    fn w1_handles_are_closed() {
        assert!(
            serde_json::from_str::<Handle>(
                r#"{"workspaceId":"w","backend":"lean","epoch":1,"session":"s","raw":1,"x":2}"#
            )
            .is_err()
        );
    }
}
