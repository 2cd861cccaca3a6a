//! A death at every step of a worker's life, and what becomes of those who waited (S6, S7).

mod common;

use std::time::Duration;

use beam_session::{BuildMode, EndStatus, ExitReason, Observation, RequestFailure, Session, SessionError, WorkerState};
use common::*;
use serde_json::json;
use testkit::worker::{Exit, Signal};

async fn state(session: &Session) -> WorkerState {
    session.document(&path("A.lean")).await.unwrap().worker.state
}

#[tokio::test(start_paused = true)]
async fn s6_the_states_of_a_life() {
    let mut h = Harness::new();
    h.apply("A.lean", "one").await;
    assert_eq!(state(&h.session).await, WorkerState::Starting);
    let (mut fake, _) = h.worker().await;
    assert_eq!(state(&h.session).await, WorkerState::Starting);
    speak(&mut fake).await;
    assert_eq!(state(&h.session).await, WorkerState::Running);
    assert_eq!(h.session.document(&path("A.lean")).await.unwrap().worker.pid, Some(1000));
    fake.die(Exit::Code(1));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(state(&h.session).await, WorkerState::None);
    let worker = h.session.document(&path("A.lean")).await.unwrap().worker;
    assert_eq!((worker.pid, worker.starts), (None, 1));
    assert_eq!(worker.last_exit.unwrap().status, Some(EndStatus::Code(1)));
    // Nothing restarts by itself; a use does.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(h.started(), 1);
    let pending = h.ask("A.lean", spec("m"));
    let (mut fresh, open) = h.worker().await;
    assert_eq!(open["textDocument"]["version"], 1);
    let request = heard(&mut fresh, "m").await;
    fresh.peer.reply(&request, 1).await.unwrap();
    pending.await.unwrap();
    assert_eq!(state(&h.session).await, WorkerState::Running);
}

/// Dead before it read anything, before it said anything, with the reason on stderr: a typed failure for whoever waits, and no loop.
#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_at_each_start_is_not_started_in_a_loop() {
    let mut h = Harness::new();
    h.apply("A.lean", "one").await;
    let first = h.ask("A.lean", spec("m"));
    let mut fake = h.newborn().await;
    fake.complain("unknown package 'Beam'").await;
    fake.die(Exit::Code(1));
    let exit = exit_of(first.await);
    assert_eq!((exit.reason, exit.status), (ExitReason::StartFailed, Some(EndStatus::Code(1))));
    assert_eq!(exit.stderr_tail, ["unknown package 'Beam'"]);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(h.started(), 1);
    // Once per use.
    let second = h.ask("A.lean", spec("m"));
    let (fake, _) = h.worker().await;
    fake.die(Exit::Signal(6));
    let exit = exit_of(second.await);
    assert_eq!((exit.reason, exit.status), (ExitReason::StartFailed, Some(EndStatus::Signal(6))));
    assert_eq!(h.started(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_cannot_be_created_is_a_typed_failure() {
    let mut h = Harness::new();
    h.break_spawn(true);
    assert!(h.apply("A.lean", "one").await.opened, "the mirror does not depend on a process");
    assert!(
        matches!(reason_of(h.ask("A.lean", spec("m")).await), ExitReason::SpawnFailed(why) if why.contains("no such program"))
    );
    assert!(matches!(h.session.prestart().await, Err(SessionError::Spawn(_))));
    h.break_spawn(false);
    let pending = h.ask("A.lean", spec("m"));
    let (mut fake, _) = h.worker().await;
    let request = heard(&mut fake, "m").await;
    fake.peer.reply(&request, 1).await.unwrap();
    pending.await.unwrap();
}

/// Every request that waits learns how the process ended; an answer given before the death counts.
#[tokio::test(start_paused = true)]
async fn a_crash_with_requests_pending() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let answered = h.ask("A.lean", spec("m"));
    let waiting = h.ask("A.lean", spec("m").at_version(1));
    let stopped = h.ask("A.lean", spec("m").running_text());
    let request = heard(&mut fake, "m").await;
    heard(&mut fake, "m").await;
    heard(&mut fake, "m").await;
    stopped.canceller().cancel();
    assert!(matches!(stopped.await, Err(RequestFailure::Cancelled)));
    fake.complain("Stack overflow detected. Aborting.").await;
    fake.peer.reply(&request, "last words").await.unwrap();
    fake.die(Exit::Signal(6));
    assert_eq!(value(&answered.await.unwrap()), json!("last words"));
    let exit = exit_of(waiting.await);
    assert_eq!((&exit.reason, exit.status), (&ExitReason::Crash, Some(EndStatus::Signal(6))));
    assert_eq!(
        exit.to_string(),
        "the file worker of file:///proj/A.lean ended unexpectedly (signal 6); its last words: Stack overflow detected. Aborting."
    );
    // It died while it was asked to stop something, which is not a refusal.
    tokio::time::sleep(GRACE * 2).await;
    assert_eq!((h.session.counters().refused_cancels, h.session.counters().worker_losses), (0, 1));
}

/// Half a frame is a death, not a breach of the protocol.
#[tokio::test(start_paused = true)]
async fn a_death_in_mid_frame() {
    // In the header's name, in its number, behind it, in the body.
    for keep in [5, 17, 22, 40] {
        let mut h = Harness::new();
        let mut fake = h.open("A.lean", "one").await;
        let pending = h.ask("A.lean", spec("m"));
        let request = heard(&mut fake, "m").await;
        fake.peer.half_frame(&json!({"id": request.id(), "result": "0123456789"}), keep).await.unwrap();
        fake.die(Exit::Signal(9));
        let exit = exit_of(pending.await);
        assert_eq!((exit.reason, exit.status), (ExitReason::Crash, Some(EndStatus::Signal(9))), "{keep}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_stays_broken_gets_the_worker_killed() {
    let noise = "[DEBUG] noise\n".repeat(2 << 20);
    let huge = format!("Content-Length: {}\r\n\r\n{noise}", 1u64 << 40);
    // An answer with something inside a string of it: what was cut in two may be anything.
    let torn =
        "Content-Length: 50\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"someDEBUG\nthing\"}xxxxx".to_owned();
    for (bytes, what) in [(noise, "without a message"), (huge, "exceeds"), (torn, "in the middle of a message")] {
        let mut h = Harness::new();
        let mut fake = h.open("A.lean", "one").await;
        let pending = h.ask("A.lean", spec("m"));
        heard(&mut fake, "m").await;
        // Cut short when it is killed meanwhile.
        fake.peer.raw(bytes.as_bytes()).await.ok();
        match reason_of(pending.await) {
            ExitReason::Garbage(why) => assert!(why.contains(what), "{why}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(fake.ended().await, Exit::Signal(9));
        let again = h.ask("A.lean", spec("m"));
        let (mut fresh, _) = h.worker().await;
        let request = heard(&mut fresh, "m").await;
        fresh.peer.reply(&request, 1).await.unwrap();
        again.await.unwrap();
    }
}

/// A worker that does not read may not make us hold everything that is said to it.
#[tokio::test(start_paused = true)]
async fn a_worker_that_does_not_read_is_killed() {
    let mut h = Harness::with(false, |config| config.write_cap = 1 << 20);
    let fake = h.open("A.lean", "one").await;
    let pending = h.ask("A.lean", spec("m"));
    let text = "x".repeat(300 << 10);
    for n in 0..4 {
        h.apply("A.lean", &format!("{text}{n}")).await;
    }
    assert_eq!(reason_of(pending.await), ExitReason::Unresponsive);
    assert_eq!(fake.ended().await, Exit::Signal(9));
}

/// One message may be larger than what may wait.
#[tokio::test(start_paused = true)]
async fn a_large_document_is_no_back_pressure() {
    let mut h = Harness::with(false, |config| config.write_cap = 1 << 20);
    let mut fake = h.open("A.lean", "one").await;
    h.apply("A.lean", &"x".repeat(3 << 20)).await;
    fake.peer.expect("textDocument/didChange").await.unwrap();
    speak(&mut fake).await;
    assert_eq!(h.session.counters().worker_losses, 0);
}

#[tokio::test(start_paused = true)]
async fn a_changed_header_brings_a_fresh_worker_and_the_requests_with_it() {
    let mut h = Harness::with(false, |config| config.build_mode = BuildMode::Once);
    let mut fake = h.open("A.lean", "import A").await;
    let before = h.ask("A.lean", spec("before").at_version(1));
    heard(&mut fake, "before").await;
    h.apply("A.lean", "import B").await;
    assert!(matches!(before.await, Err(RequestFailure::ContentModified { .. })));
    let (observer, mut observed) = beam_session::observer();
    let first = h.session.request(&path("A.lean"), spec("first").at_version(2), Some(observer));
    let fragile = h.ask("A.lean", spec("fragile").at_version(2).once());
    let free = h.ask("A.lean", spec("free"));
    let stopped = h.ask("A.lean", spec("stopped"));
    drop(stopped);
    fake.die(Exit::Code(2));
    let (mut fresh, open) = h.worker().await;
    assert_eq!(
        open,
        json!({
            "textDocument": {"uri": "file:///proj/A.lean", "languageId": "lean", "version": 2, "text": "import B"},
            // Built once, by the first worker.
            "dependencyBuildMode": "never"
        })
    );
    assert_eq!(reason_of(fragile.await), ExitReason::Replaced);
    for method in ["first", "free"] {
        let request = heard(&mut fresh, method).await;
        assert_eq!(*request.params(), json!({"a": 1}));
        fresh.peer.reply(&request, method).await.unwrap();
    }
    assert_eq!(value(&first.await.unwrap()), json!("first"));
    assert_eq!(value(&free.await.unwrap()), json!("free"));
    assert!(matches!(observed.recv().await, Some(Observation::Resent)));
    silence(&mut fresh).await;
    // A change of header is no loss.
    let counters = h.session.counters();
    assert_eq!((counters.worker_restarts, counters.worker_losses), (1, 0));
}

/// Exit code 2 means a changed header only to a worker that was sent a change; otherwise it would be restarted for ever.
#[tokio::test(start_paused = true)]
async fn exit_code_two_without_an_edit_is_a_crash() {
    let mut h = Harness::new();
    let fake = h.open("A.lean", "import A").await;
    let pending = h.ask("A.lean", spec("m"));
    fake.die(Exit::Code(2));
    assert_eq!(reason_of(pending.await), ExitReason::Crash);
    // Also for the fresh worker after a real change of header.
    let pending = h.ask("A.lean", spec("m"));
    let (mut fake, _) = h.worker().await;
    heard(&mut fake, "m").await;
    h.apply("A.lean", "import B").await;
    fake.die(Exit::Code(2));
    let (fresh, _) = h.worker().await;
    fresh.die(Exit::Code(2));
    assert_eq!(reason_of(pending.await), ExitReason::StartFailed);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(h.started(), 3);
}

/// The pipes of a dead process may be held open by a child of it.
#[tokio::test(start_paused = true)]
async fn a_death_is_noticed_though_the_pipes_stay_open() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let pending = h.ask("A.lean", spec("m"));
    heard(&mut fake, "m").await;
    fake.die_with_open_pipes(Exit::Code(134));
    assert_eq!(exit_of(pending.await).status, Some(EndStatus::Code(134)));
    assert!(fake.signals().contains(&Signal::Kill), "the rest of its group goes with it");
}

/// Closing its stdout without ending: it is given a moment, then ended.
#[tokio::test(start_paused = true)]
async fn a_worker_that_closes_its_output_is_ended() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let pending = h.ask("A.lean", spec("m"));
    // So that nothing is on its way to it when its pipes close.
    heard(&mut fake, "m").await;
    // Drops the pipes; the process itself lives on.
    let testkit::FakeWorker { peer, .. } = fake;
    drop(peer);
    let exit = exit_of(pending.await);
    assert_eq!((exit.reason, exit.status), (ExitReason::Crash, Some(EndStatus::Signal(9))));
}

#[tokio::test(start_paused = true)]
async fn killing_on_request() {
    let mut h = Harness::new();
    let fake = h.open("A.lean", "one").await;
    let pending = h.ask("A.lean", spec("m"));
    assert!(h.session.kill_worker(&path("A.lean")).await);
    assert_eq!(reason_of(pending.await), ExitReason::Killed);
    assert_eq!(fake.ended().await, Exit::Signal(9));
    assert!(!h.session.kill_worker(&path("A.lean")).await, "there is none any more");
    assert!(!h.session.kill_worker(&path("B.lean")).await);
}

#[tokio::test(start_paused = true)]
async fn a_spare_worker_serves_the_next_document() {
    let mut h = Harness::new();
    h.session.prestart().await.unwrap();
    h.session.prestart().await.unwrap();
    assert_eq!(h.started(), 1, "one spare is enough");
    let mut spare = h.newborn().await;
    spare.peer.expect("initialize").await.unwrap();
    silence(&mut spare).await;
    h.apply("A.lean", "one").await;
    spare.peer.expect("textDocument/didOpen").await.unwrap();
    assert_eq!(h.started(), 1);
    // The next document has its own.
    let other = h.open("B.lean", "two").await;
    assert_eq!((h.started(), other.pid), (2, 1001));
    assert_eq!((h.session.counters().worker_starts, h.session.counters().worker_restarts), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_spare_that_died_is_not_used() {
    let mut h = Harness::new();
    h.session.prestart().await.unwrap();
    h.newborn().await.die(Exit::Signal(9));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let pending = {
        h.apply("A.lean", "one").await;
        h.ask("A.lean", spec("m"))
    };
    let (mut fake, _) = h.worker().await;
    let request = heard(&mut fake, "m").await;
    fake.peer.reply(&request, 1).await.unwrap();
    pending.await.unwrap();
    assert_eq!(h.started(), 2);
    // It served nobody, so nobody lost it.
    assert_eq!(h.session.counters().worker_losses, 0);
}

/// A spare that dies at the moment it is taken fails like any worker that dies at its start.
#[tokio::test(start_paused = true)]
async fn a_spare_that_dies_while_it_is_taken() {
    let mut h = Harness::new();
    h.session.prestart().await.unwrap();
    let mut spare = h.newborn().await;
    spare.complain("no memory").await;
    h.apply("A.lean", "one").await;
    let pending = h.ask("A.lean", spec("m"));
    spare.die(Exit::Code(1));
    let exit = exit_of(pending.await);
    assert_eq!((exit.reason, exit.stderr_tail), (ExitReason::StartFailed, vec!["no memory".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_requests_then_workers() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    h.session.prestart().await.unwrap();
    let spare = h.newborn().await;
    let pending = h.ask("A.lean", spec("m"));
    let session = h.session.clone();
    let down = tokio::spawn(async move { session.shutdown(Duration::from_secs(1)).await });
    assert!(matches!(pending.await, Err(RequestFailure::SessionClosed)));
    assert_eq!(fake.peer.expect("m").await.unwrap().method(), Some("m"));
    fake.peer.expect("exit").await.unwrap();
    assert!(fake.peer.next().await.unwrap().is_none(), "its stdin is closed");
    assert!(!down.is_finished());
    fake.die(Exit::Code(0));
    // The spare ignores everything but the last resort.
    let begun = tokio::time::Instant::now();
    assert_eq!(spare.ended().await, Exit::Signal(9));
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!(spare.signals()[..2], [Signal::Terminate, Signal::Kill]);
    drop(spare);
    down.await.unwrap();
    // A closed session says so, to everybody.
    assert!(matches!(h.ask("A.lean", spec("m")).await, Err(RequestFailure::SessionClosed)));
    let snap = beam_session::Snapshot::new(h.session.reserve(), "x", None);
    assert!(matches!(h.session.apply(&path("A.lean"), snap).await, Err(SessionError::Closed)));
    assert!(!h.session.close(&path("A.lean")).await);
    assert!(matches!(h.session.prestart().await, Err(SessionError::Closed)));
    assert!(h.session.documents().await.is_empty());
    h.session.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_is_polite_first() {
    let mut h = Harness::with(true, |_| {});
    let fake = h.open("A.lean", "one").await;
    h.session.shutdown(Duration::from_secs(1)).await;
    assert_eq!(fake.ended().await, Exit::Signal(15));
}

/// Requests queued behind a shutdown end as well.
#[tokio::test(start_paused = true)]
async fn s2_requests_queued_behind_a_shutdown_end() {
    let mut h = Harness::new();
    let fake = h.open("A.lean", "one").await;
    let session = h.session.clone();
    // Both shutdowns and the request are queued before the router wakes.
    let first = session.shutdown(Duration::ZERO);
    tokio::pin!(first);
    std::future::poll_fn(|cx| {
        assert!(first.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    let pending = h.ask("A.lean", spec("m"));
    let second = h.session.shutdown(Duration::ZERO);
    assert!(matches!(pending.await, Err(RequestFailure::SessionClosed)));
    second.await;
    first.await;
    assert_eq!(fake.ended().await, Exit::Signal(9));
}

#[tokio::test(start_paused = true)]
async fn s7_workers_die_with_the_last_handle() {
    let mut h = Harness::new();
    let fake = h.open("A.lean", "one").await;
    h.session.prestart().await.unwrap();
    let spare = h.newborn().await;
    let pending = h.ask("A.lean", spec("m"));
    let Harness { session, .. } = h;
    drop(session);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(fake.signals().is_empty(), "a pending request keeps the session");
    drop(pending);
    assert_eq!(fake.ended().await, Exit::Signal(9));
    assert_eq!(spare.ended().await, Exit::Signal(9));
}
