//! What a file's own code writes to its worker's output: it is kept and told, and costs nobody an answer.

mod common;

use beam_session::Observation;
use common::*;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn output_between_messages_is_kept_and_told() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    // Late, when nobody asks.
    fake.peer.raw(b"printed early\n").await.unwrap();
    speak(&mut fake).await;
    let early = h.session.document(&path("A.lean")).await.unwrap().stray_output.unwrap();
    assert_eq!((&*early.text, early.bytes), ("printed early\n", 14));
    let (observer, mut observed) = beam_session::observer();
    let pending = h.session.request(&path("A.lean"), spec("m"), Some(observer));
    let request = heard(&mut fake, "m").await;
    fake.peer.raw(b"Content-Length: 3\r\n\r\nand [more]\xff\n").await.unwrap();
    fake.peer.reply(&request, 1).await.unwrap();
    let reply = pending.await.unwrap();
    let all = "printed early\nContent-Length: 3\r\n\r\nand [more]\u{fffd}\n";
    assert_eq!((value(&reply), &*reply.stray_output.unwrap().text), (json!(1), all));
    assert!(matches!(observed.try_recv(), Some(Observation::StrayOutput(it)) if &*it.text == all));
    assert_eq!((h.started(), h.session.counters().stray_bytes), (1, all.len() as u64 - 2));
    // The next worker begins with nothing.
    h.session.kill_worker(&path("A.lean")).await;
    let pending = h.ask("A.lean", spec("m"));
    let (mut fake, _) = h.worker().await;
    let request = heard(&mut fake, "m").await;
    fake.peer.reply(&request, 1).await.unwrap();
    assert_eq!(pending.await.unwrap().stray_output, None);
}

/// What is kept is bounded, and it is the end of it.
#[tokio::test(start_paused = true)]
async fn the_end_of_much_output_is_kept() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    for n in 0..20 {
        fake.peer.raw(format!("{n:010}\n").repeat(1000).as_bytes()).await.unwrap();
        speak(&mut fake).await;
    }
    let kept = h.session.document(&path("A.lean")).await.unwrap().stray_output.unwrap();
    assert_eq!((kept.text.len(), kept.bytes), (64 * 1024, 20 * 11_000));
    assert!(kept.text.ends_with("0000000019\n"));
}

/// A message that cannot be put together again is lost, and its caller would wait for ever: the next answer says why.
#[tokio::test(start_paused = true)]
async fn a_lost_message_ends_the_worker_and_is_told() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let pending = h.ask("A.lean", spec("m"));
    let request = heard(&mut fake, "m").await;
    let body = json!({"jsonrpc": "2.0", "id": request.id(), "result": "a long string"}).to_string();
    let (head, tail) = body.split_at(body.len() - 8);
    fake.peer.raw(format!("Content-Length: {}\r\n\r\n{head}printed\n{tail}", body.len()).as_bytes()).await.unwrap();
    let exit = exit_of(pending.await).to_string();
    assert!(exit.contains("in the middle of a message"), "{exit}");
}
