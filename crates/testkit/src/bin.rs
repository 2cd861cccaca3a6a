//! Where the helper executables are. Cargo builds a dependency's library but not its executables, so they are built on demand.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The path of `scripted-peer`, freshly built with the profile and target folder of the running test.
///
/// # Panics
/// If it cannot be built; the message holds what cargo said.
#[must_use]
pub fn scripted_peer() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(build).clone()
}

fn build() -> PathBuf {
    // The running test is `<target>/<profile>/deps/name-hash`.
    let this = std::env::current_exe().unwrap_or_default();
    let profile_dir = this.ancestors().nth(2).map(PathBuf::from).unwrap_or_default();
    let target_dir = profile_dir.parent().map(PathBuf::from).unwrap_or_default();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--quiet", "--offline", "-p", "testkit", "--bin", "scripted-peer"])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_dir);
    if profile_dir.ends_with("release") {
        cargo.arg("--release");
    }
    let output = cargo.output().unwrap_or_else(|error| panic!("cannot run cargo to build scripted-peer: {error}"));
    assert!(
        output.status.success(),
        "cannot build scripted-peer; try `cargo build -p testkit --bin scripted-peer`:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    profile_dir.join("scripted-peer")
}
