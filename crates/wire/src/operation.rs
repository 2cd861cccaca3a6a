//! The operations: each is a type, and everything that is said of operations elsewhere comes from here (W3; broker protocol section 4).
//!
//! The fields of an operation stand with its documentation beside the shape of its answer (`run`, `document`, `todo`, …). From there and
//! from the rows here come the typed request, the closed check of what arrives, the command line's verb with its options and help, the
//! arguments of the MCP tool, and the schemas. So a new optional field is one line in one file, and what Lean needs to know of it reaches
//! the extension by [`Operation::lean_params`].

use serde_json::{Map, Value};

use crate::answer::AnswerType;
use crate::backend::Backend;
use crate::field::{Field, FieldType, FieldValue};
use crate::run::{Handle, Release, RunWith};
use crate::{ask, control, document, navigate, run, stats, todo, workspace};

/// Whether an operation belongs to a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Process-wide; `workspaceId` is not allowed.
    Process,
    /// `workspaceId` may be given; `root` only together with it.
    Optional,
    /// `workspaceId` is required (a handle may supply it).
    Workspace,
}

/// What the table says of one operation.
#[derive(Debug)]
pub struct OpSpec {
    /// Which.
    pub op: Op,
    /// Spelling of `op` on the wire.
    pub name: &'static str,
    /// Process-wide or bound to a workspace.
    pub scope: Scope,
    /// Whether it takes `backend`.
    pub backend: bool,
    /// Whether it is registered for cancellation and counted in metrics.
    pub tracked: bool,
    /// Whether it takes `root` as a cross-check of the workspace's.
    pub root_check: bool,
    /// Its own fields, required ones first.
    pub own: &'static [Field],
    /// What it answers.
    pub answer: AnswerType,
    /// One line for people.
    pub summary: &'static str,
}

const fn envelope(name: &'static str, snake: &'static str, ty: FieldType, doc: &'static str) -> Field {
    Field { name, snake, ty, required: false, doc, note: None, default: None }
}

/// Correlation and cancellation key of the client's.
pub const CLIENT_REQUEST_ID: Field = envelope(
    "clientRequestId",
    "client_request_id",
    FieldType::Text,
    "Correlation and cancellation key of the client's; echoed on every message of the request.",
);
/// The workspace.
pub const WORKSPACE_ID: Field =
    envelope("workspaceId", "workspace_id", FieldType::NonEmpty, "The workspace that the request is about.");
/// Cross-check of the workspace's root.
pub const ROOT: Field =
    envelope("root", "root", FieldType::Text, "Cross-check: must be the workspace's own directory.");
/// Which prover.
pub const BACKEND: Field = Field {
    default: Some("\"lean\""),
    ..envelope("backend", "backend", Backend::TYPE, "The proof assistant that the operation speaks to.")
};

impl OpSpec {
    /// Every key the operation accepts beside `op`.
    pub fn fields(&self) -> impl Iterator<Item = Field> + '_ {
        let envelope = [
            Some(CLIENT_REQUEST_ID),
            (self.scope != Scope::Process).then_some(WORKSPACE_ID),
            self.backend.then_some(BACKEND),
            self.root_check.then_some(ROOT),
        ];
        envelope.into_iter().flatten().chain(self.own.iter().copied())
    }

    /// Its own fields that must be there, in order.
    pub fn required(&self) -> impl Iterator<Item = Field> + '_ {
        self.own.iter().copied().filter(|f| f.required)
    }

    /// Its own fields that may be there, in order.
    pub fn optional(&self) -> impl Iterator<Item = Field> + '_ {
        self.own.iter().copied().filter(|f| !f.required)
    }
}

macro_rules! operations {
    ($(#[doc = $doc:literal] $variant:ident($ty:ty) $name:literal ($scope:ident $($flag:ident)*) -> $answer:ident;)*) => {
        /// The name of an operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Op { $(#[doc = $doc] $variant,)* }

        /// An operation with its fields.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Operation { $(#[doc = $doc] $variant($ty),)* }

        $(impl From<$ty> for Operation {
            fn from(operation: $ty) -> Self {
                Self::$variant(operation)
            }
        })*

        /// Every operation, in the order in which help and statistics list them.
        pub const OPERATIONS: &[OpSpec] = &[
            $(OpSpec {
                op: Op::$variant,
                name: $name,
                scope: Scope::$scope,
                backend: flag!(backend $($flag)*),
                tracked: flag!(tracked $($flag)*),
                root_check: flag!(root $($flag)*),
                own: <$ty>::FIELDS,
                answer: AnswerType::$answer,
                summary: $doc,
            },)*
        ];

        impl Operation {
            /// Which operation it is.
            #[must_use]
            pub fn op(&self) -> Op {
                match self { $(Self::$variant(_) => Op::$variant,)* }
            }

            /// Types an operation's own fields. The caller has checked them against the table.
            ///
            /// # Errors
            /// What the table does not check: the inside of a handle.
            pub(crate) fn from_fields(op: Op, fields: Map<String, Value>) -> serde_json::Result<Self> {
                let fields = Value::Object(fields);
                match op { $(Op::$variant => serde_json::from_value(fields).map(Self::$variant),)* }
            }

            /// Its own fields as JSON; absent ones are left out.
            #[must_use]
            pub fn to_fields(&self) -> Map<String, Value> {
                let value = match self { $(Self::$variant(op) => serde_json::to_value(op),)* };
                match value {
                    Ok(Value::Object(fields)) => fields,
                    // A struct of plain fields has no other form.
                    _ => Map::new(),
                }
            }

            /// JSON Schema of an operation's own fields.
            #[must_use]
            pub fn schema(op: Op) -> schemars::Schema {
                match op { $(Op::$variant => schemars::schema_for!($ty),)* }
            }
        }
    };
}

/// Whether a word is among the flags.
macro_rules! flag {
    ($word:ident) => { false };
    (backend backend $($rest:ident)*) => { true };
    (tracked tracked $($rest:ident)*) => { true };
    (root root $($rest:ident)*) => { true };
    ($word:ident $other:ident $($rest:ident)*) => { flag!($word $($rest)*) };
}

operations! {
    #[doc = "Start the session of a workspace if it is not running."]
    Ensure(control::Ensure) "ensure" (Workspace backend tracked root) -> Ensured;
    #[doc = "List the documents that are open, and whether they match the disk."]
    OpenDocs(stats::ListDocs) "open_docs" (Optional root) -> OpenDocs;
    #[doc = "Cancel an active request by its client request id."]
    Cancel(control::Cancel) "cancel" (Process) -> Cancelled;
    #[doc = "Read the saved file and hand it to Lean; answers with its version at once."]
    UpdateFile(document::UpdateFile) "update_file" (Workspace backend tracked root) -> Updated;
    #[doc = "Wait until Lean has checked the whole file; counts its diagnostics and says whether it is ready to be saved."]
    SyncFile(document::SyncFile) "sync_file" (Workspace backend tracked root) -> Sync;
    #[doc = "Close the file, open it anew with fresh imports, then sync."]
    RefreshFile(document::RefreshFile) "refresh_file" (Workspace backend tracked root) -> Sync;
    #[doc = "Sync, then write the build artifacts of exactly that text, so that importers see it without a rebuild."]
    SaveOlean(document::SaveOlean) "save_olean" (Workspace backend tracked root) -> Saved;
    #[doc = "Forget the file and end its worker."]
    Close(document::Close) "close" (Workspace backend tracked root) -> Closed;
    #[doc = "Try one tactic or command at a position, without touching the file."]
    RunAt(run::RunAt) "run_at" (Workspace backend tracked root) -> Run;
    #[doc = "Try one tactic or command from the state that a handle holds."]
    RunWith(run::RunWith) "run_with" (Workspace backend tracked root) -> Run;
    #[doc = "Try several candidates at one position, or from one handle, over one state."]
    TryTexts(run::TryTexts) "try" (Workspace backend tracked root) -> Tries;
    #[doc = "Forget a handle."]
    Release(run::Release) "release" (Workspace backend tracked root) -> Nothing;
    #[doc = "The goals before or after the tactic at a position."]
    Goals(todo::GoalsAt) "goals" (Workspace backend tracked root) -> Goals;
    #[doc = "What is unfinished in a range: sorries, holes, diagnostics, code actions, open goals."]
    Todo(todo::TodoIn) "todo" (Workspace backend tracked root) -> Todo;
    #[doc = "The edit behind a code action that todo listed; nothing is applied."]
    CodeActionResolve(todo::CodeActionResolve) "code_action_resolve" (Workspace backend tracked root) -> CodeAction;
    #[doc = "The code actions of some lines, each with its edit. Nothing is applied."]
    CodeActions(ask::CodeActions) "code_actions" (Workspace backend tracked root) -> CodeActions;
    #[doc = "The diagnostics of a file, filtered. Waits as sync does."]
    DiagnosticsOf(ask::DiagnosticsOf) "diagnostics" (Workspace backend tracked root) -> Diagnostics;
    #[doc = "Declarations in scope, by parts of their name, by constants that their type mentions, or by a pattern of their type."]
    Search(ask::Search) "search" (Workspace backend tracked root) -> Search;
    #[doc = "What a declaration, or all of a file, rests on: axioms, sorries, unsafe parts, and a verdict."]
    Check(ask::Check) "check" (Workspace backend tracked root) -> Check;
    #[doc = "Run a text of several commands in the environment of a file's header, without a file on disk; then it is gone."]
    Snippet(ask::Snippet) "snippet" (Workspace backend tracked root) -> Snippet;
    #[doc = "Type and documentation of what stands at a position."]
    Hover(navigate::Hover) "hover" (Workspace backend tracked root) -> Lsp;
    #[doc = "Signature of the application at a position."]
    SignatureHelp(navigate::SignatureHelp) "signature_help" (Workspace backend tracked root) -> Lsp;
    #[doc = "Where what stands at a position is defined."]
    Definition(navigate::Definition) "definition" (Workspace backend tracked root) -> Lsp;
    #[doc = "Where what stands at a position is used, in every file that is open or built."]
    References(navigate::References) "references" (Workspace backend tracked root) -> Lsp;
    #[doc = "Declarations of the file."]
    DocumentSymbols(navigate::DocumentSymbols) "document_symbols" (Workspace backend tracked root) -> Lsp;
    #[doc = "Declarations of the workspace whose name matches a query."]
    WorkspaceSymbols(navigate::WorkspaceSymbols) "workspace_symbols" (Workspace backend tracked root) -> Lsp;
    #[doc = "Add a workspace, or check or replace one that is there."]
    InitWorkspace(workspace::InitWorkspace) "init_workspace" (Workspace tracked) -> WorkspaceInit;
    #[doc = "The workspaces of this process."]
    ListWorkspaces(workspace::ListWorkspaces) "list_workspaces" (Process) -> Workspaces;
    #[doc = "Forget a workspace and end everything that was started for it; its handles are gone."]
    DropWorkspace(workspace::DropWorkspace) "drop_workspace" (Workspace tracked) -> WorkspaceDrop;
    #[doc = "Counters of sessions and operations."]
    Stats(stats::ReadStats) "stats" (Optional root) -> Stats;
    #[doc = "Set all counters to zero."]
    ResetStats(stats::ResetStats) "reset_stats" (Process) -> Reset;
    #[doc = "Stop the daemon and everything it started."]
    Shutdown(control::Shutdown) "shutdown" (Process) -> Shutdown;
}

impl Op {
    /// The table's row.
    #[must_use]
    pub fn spec(self) -> &'static OpSpec {
        // The macro emits variants and rows in one order, so the discriminant is the row.
        &OPERATIONS[self as usize]
    }

    /// The operation of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        OPERATIONS.iter().find(|s| s.name == name).map(|s| s.op)
    }

    /// Spelling on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.spec().name
    }
}

impl Operation {
    /// What of its fields is meant for Lean: all but those that say *where*, which LSP spells in its own way (a document, a position or a
    /// range, the raw part of a handle).
    #[must_use]
    pub fn lean_params(&self) -> Map<String, Value> {
        const WHERE: [&str; 7] = ["path", "version", "line", "character", "endLine", "endCharacter", "handle"];
        let mut fields = self.to_fields();
        fields.retain(|key, _| !WHERE.contains(&key.as_str()));
        fields
    }

    /// The workspace that its handle belongs to, where it has one.
    #[must_use]
    pub fn handle(&self) -> Option<&Handle> {
        match self {
            Self::RunWith(RunWith { handle, .. }) | Self::Release(Release { handle, .. }) => Some(handle),
            Self::TryTexts(run::TryTexts { handle, .. }) => handle.as_ref(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RunAt;

    /// W3: rows and variants are in step, and names are unique.
    #[test]
    fn w3_every_operation_finds_its_own_row() {
        for spec in OPERATIONS {
            assert_eq!(spec.op.spec().name, spec.name);
            assert_eq!(Op::from_name(spec.name), Some(spec.op));
            let mut names: Vec<_> = spec.fields().map(|f| f.name).collect();
            let n = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), n, "{} names a field twice", spec.name);
            // Positional arguments of the command line come before options.
            assert!(spec.own.is_sorted_by_key(|f| !f.required), "{}", spec.name);
        }
    }

    /// The names are a promise to others: this list is written by hand.
    #[test]
    fn w3_the_operations_are_these() {
        let names: Vec<_> = OPERATIONS.iter().map(|s| s.name).collect();
        assert_eq!(
            names.join(" "),
            "ensure open_docs cancel update_file sync_file refresh_file save_olean close run_at run_with try release goals todo \
             code_action_resolve code_actions diagnostics search check snippet hover signature_help definition references document_symbols workspace_symbols init_workspace \
             list_workspaces drop_workspace stats reset_stats shutdown"
        );
    }

    #[test]
    fn lean_gets_what_is_meant_for_it() {
        let path = "A.lean".try_into().unwrap();
        let run = Operation::from(RunAt { store_handle: Some(true), ..RunAt::new(path, 1, 2, 3, "simp".to_owned()) });
        assert_eq!(Value::Object(run.lean_params()).to_string(), r#"{"text":"simp","storeHandle":true}"#);
    }
}
