//! Opening, editing, closing: what reaches the worker, and in which order (S4; broker-protocol section 10).

mod common;

use beam_session::{BuildMode, Modified, RequestFailure, Seq, Snapshot};
use common::*;
use expect_test::expect;
use serde_json::json;
use testkit::worker::Exit;

#[tokio::test(start_paused = true)]
async fn opening_sends_initialize_and_the_text() {
    let mut h = Harness::with(false, |config| {
        config.build_mode = BuildMode::Once;
        config.init_params = json!({"capabilities": {"lean": {"x": 1}}, "trace": "off"}).as_object().unwrap().clone();
    });
    assert_eq!(h.started(), 0, "a session starts no process by itself");
    let applied = h.apply("A b.lean", "def a := 1\r\n").await;
    assert!(applied.opened && applied.changed && applied.version == 1);
    let mut fake = h.newborn().await;
    let initialize = fake.peer.expect("initialize").await.unwrap();
    expect![[r#"
        {
          "id": 0,
          "method": "initialize",
          "params": {
            "processId": null,
            "rootUri": "file:///proj",
            "workspaceFolders": [
              {
                "uri": "file:///proj",
                "name": "root"
              }
            ],
            "initializationOptions": {
              "hasWidgets": false
            },
            "capabilities": {
              "textDocument": {
                "completion": {
                  "completionItem": {
                    "insertReplaceSupport": true
                  }
                }
              },
              "workspace": {
                "applyEdit": true,
                "workspaceEdit": {
                  "documentChanges": true
                }
              },
              "lean": {
                "silentDiagnosticSupport": false,
                "incrementalDiagnosticSupport": true,
                "x": 1
              }
            },
            "trace": "off"
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&initialize.to_json()).unwrap());
    let open = fake.peer.expect("textDocument/didOpen").await.unwrap();
    assert_eq!(
        *open.params(),
        json!({
            "textDocument": {"uri": "file:///proj/A%20b.lean", "languageId": "lean", "version": 1, "text": "def a := 1\n"},
            "dependencyBuildMode": "once"
        })
    );
    silence(&mut fake).await;
}

#[tokio::test(start_paused = true)]
async fn s4_versions_rise_with_every_change_and_only_then() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let same = h.apply("A.lean", "one").await;
    assert!(!same.changed && !same.opened && same.version == 1);
    silence(&mut fake).await;
    for (n, text) in ["two", "three", "two"].into_iter().enumerate() {
        let version = n as u64 + 2;
        let applied = h.apply("A.lean", text).await;
        assert!(applied.changed && !applied.opened && applied.version == version);
        let change = fake.peer.expect("textDocument/didChange").await.unwrap();
        assert_eq!(
            *change.params(),
            json!({"textDocument": {"uri": "file:///proj/A.lean", "version": version}, "contentChanges": [{"text": text}]})
        );
    }
    // A worker dies of a `didSave`, so none may be sent.
    silence(&mut fake).await;
    assert_eq!(h.session.document(&path("A.lean")).await.unwrap().version, 4);
}

#[tokio::test(start_paused = true)]
async fn line_ends_are_no_change() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "a\nb\n").await;
    assert!(!h.apply("A.lean", "a\r\nb\r\n").await.changed);
    silence(&mut fake).await;
}

/// R-062: an older file read finishing late never overrides a newer one.
#[tokio::test(start_paused = true)]
async fn an_older_read_is_ignored() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "start").await;
    let (early, late) = (h.session.reserve(), h.session.reserve());
    let at = path("A.lean");
    let newer = h.session.apply(&at, Snapshot::new(late, "new", None)).await.unwrap();
    assert!(newer.changed && !newer.superseded);
    let older = h.session.apply(&at, Snapshot::new(early, "old", None)).await.unwrap();
    assert!(older.superseded && !older.changed && older.version == 2 && &*older.text == "new");
    assert_eq!(fake.peer.expect("textDocument/didChange").await.unwrap().params()["contentChanges"][0]["text"], "new");
    silence(&mut fake).await;
    // Reads that are ordered already are not compared, and the same sequence again is not older.
    assert!(h.session.apply(&at, Snapshot::new(Seq::ORDERED, "by hand", None)).await.unwrap().changed);
    assert!(h.session.apply(&at, Snapshot::new(late, "again", None)).await.unwrap().changed);
    assert!(h.session.apply(&at, Snapshot::new(early, "old", None)).await.unwrap().superseded);
}

/// Edits and requests reach the worker in the order of the calls, though nobody awaited any of them in between.
#[tokio::test(start_paused = true)]
async fn order_is_call_order() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let at = path("A.lean");
    let snap = |text: &str| Snapshot::new(h.session.reserve(), text, None);
    let first = h.ask("A.lean", spec("m1"));
    let edit = h.session.apply(&at, snap("two"));
    let second = h.ask("A.lean", spec("m2"));
    let edit_again = h.session.apply(&at, snap("three"));
    for expected in ["m1", "textDocument/didChange", "m2", "textDocument/didChange"] {
        let message = fake.peer.expect(expected).await.unwrap();
        if !expected.starts_with("textDocument") {
            fake.peer.reply(&message, expected).await.unwrap();
        }
    }
    assert_eq!(value(&second.await.unwrap()), json!("m2"));
    assert_eq!(value(&first.await.unwrap()), json!("m1"));
    assert_eq!((edit_again.await.unwrap().version, edit.await.unwrap().version), (3, 2));
}

/// A bound request about another version is refused before anything is sent.
#[tokio::test(start_paused = true)]
async fn a_stale_version_sends_nothing() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    h.apply("A.lean", "two").await;
    fake.peer.expect("textDocument/didChange").await.unwrap();
    for version in [1, 3] {
        match h.ask("A.lean", spec("m").at_version(version)).await {
            Err(RequestFailure::StaleVersion { expected, accepted: 2, uri }) => {
                assert_eq!((expected, uri.as_str()), (version, "file:///proj/A.lean"));
            }
            other => panic!("{other:?}"),
        }
    }
    silence(&mut fake).await;
    assert_eq!(h.session.counters().requests, 0);
}

#[tokio::test(start_paused = true)]
async fn an_edit_ends_bound_requests_and_tells_the_worker() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let bound = h.ask("A.lean", spec("bound").at_version(1));
    let free = h.ask("A.lean", spec("free"));
    let bound_id = heard(&mut fake, "bound").await;
    let free_id = heard(&mut fake, "free").await;
    h.apply("A.lean", "two").await;
    match bound.await {
        Err(RequestFailure::ContentModified { how: Modified::Edited { version: 2 }, expected: Some(1), .. }) => {}
        other => panic!("{other:?}"),
    }
    cancelled(&mut fake, &bound_id).await;
    fake.peer.expect("textDocument/didChange").await.unwrap();
    // What comes for it now is late, and says nothing about the new text.
    fake.peer.reply(&bound_id, "late").await.unwrap();
    fake.peer.reply(&free_id, "fine").await.unwrap();
    let reply = free.await.unwrap();
    assert_eq!((value(&reply), reply.version), (json!("fine"), 2));
    assert_eq!(h.session.counters().late_replies, 1);
}

#[tokio::test(start_paused = true)]
async fn closing_ends_everything_and_reopening_takes_the_next_version() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    h.apply("A.lean", "two").await;
    let bound = h.ask("A.lean", spec("m").at_version(2));
    let free = h.ask("A.lean", spec("m"));
    let closing = h.session.close(&path("A.lean"));
    assert!(matches!(
        bound.await,
        Err(RequestFailure::ContentModified { how: Modified::Closed, expected: Some(2), .. })
    ));
    assert!(matches!(free.await, Err(RequestFailure::ContentModified { how: Modified::Closed, expected: None, .. })));
    assert!(closing.await);
    assert!(!h.session.close(&path("A.lean")).await);
    let seen = fake.peer.until_closed().await.unwrap();
    let methods: Vec<_> = seen.iter().filter_map(|it| it.method()).collect();
    assert_eq!(methods, ["textDocument/didChange", "m", "m", "exit"]);
    assert!(matches!(h.ask("A.lean", spec("m")).await, Err(RequestFailure::NotOpen(it)) if it == path("A.lean")));
    // The old process takes its time; the new one does not wait for it.
    let again = h.apply("A.lean", "two").await;
    assert!(again.opened && again.version == 3);
    let (_, open) = h.worker().await;
    assert_eq!(open["textDocument"]["version"], 3);
    fake.die(Exit::Code(0));
    assert_eq!(h.session.counters().worker_losses, 0);
    // Another document has its own.
    assert_eq!(h.apply("B.lean", "one").await.version, 1);
}

/// The watchdog's part of saving: importers are told, and nobody else.
#[tokio::test(start_paused = true)]
async fn importers_hear_of_a_change() {
    let mut h = Harness::new();
    let mut low = h.open("Low.lean", "1").await;
    let mut top = h.open("Top.lean", "import Low").await;
    let mut other = h.open("Other.lean", "").await;
    let closure = json!({"importClosure": ["file:///lib/Init.lean", "file:///proj/Low.lean"]});
    top.peer.notify("$/lean/importClosure", closure).await.unwrap();
    speak(&mut top).await;
    h.apply("Low.lean", "2").await;
    low.peer.expect("textDocument/didChange").await.unwrap();
    let told = top.peer.expect("$/lean/staleDependency").await.unwrap();
    assert_eq!(*told.params(), json!({"staleDependency": "file:///proj/Low.lean"}));
    silence(&mut other).await;
    silence(&mut low).await;
    // One whose Lean finds no sources names its direct imports only.
    other
        .peer
        .notify("$/lean/ileanHeaderSetupInfo", json!({"version": 1, "directImports": [["Low", false]]}))
        .await
        .unwrap();
    speak(&mut other).await;
    h.apply("Low.lean", "2b").await;
    low.peer.expect("textDocument/didChange").await.unwrap();
    other.peer.expect("$/lean/staleDependency").await.unwrap();
    top.peer.expect("$/lean/staleDependency").await.unwrap();
    // The fresh worker of a crashed importer imports anew and knows its own closure only.
    top.die(Exit::Code(1));
    let retry = h.ask("Top.lean", spec("m"));
    assert_eq!(reason_of(retry.await), beam_session::ExitReason::Crash);
    let again = h.ask("Top.lean", spec("m"));
    let (mut top, _) = h.worker().await;
    heard(&mut top, "m").await;
    h.apply("Low.lean", "3").await;
    low.peer.expect("textDocument/didChange").await.unwrap();
    silence(&mut top).await;
    drop(again);
}
