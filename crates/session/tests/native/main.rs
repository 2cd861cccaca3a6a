//! The session on a real native Lean, 4.35.0, and its own file worker without any extension.
//!
//! Semantics are tested on the embedded Lean, which has a library. This one has none, so all files here begin with `prelude` and
//! define what they need; what is tested is everything around a worker: the protocol of another release, processes, signals, memory.
//! A worker takes a tenth of a second to start and about 0.12 GB.

mod answers;
mod builds;
mod deaths;
mod edits;
mod stage;
