//! Edits: many of them, of the header, while something waits; and what a cancellation does to a worker.

use std::time::Duration;

use beam_base::Deadline;
use beam_session::{ExitReason, Modified, Observation, RequestFailure, WorkerState};
use serde_json::Value;
use testkit::Fixture;

use crate::stage::{BASICS, LONG, Stage, resident, runs, slow, until};

/// S4: alternately right and wrong, so that each verdict is about its own text. Memory settles: a worker keeps the versions before
/// for nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_edits_in_one_worker_of_steady_size() {
    let filler: String = (0..10)
        .map(|n| format!("theorem t{n} (p : Prop) (h : p) : p := by\n  match h with\n  | x => exact_{n}\n"))
        .collect();
    // The edit is in front: everything behind it is elaborated again each time.
    let text = |n: u64| {
        let value = if n.is_multiple_of(2) { "early" } else { "earlz" };
        format!("{BASICS}def number{n} : N := {value}\n{filler}")
    };
    let stage = Stage::new();
    let mut sizes = Vec::new();
    for n in 1..=200 {
        let version = stage.apply("Main.lean", &text(n)).await;
        assert_eq!(version, n);
        let messages = stage.settle("Main.lean", version).await;
        assert_eq!(messages.iter().any(|it| it == "Unknown identifier `earlz`"), n % 2 == 1, "{messages:?}");
        if n % 50 == 0 {
            sizes.push(resident(stage.pid("Main.lean").await) >> 20);
        }
    }
    let info = stage.info("Main.lean").await;
    assert_eq!((info.worker.starts, info.worker.state), (1, WorkerState::Running));
    // From the 50th to the 200th. What one version takes is megabytes, so keeping each would show many times over.
    assert!(sizes[3] < sizes[0] + 64, "resident MiB after 50, 100, 150 and 200 edits: {sizes:?}");
    let pid = info.worker.pid.unwrap();
    assert!(runs(pid));
    stage.session.shutdown(Duration::from_secs(10)).await;
    assert!(!runs(pid));
}

/// The worker ends with code 2, and what was asked of it is answered by the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_header_moves_the_document_to_a_fresh_worker() {
    let fixture = Fixture::parse("-- file: Low.lean\nprelude\ninductive N where\n  | z\ndef low : N := N.z\n");
    let stage = Stage::of(&fixture);
    stage.build("Low");
    let version = stage.apply("Main.lean", &format!("{BASICS}#check early\n")).await;
    assert_eq!(stage.settle("Main.lean", version).await, ["early : N"]);
    let old = stage.pid("Main.lean").await;
    let version = stage.apply("Main.lean", "prelude\nimport Low\n#check low\n").await;
    assert_eq!(stage.settle("Main.lean", version).await, ["low : N"]);
    let info = stage.info("Main.lean").await;
    assert_eq!((info.version, info.worker.starts), (2, 2));
    assert_eq!(info.direct_imports.iter().map(|it| it.module.as_str()).collect::<Vec<_>>(), ["Low"]);
    until("the old worker is gone", || !runs(old)).await;
    let counters = stage.session.counters();
    assert_eq!((counters.worker_restarts, counters.worker_losses), (1, 0));
    // Blanks and comments are no change of the header.
    let version = stage.apply("Main.lean", "prelude\nimport Low\n\n-- more\n#check low\n").await;
    assert_eq!(stage.settle("Main.lean", version).await, ["low : N"]);
    assert_eq!(stage.info("Main.lean").await.worker.starts, 2);
}

/// A broken header is an end: progress, references and the barrier all come to it. And it is not for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_import_is_an_end_and_can_be_mended() {
    let stage = Stage::new();
    let version = stage.apply("Main.lean", "prelude\nimport Not.There\ndef x : Prop := x\n").await;
    let messages = stage.settle("Main.lean", version).await;
    assert!(messages.iter().any(|it| it.contains("unknown module prefix 'Not'")), "{messages:?}");
    let info = stage.info("Main.lean").await;
    assert!(info.progress.unwrap().done, "a file that is not processed is not being processed");
    assert_eq!((info.worker.starts, info.direct_imports[0].module.as_str()), (1, "Not.There"));
    let version = stage.apply("Main.lean", BASICS).await;
    assert_eq!(stage.settle("Main.lean", version).await, Vec::<String>::new());
    assert!(stage.early().await.contains("early : N"));
}

/// S2, S3: each way to stop waiting ends one request and leaves the worker as it is, in the middle of work that has no end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancellation_deadline_and_edit_interrupt_a_wait() {
    let stage = Stage::new();
    let version = stage.apply("Main.lean", &slow(60)).await;
    assert!(stage.early().await.contains("early : N"));
    let ask = |version| stage.session.request(&stage.file("Main.lean"), stage.barrier("Main.lean", version), None);
    let timed = stage.barrier("Main.lean", version).with_deadline(Deadline::after(Duration::from_millis(200)));
    let timed = stage.session.request(&stage.file("Main.lean"), timed, None);
    assert!(matches!(timed.await, Err(RequestFailure::TimedOut)));
    let waiting = ask(version);
    waiting.canceller().cancel();
    assert!(matches!(waiting.await, Err(RequestFailure::Cancelled)));
    // The work goes on, and so does the conversation.
    assert!(stage.early().await.contains("early : N"));
    let waiting = ask(version);
    let version = stage.apply("Main.lean", &slow(2)).await;
    assert!(matches!(
        waiting.await,
        Err(RequestFailure::ContentModified { how: Modified::Edited { version: 2 }, expected: Some(1), .. })
    ));
    assert_eq!(stage.settle("Main.lean", version).await, ["Unknown identifier `oops`"]);
    let info = stage.info("Main.lean").await;
    assert_eq!((info.worker.starts, info.pending), (1, 0), "none of this was a reason to replace it");
}

/// 4.35 answers a cancelled request as late as 4.28 does: when its wait is over. One that runs text may not take that long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_does_not_stop_is_replaced() {
    let stage = Stage::with(&Fixture::parse(""), |_, config| config.cancel_grace = Duration::from_millis(300));
    let version = stage.apply("Main.lean", &slow(60)).await;
    assert!(stage.early().await.contains("early : N"));
    let old = stage.pid("Main.lean").await;
    // Stands for a probe: the barrier does not end while the file does not, and neither does its cancellation.
    let (observer, _observed) = beam_session::observer();
    let spec = stage.barrier("Main.lean", version).running_text();
    let stubborn = stage.session.request(&stage.file("Main.lean"), spec, Some(observer));
    let beside = stage.session.request(&stage.file("Main.lean"), stage.barrier("Main.lean", version).once(), None);
    stubborn.canceller().cancel();
    assert!(matches!(stubborn.await, Err(RequestFailure::Cancelled)));
    match beside.await {
        Err(RequestFailure::WorkerExited(exit)) => assert_eq!(exit.reason, ExitReason::RefusedCancel),
        other => panic!("{other:?}"),
    }
    until("the old worker is gone", || !runs(old)).await;
    assert_eq!(stage.session.counters().refused_cancels, 1);
    let version = stage.apply("Main.lean", &slow(2)).await;
    assert_eq!(stage.settle("Main.lean", version).await, ["Unknown identifier `oops`"]);
    let info = stage.info("Main.lean").await;
    assert_eq!((info.version, info.worker.starts), (2, 2));
}

/// What is found before the end is told before the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn diagnostics_come_while_work_goes_on() {
    let stage = Stage::new();
    let version = stage.apply("Main.lean", &format!("{}def first : N := missing\n", slow(60))).await;
    let (observer, mut observed) = beam_session::observer();
    let pending = stage.session.request(&stage.file("Main.lean"), stage.barrier("Main.lean", version), Some(observer));
    let seen = tokio::time::timeout(LONG, async {
        while let Some(observation) = observed.recv().await {
            if let Observation::Diagnostics(list) = observation
                && list.items().unwrap().iter().any(|it| it["message"] == "Unknown identifier `missing`")
            {
                return true;
            }
        }
        false
    });
    assert_eq!(seen.await, Ok(true));
    assert!(!stage.info("Main.lean").await.progress.unwrap().done);
    drop(pending);
}

/// What Lean says of a file with unusual line ends, by itself and through a session: the same, at the same places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn line_ends_are_judged_as_by_lean_alone() {
    let stage = Stage::new();
    for (n, text) in [
        "prelude\r\naxiom A : Type\r\n#check B\r\n",
        "prelude\naxiom A : Type\r\r\n#check A\n#check B\n",
        "prelude\n\r\r\r\n\r\n#check B\n",
        "prelude\naxiom A\r : Type\n",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("M{n}.lean");
        stage.project.write(&name, text).unwrap();
        let alone = std::process::Command::new(testkit::native::lean())
            .args(["--json", &name])
            .current_dir(stage.project.root())
            .output()
            .unwrap();
        let mut batch: Vec<(u64, u64, String)> = String::from_utf8(alone.stdout)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .map(|it| {
                let number = |of: &str| it["pos"][of].as_u64().unwrap();
                (number("line") - 1, number("column"), it["data"].as_str().unwrap().trim_end().to_owned())
            })
            .collect();
        batch.sort();
        assert!(!batch.is_empty());
        // As opened, and as edited.
        for before in [None, Some("prelude\n")] {
            if let Some(before) = before {
                stage.apply(&name, before).await;
            }
            let version = stage.apply(&name, text).await;
            let mut ours = stage.settled(&name, version).await;
            ours.sort();
            assert_eq!(ours, batch, "{text:?}");
        }
    }
}
