//! The CLI's verbs, derived from operations (cli section 2; W3).
//!
//! A verb's positional arguments are the operation's required fields, in the table's order; its options are the optional ones. Only what
//! differs from that is said here.

use crate::field::Field;
use crate::operation::Op;

/// Whether a verb may start a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Daemon {
    /// Started when none runs.
    Start,
    /// Only a running one is asked; its absence is an error.
    Existing,
}

/// A verb that is one operation.
#[derive(Debug)]
pub struct VerbSpec {
    /// What the user types.
    pub name: &'static str,
    /// What is asked of the broker.
    pub op: Op,
    /// Optional fields that are positional here, before all others.
    pub leading: &'static [&'static str],
    /// Optional fields that are positional here, behind all others, and may be left out there too.
    pub trailing: &'static [&'static str],
    /// Fields the verb itself sets.
    pub fixed: &'static [(&'static str, bool)],
    /// Optional fields that the verb does not offer.
    pub hidden: &'static [&'static str],
    /// Progress and diagnostics are shown while it waits, and an interrupt cancels it.
    pub waits: bool,
    /// Whether it starts a daemon.
    pub daemon: Daemon,
    /// What it does beyond the operation's summary.
    pub more: &'static str,
}

const fn verb(name: &'static str, op: Op) -> VerbSpec {
    VerbSpec {
        name,
        op,
        leading: &[],
        trailing: &[],
        fixed: &[],
        hidden: &[],
        waits: true,
        daemon: Daemon::Start,
        more: "",
    }
}

/// Answers at once: nothing is shown meanwhile.
const fn quick(name: &'static str, op: Op) -> VerbSpec {
    VerbSpec { waits: false, ..verb(name, op) }
}

/// Asks a daemon that runs, and starts none.
const fn existing(name: &'static str, op: Op) -> VerbSpec {
    VerbSpec { daemon: Daemon::Existing, ..quick(name, op) }
}

const NEW_HANDLE: &str = "Keeps the state under a new handle.";

/// Every verb that is one operation, in help order.
pub const VERBS: &[VerbSpec] = &[
    quick("ensure", Op::Ensure),
    quick("update", Op::UpdateFile),
    VerbSpec { hidden: &["diagnosticsInResult"], ..verb("sync", Op::SyncFile) },
    VerbSpec { hidden: &["diagnosticsInResult"], ..verb("refresh", Op::RefreshFile) },
    verb("save", Op::SaveOlean),
    VerbSpec { hidden: &["saveArtifacts", "diagnosticScope"], ..quick("close", Op::Close) },
    VerbSpec {
        fixed: &[("saveArtifacts", true)],
        more: "Saves it first, as `save` does.",
        ..verb("close-save", Op::Close)
    },
    VerbSpec { hidden: &["storeHandle"], ..verb("run-at", Op::RunAt) },
    VerbSpec { fixed: &[("storeHandle", true)], more: NEW_HANDLE, ..verb("run-at-handle", Op::RunAt) },
    VerbSpec { fixed: &[("storeHandle", true), ("linear", false)], more: NEW_HANDLE, ..verb("run-with", Op::RunWith) },
    VerbSpec {
        fixed: &[("storeHandle", true), ("linear", true)],
        more: "Keeps the state under a new handle. The old handle is used up, whatever happens.",
        ..verb("run-with-linear", Op::RunWith)
    },
    verb("try", Op::TryTexts),
    quick("release", Op::Release),
    VerbSpec { leading: &["mode"], hidden: &["text"], ..verb("goals", Op::Goals) },
    verb("hover", Op::Hover),
    verb("signature-help", Op::SignatureHelp),
    verb("definition", Op::Definition),
    verb("references", Op::References),
    verb("document-symbols", Op::DocumentSymbols),
    verb("workspace-symbols", Op::WorkspaceSymbols),
    VerbSpec { trailing: &["line", "character", "endLine", "endCharacter"], ..verb("todo", Op::Todo) },
    verb("code-action-resolve", Op::CodeActionResolve),
    verb("code-actions", Op::CodeActions),
    verb("diagnostics", Op::DiagnosticsOf),
    verb("search", Op::Search),
    verb("check", Op::Check),
    verb("snippet", Op::Snippet),
    existing("open-files", Op::OpenDocs),
    existing("stats", Op::Stats),
    existing("reset-stats", Op::ResetStats),
    existing("cancel", Op::Cancel),
];

impl VerbSpec {
    /// The verb of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<&'static Self> {
        VERBS.iter().find(|v| v.name == name)
    }

    /// Positional arguments, in order.
    pub fn positional(&self) -> impl Iterator<Item = Field> + '_ {
        let own = self.op.spec().own;
        let leading = self.leading.iter().filter_map(|name| own.iter().copied().find(|f| f.name == *name));
        let trailing = self.trailing.iter().filter_map(|name| own.iter().copied().find(|f| f.name == *name));
        leading.chain(self.op.spec().required()).chain(trailing)
    }

    /// Options, in the table's order.
    pub fn options(&self) -> impl Iterator<Item = Field> + '_ {
        self.op.spec().optional().filter(|f| {
            let name = &f.name;
            !self.leading.contains(name)
                && !self.trailing.contains(name)
                && !self.hidden.contains(name)
                && !self.fixed.iter().any(|(n, _)| n == name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::OPERATIONS;

    /// W3: every operation has a verb. Shutdown has one with a life of its own in the CLI; a daemon of the CLI's serves one project, so
    /// the operations on workspaces are for those who speak the protocol.
    #[test]
    fn w3_every_operation_has_a_verb() {
        const WITHOUT: [Op; 4] = [Op::Shutdown, Op::InitWorkspace, Op::ListWorkspaces, Op::DropWorkspace];
        for spec in OPERATIONS {
            let has = VERBS.iter().any(|v| v.op == spec.op) != WITHOUT.contains(&spec.op);
            assert!(has, "{} has no verb", spec.name);
        }
    }

    /// Names of fields in this table are names of fields.
    #[test]
    fn w3_verbs_name_fields_of_their_operation() {
        for verb in VERBS {
            let names = verb
                .leading
                .iter()
                .chain(verb.trailing)
                .chain(verb.hidden)
                .chain(verb.fixed.iter().map(|(name, _)| name));
            for name in names {
                assert!(verb.op.spec().optional().any(|f| f.name == *name), "{}: {name}", verb.name);
            }
        }
    }

    #[test]
    fn arguments_and_options() {
        let shown = |name: &str| {
            let verb = VerbSpec::from_name(name).unwrap();
            let list = |fields: Vec<Field>| fields.iter().map(|f| f.name).collect::<Vec<_>>().join(" ");
            format!("{} | {}", list(verb.positional().collect()), list(verb.options().collect()))
        };
        assert_eq!(shown("run-at"), "path version line character text | kernel goals state");
        assert_eq!(shown("goals"), "mode path version line character | goals state explain");
        assert_eq!(shown("todo"), "path version line character endLine endCharacter | kinds suggest");
        assert_eq!(shown("sync"), "path | diagnosticScope");
    }
}
