//! Ground that every other crate stands on: absolute paths, text positions, JSON-RPC envelopes, framings, cancellation.
//!
//! Must never know a domain word: nothing here has heard of proofs, toolchains or workspaces.
//!
//! Invariants:
//! * **B1** an [`AbsPath`] is absolute from construction.
//! * **B2** UTF-16, byte and display positions are different types and are converted in [`pos`] only.
//! * **B3** framing never panics on any input and never buffers more than its cap.
//! * **B4** request ids round-trip exactly as spelled; `1` is not `"1"`.

pub mod cancel;
pub mod frame;
pub mod path;
pub mod pos;
pub mod random;
pub mod rpc;
pub mod uri;

pub use cancel::{CancelToken, Deadline};
pub use path::{AbsPath, PathError};
pub use pos::{ByteOffset, DisplayPos, LineIndex, Utf16Pos, Utf16Range};
