//! Toolchains: which one a project uses, what it is, and the store of what we make for it.
//!
//! Owns: project root rules, toolchain discovery and fingerprints, admission lists, builds of the Lean extension and their recorded
//! verdicts, the installer of the embedded toolchain, the content-addressed store; what a project consists of, and the builder for
//! toolchains without Lake.
//!
//! Must never: speak LSP, start a server, print, or write into a project anywhere but into its build folders.
//!
//! * **K1** keys derive from canonical roots and fingerprints, never from a client's choice.
//! * **K2** discovery reads and reports where it found things; it never installs.
//! * **K3** store entries are immutable; publishing is one rename.
//! * **K4** an extension build is ready only after it passed its conformance set on that very toolchain. The caller runs the set
//!   ([`Qualify`]), the store records the verdict.

pub mod admission;
mod elan;
pub mod embedded;
pub mod env;
pub mod extension;
#[cfg(test)]
mod fake_lean;
mod killpoint;
pub mod launch;
pub mod lock;
mod process;
pub mod progress;
pub mod project;
pub mod root;
pub mod store;
#[cfg(any(test, feature = "test-support"))]
pub mod testing;
pub mod toolchain;

pub use elan::{Decider, Wanted};
pub use env::HostEnv;
pub use extension::{Extension, ExtensionError, Qualify, Verdict, ensure_extension};
pub use launch::{LaunchError, WorkerLaunch, worker_launch};
pub use process::RunError;
pub use progress::{Progress, Silent};
pub use store::{Entry, Store, StoreError};
pub use toolchain::{Choice, Fingerprint, Found, Kind, ResolveError, Toolchain, resolve};
