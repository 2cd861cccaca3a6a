//! The project's own checks. Depends on nothing of ours, so that it can judge all of it.

pub mod drift;
pub mod mutants;
pub mod tidy;
