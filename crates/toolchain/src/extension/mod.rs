//! Builds of the Lean extension: one for each toolchain fingerprint and source hash, compiled, qualified, stored.
//!
//! Must never: use a build that has not passed (K4), or rebuild in place.

pub mod compile;
pub mod ensure;
pub mod error;
pub mod lake;
pub mod model;
pub mod sources;

pub use ensure::{Qualify, ensure_extension, find_extension, source_hash};
pub use error::ExtensionError;
pub use lake::{LakeError, LakeTarget, LakeTrace, lake_target, lake_trace};
pub use model::{Extension, Verdict};
pub use sources::{LAKE, SourceError, WORKER};
