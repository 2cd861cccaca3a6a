//! The daemon's life as its clients see it: one per root, reused, replaced, lost, stopped.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use expect_test::expect;
use serde_json::json;

use crate::env::{Env, eventually, runs, signal};
use crate::fake::{DAEMON, PREPARE};
use crate::tests;

tests! {
    r8_one_daemon_for_twenty_first_commands
    one_daemon_per_root_and_it_is_reused
    another_configuration_replaces_the_daemon
    commands_that_start_nothing
    r7_shutdown_twice
    r8_a_dead_daemon_is_replaced_whatever_its_pid_does
    a_daemon_lost_under_way_is_an_incident
    a_held_lock_is_waited_for_and_its_owner_named
    a_daemon_that_dies_at_its_start_shows_its_log
    nothing_is_started_without_a_lean
    a_removed_root_ends_its_daemon
    an_idle_daemon_ends
    hold_stays_until_interrupted
    the_starter_outlasts_its_siblings
    the_control_directory_can_be_elsewhere
    d4_tcp_only_on_request_and_with_the_token
    the_daemon_has_left_its_starters_session
    termination_cleans_up
}

fn r8_one_daemon_for_twenty_first_commands() {
    let env = Env::new();
    let children: Vec<_> = (0..20).map(|_| env.spawn(&["update", "A.lean"])).collect();
    for child in children {
        let done = env.finish(child.wait_with_output().unwrap());
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let pid = env.pid();
    let daemons: Vec<u64> = processes(env.root.as_path().to_str().unwrap());
    assert_eq!(daemons, [pid]);
}

/// Pids of daemons that run for a root.
fn processes(root: &str) -> Vec<u64> {
    let all = fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u64>().ok());
    all.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|b| *b == 0).collect();
        words.contains(&b"daemon".as_slice()) && words.contains(&root.as_bytes()) && runs(*pid)
    })
    .collect()
}

fn one_daemon_per_root_and_it_is_reused() {
    let (one, two) = (Env::new(), Env::new());
    for env in [&one, &two] {
        let _started = env.run(&["ensure"]);
    }
    let pid = one.pid();
    let _again = one.run(&["update", "A.lean"]);
    assert_eq!(one.pid(), pid);
    assert_ne!(two.pid(), pid);
    let registry = one.registry().unwrap();
    assert_eq!(registry["pid"], pid);
    assert_eq!(registry["root"], one.root.to_string());
    let hash = registry["configHash"].as_str().unwrap();
    assert_eq!(registry["daemonId"], format!("{}-{pid}", &hash[..12]));
    assert_eq!(fs::metadata(one.root.join(".beam/beam-daemon.json")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(one.root.join(".beam/.gitignore")).unwrap(), "*\n");
    // Settings of a running daemon are not changed behind the back of those who use it.
    let done = one.run(&["--port", "1", "--idle", "7", "ensure"]);
    assert_eq!(done.code, Some(0));
    expect![[r#"
        beam: note: --port 1 has no effect: the running daemon keeps its settings; `lean-beam shutdown` first
        beam: note: --idle 7 has no effect: the running daemon keeps its settings; `lean-beam shutdown` first
    "#]]
    .assert_eq(&done.stderr);
}

fn another_configuration_replaces_the_daemon() {
    let env = Env::new();
    let _started = env.run(&["ensure"]);
    let first = env.pid();
    let done = env.run(&["--toolchain", "embedded", "update", "A.lean"]);
    assert_eq!(done.json()["result"]["choice"], "Embedded");
    let second = env.pid();
    assert_ne!(first, second);
    assert!(!runs(first), "the old one is stopped before the command ends");
    // The variable says the same as the option, so the daemon stays.
    let _same = env.run_with(&[("BEAM_TOOLCHAIN", "embedded")], &["ensure"]);
    assert_eq!(env.pid(), second);
    fs::write(env.root.join("lean-toolchain"), "leanprover/lean4:v4.29.0\n").unwrap();
    let _other = env.run_with(&[("BEAM_TOOLCHAIN", "embedded")], &["ensure"]);
    assert_ne!(env.pid(), second);
}

fn commands_that_start_nothing() {
    let env = Env::new();
    for args in [&["stats"][..], &["open-files"], &["reset-stats"], &["cancel", "q"]] {
        expect![[r#"
            --- stderr
            beam: no live daemon is registered for $ROOT
            --- exit 1
        "#]]
        .assert_eq(&env.run(args).snapshot());
    }
    assert!(!env.root.join(".beam").exists());

    // A stale registry is told about, recorded and taken away.
    let _started = env.run(&["ensure"]);
    let pid = env.pid();
    signal(pid, "KILL");
    eventually("it is dead", || !runs(pid));
    let done = env.run(&["stats"]);
    assert!(done.stderr.contains(&format!("pid {pid} (not alive)")), "{done:?}");
    assert!(done.stderr.contains("-noLiveDaemon.json"), "{done:?}");
    assert_eq!(env.registry(), None);
}

fn r7_shutdown_twice() {
    let env = Env::new();
    let _started = env.run(&["ensure"]);
    let pid = env.pid();
    expect![[r#"
        --- stdout
        {
          "ok": true,
          "result": {
            "shutdown": true
          }
        }
        --- exit 0
    "#]]
    .assert_eq(&env.run(&["shutdown"]).snapshot());
    assert!(!runs(pid) && env.registry().is_none());
    assert_eq!(fs::read_dir(env.root.join(".beam/run")).unwrap().count(), 0);
    expect![[r#"
        --- stdout
        {
          "result": {
            "reason": "notFound",
            "shutdown": false
          }
        }
        --- exit 0
    "#]]
    .assert_eq(&env.run(&["shutdown"]).snapshot());
}

fn r8_a_dead_daemon_is_replaced_whatever_its_pid_does() {
    let env = Env::new();
    let _started = env.run(&["ensure"]);
    let pid = env.pid();
    signal(pid, "KILL");
    eventually("it is dead", || !runs(pid));
    // The number lives on in another process: ours.
    let mut registry = env.registry().unwrap();
    registry["pid"] = std::process::id().into();
    fs::write(env.root.join(".beam/beam-daemon.json"), registry.to_string()).unwrap();
    assert_eq!(env.run(&["update", "A.lean"]).code, Some(0));
    assert_ne!(env.pid(), pid);
}

fn a_daemon_lost_under_way_is_an_incident() {
    let env = Env::new();
    let done = env.run(&["run-at", "A.lean", "1", "2", "3", "die"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""));
    assert!(done.stderr.contains("closed the connection before it answered"), "{done:?}");
    assert!(done.stderr.contains("daemon: ") && done.stderr.contains("-connectionClosed.json"), "{done:?}");
    assert_eq!(env.run(&["update", "A.lean"]).code, Some(0));
}

fn a_held_lock_is_waited_for_and_its_owner_named() {
    let env = Env::new();
    fs::create_dir(env.root.join(".beam")).unwrap();
    let lock = File::create(env.root.join(".beam/lock")).unwrap();
    lock.lock().unwrap();
    fs::write(env.root.join(".beam/lock.owner"), json!({ "pid": 1, "pidNamespace": "pid:[7]" }).to_string()).unwrap();
    let limit = [("BEAM_CONTROL_LOCK_TIMEOUT_MS", "150")];
    for args in [&["ensure"][..], &["shutdown"]] {
        let done = env.run_with(&limit, args);
        assert!(done.stderr.contains("held by pid 1 (limit 150 ms"), "{done:?}");
        assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""));
    }
    // Whoever waits long enough gets it.
    let waiting = env.spawn(&["ensure"]);
    drop(lock);
    assert_eq!(env.finish(waiting.wait_with_output().unwrap()).code, Some(0));
    // A running daemon is found without the lock.
    let lock = File::open(env.root.join(".beam/lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(env.run_with(&limit, &["update", "A.lean"]).code, Some(0));
}

fn a_daemon_that_dies_at_its_start_shows_its_log() {
    let env = Env::new();
    let done = env.run_with(&[(DAEMON, "fail")], &["ensure"]);
    assert!(done.stderr.contains("the daemon ended before it was ready"), "{done:?}");
    assert!(done.stderr.contains("told to die before being ready"), "{done:?}");
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""));
    assert_eq!(env.registry(), None);
    // The lock that the dead one had inherited is free.
    assert_eq!(env.run(&["ensure"]).code, Some(0));
}

fn nothing_is_started_without_a_lean() {
    let env = Env::new();
    let done = env.run_with(&[(PREPARE, "fail")], &["update", "A.lean"]);
    expect![[r#"
        --- stderr
        beam: told to find no Lean
        --- exit 1
    "#]]
    .assert_eq(&done.snapshot());
    assert!(processes(env.root.as_path().to_str().unwrap()).is_empty());

    // It is looked for once, by whoever starts the daemon.
    let record = env.path("prepared").to_string();
    for _ in 0..3 {
        let _done = env.run_with(&[(PREPARE, &record)], &["update", "A.lean"]);
    }
    assert_eq!(fs::read_to_string(&record).unwrap(), format!("{} Auto\n", env.root));
}

fn a_removed_root_ends_its_daemon() {
    let env = Env::new();
    let _started = env.run(&["ensure"]);
    let pid = env.pid();
    let root = env.root.to_string();
    fs::remove_dir_all(&env.root).unwrap();
    eventually("the daemon ends", || !runs(pid));
    let done = env.run_in(&env.path(""), &["--root", &root, "stats"]);
    assert!(done.stderr.contains("does not resolve") && done.code == Some(1), "{done:?}");
    fs::create_dir(&env.root).unwrap();
}

fn an_idle_daemon_ends() {
    let env = Env::new();
    let _started = env.run(&["--idle", "1", "ensure"]);
    let pid = env.registry().unwrap()["pid"].as_u64().unwrap();
    eventually("the daemon ends", || !runs(pid));
    assert_eq!(env.registry(), None);
}

fn hold_stays_until_interrupted() {
    let env = Env::new();
    let mut child = env
        .command(&["--idle", "1", "ensure", "--hold"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut note = String::new();
    stderr.read_line(&mut note).unwrap();
    assert_eq!(note, "beam: holding the daemon until interrupted\n");
    let pid = env.registry().unwrap()["pid"].as_u64().unwrap();
    // Longer than the daemon would live alone.
    std::thread::sleep(std::time::Duration::from_millis(2000));
    assert!(child.try_wait().unwrap().is_none() && runs(pid));
    signal(child.id(), "INT");
    let done = env.finish(child.wait_with_output().unwrap());
    assert_eq!(done.code, Some(0));
    assert_eq!(done.json()["result"]["epoch"], 1);
    eventually("without its holder the daemon ends", || !runs(pid));
}

/// In a sandbox that ends what a command started, the command that started the daemon ends last.
fn the_starter_outlasts_its_siblings() {
    let env = Env::new();
    let leases = env.root.join(".beam/wrapper-leases");
    fs::create_dir_all(&leases).unwrap();
    let sibling = leases.join("1-1.lease");
    fs::write(
        &sibling,
        json!({ "pid": 1, "pidNamespace": "pid:[7]", "createdAt": "2026-01-01T00:00:00Z" }).to_string(),
    )
    .unwrap();
    let mut starter = env.spawn(&["update", "A.lean"]);
    // Its answer is out long before it ends.
    let mut stdout = BufReader::new(starter.stdout.take().unwrap());
    let mut line = String::new();
    while line.trim_end() != "}" {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0);
    }
    assert!(starter.try_wait().unwrap().is_none());
    // Others do not wait for anybody.
    assert_eq!(env.run(&["update", "A.lean"]).code, Some(0));
    assert!(starter.try_wait().unwrap().is_none());
    fs::remove_file(sibling).unwrap();
    assert!(starter.wait().unwrap().success());
    assert_eq!(fs::read_dir(leases).unwrap().count(), 0);
}

fn the_control_directory_can_be_elsewhere() {
    let env = Env::new().with("BEAM_CONTROL_DIR", "../ctl");
    let _started = env.run(&["ensure"]);
    assert!(!env.root.join(".beam").exists());
    let dirs: Vec<_> = fs::read_dir(env.path("ctl")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(dirs.len(), 1);
    assert!(dirs[0].join("beam-daemon.json").exists());
    // The same folder from another directory: relative to the caller, who says where it is.
    let pid = env.pid();
    let absolute = env.path("ctl").to_string();
    let done = env.run_with(&[("BEAM_CONTROL_DIR", &absolute)], &["stats"]);
    assert_eq!(done.json()["result"]["pid"], pid);
}

fn d4_tcp_only_on_request_and_with_the_token() {
    let env = Env::new();
    let _started = env.run(&["--port", "0", "ensure"]);
    let registry = env.registry().unwrap();
    let port = registry["port"].as_u64().unwrap().to_string();
    let ask =
        |vars: &[(&str, &str)]| env.run_with(vars, &["--port", &port, "client", "request", r#"{"op":"open_docs"}"#]);
    assert_eq!(ask(&[]).code, Some(0));
    let token = registry["token"].as_str().unwrap();
    assert_eq!(ask(&[("BEAM_TOKEN", token)]).code, Some(0));
    let refused = ask(&[("BEAM_TOKEN", "guess")]);
    assert_eq!(refused.json()["error"]["code"], "invalidParams");
    assert_eq!(refused.code, Some(1));
    assert!(!env.run(&["doctor"]).stdout.contains(token));

    let other = Env::new();
    let done = other.run(&["--port", &port, "ensure"]);
    assert!(done.stderr.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{done:?}");
    assert_eq!(other.registry(), None);
    let _without = other.run(&["ensure"]);
    assert!(other.registry().unwrap().get("port").is_none());
}

fn the_daemon_has_left_its_starters_session() {
    let env = Env::new();
    let _started = env.run(&["ensure"]);
    let pid = env.pid();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // state, parent, process group, session
    assert_eq!(fields[2..4], [pid.to_string(), pid.to_string()]);
    assert_eq!(fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), env.root.as_path());
    let target = |fd: u32| fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap();
    let log = env.root.join(".beam/beam-daemon-startup.log");
    assert_eq!(target(0).to_str(), Some("/dev/null"));
    assert_eq!((target(1).as_path(), target(2).as_path()), (log.as_path(), log.as_path()));
}

fn termination_cleans_up() {
    for name in ["TERM", "INT", "HUP"] {
        let env = Env::new();
        let _started = env.run(&["ensure"]);
        let pid = env.pid();
        signal(pid, name);
        eventually("the daemon ends", || !runs(pid));
        assert_eq!(env.registry(), None, "{name}");
        assert_eq!(fs::read_dir(env.root.join(".beam/run")).unwrap().count(), 0, "{name}");
    }
}
