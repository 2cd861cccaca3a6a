//! `lean-beam-mcp` as a process: what it takes to start, and that it is gone, with its children, whatever ends it.

#![allow(clippy::print_stdout, reason = "figures, for who asks for them")]
#![allow(clippy::needless_pass_by_value, reason = "arguments are literals at the call")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use beam_broker::qualify::Qualifier;
use beam_embedded::testing;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Longest wait for anything, on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
/// What the contract gives it for going; the machine gets the rest of the limit.
const PROMISED: Duration = Duration::from_secs(2);

struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
}

impl Server {
    fn start(home: &Path, args: &[&str], vars: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lean-beam"))
            .arg0("lean-beam-mcp")
            .args(args)
            .env_clear()
            .env("HOME", home)
            .env("PATH", std::env::var_os("PATH").unwrap())
            .envs(vars.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        Self { child, stdin, stdout }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn recv(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn ask(&mut self, message: &Value) -> Value {
        self.send(message);
        self.recv()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end; how it ended, how long that took, and what it said on stderr.
    fn ended(mut self) -> (ExitStatus, Duration, String) {
        let from = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(from.elapsed() < LIMIT, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let took = from.elapsed();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (status, took, stderr)
    }

    fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// Every process below this one, itself left out.
fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return found };
    for task in tasks.flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|c| c.parse().ok()) {
            found.push(child);
            found.extend(descendants(child));
        }
    }
    found
}

fn alive(pid: u32) -> bool {
    // A zombie has ended; whoever adopted it has not looked yet.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| !s.contains(") Z "))
}

fn all_gone(pids: &[u32]) {
    let from = Instant::now();
    while let Some(left) = pids.iter().find(|pid| alive(**pid)) {
        assert!(from.elapsed() < LIMIT, "process {left} outlives the server");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

#[allow(clippy::needless_pass_by_value, reason = "arguments are literals at the call")]
fn tool(id: impl Into<Value>, name: &str, arguments: Value) -> Value {
    modern(id, "tools/call", json!({ "name": name, "arguments": arguments }))
}

fn project() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("lean-toolchain"), "leanprover/lean4:v4.28.0\n").unwrap();
    std::fs::write(dir.path().join("A.lean"), "theorem t : 1 + 1 = 2 := by\n  rfl\n").unwrap();
    let root = dir.path().canonicalize().unwrap().to_str().unwrap().to_owned();
    (dir, root)
}

/// A regular end in the promised time, with nothing on stderr.
fn assert_clean((status, took, stderr): (ExitStatus, Duration, String)) {
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""), "{status}");
    println!("ended after {took:?}, promised {PROMISED:?}");
    assert!(took < PROMISED * 5, "{took:?}");
}

#[test]
fn starting_is_cheap_and_the_end_of_stdin_ends_it() {
    let home = tempfile::tempdir().unwrap();
    let mut times = Vec::new();
    for _ in 0..5 {
        let from = Instant::now();
        let mut server = Server::start(home.path(), &[], &[]);
        let answer = server.ask(&modern(1, "server/discover", json!({})));
        times.push(from.elapsed());
        assert_eq!(answer["result"]["supportedVersions"], json!(["2026-07-28"]));
        assert_eq!(descendants(server.child.id()), [0; 0], "nothing is started before a tool needs it");
        let list = server.ask(&modern(2, "tools/list", json!({})));
        assert!(list["result"]["tools"].as_array().unwrap().len() > 20);
        println!("tools/list: {} bytes; memory {} KiB", list.to_string().len(), server.memory_kib());
        drop(server.stdin.take());
        assert_clean(server.ended());
    }
    times.sort_unstable();
    println!("start to the first answer: {times:?}");
    assert!(times[0] < Duration::from_secs(2), "{times:?}");
}

#[test]
fn requests_can_be_piped_in() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::start(home.path(), &[], &[]);
    server.send(&modern(1, "server/discover", json!({})));
    server.send(&tool(2, "beam_version", json!({})));
    drop(server.stdin.take());
    assert_eq!(server.recv()["id"], 1);
    assert_eq!(server.recv()["result"]["structuredContent"]["name"], "lean-beam-mcp");
    assert_clean(server.ended());
}

#[test]
fn every_signal_that_asks_is_a_regular_end() {
    let home = tempfile::tempdir().unwrap();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut server = Server::start(home.path(), &[], &[]);
        server.ask(&modern(1, "server/discover", json!({})));
        server.signal(signal);
        assert_clean(server.ended());
    }
    // Before it serves, a signal ends it without a word.
    let server = Server::start(home.path(), &[], &[]);
    server.signal(Signal::TERM);
    let (_, took, stderr) = server.ended();
    assert!(took < PROMISED * 5 && stderr.is_empty(), "{took:?} {stderr}");
}

#[test]
fn a_closed_stdout_is_a_regular_end() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::start(home.path(), &[], &[]);
    server.ask(&modern(1, "server/discover", json!({})));
    drop(server.stdout.take());
    server.send(&modern(2, "server/discover", json!({})));
    assert_clean(server.ended());
}

/// A client that writes and never reads: we stop reading, our memory stays, and we go when told to.
#[test]
fn m5_a_client_that_never_reads_costs_little() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::start(home.path(), &[], &[]);
    server.ask(&modern(0, "server/discover", json!({})));
    let before = server.memory_kib();
    let mut stdin = server.stdin.take().unwrap();
    let flood = std::thread::spawn(move || {
        let mut sent = 0_u64;
        // 600 MB of answers, if anybody made them all.
        for id in 1..30_000 {
            if writeln!(stdin, "{}", modern(id, "tools/list", json!({}))).is_err() {
                break;
            }
            sent += 1;
        }
        sent
    });
    let mut last = 0;
    let from = Instant::now();
    // Until the memory rests; a second of that is a guess only about when to look.
    while from.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_secs(1));
        let now = server.memory_kib();
        if now == last {
            break;
        }
        last = now;
    }
    println!("memory of a server whose client does not read: {before} KiB before, {last} KiB after");
    assert!(last < before + 64 * 1024, "{before} KiB before, {last} KiB after");
    server.signal(Signal::TERM);
    let (status, took, stderr) = server.ended();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    assert!(took < PROMISED * 5, "{took:?}");
    assert!(flood.join().unwrap() < 29_999, "it kept reading");
}

/// M5, with a real worker.
#[test]
fn m5_the_worker_goes_with_the_server() {
    let _installed = testing::shared_embedded_for_tests(&Qualifier);
    let env = testing::shared_env();
    let home = env.var("LEAN_BEAM_HOME").unwrap().to_owned();
    let user = tempfile::tempdir().unwrap();
    let (_dir, root) = project();
    for by_signal in [false, true] {
        let mut server = Server::start(user.path(), &["--lean-cmd", "embedded"], &[("LEAN_BEAM_HOME", &home)]);
        let sync = json!({ "workspace": { "root": root }, "path": "A.lean" });
        let answer = server.ask(&tool(1, "lean_sync", sync));
        assert_eq!(answer["result"]["structuredContent"]["readiness"]["save_ready"], true, "{answer}");
        // And one call that is under way.
        let probe = json!({
            "workspace": { "root": root }, "path": "A.lean", "version": 1, "line": 1, "character": 2, "text": "set_option maxHeartbeats 0 in repeat' have := 1",
        });
        server.send(&tool(2, "lean_run_at", probe));
        let below = descendants(server.child.id());
        assert!(!below.is_empty(), "a worker runs");
        if by_signal {
            server.signal(Signal::TERM);
        } else {
            drop(server.stdin.take());
        }
        assert_clean(server.ended());
        all_gone(&below);
    }
}

/// M5, while a toolchain is being looked at: its child is killed.
#[test]
fn m5_a_set_up_under_way_goes_with_the_server() {
    let top = tempfile::tempdir().unwrap();
    let (_dir, root) = project();
    let lean = top.path().join("bin/lean");
    std::fs::create_dir_all(lean.parent().unwrap()).unwrap();
    std::fs::write(&lean, "#!/bin/sh\nexec sleep 600\n").unwrap();
    std::fs::set_permissions(&lean, std::fs::Permissions::from_mode(0o755)).unwrap();
    for by_signal in [false, true] {
        let mut server = Server::start(top.path(), &["--lean-cmd", lean.to_str().unwrap()], &[]);
        server.send(&tool(1, "lean_sync", json!({ "workspace": { "root": root }, "path": "A.lean" })));
        let from = Instant::now();
        let below = loop {
            let below = descendants(server.child.id());
            if !below.is_empty() {
                break below;
            }
            assert!(from.elapsed() < LIMIT, "no child is started");
            std::thread::sleep(Duration::from_millis(10));
        };
        if by_signal {
            server.signal(Signal::TERM);
        } else {
            drop(server.stdin.take());
        }
        assert_clean(server.ended());
        all_gone(&below);
    }
}
