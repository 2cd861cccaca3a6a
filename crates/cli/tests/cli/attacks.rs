//! What a cloned project, another program or a bad day does to the daemon's files and to the daemon itself.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::env::{Done, Env, eventually, runs, signal};
use crate::fake::DAEMON;
use crate::tests;

tests! {
    r10_a_pid_in_a_file_is_never_signalled
    a_planted_control_directory_is_refused
    planted_control_files_are_neither_followed_nor_waited_for
    r9_a_daemon_without_room_is_neither_gone_nor_doubled
    r9_a_stopped_daemon_is_told_and_can_be_ended
    a_request_under_way_tells_that_the_daemon_is_stopped
    strangers_on_the_port_take_no_place
    a_start_that_hangs_lets_go_of_the_lock
    a_start_without_descriptors_says_so_and_lets_go_of_the_lock
    a_renamed_root_says_so_to_requests_in_flight
}

/// Short patience, for commands that meet a daemon that does not respond.
const SHORT: (&str, &str) = ("BEAM_SILENCE_MS", "400");

fn registry_path(env: &Env) -> std::path::PathBuf {
    env.root.join(".beam/beam-daemon.json").as_path().to_owned()
}

fn refused(done: &Done, word: &str) {
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{done:?}");
    assert!(done.stderr.contains(word), "{done:?}");
}

fn r10_a_pid_in_a_file_is_never_signalled() {
    let mut stranger = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
    for replace in [false, true] {
        let env = Env::new();
        let _started = env.run(&["ensure"]);
        let pid = env.pid();
        let mut registry = env.registry().unwrap();
        registry["pid"] = stranger.id().into();
        fs::write(registry_path(&env), registry.to_string()).unwrap();
        // Both ways in which a daemon is made to end.
        let args: &[&str] = if replace { &["--toolchain", "embedded", "ensure"] } else { &["shutdown"] };
        assert_eq!(env.run(args).code, Some(0));
        assert!(runs(stranger.id().into()), "{args:?}");
        eventually("the daemon itself ends", || !runs(pid));
    }
    // One that does not answer, behind a socket that is not the control directory's: neither it nor the number is touched.
    let env = Env::new();
    let _started = env.run(&["ensure"]);
    let mut registry = env.registry().unwrap();
    let socket = env.path("other.sock");
    let _mute = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    registry["pid"] = stranger.id().into();
    registry["socket"] = socket.to_string().into();
    let pid = env.pid();
    fs::write(registry_path(&env), registry.to_string()).unwrap();
    refused(&env.run(&["shutdown"]), "end it yourself");
    assert!(runs(stranger.id().into()) && socket.exists());
    eventually("nobody finds the daemon any more, so it ends", || !runs(pid));
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

fn a_planted_control_directory_is_refused() {
    let env = Env::new();
    let elsewhere = env.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, env.root.join(".beam")).unwrap();
    refused(&env.run(&["ensure"]), "is a symbolic link; remove it: rm");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);

    fs::remove_file(env.root.join(".beam")).unwrap();
    fs::create_dir(env.root.join(".beam")).unwrap();
    fs::set_permissions(env.root.join(".beam"), fs::Permissions::from_mode(0o777)).unwrap();
    refused(&env.run(&["ensure"]), "run: chmod go-w");
    fs::set_permissions(env.root.join(".beam"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(env.run(&["ensure"]).code, Some(0));
}

fn planted_control_files_are_neither_followed_nor_waited_for() {
    type Plant<'a> = (&'a str, &'a dyn Fn(&Env, &Path));
    let plant: &[Plant] = &[
        ("beam-daemon-startup.log", &|env, at| symlink(env.path("secret"), at).unwrap()),
        ("lock", &|env, at| symlink(env.path("made"), at).unwrap()),
        ("wrapper-leases", &|env, at| symlink(env.path("elsewhere"), at).unwrap()),
        ("daemon-failures", &|env, at| symlink(env.path("elsewhere"), at).unwrap()),
        ("beam-daemon.json", &|_, at| symlink("/dev/zero", at).unwrap()),
        ("beam-daemon.json", &|env, at| symlink(env.path("secret"), at).unwrap()),
        ("beam-daemon.json", &|_, at| assert!(Command::new("mkfifo").arg(at).status().unwrap().success())),
    ];
    for (name, plant) in plant {
        let env = Env::new();
        fs::create_dir(env.root.join(".beam")).unwrap();
        fs::write(env.path("secret"), "xyzzy").unwrap();
        fs::create_dir(env.path("elsewhere")).unwrap();
        fs::write(env.path("elsewhere").join("1-1.lease"), r#"{"pid":0,"createdAt":""}"#).unwrap();
        plant(&env, env.root.join(".beam").join(name).as_path());
        for args in [&["doctor"][..], &["stats"], &["ensure"], &["update", "A.lean"], &["shutdown"]] {
            let began = Instant::now();
            let done = env.run(args);
            assert!(began.elapsed() < Duration::from_secs(30), "{name} {args:?}");
            assert!(!format!("{done:?}").contains("xyzzy"), "{name}: {done:?}");
            assert!(done.code == Some(0) || done.stderr.contains("beam: "), "{name}: {done:?}");
        }
        assert_eq!(fs::read_to_string(env.path("secret")).unwrap(), "xyzzy", "{name}");
        assert!(!env.path("made").exists(), "{name}");
        let there: Vec<_> = fs::read_dir(env.path("elsewhere")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(there, ["1-1.lease"], "{name}");
    }
}

fn r9_a_daemon_without_room_is_neither_gone_nor_doubled() {
    let env = Env::new();
    let _started = env.run(&["ensure"]);
    let pid = env.pid();
    let registry = env.registry();
    let socket = registry.as_ref().unwrap()["socket"].as_str().unwrap().to_owned();
    let held: Vec<UnixStream> = (0..300).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    for args in [&["stats"][..], &["ensure"], &["update", "A.lean"]] {
        refused(&env.run_with(&[SHORT], args), "busy: the daemon takes no more connections");
        assert_eq!(env.registry(), registry);
    }
    assert!(env.run_with(&[SHORT], &["doctor"]).stdout.contains("daemon status: not responding: busy"));
    // Asked with the usual patience it is waited for.
    let waiting = env.spawn(&["stats"]);
    std::thread::sleep(Duration::from_millis(300));
    drop(held);
    let done = env.finish(waiting.wait_with_output().unwrap());
    assert_eq!(done.json()["result"]["pid"], pid, "{done:?}");
    assert_eq!(env.registry(), registry);
}

fn r9_a_stopped_daemon_is_told_and_can_be_ended() {
    let env = Env::new();
    let _started = env.run(&["ensure"]);
    let pid = env.pid();
    let registry = env.registry();
    signal(pid, "STOP");
    for args in [&["stats"][..], &["update", "A.lean"], &["--toolchain", "embedded", "ensure"]] {
        let done = env.run_with(&[SHORT], args);
        refused(&done, &format!("the daemon (pid {pid}) has not responded for"));
        refused(&done, "`lean-beam shutdown` ends it");
        assert_eq!(env.registry(), registry);
    }
    signal(pid, "CONT");
    assert_eq!(env.pid(), pid);
    signal(pid, "STOP");
    let done = env.run(&["shutdown"]);
    assert_eq!(done.json()["result"]["reason"], "unresponsive", "{done:?}");
    assert!(!runs(pid) && env.registry().is_none());
    assert_eq!(env.run(&["ensure"]).code, Some(0));
}

fn a_request_under_way_tells_that_the_daemon_is_stopped() {
    let env = Env::new().with(SHORT.0, SHORT.1);
    let _started = env.run(&["ensure"]);
    let pid = env.pid();
    let asking = env.spawn(&["run-at", "A.lean", "1", "2", "3", "hang"]);
    eventually("it is asked", || env.stats()["active"] == 1);
    // A long request of a daemon that answers others is no silence.
    std::thread::sleep(Duration::from_millis(700));
    signal(pid, "STOP");
    std::thread::sleep(Duration::from_millis(1500));
    signal(pid, "KILL");
    let done = env.finish(asking.wait_with_output().unwrap());
    let told = done.stderr.lines().any(|l| l.contains(&format!("the daemon (pid {pid}) has not responded for")));
    assert!(told, "{done:?}");
}

fn strangers_on_the_port_take_no_place() {
    let env = Env::new();
    let _started = env.run(&["--port", "0", "ensure"]);
    let pid = env.pid();
    let port = u16::try_from(env.registry().unwrap()["port"].as_u64().unwrap()).unwrap();
    let _held: Vec<_> = (0..300).map(|_| std::net::TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    let done = env.run_with(&[SHORT], &["stats"]);
    assert_eq!(done.json()["result"]["pid"], pid, "{done:?}");
    // Those who show no token are let go in seconds, and then the port serves those who do.
    let ask = ["--port", &port.to_string(), "client", "request", r#"{"op":"open_docs"}"#].map(str::to_owned);
    let ask: Vec<&str> = ask.iter().map(String::as_str).collect();
    eventually("the port serves again", || env.run(&ask).code == Some(0));
}

fn a_start_that_hangs_lets_go_of_the_lock() {
    let env = Env::new();
    let hang = [(DAEMON, "hang"), ("BEAM_DAEMON_START_TIMEOUT_MS", "300")];
    refused(&env.run_with(&hang, &["ensure"]), "it was not ready within 300 ms");
    // The starter's end does not leave the lock with a daemon that will never be ready.
    let mut starter = env.command(&["ensure"]).envs(hang).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the daemon is being started", || env.root.join(".beam/beam-daemon-startup.log").exists());
    starter.kill().unwrap();
    starter.wait().unwrap();
    assert_eq!(env.run_with(&[("BEAM_CONTROL_LOCK_TIMEOUT_MS", "10000")], &["ensure"]).code, Some(0));
}

fn a_start_without_descriptors_says_so_and_lets_go_of_the_lock() {
    let env = Env::new();
    let mut worked = false;
    for limit in (6..40).step_by(2) {
        let ensure = env.command(&["ensure"]);
        let mut limited = Command::new("/bin/sh");
        limited
            .args(["-c", &format!("ulimit -n {limit}; exec \"$0\" ensure")])
            .arg(ensure.get_program())
            .current_dir(&env.root)
            .env_clear()
            .envs(ensure.get_envs().filter_map(|(k, v)| Some((k, v?))))
            .stdin(Stdio::null());
        let began = Instant::now();
        let done = env.finish(limited.output().unwrap());
        assert!(began.elapsed() < Duration::from_secs(30), "{limit}: {done:?}");
        worked = done.code == Some(0);
        assert!(worked || !done.stderr.is_empty(), "{limit}: {done:?}");
        if worked {
            break;
        }
        let lock = [("BEAM_CONTROL_LOCK_TIMEOUT_MS", "1000")];
        let done = env.run_with(&lock, &["shutdown"]);
        assert_eq!(done.code, Some(0), "the lock is free after {limit}: {done:?}");
    }
    assert!(worked);
}

fn a_renamed_root_says_so_to_requests_in_flight() {
    let env = Env::new();
    let _started = env.run(&["ensure"]);
    let pid = env.pid();
    let asking = env.spawn(&["run-at", "A.lean", "1", "2", "3", "hang"]);
    eventually("it is asked", || env.stats()["active"] == 1);
    fs::rename(&env.root, env.path("moved")).unwrap();
    let done = env.finish(asking.wait_with_output().unwrap());
    assert!(format!("{done:?}").contains("was renamed, removed or replaced"), "{done:?}");
    assert_eq!(done.json()["error"]["code"], "contentModified");
    eventually("the daemon ends", || !runs(pid));
    fs::rename(env.path("moved"), &env.root).unwrap();
}
