//! Where a peer finds the server: the executable under its other name, a small project, the shared embedded Lean.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use beam_broker::qualify::Qualifier;
use beam_embedded::testing::{shared_embedded_for_tests, shared_env};

/// The place. Removed on drop.
pub struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    /// The executable as `lean-beam-mcp`, and a project with a proof to be found (`Good.lean`) and a warning (`Warn.lean`).
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("beam-peers-").tempdir().unwrap();
        let site = Self { dir };
        symlink(env!("CARGO_BIN_EXE_lean-beam"), site.server()).unwrap();
        std::fs::create_dir(site.root()).unwrap();
        let proof = "theorem both (p q : Prop) (hp : p) (hq : q) : p ∧ q := by\n  exact ⟨hp, hq⟩\n";
        for (name, text) in [
            // Any name will do: `--lean-cmd embedded` decides.
            ("lean-toolchain", "leanprover/lean4:v4.28.0\n"),
            ("Good.lean", proof),
            ("Warn.lean", "theorem later : 1 + 1 = 2 := sorry\n"),
        ] {
            std::fs::write(site.root().join(name), text).unwrap();
        }
        site
    }

    /// The same, with Lean made ready: installing takes a minute, and no peer waits that long.
    pub fn with_lean() -> Self {
        let _installed = shared_embedded_for_tests(&Qualifier);
        Self::new()
    }

    /// The server's executable.
    pub fn server(&self) -> PathBuf {
        self.dir.path().join("lean-beam-mcp")
    }

    /// Arguments that every project's Lean is the embedded one by.
    pub fn server_args() -> [&'static str; 2] {
        ["--lean-cmd", "embedded"]
    }

    /// The project, canonical as the server will name it.
    pub fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("project")
    }

    /// The environment in which the server finds the shared Lean.
    pub fn vars() -> Vec<(OsString, OsString)> {
        shared_env().vars().map(|(k, v)| (k.into(), v.into())).collect()
    }
}
