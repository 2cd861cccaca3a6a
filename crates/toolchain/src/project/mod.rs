//! Projects: their configuration as far as it can be read without Lake, and a small builder for toolchains that have no Lake.
mod config;
mod header;
mod layout;
mod name;

pub use config::{ConfigError, LeanOption, OptionValue};
pub use header::{Header, Import, imports_of};
pub use layout::{ConfigKind, ConfigStamp, Module, Project};
pub use name::ModuleName;
