//! What a child and its children can do to a run, with real processes. Times here are bounds of "at once" against "for ever": the
//! children sleep for minutes.

use super::*;
use std::path::Path;

/// Long for a test and short for a child that sleeps for ten minutes.
const AT_ONCE: Duration = Duration::from_secs(30);

struct Shell {
    tmp: tempfile::TempDir,
    env: HostEnv,
}

impl Shell {
    fn new() -> Self {
        Self { tmp: tempfile::tempdir().unwrap(), env: HostEnv::capture() }
    }

    fn run(&self, script: &str) -> Run {
        let dir = AbsPath::new(self.tmp.path()).unwrap();
        Run::new(&self.env.find_in_path("sh").unwrap(), &dir).args(["-c", script]).set("SET", "yes").limit(AT_ONCE * 2)
    }

    fn sh(&self, script: &str) -> Result<Done, RunError> {
        self.run(script).capture(&self.env)
    }

    /// The number that a process has written into a file; waits for it.
    fn pid(&self, file: &str) -> u32 {
        let path = self.tmp.path().join(file);
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if let Some(pid) = text.strip_suffix('\n') {
                return pid.parse().unwrap();
            }
            assert!(begun.elapsed() < AT_ONCE, "{file} was not written");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Waits until a killed process is gone. One that nobody has waited for yet is gone, too.
fn gone(pid: u32) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < AT_ONCE {
        let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        if matches!(state, None | Some('Z' | 'X')) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

#[test]
fn output_status_and_environment() {
    let done = Shell::new().sh("echo $SET; echo err >&2; exit 3").unwrap();
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("yes\n", "err\n"));
    assert_eq!(done.status.code(), Some(3));
    assert_eq!(done.both(), "yes\nerr\n");
}

#[test]
fn a_talkative_child_is_not_blocked() {
    let done = Shell::new().sh("head -c 9000000 /dev/zero; echo end >&2").unwrap();
    assert_eq!(done.stdout.len(), CAP);
    assert_eq!(done.stderr, "end\n");
}

/// What was written last before the end must not be lost, though nobody waits for the pipes to close.
#[test]
fn all_that_the_child_wrote_is_there() {
    let shell = Shell::new();
    for _ in 0..50 {
        let done = shell.sh("head -c 60000 /dev/zero; echo last; echo last >&2").unwrap();
        assert_eq!((done.stdout.len(), done.stderr.as_str()), (60_005, "last\n"));
    }
}

/// G1: `doctor` hung on a `lean` whose background child printed on.
#[test]
fn g1_a_grandchild_that_keeps_printing_is_not_waited_for() {
    let shell = Shell::new();
    let begun = Instant::now();
    let done = shell.sh("(while :; do echo on; done) & echo $! >pid; echo mine; exit 0").unwrap();
    assert!(done.ok() && done.stdout.contains("mine"));
    assert!(begun.elapsed() < AT_ONCE);
    assert!(gone(shell.pid("pid")), "G2: it is killed with its group");
}

/// G1: a silent one cost two seconds.
#[test]
fn g1_a_silent_grandchild_is_not_waited_for() {
    let shell = Shell::new();
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let begun = Instant::now();
        assert_eq!(shell.sh("sleep 600 & echo $! >pid; echo mine").unwrap().stdout, "mine\n");
        best = best.min(begun.elapsed());
        assert!(gone(shell.pid("pid")), "G2: it is killed with its group");
    }
    assert!(best < Duration::from_secs(1), "{best:?}");
}

/// G1: even one that has left the group and cannot be killed with it.
#[test]
fn g1_a_grandchild_in_a_session_of_its_own_is_not_waited_for() {
    let shell = Shell::new();
    let begun = Instant::now();
    let script = "setsid sh -c 'echo $$ >pid; exec sleep 600' & while [ ! -s pid ]; do :; done; echo mine";
    assert_eq!(shell.sh(script).unwrap().stdout, "mine\n");
    assert!(begun.elapsed() < AT_ONCE);
    ProcessGroup::led_by(shell.pid("pid")).unwrap().kill();
}

/// G1: output is no sign of life that counts.
#[test]
fn g1_output_does_not_extend_the_deadline() {
    let shell = Shell::new();
    let begun = Instant::now();
    let e = shell.run("while :; do echo on; done").limit(Duration::from_millis(300)).capture(&shell.env).unwrap_err();
    assert!(matches!(e, RunError::TimedOut { .. }), "{e}");
    assert!(begun.elapsed() < AT_ONCE);
}

/// G2: as `lake env lean`, where only `lake` was killed.
#[test]
fn g2_a_deadline_kills_the_grandchildren() {
    let shell = Shell::new();
    let begun = Instant::now();
    let limit = Duration::from_secs(2);
    let e = shell.run("sleep 600 & echo $! >pid; wait").limit(limit).capture(&shell.env).unwrap_err();
    assert!(matches!(e, RunError::TimedOut { .. }), "{e}");
    assert!(begun.elapsed() < AT_ONCE);
    assert!(gone(shell.pid("pid")));
}

/// G2: neither may ignoring SIGTERM keep anyone alive.
#[test]
fn g2_whoever_wants_it_no_more_gets_all_of_it_killed() {
    let shell = Shell::new();
    let run =
        shell.run("trap '' TERM; sh -c 'trap \"\" TERM; echo $$ >pid; while :; do sleep 600; done' & wait; sleep 600");
    let pid = std::cell::Cell::new(0);
    let stop = || {
        pid.set(shell.pid("pid"));
        true
    };
    let asked = std::cell::Cell::new(false);
    let e = run.capture_until(&shell.env, &|| asked.replace(true) && stop()).unwrap_err();
    assert!(matches!(e, RunError::Stopped { .. }), "{e}");
    assert!(gone(pid.get()));
}

/// SIGTERM first: a program may have something to clear away.
#[test]
fn a_stopped_child_may_clear_up() {
    let shell = Shell::new();
    let run = shell.run("trap 'echo cleared >left; exit' TERM; echo $$ >pid; while :; do sleep 0.01; done");
    let asked = std::cell::Cell::new(false);
    let stop = || asked.replace(true) && shell.pid("pid") > 0;
    run.capture_until(&shell.env, &stop).unwrap_err();
    assert_eq!(std::fs::read_to_string(shell.tmp.path().join("left")).unwrap(), "cleared\n");
}

/// G2: the caller's own callback may panic.
#[test]
fn g2_a_panic_leaves_nothing_running() {
    let shell = Shell::new();
    let run = shell.run("sleep 600 & echo $! >pid; echo mine; wait");
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        run.capture_with(&shell.env, &mut |_| panic!("planted"))
    }));
    assert!(caught.is_err());
    assert!(gone(shell.pid("pid")));
}

#[test]
fn an_environment_that_ends_takes_its_children_with_it() {
    let shell = Shell::new();
    let derived = shell.env.clone().with("X", "1");
    let run = shell.run("echo $$ >pid; exec sleep 600");
    let waiting = std::thread::spawn(move || run.capture(&derived));
    let pid = shell.pid("pid");
    shell.env.end_children();
    assert!(matches!(waiting.join().unwrap(), Err(RunError::Stopped { .. })));
    assert!(gone(pid));
    // None is started from now on.
    assert!(matches!(shell.sh("echo x >started"), Err(RunError::Stopped { .. })));
    assert!(!shell.tmp.path().join("started").exists());
}

/// A flag stops what was derived with it, and nothing else.
#[test]
fn a_stop_flag_ends_the_children_of_its_environment_only() {
    let shell = Shell::new();
    let stop = crate::StopOnDrop::default();
    let theirs = shell.env.clone().stopped_by(stop.flag());
    let run = shell.run("echo $$ >pid; exec sleep 600");
    let waiting = std::thread::spawn(move || run.capture(&theirs));
    let pid = shell.pid("pid");
    drop(stop);
    assert!(matches!(waiting.join().unwrap(), Err(RunError::Stopped { .. })));
    assert!(gone(pid));
    assert!(shell.sh("true").unwrap().ok());
}
