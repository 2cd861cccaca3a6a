//! Placeholder being filled.
