//! Sizes, cuts and their statements.
