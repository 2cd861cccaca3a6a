//! What the tests against real Lean share.

pub mod expect;
pub mod lanes;
