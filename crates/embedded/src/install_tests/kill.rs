//! Installs in a process of their own, which is killed.
//!
//! The process is this test binary again, told by a variable to run the one test that installs.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::fixture::Fixture;
use super::{super::kill_points_of_an_install, fixture};

const CHILD: &str = "LEAN_BEAM_TEST_CHILD";
/// Where the child writes how its install ended.
const RESULT: &str = "result";

/// Not a test by itself: what the processes of the other tests run.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(CHILD) else {
        return;
    };
    let dir = Path::new(&dir);
    let result = match Fixture::open(dir).install() {
        Ok(entry) => entry.id,
        Err(e) => e.to_string(),
    };
    fs::write(dir.join(RESULT), result).unwrap();
}

fn command(f: &Fixture, shell: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", &format!("{shell} exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "install::tests::kill::child", "--test-threads=1"])
        .env(CHILD, f.dir.as_os_str())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Runs an install whose files cannot grow beyond some 30 KB, and returns what it says.
pub fn install_with_file_limit(f: &Fixture) -> String {
    // The signal is ignored, so that the write fails instead. Some shells count half kilobytes, some whole ones.
    let status = command(f, "trap '' XFSZ; ulimit -f 32;").status().unwrap();
    assert!(status.success());
    fs::read_to_string(f.dir.join(RESULT)).unwrap()
}

/// Starts an install that stops at the point, and waits until it is there.
fn park(f: &Fixture, point: &str) -> Child {
    let mark = f.dir.join("mark");
    let mut child = command(f, "")
        .env("LEAN_BEAM_TEST_PARK", point)
        .env("LEAN_BEAM_TEST_PARK_MARK", mark.as_os_str())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !mark.exists() {
        assert!(child.try_wait().unwrap().is_none(), "{point} was not reached");
        assert!(begun.elapsed() < Duration::from_secs(60), "{point} was not reached in time");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// K3: killed at any point, an install leaves nothing that is used, and the next one succeeds and leaves nothing else.
#[test]
fn k3_killed_anywhere_the_next_install_succeeds() {
    for point in kill_points_of_an_install() {
        let (_tmp, f) = fixture();
        let mut child = park(&f, point);
        child.kill().unwrap();
        child.wait().unwrap();
        let published = *point == "published";
        assert_eq!(f.store.list().len(), usize::from(published), "{point}");
        assert!(f.store.broken().is_empty(), "{point}");
        let entry = f.install().unwrap();
        if published {
            // There was nothing to do, so the lock was not taken; whoever takes it next sweeps.
            drop(f.store.lock("install", "testing", Duration::ZERO, &f.env, |_| {}).unwrap());
        }
        f.assert_clean(&entry);
    }
}

/// While the first install is alive, a second one does not sweep its work away, and gives up with the owner's name in the end.
#[test]
fn a_living_install_is_not_swept() {
    let (_tmp, f) = fixture();
    let mut child = park(&f, "unpacked");
    let before = f.leftovers();
    assert_eq!(before.len(), 1);
    let e = f.store.lock("install", "testing", Duration::from_millis(50), &f.env, |_| {}).unwrap_err().to_string();
    assert!(e.contains("installing the embedded toolchain"), "{e}");
    assert_eq!(f.leftovers(), before);
    child.kill().unwrap();
    child.wait().unwrap();
}
