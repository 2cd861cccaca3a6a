//! A toolchain, as it was found.

use beam_base::AbsPath;

use crate::fingerprint::Fingerprint;
use crate::store::Entry;

/// How a `lean-toolchain` file names the version that the embedded toolchain is.
pub const EMBEDDED_NAME: &str = "leanprover/lean4:v4.28.0-pre";

/// What sort of Lean it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolchainKind {
    /// An ordinary Lean for this machine.
    Native,
    /// Lean as WebAssembly under Node: no Lake, no child processes, public part of the library only.
    Embedded,
}

/// Where a toolchain was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolchainOrigin {
    /// elan has it.
    Elan {
        /// Its full name in elan.
        channel: String,
    },
    /// `lean` on PATH.
    Path,
    /// An embedded one, for want of a native one ([`Toolchain::notice`] says so).
    EmbeddedFallback,
    /// The caller asked for this one.
    Explicit,
}

/// A usable toolchain.
#[derive(Debug, Clone)]
pub struct Toolchain {
    /// Its sort.
    pub kind: ToolchainKind,
    /// Store key of an embedded one, else [`Fingerprint::short`].
    pub id: String,
    /// The `lean` to run.
    pub lean: AbsPath,
    /// Its `lake`, if it has one.
    pub lake: Option<AbsPath>,
    /// Lean's version, e.g. `4.28.0`.
    pub version: String,
    /// The folder above `bin`.
    pub prefix: AbsPath,
    /// Where its library is.
    pub lib_dir: AbsPath,
    /// Key of extension builds.
    pub fingerprint: Fingerprint,
    /// Where it was found.
    pub found: ToolchainOrigin,
    /// One line that the user should see, if the choice is not what they might expect.
    pub notice: Option<String>,
    /// The store entry of an embedded one.
    pub entry: Option<Entry>,
}

impl Toolchain {
    /// The toolchain of a store entry.
    #[must_use]
    pub fn of_entry(entry: Entry, found: ToolchainOrigin) -> Self {
        Self {
            kind: ToolchainKind::Embedded,
            id: entry.id.clone(),
            lean: entry.lean(),
            lake: None,
            version: entry.manifest.lean_version.clone(),
            prefix: entry.dir.clone(),
            lib_dir: entry.dir.join("lib/lean"),
            fingerprint: entry.manifest.fingerprint.clone(),
            found,
            notice: None,
            entry: Some(entry),
        }
    }
}

/// `4.28.0-pre` of `Lean (version 4.28.0-pre, …)`.
#[must_use]
pub fn parse_banner(banner: &str) -> Option<String> {
    let rest = banner.strip_prefix("Lean (version ")?;
    let version = rest.split([',', ')']).next()?;
    version.starts_with("4.").then(|| version.trim().to_owned())
}
