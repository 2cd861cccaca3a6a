//! Ending a command before its answer: politely, impatiently, brutally.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr};

use expect_test::expect;

use crate::env::{Env, eventually, signal};
use crate::tests;

tests! {
    an_interrupt_cancels_and_prints_the_real_answer
    a_second_interrupt_leaves_at_once
    a_killed_client_leaves_nothing_running
}

/// A command that waits for an answer which never comes, and its stderr.
fn hanging(env: &Env) -> (Child, BufReader<ChildStderr>) {
    let _started = env.run(&["ensure"]);
    let mut child = env.spawn(&["run-at", "A.lean", "1", "2", "3", "hang"]);
    let stderr = BufReader::new(child.stderr.take().unwrap());
    eventually("the request runs", || env.stats()["active"] == 1);
    (child, stderr)
}

fn an_interrupt_cancels_and_prints_the_real_answer() {
    let env = Env::new();
    let (child, mut stderr) = hanging(&env);
    let pid = env.pid();
    signal(child.id(), "INT");
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    let mut output = child.wait_with_output().unwrap();
    output.stderr = said.into_bytes();
    expect![[r#"
        --- stdout
        {
          "ok": false,
          "error": {
            "message": "the client cancelled the request",
            "code": "requestCancelled"
          }
        }
        --- stderr
        beam: interrupted: asking the daemon to cancel the request (interrupt again to leave at once)
        beam: run-at failed before the text was run: requestCancelled: the client cancelled the request
        --- exit 1
    "#]]
    .assert_eq(&env.finish(output).snapshot());
    assert_eq!(env.pid(), pid, "the daemon stays");
}

fn a_second_interrupt_leaves_at_once() {
    let env = Env::new();
    let (mut child, mut stderr) = hanging(&env);
    let pid = env.pid();
    // A daemon that does not answer at all.
    signal(pid, "STOP");
    signal(child.id(), "INT");
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("interrupt again"), "{line}");
    signal(child.id(), "INT");
    let status = child.wait().unwrap();
    signal(pid, "CONT");
    assert_eq!(status.code(), Some(130));
    eventually("the end of the connection cancels", || env.stats()["dropped"] == 1);
}

fn a_killed_client_leaves_nothing_running() {
    let env = Env::new();
    let (mut child, _stderr) = hanging(&env);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the request is cancelled", || {
        let stats = env.stats();
        stats["dropped"] == 1 && stats["active"] == 0
    });
}
