//! A build of the extension.

use beam_base::AbsPath;

/// Name of the log in the build's folder.
pub(crate) const LOG: &str = "build.log";

/// Whether a build may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Passed its conformance set on this toolchain.
    Qualified,
    /// Being qualified; only what [`Qualify`] is given is ever in this state.
    Pending,
    /// Failed, and why.
    Rejected(String),
}

/// A compiled extension.
#[derive(Debug, Clone)]
pub struct Extension {
    /// Hash of its sources.
    pub source_hash: String,
    /// Its folder, to be on the worker's `LEAN_PATH`.
    pub dir: AbsPath,
    /// Whether it may be used.
    pub verdict: Verdict,
    /// What Lean printed when it was built.
    pub log: AbsPath,
}

impl Extension {
    pub(crate) fn new(source_hash: &str, dir: &AbsPath, verdict: Verdict) -> Self {
        Self { source_hash: source_hash.to_owned(), log: dir.join(LOG), dir: dir.clone(), verdict }
    }
}
