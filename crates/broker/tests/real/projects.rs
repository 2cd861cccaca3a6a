//! Whole projects on real Lean: several workspaces in one process, files that import each other, staleness, checkpoints.

mod project_saves;
mod project_sources;
mod project_stale;
mod project_workspaces;
mod support;
