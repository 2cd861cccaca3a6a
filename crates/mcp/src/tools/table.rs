//! The MCP table: every tool in the order of `tools/list`. Arguments are not here; they are the operation's fields (see
//! [`ToolOperation`]).

use beam_wire::Op;
use beam_wire::answer::AnswerType;
use beam_wire::ask::{CodeActions, DiagnosticsOf};
use beam_wire::document::Close;
use beam_wire::field::{Field, named};
use beam_wire::run::{RunAt, RunWith, TryTexts};
use beam_wire::todo::{GoalsAt, TodoIn};

/// Which way a call goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolKind {
    /// `beam_version`
    Version,
    /// `beam_stats`
    Stats,
    /// `beam_feedback_report`
    Feedback,
    /// `lean_drop_workspace`
    DropWorkspace,
    /// One operation of the broker.
    Operation,
}

/// Which events a call may show. What is not admitted here is dropped, whatever the broker sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProgressPolicy {
    /// One preparation update, with a token.
    pub preparation: bool,
    /// Lake setup lines: throttled updates with a token; without one, the first is a reason for `beam.status`.
    pub setup_lines: bool,
    /// File progress, with a token.
    pub file_progress: bool,
    /// `beam.status` when the call is slow, without a token.
    pub status: bool,
    /// `lean.diagnostic` logs.
    pub diagnostics: bool,
}

const QUIET: ProgressPolicy =
    ProgressPolicy { preparation: false, setup_lines: false, file_progress: false, status: false, diagnostics: false };
const PREPARATION: ProgressPolicy = ProgressPolicy { preparation: true, status: true, ..QUIET };
const FILE: ProgressPolicy = ProgressPolicy { file_progress: true, ..PREPARATION };
const RUN: ProgressPolicy = ProgressPolicy { setup_lines: true, ..FILE };
const BARRIER: ProgressPolicy = ProgressPolicy { diagnostics: true, ..RUN };

/// The one hint a tool gives, if any. Hints are advice to clients; a hint that is not here keeps the protocol's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolHint {
    /// No `annotations`.
    None,
    /// `readOnlyHint: true`
    ReadOnly,
    /// `destructiveHint: false`
    Additive,
    /// `idempotentHint: true`
    Idempotent,
}

/// How a tool sees an operation. Its arguments are the operation's own fields but those that are fixed or hidden, spelled in snake case.
#[derive(Debug)]
pub(crate) struct ToolOperation {
    /// The operation.
    pub op: Op,
    /// Flags that the tool itself sets.
    pub fixed: &'static [(Field, bool)],
    /// Optional fields that are not offered.
    pub hidden: &'static [Field],
    /// Optional fields that the tool insists on.
    pub required: &'static [Field],
    /// Fields with a name of their own.
    pub renamed: &'static [(Field, &'static str)],
}

/// A tool.
#[derive(Debug)]
pub(crate) struct Tool {
    /// Name.
    pub name: &'static str,
    /// Which way it goes.
    pub kind: ToolKind,
    /// Which events may occur.
    pub progress: ProgressPolicy,
    /// Annotation.
    pub hint: ToolHint,
    /// What it does, in words for an agent.
    pub about: &'static str,
    /// The operation behind it; `Some` exactly for [`ToolKind::Operation`].
    pub operation: Option<&'static ToolOperation>,
}

impl Tool {
    /// It runs the caller's text; a search does with its pattern, which is elaborated.
    pub(crate) fn is_speculative(&self) -> bool {
        let runs =
            |answer| matches!(answer, AnswerType::Run | AnswerType::Tries | AnswerType::Snippet | AnswerType::Search);
        self.operation.is_some_and(|o| runs(o.op.spec().answer))
    }

    /// Lean's words are in its result: messages, traces, diagnostics.
    pub(crate) fn tells_messages(&self) -> bool {
        self.operation.is_some_and(|o| match o.op.spec().answer {
            AnswerType::Run
            | AnswerType::Sync
            | AnswerType::Saved
            | AnswerType::Todo
            | AnswerType::Diagnostics
            | AnswerType::Snippet => true,
            // A file that is saved first.
            AnswerType::Closed => !o.fixed.is_empty(),
            _ => false,
        })
    }

    /// Its result has no bound of its own.
    pub(crate) fn is_large(&self) -> bool {
        let lists = |answer| {
            matches!(
                answer,
                AnswerType::Goals
                    | AnswerType::Tries
                    | AnswerType::Search
                    | AnswerType::Check
                    | AnswerType::CodeActions
                    | AnswerType::CodeAction
                    | AnswerType::Lsp
            )
        };
        self.tells_messages() || self.operation.is_some_and(|o| lists(o.op.spec().answer))
    }
}

/// The tool of that name.
pub(crate) fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|t| t.name == name)
}

const fn utility(
    name: &'static str,
    kind: ToolKind,
    hint: ToolHint,
    progress: ProgressPolicy,
    about: &'static str,
) -> Tool {
    Tool { name, kind, progress, hint, about, operation: None }
}

const fn lean(
    name: &'static str,
    hint: ToolHint,
    progress: ProgressPolicy,
    about: &'static str,
    operation: &'static ToolOperation,
) -> Tool {
    Tool { name, kind: ToolKind::Operation, progress, hint, about, operation: Some(operation) }
}

const fn plain(op: Op) -> ToolOperation {
    ToolOperation { op, fixed: &[], hidden: &[], required: &[], renamed: &[] }
}

const RUN_AT: ToolOperation = ToolOperation { hidden: &[named(RunAt::FIELDS, "storeHandle")], ..plain(Op::RunAt) };
const RUN_AT_HANDLE: ToolOperation =
    ToolOperation { fixed: &[(named(RunAt::FIELDS, "storeHandle"), true)], ..plain(Op::RunAt) };
const RUN_WITH: ToolOperation = ToolOperation {
    fixed: &[(named(RunWith::FIELDS, "storeHandle"), true), (named(RunWith::FIELDS, "linear"), false)],
    ..plain(Op::RunWith)
};
const RUN_WITH_LINEAR: ToolOperation = ToolOperation {
    fixed: &[(named(RunWith::FIELDS, "storeHandle"), true), (named(RunWith::FIELDS, "linear"), true)],
    ..plain(Op::RunWith)
};
/// Without handles: a hint holds of every call of a tool, and this one is read-only as `lean_run_at` is. Who wants to go on from the
/// candidate that won runs it once more with `lean_run_at_handle`.
const TRY: ToolOperation = ToolOperation { hidden: &[named(TryTexts::FIELDS, "storeHandle")], ..plain(Op::TryTexts) };
const SEARCH: ToolOperation = plain(Op::Search);
const CHECK: ToolOperation = plain(Op::Check);
const SNIPPET: ToolOperation = plain(Op::Snippet);
const CODE_ACTIONS: ToolOperation =
    ToolOperation { renamed: &[(named(CodeActions::FIELDS, "line"), "start_line")], ..plain(Op::CodeActions) };
const DIAGNOSTICS: ToolOperation =
    ToolOperation { renamed: &[(named(DiagnosticsOf::FIELDS, "line"), "start_line")], ..plain(Op::DiagnosticsOf) };
const HOVER: ToolOperation = plain(Op::Hover);
const SIGNATURE_HELP: ToolOperation = plain(Op::SignatureHelp);
const DEFINITION: ToolOperation = plain(Op::Definition);
const REFERENCES: ToolOperation = plain(Op::References);
const DOCUMENT_SYMBOLS: ToolOperation = plain(Op::DocumentSymbols);
const WORKSPACE_SYMBOLS: ToolOperation = plain(Op::WorkspaceSymbols);
/// `text` is for another prover.
const GOALS: ToolOperation = ToolOperation {
    hidden: &[named(GoalsAt::FIELDS, "text")],
    required: &[named(GoalsAt::FIELDS, "mode")],
    ..plain(Op::Goals)
};
const TODO: ToolOperation = ToolOperation {
    renamed: &[(named(TodoIn::FIELDS, "line"), "start_line"), (named(TodoIn::FIELDS, "character"), "start_character")],
    ..plain(Op::Todo)
};
const CODE_ACTION_RESOLVE: ToolOperation = plain(Op::CodeActionResolve);
const RELEASE: ToolOperation = plain(Op::Release);
const UPDATE: ToolOperation = plain(Op::UpdateFile);
const SYNC: ToolOperation = plain(Op::SyncFile);
const REFRESH: ToolOperation = plain(Op::RefreshFile);
const SAVE: ToolOperation = plain(Op::SaveOlean);
const CLOSE_SAVE: ToolOperation =
    ToolOperation { fixed: &[(named(Close::FIELDS, "saveArtifacts"), true)], ..plain(Op::Close) };
const CLOSE: ToolOperation = ToolOperation {
    hidden: &[named(Close::FIELDS, "saveArtifacts"), named(Close::FIELDS, "diagnosticScope")],
    ..plain(Op::Close)
};

/// Every tool, in the order of `tools/list`.
pub(crate) const TOOLS: &[Tool] = &[
    utility(
        "beam_version",
        ToolKind::Version,
        ToolHint::ReadOnly,
        QUIET,
        "Identity of this server: version, preferred MCP revision, executable, whether a Lean runtime is active.",
    ),
    utility(
        "beam_stats",
        ToolKind::Stats,
        ToolHint::ReadOnly,
        QUIET,
        "Debug counters of every workspace this process has cached. Not a way to choose a workspace.",
    ),
    utility(
        "beam_feedback_report",
        ToolKind::Feedback,
        ToolHint::None,
        PREPARATION,
        "Beam does not upload or submit anything: this returns a report about a problem with Beam itself as Markdown. bundle also writes \
         files under the project's .beam/feedback. confidential collects nothing from the project.",
    ),
    utility(
        "lean_drop_workspace",
        ToolKind::DropWorkspace,
        ToolHint::Idempotent,
        PREPARATION,
        "Forget a workspace's Lean processes and handles: after changes to lakefile, manifest, lean-toolchain, Lean options or plugins. \
         Runs after all earlier calls and before later ones.",
    ),
    lean(
        "lean_run_at",
        ToolHint::ReadOnly,
        RUN,
        "Run one tactic in a proof, or one command elsewhere, at a position; see messages and remaining goals. success: accepted; goals []: \
         solved, unless caveats says what stays open. success false: rejected, see messages, at (what stands there) and hint. \
         proof_state null: not in a proof.",
        &RUN_AT,
    ),
    lean(
        "lean_run_at_handle",
        ToolHint::Additive,
        RUN,
        "As lean_run_at; a success may carry next_handle, the state reached, for lean_run_with. lean_release it when done.",
        &RUN_AT_HANDLE,
    ),
    lean("lean_hover", ToolHint::ReadOnly, FILE, "Type and documentation of what stands at a position.", &HOVER),
    lean(
        "lean_signature_help",
        ToolHint::ReadOnly,
        FILE,
        "Signature of the application at a position.",
        &SIGNATURE_HELP,
    ),
    lean("lean_definition", ToolHint::ReadOnly, FILE, "Where what stands at a position is defined.", &DEFINITION),
    lean(
        "lean_references",
        ToolHint::ReadOnly,
        FILE,
        "Where what stands at a position is used, in all files open or built.",
        &REFERENCES,
    ),
    lean("lean_document_symbols", ToolHint::ReadOnly, FILE, "Declarations of a file.", &DOCUMENT_SYMBOLS),
    lean(
        "lean_workspace_symbols",
        ToolHint::ReadOnly,
        PREPARATION,
        "Declarations of the workspace whose name matches a query.",
        &WORKSPACE_SYMBOLS,
    ),
    lean(
        "lean_goals",
        ToolHint::ReadOnly,
        FILE,
        "Goals before or after the tactic at a position; an error outside proofs. both: also the expected_type of a term. Runs nothing.",
        &GOALS,
    ),
    lean(
        "lean_diagnostics",
        ToolHint::ReadOnly,
        RUN,
        "Diagnostics of a version, filtered by severity, lines or text; total counts all. Waits, and fails, as lean_sync does.",
        &DIAGNOSTICS,
    ),
    lean(
        "lean_search",
        ToolHint::ReadOnly,
        FILE,
        "Declarations in scope, of the file and its imports, by name, constants or pattern; give at least one. next: there is more.",
        &SEARCH,
    ),
    lean(
        "lean_check",
        ToolHint::ReadOnly,
        FILE,
        "Is it proved? verdict on a declaration (by name or position) or the whole file: errors, sorry, unsafe, axioms (unusual ones), \
         proved; and what it rests on, imports included.",
        &CHECK,
    ),
    lean(
        "lean_todo",
        ToolHint::ReadOnly,
        FILE,
        "What is unfinished in a range, or in the whole file: sorries, holes, diagnostics, code actions, open goals. Try fixes at \
         run_at_position. Waits for the whole file.",
        &TODO,
    ),
    lean(
        "lean_code_actions",
        ToolHint::ReadOnly,
        FILE,
        "Lean's code actions of some lines, such as Try this, each with its edit. Nothing is applied.",
        &CODE_ACTIONS,
    ),
    lean(
        "lean_code_action_resolve",
        ToolHint::ReadOnly,
        FILE,
        "The edit behind a code_action of lean_todo, passed unchanged: the client applies any WorkspaceEdit.",
        &CODE_ACTION_RESOLVE,
    ),
    lean(
        "lean_run_with",
        ToolHint::Additive,
        FILE,
        "Try one tactic or command from a handle's state. The handle stays usable for other branches; a success may carry next_handle.",
        &RUN_WITH,
    ),
    lean(
        "lean_run_with_linear",
        ToolHint::None,
        FILE,
        "As lean_run_with, but the handle is used up, whatever comes of it.",
        &RUN_WITH_LINEAR,
    ),
    lean(
        "lean_try",
        ToolHint::ReadOnly,
        RUN,
        "Compare up to 64 texts at a position or from a handle, each run as lean_run_at would; one line each: outcome (solved, goals, ok, \
         failed, error, stopped) and message. solved: index of one that leaves no goals and no caveats; first stops there.",
        &TRY,
    ),
    lean(
        "lean_snippet",
        ToolHint::ReadOnly,
        RUN,
        "Run several commands with a file's imports only, as a file that is never on disk; positions are in the text. success: no error; \
         a sorry is a warning.",
        &SNIPPET,
    ),
    lean("lean_release", ToolHint::None, FILE, "Forget a handle and its state.", &RELEASE),
    lean(
        "lean_update",
        ToolHint::None,
        PREPARATION,
        "Read the on-disk source and hand it to Lean; answers at once with the version that position tools need. Do it after each edit; \
         lean_sync also waits for diagnostics.",
        &UPDATE,
    ),
    lean(
        "lean_sync",
        ToolHint::None,
        BARRIER,
        "Read the saved source and wait until Lean has checked the whole file: diagnostic counts, sorries, and in readiness what blocks a \
         save (a sorry does not). Never applies speculative text. A check that cannot complete is an error, never clean.",
        &SYNC,
    ),
    lean(
        "lean_refresh",
        ToolHint::None,
        BARRIER,
        "For stale imports: close the file, read the on-disk source with fresh imports, then as lean_sync.",
        &REFRESH,
    ),
    lean(
        "lean_save",
        ToolHint::None,
        BARRIER,
        "Sync, then write Lean/Lake build artifacts of that text, so that importers see it. A development checkpoint, not a batch-build or \
         CI success.",
        &SAVE,
    ),
    lean(
        "lean_close_save",
        ToolHint::None,
        BARRIER,
        "As lean_save, which writes Lean/Lake build artifacts, then close the file.",
        &CLOSE_SAVE,
    ),
    lean("lean_close", ToolHint::Idempotent, PREPARATION, "Forget a file, its Lean process and handles.", &CLOSE),
];

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
