//! An interrupt at a terminal, which reaches the program and not its children's groups: this test binary again, in a process that is
//! interrupted while it waits for a child.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use beam_base::AbsPath;
use beam_process::{HostEnv, Run, end_on_interrupt};
use rustix::process::{Pid, Signal, kill_process};

const CHILD: &str = "LEAN_BEAM_TEST_INTERRUPTED";
const LIMIT: Duration = Duration::from_secs(30);

/// Not a test by itself: what the other test interrupts.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(CHILD) else {
        return;
    };
    end_on_interrupt();
    let env = HostEnv::capture();
    let script = "trap '' TERM; sh -c 'echo $$ >pid.new; mv pid.new pid; sleep 600' & wait; sleep 600";
    let dir = AbsPath::new(dir).unwrap();
    let run = Run::new(&env.find_in_path("sh").unwrap(), &dir).args(["-c", script]).limit(LIMIT * 4);
    panic!("not interrupted: {:?}", run.capture(&env));
}

/// G2, for a program that is interrupted.
#[test]
fn an_interrupt_ends_the_children_too() {
    let tmp = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--test-threads=1"])
        .env(CHILD, tmp.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let pid = tmp.path().join("pid");
    while !pid.is_file() {
        assert!(begun.elapsed() < LIMIT, "it does not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let grandchild = std::fs::read_to_string(pid).unwrap();
    let exe = Path::new("/proc").join(grandchild.trim()).join("exe");
    let begun = Instant::now();
    while exe.exists() {
        assert!(begun.elapsed() < LIMIT, "the grandchild is still running");
        std::thread::sleep(Duration::from_millis(5));
    }
}
