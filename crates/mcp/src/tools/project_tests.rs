//! Projections of recorded broker responses.
