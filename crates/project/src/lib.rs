//! Projects: their configuration as far as it can be read without Lake, and a small builder for toolchains that have no Lake.
//!
//! Owns: which module a file is and which file a module is, what a text imports, and the artifacts that the builder makes or that a
//! file worker has saved.
//!
//! Must never: write a source, write outside of build folders, or guess what a `lakefile.lean` says.

mod builder;
mod compile;
mod config;
mod layout;
mod native;
mod outcome;
mod plan;
mod report;
mod run;
mod save;
mod source;
mod stamp;
mod trace;

pub use builder::{Builder, ModuleStatus};
pub use config::{ConfigError, LeanOption, OptionValue};
pub use layout::{ConfigKind, Module, Project};
pub use native::{NativeBuild, native_needs_build};
pub use outcome::{Basis, BuildError, BuildOutcome, BuildPermission, Ensured, FailedModule, NeedsBuild, refusal};
pub use plan::Why;
pub use save::{SaveError, Saving};
pub use stamp::ConfigStamp;
