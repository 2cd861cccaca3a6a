//! How workers die, and that nothing of them stays.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use beam_session::{EndStatus, ExitReason, RequestFailure, WorkerState};
use testkit::Fixture;

use crate::stage::{BASICS, Stage, lines, runs, signal, slow, until};

/// A crash in the middle of work: what waited learns it, the text and its version stay, the next use has a worker again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crashed_worker_is_replaced_at_the_next_use() {
    let stage = Stage::new();
    stage.apply("Main.lean", BASICS).await;
    let version = stage.apply("Main.lean", &slow(60)).await;
    assert!(stage.early().await.contains("early : N"));
    let waiting = stage.session.request(&stage.file("Main.lean"), stage.barrier("Main.lean", version).once(), None);
    signal(stage.pid("Main.lean").await, "ABRT");
    match waiting.await {
        Err(RequestFailure::WorkerExited(exit)) => {
            assert_eq!((exit.reason, exit.status), (ExitReason::Crash, Some(EndStatus::Signal(6))));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(stage.info("Main.lean").await.worker.state, WorkerState::None);
    assert!(stage.early().await.contains("early : N"));
    let info = stage.info("Main.lean").await;
    assert_eq!((info.version, info.worker.starts), (2, 2));
    assert_eq!(info.worker.last_exit.unwrap().status, Some(EndStatus::Signal(6)));
    let counters = stage.session.counters();
    assert_eq!((counters.worker_restarts, counters.worker_losses), (1, 1));
}

/// One dies, the other does not notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_worker_is_its_documents_business_alone() {
    let stage = Stage::new();
    for name in ["Main.lean", "Other.lean"] {
        let version = stage.apply(name, BASICS).await;
        stage.settle(name, version).await;
    }
    let (one, other) = (stage.pid("Main.lean").await, stage.pid("Other.lean").await);
    assert!(stage.session.kill_worker(&stage.file("Main.lean")).await);
    until("the killed one is gone", || !runs(one)).await;
    assert!(runs(other));
    assert!(stage.early().await.contains("early : N"));
    assert_eq!((stage.info("Main.lean").await.worker.starts, stage.info("Other.lean").await.worker.starts), (2, 1));
    assert!(stage.session.close(&stage.file("Other.lean")).await);
    until("a closed document has no worker", || !runs(other)).await;
}

/// What it wrote to stderr is kept, natively as well: Lean refuses an option that has the wrong type.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_cannot_start_says_why() {
    let stage = Stage::with(&Fixture::parse(""), |command, _| command.args.push("-Dserver.reportDelayMs=soon".into()));
    let version = stage.apply("Main.lean", BASICS).await;
    let waiting = stage.session.request(&stage.file("Main.lean"), stage.barrier("Main.lean", version), None);
    match waiting.await {
        Err(RequestFailure::WorkerExited(exit)) => {
            assert_eq!(exit.reason, ExitReason::StartFailed);
            assert!(exit.stderr_tail.iter().any(|it| it.contains("it must be a natural number")), "{exit:?}");
        }
        other => panic!("{other:?}"),
    }
}

/// S7: a native worker runs `lake setup-file`, which runs compilers. All of them go with it: when it is killed, when the session is
/// shut down, when its last handle is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_family_of_a_worker_dies_with_it() {
    for way in ["kill", "shutdown", "drop", "crash"] {
        // Stands for Lake: it starts a child, tells both their numbers, and never comes to an end.
        let fixture = Fixture::parse(
            "-- file: lake\n#!/bin/sh\nsleep 1000 &\necho $! >> family\necho $$ >> family\nwait\n-- file: Main.lean\n",
        );
        let stage = Stage::with(&fixture, |command, config| {
            let lake = config.root.join("lake");
            std::fs::set_permissions(&lake, PermissionsExt::from_mode(0o755)).unwrap();
            command.env_remove.retain(|name| name != "LAKE");
            command.env.push(("LAKE".into(), lake.as_path().into()));
        });
        stage.apply("Main.lean", BASICS).await;
        let family = stage.file("family");
        until("Lake runs", || lines(&family).len() == 2).await;
        let mut pids: Vec<u32> = lines(&family).iter().map(|pid| pid.parse().unwrap()).collect();
        pids.push(stage.pid("Main.lean").await);
        assert!(pids.iter().all(|pid| runs(*pid)), "{way}");
        match way {
            "kill" => assert!(stage.session.kill_worker(&stage.file("Main.lean")).await),
            "shutdown" => stage.session.shutdown(Duration::from_millis(200)).await,
            "crash" => signal(pids[2], "ABRT"),
            _ => drop(stage.session),
        }
        until(way, || pids.iter().all(|pid| !runs(*pid))).await;
    }
}
