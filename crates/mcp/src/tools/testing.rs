//! What the tests of the tools share.

use beam_base::AbsPath;

/// A folder that passes for a Lean project, alive as long as the test.
pub(super) struct Project(tempfile::TempDir);

impl Project {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("lean-toolchain"), "").unwrap();
        Self(dir)
    }

    pub(super) fn root(&self) -> AbsPath {
        AbsPath::canonical(self.0.path()).unwrap()
    }
}
