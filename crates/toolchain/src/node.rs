//! Node, which runs the embedded toolchain.

use beam_base::{AbsPath, PathError};
use beam_process::HostEnv;

/// Oldest Node that has all the embedded toolchain's host needs.
pub const OLDEST_NODE: u32 = 20;

/// No Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no `node` on PATH (and LEAN_NODE names none): the embedded toolchain needs Node {OLDEST_NODE} or newer, with npm; install it from your system's packages or https://nodejs.org"
)]
pub struct NodeMissing;

/// Finds Node without running it. `LEAN_NODE` goes before PATH.
///
/// # Errors
/// There is none.
pub fn find_node(env: &HostEnv) -> Result<AbsPath, NodeMissing> {
    let node = match env.var_os("LEAN_NODE") {
        Some(node) => match AbsPath::new(node) {
            Ok(path) => Some(path),
            // The launcher gives it to the shell, so a bare name is looked up.
            Err(PathError::Relative(name)) => env.find_in_path(name.as_str()),
            Err(PathError::NotUtf8(_)) => None,
        },
        None => env.find_in_path("node"),
    };
    node.ok_or(NodeMissing)
}
