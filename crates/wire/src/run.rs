//! Speculative execution: what is asked, and its result: messages, goals, handles (run-at semantics sections 6 and 7, broker protocol section 7).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::backend::Backend;
use crate::field::{FieldType, FieldValue, NonEmpty, choices, fields};

choices! {
    /// In which form goals are shown.
    GoalsForm {
        /// As data: case name, hypotheses, target.
        Json = "json",
        /// As Lean draws them, one text for each goal.
        Text = "text",
        /// Only what is to be shown, one text for each goal.
        Targets = "targets",
        /// Only how many there are.
        Count = "count",
        /// Not at all.
        None = "none",
    }
    /// How much of a state is shown.
    StateForm {
        /// All of it.
        Full = "full",
        /// What differs from the state before.
        Changed = "changed",
    }
    /// What a success leaves open.
    Caveat {
        /// The text left a `sorry`, in whatever form it is written.
        Sorry = "sorry",
        /// The text uses a declaration that is being elaborated: termination is not checked yet.
        Recursion = "recursion",
        /// The text uses what the kernel refuses in a safe declaration.
        Unsafe = "unsafe",
    }
    /// What a position stands for.
    Basis {
        /// The state of a proof.
        Tactic = "tactic",
        /// The state between commands.
        Command = "command",
        /// The place of a term.
        Term = "term",
    }
}

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

/// The goals of a state, in the form that was asked for: one of the first four fields. An empty list, or a count of zero, means solved.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Goals {
    /// As data, in Lean's order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goals: Option<Vec<Goal>>,
    /// As Lean draws them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Vec<String>>,
    /// What is to be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<Vec<String>>,
    /// How many there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// With `state: changed`: for each goal, how many hypotheses look as before and were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchanged_hyps: Option<Vec<u64>>,
    /// With `state: changed`: for each goal, hypotheses that are there no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_hyps: Option<Vec<Vec<String>>>,
}

impl Goals {
    /// How many goals there are, where the form says so.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        let listed = self.goals.as_ref().map(Vec::len);
        let drawn = listed.or_else(|| self.text.as_ref().or(self.targets.as_ref()).map(Vec::len));
        self.count.or_else(|| drawn.and_then(|n| u64::try_from(n).ok()))
    }
}

/// What stands at a position that an answer is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PlaceShown {
    /// The line, at most 120 characters of it.
    pub line_text: String,
    /// What the position was taken for.
    pub basis: Basis,
}

/// What to do instead, from the grammar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hint {
    /// `severalTactics`, `severalCommands`, `leadingBy`, `fence`, `prose`, `commandInProof`, `notInProof`, `otherLine` or `notReached`.
    pub code: String,
    /// For people and agents.
    pub text: String,
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
    version "version": u64 [note "of lean_update"],
    /// Line, from 0.
    line "line": u32,
    /// UTF-16 unit in the line, from 0.
    character "character": u32 [note "UTF-16 units, from 0"],
    /// One tactic or one command.
    text "text": String,
    optional
    /// Keep the resulting state under a handle.
    store_handle "storeHandle": bool,
    /// Have the kernel check what the text proved.
    kernel "kernel": bool,
    /// In which form goals are shown: as data, as Lean draws them, only targets, only their number, or not at all.
    goals "goals": GoalsForm [default "\"json\""],
    /// The whole state, or only what differs from the state before.
    state "state": StateForm [default "\"full\""],
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
    /// Have the kernel check what the text proved.
    kernel "kernel": bool,
    /// In which form goals are shown: as data, as Lean draws them, only targets, only their number, or not at all.
    goals "goals": GoalsForm [default "\"json\""],
    /// The whole state, or only what differs from the state before.
    state "state": StateForm [default "\"full\""],
    }
    /// Forget a handle.
    Release {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    /// The handle, exactly as it was given.
    handle "handle": Handle [note "a next_handle, unchanged"],
    }
}

fields! {
    /// Try several candidates at one position, or from one handle, over one state.
    TryTexts {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    /// The candidates, each one tactic or one command; at most 64.
    texts "texts": Vec<String>,
    optional
    /// Version of the document that the position is about.
    version "version": u64 [note "of lean_update"],
    /// Line, from 0; instead of a handle.
    line "line": u32,
    /// UTF-16 unit in the line, from 0.
    character "character": u32 [note "UTF-16 units, from 0"],
    /// Start from this handle instead of a position; it stays usable.
    handle "handle": Handle [note "a next_handle, unchanged"],
    /// Stop at the first success without caveats.
    first "first": bool,
    /// Keep the states of successes under handles.
    store_handle "storeHandle": bool,
    /// Have the kernel check what each text proved.
    kernel "kernel": bool,
    /// In which form the goals of successes are shown.
    goals "goals": GoalsForm [default "\"count\""],
    }
}

/// Result of `try`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TryResult {
    /// One for each candidate, in their order.
    pub results: Vec<TryLine>,
    /// Index of a success that leaves no goals and has no caveats, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solved: Option<u64>,
}

/// What became of a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TryLine {
    /// Its place among the texts.
    pub index: u64,
    /// `solved`, `goals` (success with goals left), `ok` (a command that succeeded), `failed`, `stopped` (another was first) or `error`
    /// (the request itself failed).
    pub outcome: String,
    /// What a success leaves open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveats: Option<Vec<Caveat>>,
    /// The goals that remain, in the form asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof_state: Option<Goals>,
    /// The first error, or what the first message says, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Advice from the grammar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Hint>,
    /// The state reached, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<Handle>,
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
    /// What the success leaves open; only there if there is something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveats: Option<Vec<Caveat>>,
    /// Only on a failure: what stands at the position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<PlaceShown>,
    /// Only on a failure that the grammar has advice for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Hint>,
    /// Imports that changed since the file's worker loaded them: the answer is about the old ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_imports: Option<Vec<String>>,
    /// Only on a proof basis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof_state: Option<Goals>,
    /// With `state: changed`: true when the state is as before, and left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_unchanged: Option<bool>,
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
