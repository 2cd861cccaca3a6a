//! What can go wrong with the extension.

use beam_base::AbsPath;
use beam_process::RunError;

use super::sources::SourceError;
use crate::fs::FsError;
use crate::launch::LaunchError;
use crate::store::StoreError;

/// Why there is no usable extension.
#[derive(Debug, thiserror::Error)]
pub enum ExtensionError {
    /// This program holds no compilable extension.
    #[error(transparent)]
    Sources(#[from] SourceError),
    /// Lean rejects a module.
    #[error("the Lean extension does not compile: {module}\n{output}")]
    Compile {
        /// Source path.
        module: String,
        /// What Lean printed.
        output: String,
    },
    /// Lean died on a module. Not recorded: the next try may succeed.
    #[error("Lean died while compiling the extension ({status}): {module}\n{output}")]
    Crashed {
        /// Source path.
        module: String,
        /// How it ended.
        status: String,
        /// What Lean printed.
        output: String,
    },
    /// The build has failed on this toolchain, now or earlier.
    #[error(
        "the Lean extension cannot be used on this toolchain: {reason}\nlog: {log}\n`lean-beam toolchain remove {id}` forgets the verdict, the next use tries again"
    )]
    Rejected {
        /// For people.
        reason: String,
        /// Build log.
        log: AbsPath,
        /// The store key of the rejected build.
        id: String,
    },
    /// Lean could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// No worker could be described.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The disk failed.
    #[error(transparent)]
    Fs(#[from] FsError),
}

impl ExtensionError {
    /// The part that belongs into a build log.
    pub(crate) fn output(&self) -> &str {
        match self {
            Self::Compile { output, .. } | Self::Crashed { output, .. } => output,
            _ => "",
        }
    }
}
