//! Programs for tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use beam_base::AbsPath;
use beam_process::HostEnv;

/// Puts an executable script into `bin`, and `bin` at the head of PATH.
///
/// # Panics
/// If the file cannot be written.
#[must_use]
pub fn with_program(env: &HostEnv, bin: &AbsPath, name: &str, script: &str) -> HostEnv {
    // Of its own for each call: threads of one test binary ask at the same time.
    static SERIAL: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let serial = SERIAL.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    fs::create_dir_all(bin).expect("a folder for fake programs");
    // By rename: another thread may be about to execute the one that is there.
    let tmp = bin.join(format!(".{name}.{}-{serial}", std::process::id()));
    fs::write(&tmp, script).expect("write a fake program");
    fs::set_permissions(&tmp, PermissionsExt::from_mode(0o755)).expect("make it executable");
    fs::rename(&tmp, bin.join(name)).expect("put it in place");
    let old = env.var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = std::iter::once(bin.as_path().to_path_buf())
        .chain(std::env::split_paths(old).filter(|d| d != bin.as_path()))
        .collect();
    let path = std::env::join_paths(dirs).expect("folders without colons");
    env.clone().with("PATH", path)
}
