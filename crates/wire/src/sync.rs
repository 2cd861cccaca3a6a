//! Results of the diagnostics barrier (sync and save sections 2 to 4).

use serde::{Deserialize, Serialize};

use crate::observed::StreamDiagnostic;
use beam_base::Utf16Range;

/// User-visible diagnostics of a version by severity. `total` is derived and checked when read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "CountsWire", into = "CountsWire")]
pub struct Counts {
    /// Errors, and texts that say the barrier is incomplete.
    pub error: u64,
    /// Warnings.
    pub warning: u64,
    /// Informations.
    pub information: u64,
    /// Hints.
    pub hint: u64,
    /// Diagnostics without severity.
    pub unknown: u64,
}

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct CountsWire {
    error: u64,
    warning: u64,
    information: u64,
    hint: u64,
    unknown: u64,
    total: u64,
}

impl Counts {
    /// Sum of the five.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.error + self.warning + self.information + self.hint + self.unknown
    }
}

impl From<Counts> for CountsWire {
    fn from(c: Counts) -> Self {
        Self {
            error: c.error,
            warning: c.warning,
            information: c.information,
            hint: c.hint,
            unknown: c.unknown,
            total: c.total(),
        }
    }
}

impl TryFrom<CountsWire> for Counts {
    type Error = String;
    fn try_from(w: CountsWire) -> Result<Self, String> {
        let c =
            Self { error: w.error, warning: w.warning, information: w.information, hint: w.hint, unknown: w.unknown };
        if c.total() == w.total {
            Ok(c)
        } else {
            Err(format!("total is {}, the severities add up to {}", w.total, c.total()))
        }
    }
}

/// The diagnostics part of a sync result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Diagnostics {
    /// All of the version, whatever the scope.
    pub counts: Counts,
    /// Only when asked for; filtered by scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<StreamDiagnostic>>,
}

/// A diagnostic that blocks saving or completion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BlockingDiagnostic {
    /// Full range.
    pub range: Utf16Range,
    /// LSP number 1 to 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<u8>,
    /// Lean's words, with their lines.
    pub message: String,
    /// It keeps the document from being saved.
    pub save_blocking: bool,
    /// It keeps the barrier from completing.
    pub completion_blocking: bool,
}

/// A message without position that blocks saving.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BlockingMessage {
    /// Lean's words, with their lines.
    pub message: String,
    /// It keeps the document from being saved.
    pub save_blocking: bool,
    /// It keeps the barrier from completing.
    pub completion_blocking: bool,
}

/// The Lean side's verdict on one version; nobody overrides it (R6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Readiness {
    /// The verdict.
    pub save_ready: bool,
    /// `ok`, `documentErrors` or `documentDidNotElaborateSuccessfully`.
    pub reason: String,
    /// Zero when ready.
    pub blocking_error_count: u64,
    /// Evidence with positions.
    pub blocking_diagnostics: Vec<BlockingDiagnostic>,
    /// Evidence without.
    pub blocking_messages: Vec<BlockingMessage>,
}

/// Result of `sync_file` and `refresh_file`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SyncResult {
    /// Relative to the root, or absolute outside it.
    pub path: String,
    /// The version all of this is about.
    pub version: u64,
    /// What Lean has to say.
    pub diagnostics: Diagnostics,
    /// Whether it could be saved.
    pub readiness: Readiness,
    /// Where a `sorry` stands, in whatever form it is written; the first hundred. Only there if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sorries: Option<Vec<SorryPlace>>,
    /// How many there are, if that is more than `sorries` has.
    #[serde(rename = "sorriesTotal", default, skip_serializing_if = "Option::is_none")]
    pub sorries_total: Option<u64>,
}

/// A `sorry` in a finished text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SorryPlace {
    /// Line, from 0.
    pub line: u32,
    /// UTF-16 unit in the line, from 0.
    pub character: u32,
    /// The declaration it belongs to; an `example` has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declaration: Option<String>,
}

/// Result of `save_olean` (sync and save section 6). Paths are absolute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SaveResult {
    /// Relative to the root, or absolute outside it; the same as in `sync`.
    pub path: String,
    /// Lean module name.
    pub module: String,
    /// The version whose artifacts these are; the same as in `sync`.
    pub version: u64,
    /// Lake's hash of the source text, 16 hex digits.
    pub source_hash: String,
    /// What importers read.
    pub olean: String,
    /// References and declarations.
    pub ilean: String,
    /// C code.
    pub c: String,
    /// Lake's trace, or ours where there is no Lake.
    pub trace: String,
    /// What only servers read, of a file with a `module` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub olean_server: Option<String>,
    /// What only `import all` reads, of a file with a `module` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub olean_private: Option<String>,
    /// Code for compile time, of a file with a `module` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ir: Option<String>,
    /// LLVM bitcode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bc: Option<String>,
    /// The barrier's result that the checkpoint is based on, without items.
    pub sync: SyncResult,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_total_is_refused() {
        let good = r#"{"error":0,"warning":2,"information":0,"hint":0,"unknown":0,"total":2}"#;
        let counts: Counts = serde_json::from_str(good).unwrap();
        assert_eq!(serde_json::to_string(&counts).unwrap(), good);
        assert!(serde_json::from_str::<Counts>(&good.replace("\"total\":2", "\"total\":3")).is_err());
    }
}
