//! Overlap, cancellation, the eviction fence, the end.

use std::time::Duration;

use beam_mcp::{ExitReason, Options};
use serde_json::{Value, json};

use crate::support::{Client, Fake, call, modern, modern_call, project};

fn run_at(root: &str, text: &str) -> Value {
    json!({ "workspace": { "root": root }, "path": "A.lean", "version": 1, "line": 0, "character": 0, "text": text })
}

fn probe(id: impl Into<Value>, root: &str, text: &str) -> Value {
    modern_call(id, "lean_run_at", run_at(root, text), json!({}))
}

fn evict(id: impl Into<Value>, root: &str) -> Value {
    modern_call(id, "lean_drop_workspace", json!({ "workspace": { "root": root } }), json!({}))
}

fn cancel(id: impl Into<Value>) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id.into(), "reason": "enough" } })
}

fn start() -> (Client, Fake) {
    let fake = Fake::default();
    (Client::start(fake.clone(), Options::default()), fake)
}

const MOMENT: Duration = Duration::from_millis(500);

#[tokio::test(start_paused = true)]
async fn calls_overlap_and_answer_out_of_order() {
    let ((mut c, fake), (_dir, root)) = (start(), project());
    for id in 0..5 {
        c.send(&probe(id, &root, &format!("gate g{id}"))).await;
    }
    fake.until(|f| f.active() == 5).await;
    for id in [3, 0, 4, 2, 1] {
        fake.open(&format!("g{id}"));
        assert_eq!(c.recv().await["id"], id);
    }
    // What needs no work is answered while calls run.
    c.send(&probe(9, &root, "gate last")).await;
    assert_eq!(c.code(&modern(10, "tools/list", json!({}), json!({})).to_string()).await, 0);
}

/// M4.
#[tokio::test(start_paused = true)]
async fn m4_a_cancelled_call_says_nothing_more_and_frees_its_id() {
    let ((mut c, fake), (_dir, root)) = (start(), project());
    c.send(&modern_call(
        "a",
        "lean_run_at",
        run_at(&root, "gate x; file 1 false; hang"),
        json!({ "progressToken": 1 }),
    ))
    .await;
    assert_eq!(c.recv().await["method"], "notifications/progress");
    fake.until(|f| f.active() == 1).await;
    c.send(&cancel("a")).await;
    fake.until(|f| f.cancelled() == 1).await;
    fake.open("x");
    c.quiet(Duration::from_secs(10)).await;
    // The id is free, and the new request is another one.
    let answer = c.ask(&probe("a", &root, "ok")).await;
    assert_eq!(answer["result"]["isError"], false);
    // A late cancellation is harmless.
    c.send(&cancel("a")).await;
    assert_eq!(c.ask(&probe("a", &root, "ok")).await["result"]["isError"], false);
    assert_eq!(fake.cancelled(), 1);
}

#[tokio::test(start_paused = true)]
async fn cancellation_is_by_exact_id_and_tolerates_modern_metadata() {
    let ((mut c, fake), (_dir, root)) = (start(), project());
    for id in [json!(1), json!("1")] {
        c.send(&probe(id, &root, "hang")).await;
    }
    fake.until(|f| f.active() == 2).await;
    c.raw(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":10e-1,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#).await;
    fake.until(|f| f.cancelled() == 1).await;
    c.quiet(MOMENT).await;
    assert_eq!(fake.active(), 1, "the string is another id");
    c.send(&cancel("1")).await;
    fake.until(|f| f.active() == 0).await;
}

/// Cancellation before the call's turn prevents its dispatch.
#[tokio::test(start_paused = true)]
async fn a_call_cancelled_before_dispatch_never_runs() {
    let ((mut c, fake), (_dir, root)) = (start(), project());
    c.send(&probe(1, &root, "gate a")).await;
    fake.until(|f| f.active() == 1).await;
    c.send(&evict(2, &root)).await;
    c.send(&probe(3, &root, "never")).await;
    c.send(&cancel(3)).await;
    // In one go, so that the cancellation is read before the call's task has run at all.
    let both = format!("{}\n{}\n", probe(4, &root, "never"), cancel(4));
    c.bytes(both.as_bytes()).await;
    c.quiet(MOMENT).await;
    fake.open("a");
    assert_eq!(c.recv().await["id"], 1);
    assert_eq!(c.recv().await["id"], 2);
    c.quiet(MOMENT).await;
    assert!(!fake.log().iter().any(|l| l.contains("never")), "{:?}", fake.log());
}

#[tokio::test(start_paused = true)]
async fn an_eviction_is_a_full_fence_and_cannot_be_cancelled() {
    let ((mut c, fake), (_dir, root), (_dir2, root2)) = (start(), project(), project());
    fake.gate_drops();
    c.send(&probe(1, &root, "gate a")).await;
    c.send(&probe(2, &root2, "gate b")).await;
    fake.until(|f| f.active() == 2).await;
    c.send(&evict(3, &root)).await;
    c.send(&probe(4, &root2, "late")).await;
    c.send(&modern_call(5, "beam_version", json!({}), json!({}))).await;
    c.send(&evict(6, &root2)).await;
    c.send(&probe(7, &root, "last")).await;
    c.send(&cancel(3)).await;
    c.send(&cancel(6)).await;
    c.quiet(MOMENT).await;
    // Neither lists nor discovery are held up.
    assert_eq!(c.code(&modern("l", "tools/list", json!({}), json!({})).to_string()).await, 0);
    assert_eq!(c.code(&modern("d", "server/discover", json!({}), json!({})).to_string()).await, 0);
    assert!(!fake.log().iter().any(|l| l.starts_with("drop")), "earlier calls of every workspace come first");
    fake.open("a");
    assert_eq!(c.recv().await["id"], 1);
    c.quiet(MOMENT).await;
    fake.open("b");
    assert_eq!(c.recv().await["id"], 2);
    c.quiet(MOMENT).await;
    assert_eq!(fake.log().last().unwrap(), "drop with 0 active");
    assert_eq!(fake.started(), 2, "later calls wait");
    fake.open("drop");
    let mut order = Vec::new();
    for _ in 0..5 {
        let m = c.recv().await;
        order.push(m["id"].as_i64().unwrap());
        if m["id"] == 3 || m["id"] == 6 {
            assert_eq!(m["result"]["structuredContent"]["dropped"], true);
        }
        assert_eq!(m["result"]["isError"], false, "{m}");
    }
    assert_eq!((order[0], order[3], order[4]), (3, 6, 7), "{order:?}");
    assert_eq!(fake.made().len(), 3, "the last call made its workspace anew");
}

#[tokio::test(start_paused = true)]
async fn a_legacy_ping_passes_the_fence() {
    let ((mut c, fake), (_dir, root)) = (start(), project());
    c.initialize().await;
    c.send(&call(1, "lean_run_at", run_at(&root, "gate a"), json!({}))).await;
    c.send(&call(2, "lean_drop_workspace", json!({ "workspace": { "root": root } }), json!({}))).await;
    assert_eq!(c.code(r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#).await, 0);
    fake.open("a");
    assert_eq!(c.recv().await["id"], 1);
    assert_eq!(c.recv().await["id"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_no_longer_holds_up_an_eviction() {
    let ((mut c, fake), (_dir, root)) = (start(), project());
    c.send(&probe(1, &root, "hang")).await;
    fake.until(|f| f.active() == 1).await;
    c.send(&evict(2, &root)).await;
    c.quiet(MOMENT).await;
    c.send(&cancel(1)).await;
    assert_eq!(c.recv().await["id"], 2);
    assert_eq!(fake.log().iter().filter(|l| *l == "drop with 0 active").count(), 1);
}

/// Far more calls than may be at work at once: all are answered, and those in line can be cancelled.
#[tokio::test(start_paused = true)]
async fn calls_beyond_the_limit_stand_in_line() {
    let ((mut c, fake), (_dir, root)) = (start(), project());
    for id in 0..300 {
        c.send(&probe(id, &root, "gate a")).await;
    }
    fake.until(|f| f.active() == 128).await;
    c.quiet(MOMENT).await;
    assert_eq!(fake.started(), 128);
    for id in 200..300 {
        c.send(&cancel(id)).await;
    }
    c.quiet(MOMENT).await;
    fake.open("a");
    let mut ids: Vec<_> = Vec::new();
    for _ in 0..200 {
        ids.push(c.recv().await["id"].as_i64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..200).collect::<Vec<_>>());
    c.quiet(MOMENT).await;
    assert_eq!((fake.started(), fake.peak()), (200, 128));
}

/// While every place for a call is taken, a further call is refused at once, and cancellations and the end of the input are still read.
#[tokio::test(start_paused = true)]
async fn m6_full_slots_hold_up_neither_cancellation_nor_the_end() {
    let ((mut c, fake), (_dir, root)) = (start(), project());
    for id in 0..1024 {
        c.send(&probe(id, &root, "hang")).await;
    }
    fake.until(|f| f.active() == 128).await;
    let refused = c.ask(&probe("one too many", &root, "ok")).await;
    let error = &refused["result"]["structuredContent"];
    assert_eq!((&refused["result"]["isError"], &error["code"]), (&json!(true), &json!("tooManyCalls")), "{refused}");
    assert_eq!(error["data"], json!({ "limit": 1024 }));
    // An eviction is a call, too.
    assert_eq!(c.ask(&evict("drop", &root)).await["result"]["structuredContent"]["code"], "tooManyCalls");
    // What needs no work needs no place.
    assert_eq!(c.code(&modern("list", "tools/list", json!({}), json!({})).to_string()).await, 0);
    c.send(&cancel(7)).await;
    c.send(&cancel(1023)).await;
    fake.until(|f| f.cancelled() == 1).await;
    // Its place is free again; the call stands in line behind those before it.
    c.send(&probe("again", &root, "ok")).await;
    c.quiet(MOMENT).await;
    c.close_stdin();
    let before = tokio::time::Instant::now();
    let (rest, reason) = c.finish().await;
    assert!(before.elapsed() < Duration::from_secs(2), "{:?}", before.elapsed());
    assert_eq!((rest, reason), (Vec::new(), ExitReason::InputClosed));
}

/// A client that reads nothing is no longer answered, but what it cancels and that it ends is noticed.
#[tokio::test(start_paused = true)]
async fn m6_unread_answers_hold_up_neither_cancellation_nor_the_end() {
    let ((mut c, fake), (_dir, root)) = (start(), project());
    c.send(&probe("hanging", &root, "hang")).await;
    fake.until(|f| f.active() == 1).await;
    for id in 0..200 {
        c.send(&modern(id, "tools/list", json!({}), json!({}))).await;
    }
    c.send(&cancel("hanging")).await;
    tokio::time::timeout(Duration::from_secs(60), fake.until(|f| f.cancelled() == 1)).await.expect("it is read");
    c.close_stdin();
    let before = tokio::time::Instant::now();
    assert_eq!(c.ended().await, ExitReason::InputClosed);
    assert!(before.elapsed() < Duration::from_secs(2), "{:?}", before.elapsed());
}

/// A client that stops reading stops us: what is kept for it is bounded, and nothing is lost when it reads again.
#[tokio::test(start_paused = true)]
async fn a_client_that_stops_reading_is_not_read_for_ever() {
    let ((mut c, fake), (_dir, root)) = (start(), project());
    let sync = json!({ "workspace": { "root": root }, "path": "flood 1000.lean" });
    c.send(&modern_call(1, "lean_sync", sync, json!({ "io.modelcontextprotocol/logLevel": "error" }))).await;
    c.quiet(Duration::ZERO).await;
    // Time only passes while nobody has anything to do.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let kept = fake.log().iter().filter(|l| *l == "flooded").count();
    assert!((50..400).contains(&kept), "{kept} diagnostics of 10 kB were taken from the broker");
    let seen = c.until(&json!(1)).await;
    assert_eq!(seen.iter().filter(|m| m["params"]["logger"] == "lean.diagnostic").count(), 1000);

    // The same with requests: at some point stdin is no longer read.
    let mut sent = 0;
    let list = |id: i32| format!("{}\n", modern(id, "tools/list", json!({}), json!({})));
    while tokio::time::timeout(Duration::from_secs(5), c.bytes(list(sent).as_bytes())).await.is_ok() {
        sent += 1;
        assert!(sent < 2000, "it is still reading");
    }
}

#[tokio::test(start_paused = true)]
async fn progress_that_finds_no_room_is_dropped_and_the_rest_rises() {
    let ((mut c, _), (_dir, root)) = (start(), project());
    let args = json!({ "workspace": { "root": root }, "path": "flood 200; progress 1000; file 99999 true.lean" });
    let extra = json!({ "io.modelcontextprotocol/logLevel": "error", "progressToken": "p" });
    c.send(&modern_call(1, "lean_sync", args, extra)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let seen = c.until(&json!(1)).await;
    let counts: Vec<_> = seen.iter().filter_map(|m| m["params"]["progress"].as_u64()).collect();
    assert_eq!(counts, (1..=u64::try_from(counts.len()).unwrap()).collect::<Vec<_>>());
    let last = seen.iter().rfind(|m| m["params"]["progress"].is_number()).unwrap();
    assert!(last["params"]["message"].as_str().unwrap().contains("done=true"), "{last}");
}

/// M5.
#[tokio::test(start_paused = true)]
async fn m5_the_end_of_stdin_cancels_drains_and_ends() {
    let ((mut c, fake), (_dir, root)) = (start(), project());
    c.send(&probe(1, &root, "hang")).await;
    c.send(&probe(2, &root, "sleep 100")).await;
    fake.until(|f| f.active() == 2).await;
    c.close_stdin();
    let before = tokio::time::Instant::now();
    let (rest, reason) = c.finish().await;
    assert!(before.elapsed() < Duration::from_secs(2), "{:?}", before.elapsed());
    assert_eq!(reason, ExitReason::InputClosed);
    let ids: Vec<_> = rest.iter().map(|m| &m["id"]).collect();
    assert_eq!(ids, [&json!(2)], "what is nearly done is answered, the rest is cancelled without an answer");
    assert_eq!(fake.cancelled(), 1);
    assert_eq!(fake.log().last().unwrap(), "drained");
}

/// An eviction under way is waited for, but not for ever.
#[tokio::test(start_paused = true)]
async fn m5_an_eviction_does_not_hold_up_the_end() {
    for late in [false, true] {
        let ((mut c, fake), (_dir, root)) = (start(), project());
        fake.gate_drops();
        c.send(&evict(1, &root)).await;
        fake.until(|f| f.log().iter().any(|l| l.starts_with("drop"))).await;
        c.close_stdin();
        let before = tokio::time::Instant::now();
        if !late {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(600)).await;
                fake.open("drop");
            });
        }
        let (rest, _) = c.finish().await;
        assert_eq!(rest.len(), usize::from(!late));
        assert!(before.elapsed() < Duration::from_secs(2));
    }
}

#[tokio::test(start_paused = true)]
async fn being_told_to_stop_and_a_closed_pipe_are_regular_ends() {
    let ((mut c, fake), (_dir, root)) = (start(), project());
    c.send(&probe(1, &root, "hang")).await;
    fake.until(|f| f.active() == 1).await;
    c.stop.cancel();
    let (rest, reason) = c.finish().await;
    assert_eq!((rest.len(), reason, fake.cancelled()), (0, ExitReason::Stopped, 1));

    let ((mut c, fake), (_dir, root)) = (start(), project());
    c.send(&probe(1, &root, "hang")).await;
    fake.until(|f| f.active() == 1).await;
    let reason = c.hang_up().await;
    assert_eq!((reason, fake.cancelled()), (ExitReason::OutputClosed, 1));
}

/// Nobody reads, and stdin ends: the process ends all the same.
#[tokio::test(start_paused = true)]
async fn m5_a_stuck_client_does_not_keep_us_alive() {
    let ((mut c, _), (_dir, root)) = (start(), project());
    let sync = json!({ "workspace": { "root": root }, "path": "flood 1000.lean" });
    c.send(&modern_call(1, "lean_sync", sync, json!({ "io.modelcontextprotocol/logLevel": "error" }))).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    c.close_stdin();
    let before = tokio::time::Instant::now();
    assert_eq!(c.ended().await, ExitReason::InputClosed);
    assert!(before.elapsed() < Duration::from_secs(2), "{:?}", before.elapsed());
}

/// The server never asks anything: everything with an id answers a request, everything without is a notification of ours.
#[tokio::test(start_paused = true)]
async fn the_server_sends_no_requests() {
    let ((mut c, _), (_dir, root)) = (start(), project());
    c.initialize().await;
    let args = json!({ "workspace": { "root": root }, "path": "lake 3; diag 1; file 1 false; file 2 true.lean", "diagnostic_scope": "all" });
    c.send(&call(1, "lean_sync", args, json!({ "progressToken": 1.5 }))).await;
    for m in c.until(&json!(1)).await {
        assert_eq!(m.get("id").is_some(), m.get("method").is_none(), "{m}");
        assert!(m.get("method").is_none_or(|m| m == "notifications/progress" || m == "notifications/message"));
    }
}
