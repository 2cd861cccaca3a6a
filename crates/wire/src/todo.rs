//! What is unfinished: goals, `todo` and code actions.

use beam_base::Utf16Range;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::field::{NonEmpty, choices, fields};
use crate::run::{Goals, GoalsForm, Hint, PlaceShown, StateForm};

choices! {
    /// Side of a tactic whose goals are wanted.
    GoalsMode {
        /// Before it.
        Before = "before",
        /// After it.
        After = "after",
        /// Both; where there is no tactic, the expected type of the term.
        Both = "both",
    }
    /// Kinds of items that `todo` lists.
    TodoKind {
        /// A written `sorry`.
        Sorry = "sorry",
        /// A `_` or `?x` of an elaborated term.
        Hole = "hole",
        /// A diagnostic.
        Diagnostic = "diagnostic",
        /// A code action.
        CodeAction = "code_action",
        /// A proof with open goals.
        IncompleteProof = "incomplete_proof",
    }
    /// Whether `todo` items come with a text to try.
    Suggest {
        /// No.
        None = "none",
        /// A text that works at the item's position, where there is one.
        Basic = "basic",
    }
}

fields! {
    /// The goals before or after the tactic at a position.
    GoalsAt {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    /// Version of the document that the position is about.
    version "version": u64 [note "of lean_update"],
    /// Line, from 0.
    line "line": u32,
    /// UTF-16 unit in the line, from 0.
    character "character": u32 [note "UTF-16 units, from 0"],
    optional
    /// The goals before the tactic, after it, or both.
    mode "mode": GoalsMode [default "\"after\""],
    /// In which form goals are shown: as data, as Lean draws them, only targets, only their number, or not at all.
    goals "goals": GoalsForm [default "\"json\""],
    /// The whole state, or only what differs from the state before.
    state "state": StateForm [default "\"full\""],
    /// Say what stands at the position.
    explain "explain": bool,
    /// Rocq only: a text to run first.
    text "text": String,
    }
    /// What is unfinished in a range: sorries, holes, diagnostics, code actions, open goals.
    TodoIn {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    /// Version of the document that the range is about.
    version "version": u64 [note "of lean_update"],
    optional
    /// First line, from 0; the first of the file by default.
    line "line": u32,
    /// UTF-16 unit in the first line, from 0.
    character "character": u32 [note "UTF-16 units, from 0"],
    /// Last line, from 0; the last of the file by default.
    end_line "endLine": u32,
    /// UTF-16 unit in the last line, from 0; the range ends before it. The end of the line by default.
    end_character "endCharacter": u32,
    /// Kinds of items that are wanted; all by default.
    kinds "kinds": Vec<TodoKind> [note "default all"],
    /// Whether items come with a text to try.
    suggest "suggest": Suggest [note "run_at_text; default basic"],
    }
    /// The edit behind a code action that todo listed; nothing is applied.
    CodeActionResolve {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    /// Version of the document that the action is about.
    version "version": u64 [note "of lean_update"],
    /// The code action, exactly as it was given.
    code_action "codeAction": Map<String, Value>,
    }
}

/// The goals at a position: of one side (the first four fields, by form), or of both.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GoalsResult {
    /// As data, in Lean's order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goals: Option<Vec<crate::run::Goal>>,
    /// As Lean draws them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Vec<String>>,
    /// What is to be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<Vec<String>>,
    /// How many there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Mode `both`: before the tactic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Goals>,
    /// Mode `both`: after the tactic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Goals>,
    /// With `state: changed`: the tactic changes nothing that is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_unchanged: Option<bool>,
    /// Mode `both`, where there is no tactic: what the term has to be of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_type: Option<Goals>,
    /// With `explain`: what stands at the position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<PlaceShown>,
    /// An earlier error keeps Lean from running what stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Hint>,
    /// Imports that changed since the file's worker loaded them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_imports: Option<Vec<String>>,
}

/// What is unfinished in a range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TodoResult {
    /// The version the items are about.
    pub version: u64,
    /// The range they lie in.
    pub range: Utf16Range,
    /// Lines of the file; the last one counts even if it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_count: Option<u64>,
    /// Imports that changed since the file's worker loaded them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_imports: Option<Vec<String>>,
    /// By position.
    pub items: Vec<TodoItem>,
}

/// Something unfinished. What is Lean's or LSP's own inside of it is not looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TodoItem {
    /// What it is.
    pub kind: TodoKind,
    /// Where it stands.
    pub range: Utf16Range,
    /// Where `run_at` sees the state that it is about.
    pub run_at_position: Value,
    /// A text that may be tried there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at_text: Option<String>,
    /// Lean's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// LSP number 1 to 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<u8>,
    /// The LSP diagnostic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnostic: Option<Value>,
    /// The LSP code action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_action: Option<Value>,
    /// The goals there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof_state: Option<Value>,
    /// What a term there has to be of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_type: Option<String>,
}

/// A code action with its edit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CodeActionResult {
    /// The version the edit is about.
    pub version: u64,
    /// The LSP code action.
    pub code_action: Value,
}
