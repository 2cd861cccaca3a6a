//! The operation table (broker protocol section 4). W3: everything that lists operations reads it from here.

use crate::field::{self, Field};

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

macro_rules! operations {
    ($($variant:ident $name:literal $scope:ident backend=$backend:literal tracked=$tracked:literal
        [$($req:ident)*] [$($opt:ident)*] $doc:literal;)*) => {
        /// An operation of the broker.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Op { $(#[doc = $doc] $variant,)* }

        /// Every operation, in the order in which help and statistics list them.
        pub const OPERATIONS: &[OpSpec] = &[
            $(OpSpec {
                op: Op::$variant, name: $name, scope: Scope::$scope, backend: $backend, tracked: $tracked,
                required: &[$(field::$req),*], optional: &[$(field::$opt),*], summary: $doc,
            },)*
        ];
    };
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
    /// Fields that must be there.
    pub required: &'static [Field],
    /// Fields that may be there, beside the envelope's own.
    pub optional: &'static [Field],
    /// One line for people.
    pub summary: &'static str,
}

operations! {
    Ensure "ensure" Workspace backend=true tracked=true [] [ROOT] "Start the session of a workspace if it is not running.";
    OpenDocs "open_docs" Optional backend=false tracked=false [] [ROOT] "List the documents that are open, and whether they match the disk.";
    Cancel "cancel" Process backend=false tracked=false [CANCEL_REQUEST_ID] [] "Cancel an active request by its client request id.";
    UpdateFile "update_file" Workspace backend=true tracked=true [PATH] [ROOT] "Read the saved file and hand it to Lean; answers with its version at once.";
    SyncFile "sync_file" Workspace backend=true tracked=true [PATH] [ROOT DIAGNOSTIC_SCOPE DIAGNOSTICS_IN_RESULT] "Wait until Lean has checked the whole file; counts its diagnostics and says whether it is ready to be saved.";
    RefreshFile "refresh_file" Workspace backend=true tracked=true [PATH] [ROOT DIAGNOSTIC_SCOPE DIAGNOSTICS_IN_RESULT] "Close the file, open it anew with fresh imports, then sync.";
    SaveOlean "save_olean" Workspace backend=true tracked=true [PATH] [ROOT DIAGNOSTIC_SCOPE] "Sync, then write the build artifacts of exactly that text, so that importers see it without a rebuild.";
    Close "close" Workspace backend=true tracked=true [PATH] [ROOT DIAGNOSTIC_SCOPE SAVE_ARTIFACTS] "Forget the file and end its worker.";
    RunAt "run_at" Workspace backend=true tracked=true [PATH VERSION LINE CHARACTER TEXT] [ROOT STORE_HANDLE] "Try one tactic or command at a position, without touching the file.";
    RunWith "run_with" Workspace backend=true tracked=true [PATH HANDLE TEXT] [ROOT STORE_HANDLE LINEAR] "Try one tactic or command from the state that a handle holds.";
    Release "release" Workspace backend=true tracked=true [PATH HANDLE] [ROOT] "Forget a handle.";
    Goals "goals" Workspace backend=true tracked=true [PATH VERSION LINE CHARACTER] [ROOT MODE TEXT] "The goals before or after the tactic at a position.";
    Todo "todo" Workspace backend=true tracked=true [PATH VERSION LINE CHARACTER END_LINE END_CHARACTER] [ROOT KINDS SUGGEST] "What is unfinished in a range: sorries, holes, diagnostics, code actions, open goals.";
    CodeActionResolve "code_action_resolve" Workspace backend=true tracked=true [PATH VERSION CODE_ACTION] [ROOT] "The edit behind a code action that todo listed; nothing is applied.";
    Hover "hover" Workspace backend=true tracked=true [PATH VERSION LINE CHARACTER] [ROOT] "Type and documentation of what stands at a position.";
    SignatureHelp "signature_help" Workspace backend=true tracked=true [PATH VERSION LINE CHARACTER] [ROOT] "Signature of the application at a position.";
    Definition "definition" Workspace backend=true tracked=true [PATH VERSION LINE CHARACTER] [ROOT] "Where what stands at a position is defined.";
    References "references" Workspace backend=true tracked=true [PATH VERSION LINE CHARACTER] [ROOT INCLUDE_DECLARATION] "Where what stands at a position is used, in every file that is open or built.";
    DocumentSymbols "document_symbols" Workspace backend=true tracked=true [PATH VERSION] [ROOT] "Declarations of the file.";
    WorkspaceSymbols "workspace_symbols" Workspace backend=true tracked=true [QUERY] [ROOT] "Declarations of the workspace whose name matches a query.";
    InitWorkspace "init_workspace" Workspace backend=false tracked=true [ROOT] [WORKSPACE_MODE LEAN_CMD ROCQ_CMD] "Add a workspace, or check or replace one that is there.";
    ListWorkspaces "list_workspaces" Process backend=false tracked=false [] [] "The workspaces of this process.";
    DropWorkspace "drop_workspace" Workspace backend=false tracked=true [] [] "Forget a workspace and end everything that was started for it; its handles are gone.";
    Stats "stats" Optional backend=false tracked=false [] [ROOT] "Counters of sessions and operations.";
    ResetStats "reset_stats" Process backend=false tracked=false [] [] "Set all counters to zero.";
    Shutdown "shutdown" Process backend=false tracked=false [] [] "Stop the daemon and everything it started.";
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

impl OpSpec {
    /// Every key the operation accepts beside `op`.
    pub fn fields(&self) -> impl Iterator<Item = Field> + '_ {
        let envelope = [
            Some(field::CLIENT_REQUEST_ID),
            (self.scope != Scope::Process).then_some(field::WORKSPACE_ID),
            self.backend.then_some(field::BACKEND),
        ];
        envelope.into_iter().flatten().chain(self.required.iter().copied()).chain(self.optional.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        }
    }
}
