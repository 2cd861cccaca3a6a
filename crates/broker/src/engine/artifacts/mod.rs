//! What stands between a text and its artifacts: who builds what it imports, and where what is saved of it belongs.

pub(super) mod authority;
pub(super) mod imports;
mod lake;
mod own;
pub(super) mod target;
