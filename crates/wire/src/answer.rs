//! Answers: what each operation promises to give (broker protocol section 4).

use serde::Serialize;
use serde_json::{Map, Value};

use crate::ask::{CheckResult, CodeActionsResult, DiagnosticsResult, SearchResult, SnippetResult};
use crate::control::{Cancelled, Ensured, ShutdownAnswer};
use crate::document::{Closed, Updated};
use crate::run::{RunResult, TryResult};
use crate::stats::{OpenDocsAnswer, Reset, StatsAnswer};
use crate::sync::{SaveResult, SyncResult};
use crate::todo::{CodeActionResult, GoalsResult, TodoResult};
use crate::workspace::{WorkspaceDrop, WorkspaceInit, Workspaces};

macro_rules! answers {
    ($($(#[doc = $doc:literal])+ $variant:ident($ty:ty),)*) => {
        /// The shape of an answer.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum AnswerType { $($(#[doc = $doc])+ $variant,)* }

        /// An answer.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Answer { $($(#[doc = $doc])+ $variant($ty),)* }

        $(answers!(@from $variant $ty);)*

        impl Answer {
            /// Reads what an operation answered; other keys and contradictions are refused (W1).
            ///
            /// # Errors
            /// It is not what the operation promises.
            pub fn decode(shape: AnswerType, value: Value) -> serde_json::Result<Self> {
                match shape { $(AnswerType::$variant => serde_json::from_value(value).map(Self::$variant),)* }
            }

            /// Its shape.
            #[must_use]
            pub fn answer_type(&self) -> AnswerType {
                match self { $(Self::$variant(_) => AnswerType::$variant,)* }
            }
        }

        impl AnswerType {
            /// Every shape.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// JSON Schema of the answer.
            #[must_use]
            pub fn schema(self) -> schemars::Schema {
                match self { $(Self::$variant => schemars::schema_for!($ty),)* }
            }

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)* }
            }
        }
    };
    // Lean's own LSP answers and `null` are made where they are known to be that.
    (@from Lsp $ty:ty) => {};
    (@from Nothing $ty:ty) => {};
    (@from $variant:ident $ty:ty) => {
        impl From<$ty> for Answer {
            fn from(answer: $ty) -> Self {
                Self::$variant(answer)
            }
        }
    };
}

answers! {
    /// Of `ensure`.
    Ensured(Ensured),
    /// Of `open_docs`.
    OpenDocs(OpenDocsAnswer),
    /// Of `cancel`.
    Cancelled(Cancelled),
    /// Of `update_file`.
    Updated(Updated),
    /// Of `sync_file` and `refresh_file`.
    Sync(SyncResult),
    /// Of `save_olean`.
    Saved(SaveResult),
    /// Of `close`.
    Closed(Closed),
    /// Of `run_at` and `run_with`.
    Run(RunResult),
    /// Of `try`.
    Tries(TryResult),
    /// `null`.
    Nothing(()),
    /// Of `goals`.
    Goals(GoalsResult),
    /// Of `todo`.
    Todo(TodoResult),
    /// Of `code_action_resolve`.
    CodeAction(CodeActionResult),
    /// Of `code_actions`.
    CodeActions(CodeActionsResult),
    /// Of `diagnostics`.
    Diagnostics(DiagnosticsResult),
    /// Of `search`.
    Search(SearchResult),
    /// Of `check`.
    Check(CheckResult),
    /// Of `snippet`.
    Snippet(SnippetResult),
    /// Lean's own answer to an LSP request, unchanged.
    Lsp(Value),
    /// Of `init_workspace`.
    WorkspaceInit(WorkspaceInit),
    /// Of `list_workspaces`.
    Workspaces(Workspaces),
    /// Of `drop_workspace`.
    WorkspaceDrop(WorkspaceDrop),
    /// Of `stats`.
    Stats(StatsAnswer),
    /// Of `reset_stats`.
    Reset(Reset),
    /// Of `shutdown`.
    Shutdown(ShutdownAnswer),
}

impl Answer {
    /// The answer as JSON.
    #[must_use]
    pub fn to_value(&self) -> Value {
        // Structs of plain fields and values: there is nothing in them that JSON cannot hold.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The answer in the spelling of MCP: our own keys in snake case, what is Lean's or LSP's own unchanged.
    #[must_use]
    pub fn to_snake_case(&self) -> Map<String, Value> {
        match (self, self.to_value()) {
            (Self::Lsp(_), Value::Object(own)) => own,
            (Self::Lsp(_) | Self::Nothing(()), other) => Map::from_iter([("result".to_owned(), other)]),
            (_, value) => match crate::project::snake_keys(value) {
                Value::Object(map) => map,
                other => Map::from_iter([("result".to_owned(), other)]),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Op;
    use serde_json::json;

    #[test]
    fn w1_answers_are_closed() {
        for (op, good) in [
            (Op::UpdateFile, json!({ "version": 3, "changed": true })),
            (Op::Close, json!({ "closed": true })),
            (Op::Release, Value::Null),
            (Op::Goals, json!({ "goals": [] })),
            (Op::Hover, json!({ "contents": "x" })),
            (Op::RunAt, json!({ "success": true, "messages": [], "traces": [] })),
            (
                Op::DropWorkspace,
                json!({ "workspace_id": "w", "dropped": false, "invalidated_handles": false, "reason": "notFound" }),
            ),
            (Op::Stats, json!({ "uptimeMs": 1, "workspaces": {} })),
            (Op::OpenDocs, json!({ "workspaces": {} })),
        ] {
            let answer = Answer::decode(op.spec().answer, good.clone()).unwrap();
            assert_eq!(answer.to_value(), good);
            if op != Op::Hover {
                let mut bad = good;
                if bad.is_null() {
                    bad = json!({});
                }
                bad["extra"] = json!(1);
                assert!(
                    Answer::decode(op.spec().answer, bad).is_err() || matches!(op, Op::Stats | Op::OpenDocs),
                    "{}",
                    op.name()
                );
            }
        }
    }

    #[test]
    fn what_is_leans_own_keeps_its_spelling() {
        let run = json!({
            "success": true, "messages": [], "traces": [],
            "proofState": { "goals": [{ "userName": "left", "goalPrefix": "⊢ ", "target": "p", "hyps": [] }] },
            "handle": { "workspaceId": "w", "backend": "lean", "epoch": 1, "session": "s", "raw": { "camelKey": 1 } },
        });
        let snake = Value::Object(Answer::decode(Op::RunAt.spec().answer, run.clone()).unwrap().to_snake_case());
        assert_eq!(snake["proof_state"], run["proofState"]);
        assert_eq!(snake["handle"], run["handle"]);
        assert_eq!(Value::Object(Answer::Lsp(json!({ "fullRange": 1 })).to_snake_case()), json!({ "fullRange": 1 }));
        assert_eq!(Value::Object(Answer::Lsp(json!([1])).to_snake_case()), json!({ "result": [1] }));
        assert_eq!(Value::Object(Answer::Nothing(()).to_snake_case()), json!({ "result": null }));
    }
}
