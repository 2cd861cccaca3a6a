//! Operations on a document as a whole: handing it to Lean, the barrier, saving, closing.

use serde::{Deserialize, Serialize};

use crate::field::{NonEmpty, choices, fields};
use crate::sync::SaveResult;

choices! {
    /// Which diagnostics are shown (sync and save, section 2).
    DiagnosticScope {
        /// Errors, or only the texts of an incomplete barrier where there are any.
        Errors = "errors",
        /// Everything that is not silent.
        All = "all",
    }
}

fields! {
    /// Read the saved file and hand it to Lean; answers with its version at once.
    UpdateFile {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    }
    /// Wait until Lean has checked the whole file; counts its diagnostics and says whether it is ready to be saved.
    SyncFile {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    optional
    /// Which diagnostics are shown.
    diagnostic_scope "diagnosticScope": DiagnosticScope [default "\"errors\""],
    /// Put the diagnostics of the scope into the result.
    diagnostics_in_result "diagnosticsInResult": bool [note "as diagnostics.items"],
    }
    /// Close the file, open it anew with fresh imports, then sync.
    RefreshFile {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    optional
    /// Which diagnostics are shown.
    diagnostic_scope "diagnosticScope": DiagnosticScope [default "\"errors\""],
    /// Put the diagnostics of the scope into the result.
    diagnostics_in_result "diagnosticsInResult": bool [note "as diagnostics.items"],
    }
    /// Sync, then write the build artifacts of exactly that text, so that importers see it without a rebuild.
    SaveOlean {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    optional
    /// Which diagnostics are shown.
    diagnostic_scope "diagnosticScope": DiagnosticScope [default "\"errors\""],
    }
    /// Forget the file and end its worker.
    Close {
    /// The file, absolute or relative to the root.
    path "path": NonEmpty,
    optional
    /// Which diagnostics are shown while it is saved.
    diagnostic_scope "diagnosticScope": DiagnosticScope [default "\"errors\""],
    /// Save the build artifacts first.
    save_artifacts "saveArtifacts": bool,
    }
}

/// A document's version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Updated {
    /// The version that positions are about now.
    pub version: u64,
    /// Whether Lean was sent an open or a change.
    pub changed: bool,
}

/// A document that is closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Closed {
    /// Always true.
    pub closed: bool,
    /// What was saved first, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<SaveResult>,
}
