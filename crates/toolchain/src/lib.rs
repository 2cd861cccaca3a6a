//! Toolchains: which one a project uses, what it is, and the store of what we make for it.
//!
//! Owns: project root rules, toolchain discovery and fingerprints, the lists of supported toolchains, builds of the Lean extension and
//! their recorded verdicts, the content-addressed store.
//!
//! Must never: speak LSP, start a server, print, write into a project, or know how the embedded toolchain is made: it reads the store's
//! entry of one.
//!
//! * **K1** keys derive from canonical roots and fingerprints, never from a client's choice.
//! * **K2** discovery reads and reports where it found things; it never installs.
//! * **K3** store entries are immutable; publishing is one rename.
//! * **K4** an extension build is ready only after it passed its conformance set on that very toolchain. The caller runs the set
//!   ([`Qualify`]), the store records the verdict.

pub mod discovery;
mod elan;
pub mod extension;
#[cfg(test)]
mod fake_lean;
mod fingerprint;
pub mod fs;
pub mod killpoint;
pub mod launch;
pub mod lock;
pub mod model;
pub mod node;
pub mod progress;
mod release;
pub mod root;
pub mod store;
pub mod support;
#[cfg(any(test, feature = "test-support"))]
pub mod testing;

pub use beam_process::{HostEnv, RunError, env};
pub use discovery::{Choice, ResolveError, resolve, wanted};
pub use elan::{Decider, Wanted};
pub use extension::{Extension, ExtensionError, Qualify, Verdict, ensure_extension};
pub use fingerprint::Fingerprint;
pub use launch::{LaunchError, WorkerLaunch, worker_launch};
pub use model::{EMBEDDED_NAME, Toolchain, ToolchainKind, ToolchainOrigin};
pub use progress::{Progress, Silent};
pub use release::Release;
pub use store::{Entry, Store, StoreError};
