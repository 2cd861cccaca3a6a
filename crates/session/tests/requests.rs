//! How requests end: exactly once, for everybody (S2, S3, S5), and what is observed meanwhile.

mod common;

use std::time::Duration;

use beam_base::Deadline;
use beam_session::{ExitReason, Observation, Observations, Progress, RequestFailure};
use common::*;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn s5_replies_say_what_they_are_about() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let pending = h.ask("A.lean", spec("m").at_version(1));
    let request = heard(&mut fake, "m").await;
    assert_eq!(*request.params(), json!({"a": 1}));
    fake.peer.reply(&request, json!({"big": 12345678901234567890u64})).await.unwrap();
    let reply = pending.await.unwrap();
    assert_eq!((reply.epoch, reply.uri.as_str(), reply.version), (3, "file:///proj/A.lean", 1));
    assert_eq!(reply.value.get(), r#"{"big":12345678901234567890}"#);
}

#[tokio::test(start_paused = true)]
async fn server_errors_pass_through() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let pending = h.ask("A.lean", spec("m"));
    let request = heard(&mut fake, "m").await;
    let error = json!({"code": -32602, "message": "no", "data": {"why": [1]}});
    fake.peer.send(&json!({"id": request.id(), "error": error})).await.unwrap();
    match pending.await {
        Err(RequestFailure::Server(got)) => assert_eq!(serde_json::to_value(got).unwrap(), error),
        other => panic!("{other:?}"),
    }
}

/// The second answer finds no request; neither does one to a question never asked.
#[tokio::test(start_paused = true)]
async fn s2_a_request_is_answered_once() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let pending = h.ask("A.lean", spec("m"));
    let request = heard(&mut fake, "m").await;
    // Nearly its id: the right number with other digits behind it.
    let id = request.id().as_str().unwrap().to_owned();
    fake.peer.send(&json!({"id": format!("{}-{:032x}", id.split_once('-').unwrap().0, 0), "result": 5})).await.unwrap();
    fake.peer.reply(&request, 1).await.unwrap();
    fake.peer.reply(&request, 2).await.unwrap();
    fake.peer.send(&json!({"id": 4711, "result": 3})).await.unwrap();
    fake.peer.send(&json!({"id": "1", "result": 4})).await.unwrap();
    fake.peer.send(&json!({"id": null, "error": {"code": 1, "message": ""}})).await.unwrap();
    speak(&mut fake).await;
    assert_eq!(value(&pending.await.unwrap()), json!(1));
    assert_eq!((h.session.counters().unknown_answers, h.session.counters().late_replies), (5, 0));
    // Nor can the acknowledgement of a cancellation be made up, which would make a stubborn worker pass for an obedient one.
    let pending = h.ask("A.lean", spec("m").running_text());
    let request = heard(&mut fake, "m").await;
    let id = request.id().as_str().unwrap().to_owned();
    pending.canceller().cancel();
    assert!(matches!(pending.await, Err(RequestFailure::Cancelled)));
    fake.peer.send(&json!({"id": format!("{}-{:032x}", id.split_once('-').unwrap().0, 0), "result": 5})).await.unwrap();
    assert_eq!(fake.ended().await, testkit::worker::Exit::Signal(9), "it has not stopped");
    assert_eq!(h.session.counters().refused_cancels, 1);
}

#[tokio::test(start_paused = true)]
async fn answers_find_their_request_in_any_order() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let pending: Vec<_> = (0..5).map(|_| h.ask("A.lean", spec("m"))).collect();
    let mut requests = Vec::new();
    for _ in 0..5 {
        requests.push(heard(&mut fake, "m").await);
    }
    for (n, request) in requests.iter().enumerate().rev() {
        fake.peer.reply(request, n).await.unwrap();
    }
    for (n, pending) in pending.into_iter().enumerate() {
        assert_eq!(value(&pending.await.unwrap()), json!(n));
    }
}

#[tokio::test(start_paused = true)]
async fn s3_a_cancel_ends_the_request_at_once_and_tells_the_worker() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let pending = h.ask("A.lean", spec("m"));
    let canceller = pending.canceller();
    let request = heard(&mut fake, "m").await;
    canceller.cancel();
    assert!(matches!(pending.await, Err(RequestFailure::Cancelled)));
    cancelled(&mut fake, &request).await;
    // The worker's acknowledgement is what was asked for, and no late reply.
    fake.peer.reply_error(&request, -32800, "cancelled").await.unwrap();
    speak(&mut fake).await;
    assert_eq!(h.session.counters().late_replies, 0);
    // A second cancel finds nothing, neither here nor at the worker.
    canceller.cancel();
    silence(&mut fake).await;
}

#[tokio::test(start_paused = true)]
async fn s3_a_result_after_a_cancel_is_dropped_and_counted() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let pending = h.ask("A.lean", spec("m").running_text());
    let request = heard(&mut fake, "m").await;
    pending.canceller().cancel();
    assert!(matches!(pending.await, Err(RequestFailure::Cancelled)));
    cancelled(&mut fake, &request).await;
    fake.peer.reply(&request, "too late").await.unwrap();
    speak(&mut fake).await;
    assert_eq!(h.session.counters().late_replies, 1);
    // It was an answer all the same: nothing refuses, nothing is replaced.
    tokio::time::sleep(GRACE * 2).await;
    assert_eq!((h.session.counters().refused_cancels, h.started()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn s3_dropping_a_pending_request_cancels_it() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let pending = h.ask("A.lean", spec("m"));
    let request = heard(&mut fake, "m").await;
    drop(pending);
    cancelled(&mut fake, &request).await;
    // One that has ended is not cancelled by its drop.
    let pending = h.ask("A.lean", spec("m"));
    let request = heard(&mut fake, "m").await;
    fake.peer.reply(&request, 1).await.unwrap();
    pending.await.unwrap();
    silence(&mut fake).await;
}

#[tokio::test(start_paused = true)]
async fn s3_a_deadline_ends_the_request_and_tells_the_worker() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let slow = h.ask("A.lean", spec("slow").with_deadline(Deadline::after(Duration::from_secs(5))));
    let patient = h.ask("A.lean", spec("patient"));
    let request = heard(&mut fake, "slow").await;
    let other = heard(&mut fake, "patient").await;
    let begun = tokio::time::Instant::now();
    assert!(matches!(slow.await, Err(RequestFailure::TimedOut)));
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(4) && took < Duration::from_secs(6), "{took:?}");
    cancelled(&mut fake, &request).await;
    fake.peer.reply(&request, 1).await.unwrap();
    fake.peer.reply(&other, 2).await.unwrap();
    patient.await.unwrap();
    assert_eq!(h.session.counters().late_replies, 1);
    // A deadline that has passed sends nothing at all.
    let dead = h.ask("A.lean", spec("m").with_deadline(Deadline::after(Duration::ZERO)));
    assert!(matches!(dead.await, Err(RequestFailure::TimedOut)));
    silence(&mut fake).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_never_answers_holds_up_nobody_else() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let stuck = h.ask("A.lean", spec("stuck"));
    heard(&mut fake, "stuck").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let pending = h.ask("A.lean", spec("m"));
    let request = heard(&mut fake, "m").await;
    fake.peer.reply(&request, 1).await.unwrap();
    pending.await.unwrap();
    stuck.canceller().cancel();
    assert!(matches!(stuck.await, Err(RequestFailure::Cancelled)));
}

#[tokio::test(start_paused = true)]
async fn a_refused_cancel_replaces_the_worker_and_only_that_one() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let mut other = h.open("B.lean", "two").await;
    let running = h.ask("A.lean", spec("run").running_text());
    let innocent = h.ask("A.lean", spec("innocent"));
    let elsewhere = h.ask("B.lean", spec("elsewhere"));
    let run = heard(&mut fake, "run").await;
    heard(&mut fake, "innocent").await;
    running.canceller().cancel();
    let begun = tokio::time::Instant::now();
    assert!(matches!(running.await, Err(RequestFailure::Cancelled)));
    assert_eq!(begun.elapsed(), Duration::ZERO, "the caller does not wait for the worker");
    cancelled(&mut fake, &run).await;
    assert_eq!(reason_of(innocent.await), ExitReason::RefusedCancel);
    assert_eq!(begun.elapsed(), GRACE);
    assert_eq!(fake.ended().await, testkit::worker::Exit::Signal(9));
    // The document goes on at its version, in a fresh worker, at the next use and not before.
    tokio::time::sleep(GRACE).await;
    assert_eq!(h.started(), 2);
    let pending = h.ask("A.lean", spec("m").at_version(1));
    let (mut fresh, open) = h.worker().await;
    assert_eq!(
        open["textDocument"],
        json!({"uri": "file:///proj/A.lean", "languageId": "lean", "version": 1, "text": "one"})
    );
    let request = heard(&mut fresh, "m").await;
    fresh.peer.reply(&request, 1).await.unwrap();
    pending.await.unwrap();
    let request = heard(&mut other, "elsewhere").await;
    other.peer.reply(&request, 1).await.unwrap();
    elsewhere.await.unwrap();
    let counters = h.session.counters();
    assert_eq!((counters.refused_cancels, counters.worker_restarts, counters.worker_losses), (1, 1, 1));
}

/// Lean answers a cancelled ordinary request only when its elaboration gets there; that is no refusal.
#[tokio::test(start_paused = true)]
async fn a_silent_cancel_of_an_ordinary_request_replaces_nothing() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let hover = h.ask("A.lean", spec("hover"));
    let request = heard(&mut fake, "hover").await;
    drop(hover);
    cancelled(&mut fake, &request).await;
    tokio::time::sleep(GRACE * 100).await;
    silence(&mut fake).await;
    assert_eq!((h.started(), h.session.counters().worker_losses), (1, 0));
}

/// An elaboration that ignores the cancellation an edit brought burns a processor, too.
#[tokio::test(start_paused = true)]
async fn a_refusal_after_an_edit_replaces_the_worker() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let running = h.ask("A.lean", spec("run").at_version(1).running_text());
    heard(&mut fake, "run").await;
    h.apply("A.lean", "two").await;
    assert!(matches!(running.await, Err(RequestFailure::ContentModified { .. })));
    let next = h.ask("A.lean", spec("m").at_version(2));
    assert_eq!(reason_of(next.await), ExitReason::RefusedCancel);
    let again = h.ask("A.lean", spec("m").at_version(2));
    let (mut fresh, open) = h.worker().await;
    assert_eq!((&open["textDocument"]["version"], &open["textDocument"]["text"]), (&json!(2), &json!("two")));
    let request = heard(&mut fresh, "m").await;
    fresh.peer.reply(&request, 1).await.unwrap();
    again.await.unwrap();
}

/// Requests of the worker's have ids of their own, of any JSON type, even equal to one of ours.
#[tokio::test(start_paused = true)]
async fn the_worker_asks_and_is_answered() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let pending = h.ask("A.lean", spec("m"));
    let request = heard(&mut fake, "m").await;
    for method in ["workspace/semanticTokens/refresh", "workspace/inlayHint/refresh", "client/registerCapability"] {
        for id in [request.id().clone(), json!("x"), json!(0)] {
            fake.peer.ask(&id, method, json!({})).await.unwrap();
            assert_eq!(fake.peer.expect_response(&id).await.unwrap(), Ok(Value::Null));
        }
    }
    fake.peer.ask(7, "workspace/whatever", json!({})).await.unwrap();
    assert_eq!(fake.peer.expect_response(&json!(7)).await.unwrap().unwrap_err()["code"], -32601);
    fake.peer.reply(&request, 1).await.unwrap();
    pending.await.unwrap();
}

fn range(start: u64, end: u64, character: u64) -> Value {
    json!({"range": {"start": {"line": start, "character": 0}, "end": {"line": end, "character": character}}, "kind": 1})
}

fn progress(version: &Value, ranges: &[Value]) -> Value {
    json!({"textDocument": {"uri": "file:///proj/A.lean", "version": version}, "processing": ranges})
}

/// What there is to see now: progress, and the lists with their versions.
fn taken(observed: &mut Observations) -> (Vec<Progress>, Vec<(u64, Value)>) {
    let (mut progress, mut lists) = (Vec::new(), Vec::new());
    while let Some(observation) = observed.try_recv() {
        match observation {
            Observation::Progress(it) => progress.push(it),
            Observation::Diagnostics(it) => lists.push((it.version(), json!(it.items().unwrap()))),
            other => panic!("{other:?}"),
        }
    }
    (progress, lists)
}

/// Lean from 4.32 on sends what is new. It is added up, per version, and a whole list begins anew.
#[tokio::test(start_paused = true)]
async fn incremental_diagnostics_add_up() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let publish = |version: u64, more: bool, n: u64| {
        let items = json!([{"message": n}]);
        json!({"uri": "file:///proj/A.lean", "version": version, "isIncremental": more, "diagnostics": items})
    };
    // Before anybody watches: a later watcher sees them with the next increment.
    fake.peer.notify("textDocument/publishDiagnostics", publish(1, false, 1)).await.unwrap();
    fake.peer.notify("textDocument/publishDiagnostics", publish(1, true, 2)).await.unwrap();
    speak(&mut fake).await;
    let (observer, mut observed) = beam_session::observer();
    let _pending = h.session.request(&path("A.lean"), spec("m"), Some(observer));
    heard(&mut fake, "m").await;
    assert_eq!(taken(&mut observed).1, []);
    let (present, mut observed_present) = beam_session::observer();
    let _other = h.session.request(&path("A.lean"), spec("n"), Some(present.from_present()));
    heard(&mut fake, "n").await;
    assert_eq!(taken(&mut observed_present).1, [(1, json!([{"message": 1}, {"message": 2}]))]);
    for (version, more, n, all) in [
        (1, true, 3, json!([1, 2, 3])),
        (1, true, 4, json!([1, 2, 3, 4])),
        (1, false, 5, json!([5])),
        // Of another version there is nothing to add to.
        (2, true, 6, json!([6])),
    ] {
        fake.peer.notify("textDocument/publishDiagnostics", publish(version, more, n)).await.unwrap();
        speak(&mut fake).await;
        let messages: Vec<_> = all.as_array().unwrap().iter().map(|n| json!({"message": n})).collect();
        assert_eq!(taken(&mut observed).1, [(version, json!(messages))]);
    }
}

#[tokio::test(start_paused = true)]
async fn observations_are_the_latest_and_only_while_pending() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    h.apply("A.lean", "two").await;
    fake.peer.expect("textDocument/didChange").await.unwrap();
    // Before the request: recorded, not observed.
    fake.peer.notify("$/lean/fileProgress", progress(&json!(2), &[range(0, 9, 0)])).await.unwrap();
    speak(&mut fake).await;
    let (observer, mut observed) = beam_session::observer();
    let pending = h.session.request(&path("A.lean"), spec("m").at_version(2), Some(observer));
    let request = heard(&mut fake, "m").await;
    let diagnostics =
        |version: Value, items: Value| json!({"uri": "file:///proj/A.lean", "version": version, "diagnostics": items});
    let loud = json!({"message": "loud"});
    let silent = json!({"message": "done!", "isSilent": true});
    for (method, params) in [
        ("$/lean/fileProgress", progress(&json!(2), &[range(3, 9, 5), range(1, 2, 0)])),
        ("textDocument/publishDiagnostics", diagnostics(json!(1), json!([{"message": "old"}]))),
        ("$/lean/fileProgress", progress(&json!(1), &[])),
        ("textDocument/publishDiagnostics", diagnostics(json!(2), json!([silent, loud]))),
        ("$/lean/somethingNew", json!({"x": 1})),
        ("$/lean/fileProgress", json!({"broken": true})),
    ] {
        fake.peer.notify(method, params).await.unwrap();
    }
    speak(&mut fake).await;
    let (seen, lists) = taken(&mut observed);
    assert_eq!(
        seen,
        [Progress { updates: 2, done: false, range_start_line: Some(2), range_end_line: Some(10) }],
        "what is about another version is not shown"
    );
    assert_eq!(lists, [(2, json!([loud]))]);
    // Everything before the answer is there when the answer is, the latest of each kind.
    fake.peer.notify("$/lean/fileProgress", progress(&json!(null), &[])).await.unwrap();
    for items in [json!([loud, loud]), json!([])] {
        fake.peer.notify("textDocument/publishDiagnostics", diagnostics(json!(null), items)).await.unwrap();
    }
    fake.peer.reply(&request, 1).await.unwrap();
    let reply = pending.await.unwrap();
    let done = Progress { updates: 3, done: true, range_start_line: None, range_end_line: Some(10) };
    assert_eq!(reply.progress, Some(done));
    assert_eq!(taken(&mut observed), (vec![done], vec![(2, json!([]))]));
    fake.peer.notify("$/lean/fileProgress", progress(&json!(2), &[])).await.unwrap();
    speak(&mut fake).await;
    assert!(observed.recv().await.is_none(), "nothing is shown of what comes after the answer");
    assert_eq!(h.session.document(&path("A.lean")).await.unwrap().progress.unwrap().updates, 4);
    // An edit makes it all history.
    h.apply("A.lean", "three").await;
    assert_eq!(h.session.document(&path("A.lean")).await.unwrap().progress, None);
}

/// A worker gets a dozen requests of a kind at once. The next stands in line with us: it is sent when one has ended, and cancelling
/// it before that is nothing the worker needs to hear of. The other kind has a line of its own.
#[tokio::test(start_paused = true)]
async fn requests_beyond_what_a_worker_gets_at_once_stand_in_line() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let mut pending: Vec<_> = (0..12).map(|_| h.ask("A.lean", spec("probe").running_text())).collect();
    let given_up = h.ask("A.lean", spec("given up").running_text());
    let next = h.ask("A.lean", spec("next").running_text());
    let view = h.ask("A.lean", spec("view"));
    let mut requests = Vec::new();
    for _ in 0..12 {
        requests.push(heard(&mut fake, "probe").await);
    }
    // Whatever was sent before this one has been heard: nothing else of the first kind was.
    let request = heard(&mut fake, "view").await;
    fake.peer.reply(&request, "seen").await.unwrap();
    assert_eq!(value(&view.await.unwrap()), json!("seen"));
    drop(given_up);
    fake.peer.reply(&requests[0], 0).await.unwrap();
    assert_eq!(value(&pending.remove(0).await.unwrap()), json!(0));
    let request = heard(&mut fake, "next").await;
    fake.peer.reply(&request, "at last").await.unwrap();
    assert_eq!(value(&next.await.unwrap()), json!("at last"));
}
