//! What everybody needs to know of Lean's formats: module names, the header of a source text, text hashes, reference data.
//!
//! The ground floor beside `beam-base`: pure functions of texts. Must never touch files, the clock or a process, and never know who asks.

pub mod header;
pub mod ilean;
pub mod module_name;
pub mod text_hash;

pub use header::{Header, Import, imports_of};
pub use module_name::ModuleName;
pub use text_hash::{denormalize_newlines, lake_text_hash, lean_text_hash, normalize_newlines};
