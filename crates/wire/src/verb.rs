//! The CLI's verbs, derived from operations (cli section 2; W3).

use crate::op::Op;

/// One argument of a verb, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arg {
    /// `PATH`: made absolute against the caller's directory.
    Path,
    /// `VERSION`.
    Version,
    /// `LINE`.
    Line,
    /// `CHARACTER`.
    Character,
    /// `END_LINE`.
    EndLine,
    /// `END_CHARACTER`.
    EndCharacter,
    /// `before|after`.
    Mode,
    /// `HANDLE`: inline JSON, `-` or `--handle-file PATH`.
    Handle,
    /// `TEXT`: `--stdin`, `--text-file PATH`, `-- words`, `words`. Always last.
    Text,
    /// `WORDS…`: a symbol query. Always last.
    Query,
    /// A JSON object, or `-`.
    CodeAction,
    /// A request id.
    RequestId,
    /// `[lean|rocq]`.
    Backend,
    /// `[+all-diagnostics]`.
    AllDiagnostics,
    /// `[--include-declaration|--exclude-declaration]`.
    Declaration,
    /// `[--kind K ...]`.
    TodoKinds,
    /// `[--suggest none|basic]`.
    Suggest,
    /// `[--hold]`.
    Hold,
}

impl Arg {
    /// How usage lines spell it.
    #[must_use]
    pub fn usage(self) -> &'static str {
        match self {
            Self::Path => "PATH",
            Self::Version => "VERSION",
            Self::Line => "LINE",
            Self::Character => "CHARACTER",
            Self::EndLine => "END_LINE",
            Self::EndCharacter => "END_CHARACTER",
            Self::Mode => "before|after",
            Self::Handle => "HANDLE",
            Self::Text => "TEXT",
            Self::Query => "QUERY...",
            Self::CodeAction => "ACTION-JSON|-",
            Self::RequestId => "REQUEST-ID",
            Self::Backend => "[lean|rocq]",
            Self::AllDiagnostics => "[+all-diagnostics]",
            Self::Declaration => "[--include-declaration|--exclude-declaration]",
            Self::TodoKinds => "[--kind K ...]",
            Self::Suggest => "[--suggest none|basic]",
            Self::Hold => "[--hold]",
        }
    }
}

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
    /// Arguments in order.
    pub args: &'static [Arg],
    /// Fields the verb itself sets.
    pub fixed: &'static [(&'static str, bool)],
    /// Progress and diagnostics are shown while it waits, and an interrupt cancels it.
    pub waits: bool,
    /// Whether it starts a daemon.
    pub daemon: Daemon,
}

use Arg::{
    AllDiagnostics, Backend, Character, CodeAction, Declaration, EndCharacter, EndLine, Handle, Hold, Line, Mode, Path,
    Query, RequestId, Suggest, Text, TodoKinds, Version,
};

const fn verb(name: &'static str, op: Op, args: &'static [Arg], waits: bool) -> VerbSpec {
    VerbSpec { name, op, args, fixed: &[], waits, daemon: Daemon::Start }
}

const fn fixed(mut spec: VerbSpec, fields: &'static [(&'static str, bool)]) -> VerbSpec {
    spec.fixed = fields;
    spec
}

const fn existing(mut spec: VerbSpec) -> VerbSpec {
    spec.daemon = Daemon::Existing;
    spec
}

/// Every verb that is one operation, in help order.
pub const VERBS: &[VerbSpec] = &[
    verb("ensure", Op::Ensure, &[Backend, Hold], false),
    verb("update", Op::UpdateFile, &[Path], false),
    verb("sync", Op::SyncFile, &[Path, AllDiagnostics], true),
    verb("refresh", Op::RefreshFile, &[Path, AllDiagnostics], true),
    verb("save", Op::SaveOlean, &[Path, AllDiagnostics], true),
    verb("close", Op::Close, &[Path], false),
    fixed(verb("close-save", Op::Close, &[Path, AllDiagnostics], true), &[("saveArtifacts", true)]),
    verb("run-at", Op::RunAt, &[Path, Version, Line, Character, Text], true),
    fixed(verb("run-at-handle", Op::RunAt, &[Path, Version, Line, Character, Text], true), &[("storeHandle", true)]),
    fixed(verb("run-with", Op::RunWith, &[Path, Handle, Text], true), &[("storeHandle", true), ("linear", false)]),
    fixed(
        verb("run-with-linear", Op::RunWith, &[Path, Handle, Text], true),
        &[("storeHandle", true), ("linear", true)],
    ),
    verb("release", Op::Release, &[Path, Handle], false),
    verb("goals", Op::Goals, &[Mode, Path, Version, Line, Character], true),
    verb("hover", Op::Hover, &[Path, Version, Line, Character], true),
    verb("signature-help", Op::SignatureHelp, &[Path, Version, Line, Character], true),
    verb("definition", Op::Definition, &[Path, Version, Line, Character], true),
    verb("references", Op::References, &[Path, Version, Line, Character, Declaration], true),
    verb("document-symbols", Op::DocumentSymbols, &[Path, Version], true),
    verb("workspace-symbols", Op::WorkspaceSymbols, &[Query], true),
    verb("todo", Op::Todo, &[Path, Version, Line, Character, EndLine, EndCharacter, TodoKinds, Suggest], true),
    verb("code-action-resolve", Op::CodeActionResolve, &[Path, Version, CodeAction], true),
    existing(verb("open-files", Op::OpenDocs, &[], false)),
    existing(verb("stats", Op::Stats, &[], false)),
    existing(verb("reset-stats", Op::ResetStats, &[], false)),
    existing(verb("cancel", Op::Cancel, &[RequestId], false)),
];

impl VerbSpec {
    /// The verb of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<&'static Self> {
        VERBS.iter().find(|v| v.name == name)
    }

    /// `run-at PATH VERSION LINE CHARACTER TEXT`
    #[must_use]
    pub fn usage(&self) -> String {
        let mut out = self.name.to_owned();
        for arg in self.args {
            out.push(' ');
            out.push_str(arg.usage());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::OPERATIONS;

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

    #[test]
    fn usage_lines() {
        assert_eq!(VerbSpec::from_name("run-at").unwrap().usage(), "run-at PATH VERSION LINE CHARACTER TEXT");
        assert_eq!(VerbSpec::from_name("goals").unwrap().usage(), "goals before|after PATH VERSION LINE CHARACTER");
    }
}
