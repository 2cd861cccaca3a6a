//! References, symbols and corrected definitions: what the worker says, what other documents say, what was built.

mod common;

use std::time::Duration;

use beam_base::{AbsPath, Deadline, uri};
use beam_session::{IndexRoots, RequestFailure, RequestSpec, SessionConfig, Snapshot};
use common::*;
use serde_json::{Value, json};
use testkit::TempProject;
use testkit::worker::{Exit, FakeWorker};

/// A key of the reference data.
fn key(module: &str, name: &str) -> String {
    json!({"c": {"m": module, "n": name}}).to_string()
}

fn external(uri: &str) -> String {
    format!("«external:{uri}»")
}

fn span(line: u32) -> Value {
    json!([line, 0, line, 3, "someDecl"])
}

fn place(uri: &str, line: u32) -> Value {
    json!({"uri": uri, "range": {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 3}}})
}

/// A project on disk, two documents open, a third module built.
struct Stage {
    h: Harness,
    project: TempProject,
    low: FakeWorker,
    top: FakeWorker,
}

impl Stage {
    async fn new() -> Self {
        let project = TempProject::empty().unwrap();
        for source in ["Low.lean", "Top.lean", "Far/Away.lean"] {
            project.write(source, "").unwrap();
        }
        let roots = IndexRoots { ileans: vec![project.path("out")], sources: vec![project.root().clone()] };
        let h = Harness::with(false, |config: &mut SessionConfig| config.index = roots);
        // The built state of an open document: outdated.
        let low =
            json!({"module": "Low", "references": {key("Low", "low"): {"definition": span(99), "usages": [span(98)]}}});
        project.write("out/Low.ilean", low.to_string()).unwrap();
        let far = json!({"module": "Far.Away", "references": {
            key("Low", "low"): {"definition": null, "usages": [span(30)]},
            key("Far.Away", "far"): {"definition": span(1), "usages": []},
        }});
        project.write("out/Far/Away.ilean", far.to_string()).unwrap();
        let (low, top) = (project.path("Low.lean"), project.path("Top.lean"));
        let mut stage = Self { low: h.dummy().await, top: h.dummy().await, h, project };
        stage.low = stage.open(&low).await;
        stage.top = stage.open(&top).await;
        stage
    }

    async fn open(&mut self, path: &AbsPath) -> FakeWorker {
        let snap = Snapshot::new(self.h.session.reserve(), "text", None);
        self.h.session.apply(path, snap).await.unwrap();
        let (mut fake, _) = self.h.worker().await;
        speak(&mut fake).await;
        fake
    }

    fn uri(&self, name: &str) -> String {
        uri::from_path(&self.project.path(name))
    }

    /// What the worker of `Low.lean` says of it; it was not told its module.
    async fn low_is_known(&mut self, kind: &str) {
        let low = external(&self.uri("Low.lean"));
        let references = json!({
            key(&low, "low"): {"definition": span(4), "usages": [span(5), span(5)]},
            key(&low, &format!("_private.{low}.0.hid")): {"definition": span(6), "usages": []},
            key("Init.Prelude", "Nat"): {"definition": null, "usages": [span(7)]},
        });
        let params = json!({"version": 1, "decls": {}, "references": references});
        self.low.peer.notify(kind, params).await.unwrap();
        speak(&mut self.low).await;
    }

    async fn top_is_known(&mut self) {
        let references = json!({key("Low", "low"): {"definition": null, "usages": [span(8)]}});
        let params = json!({"version": 1, "decls": {}, "references": references});
        self.top.peer.notify("$/lean/ileanInfoUpdate", params).await.unwrap();
        speak(&mut self.top).await;
    }

    fn references(&self, line: u32, declaration: bool) -> RequestSpec {
        let params = json!({
            "textDocument": {"uri": self.uri("Low.lean")},
            "position": {"line": line, "character": 1},
            "context": {"includeDeclaration": declaration},
        });
        RequestSpec::new("textDocument/references", params).at_version(1)
    }

    fn ask(&self, name: &str, spec: RequestSpec) -> beam_session::Pending {
        self.h.session.request(&self.project.path(name), spec, None)
    }
}

impl Harness {
    /// A worker of nobody's.
    async fn dummy(&self) -> FakeWorker {
        testkit::worker::pair(0).1
    }
}

#[tokio::test]
async fn references_wait_for_the_whole_file_and_look_everywhere() {
    let mut stage = Stage::new().await;
    stage.top_is_known().await;
    let pending = stage.ask("Low.lean", stage.references(5, true));
    let without = stage.ask("Low.lean", stage.references(4, false));
    let nowhere = stage.ask("Low.lean", stage.references(50, true));
    // A part is not enough.
    stage.low_is_known("$/lean/ileanInfoUpdate").await;
    assert_eq!(stage.h.session.document(&stage.project.path("Low.lean")).await.unwrap().pending, 3);
    stage.low_is_known("$/lean/ileanInfoFinal").await;
    let (low, top, far) = (stage.uri("Low.lean"), stage.uri("Top.lean"), stage.uri("Far/Away.lean"));
    let usages = [place(&far, 30), place(&low, 5), place(&top, 8)];
    let all = [place(&far, 30), place(&low, 4), place(&low, 5), place(&top, 8)];
    let reply = pending.await.unwrap();
    assert_eq!((value(&reply), reply.version), (json!(all), 1));
    assert_eq!(value(&without.await.unwrap()), json!(usages));
    assert_eq!(value(&nowhere.await.unwrap()), json!([]));
    // Nothing of this went to the worker; and now that the file is known, the answer comes at once.
    assert_eq!(value(&stage.ask("Low.lean", stage.references(5, true)).await.unwrap()), json!(all));
    assert_eq!(stage.h.session.counters().requests, 0);
}

#[tokio::test(start_paused = true)]
async fn references_end_like_every_request() {
    let mut stage = Stage::new().await;
    let spec = || stage.references(5, true);
    let timed = stage.ask("Low.lean", spec().with_deadline(Deadline::after(Duration::from_secs(1))));
    let cancelled = stage.ask("Low.lean", spec());
    let edited = stage.ask("Low.lean", spec());
    assert!(matches!(timed.await, Err(RequestFailure::TimedOut)));
    cancelled.canceller().cancel();
    assert!(matches!(cancelled.await, Err(RequestFailure::Cancelled)));
    let text = Snapshot::new(stage.h.session.reserve(), "new", None);
    stage.h.session.apply(&stage.project.path("Low.lean"), text).await.unwrap();
    assert!(matches!(edited.await, Err(RequestFailure::ContentModified { .. })));
    // The worker never had them: no cancellation, only the edit.
    stage.low.peer.expect("textDocument/didChange").await.unwrap();
    silence(&mut stage.low).await;
    let lost = stage.ask("Low.lean", stage.references(5, true).at_version(2));
    stage.low.die(Exit::Code(1));
    assert_eq!(reason_of(lost.await), beam_session::ExitReason::Crash);
}

#[tokio::test(start_paused = true)]
async fn wrong_parameters_are_refused() {
    let mut h = Harness::new();
    let mut fake = h.open("A.lean", "one").await;
    let pending = h.ask("A.lean", RequestSpec::new("textDocument/references", json!({"position": 1})));
    assert!(matches!(pending.await, Err(RequestFailure::Server(error)) if error.code == -32602));
    silence(&mut fake).await;
}

async fn definition(stage: &mut Stage, line: u32, links: Value) -> Value {
    let params = json!({"textDocument": {"uri": stage.uri("Top.lean")}, "position": {"line": line, "character": 1}});
    let pending = stage.ask("Top.lean", RequestSpec::new("textDocument/definition", params));
    let request = heard(&mut stage.top, "textDocument/definition").await;
    stage.top.peer.reply(&request, links).await.unwrap();
    value(&pending.await.unwrap())
}

fn link(uri: &str, line: u32, more: &Value) -> Value {
    let range = &place(uri, line)["range"];
    let mut link =
        json!({"originSelectionRange": 1, "targetUri": uri, "targetRange": range, "targetSelectionRange": range});
    link.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    link
}

#[tokio::test]
async fn definitions_are_where_the_index_says() {
    let mut stage = Stage::new().await;
    stage.low_is_known("$/lean/ileanInfoFinal").await;
    stage.top_is_known().await;
    let (low, far) = (stage.uri("Low.lean"), stage.uri("Far/Away.lean"));
    // The import was built when `low` was on line 99; the open document knows better.
    let stale = json!([link(&low, 99, &json!({"ident": {"module": "Low", "decl": "low"}, "isDefault": false}))]);
    assert_eq!(definition(&mut stage, 8, stale).await, json!([link(&low, 4, &json!({}))]));
    // By URI, as other releases do; a module that is not open; one that nobody knows.
    let links = json!([
        link(&low, 99, &json!({"ident": {"uri": low, "decl": "low"}, "isDefault": false})),
        link(&far, 77, &json!({"ident": {"module": "Far.Away", "decl": "far"}, "isDefault": false})),
        link("file:///lib/Init.lean", 5, &json!({"ident": {"module": "Init", "decl": "id"}, "isDefault": false})),
        link("file:///lib/Std.lean", 6, &json!({})),
    ]);
    let expected = json!([
        link(&low, 4, &json!({})),
        link(&far, 1, &json!({})),
        link("file:///lib/Init.lean", 5, &json!({})),
        link("file:///lib/Std.lean", 6, &json!({})),
    ]);
    assert_eq!(definition(&mut stage, 8, links).await, expected);
    // Right already: the worker's wider range stays.
    let mut wide = link(&low, 4, &json!({"ident": {"module": "Low", "decl": "low"}, "isDefault": false}));
    wide["targetRange"]["end"]["line"] = json!(20);
    let kept = definition(&mut stage, 8, json!([wide])).await;
    assert_eq!(kept[0]["targetRange"]["end"]["line"], json!(20));
    assert_eq!(kept[0].as_object().unwrap().len(), 4, "{kept}");
    // Guesses give way to the index, and stand where it knows nothing.
    let guess = json!([link("file:///lib/Elab.lean", 5, &json!({"ident": null, "isDefault": true}))]);
    let found = definition(&mut stage, 8, guess.clone()).await;
    assert_eq!((&found[0]["targetUri"], &found[0]["targetSelectionRange"]), (&json!(low), &place(&low, 4)["range"]));
    assert_eq!(definition(&mut stage, 60, guess).await, json!([link("file:///lib/Elab.lean", 5, &json!({}))]));
    assert_eq!(definition(&mut stage, 60, json!([])).await, json!([]));
    assert_eq!(definition(&mut stage, 60, json!(null)).await, json!(null));
}

/// The worker may answer a definition twice while we still correct the first answer.
#[tokio::test]
async fn s2_a_composed_request_is_answered_once() {
    let mut stage = Stage::new().await;
    let params = json!({"position": {"line": 0, "character": 0}});
    let pending = stage.ask("Top.lean", RequestSpec::new("textDocument/definition", params));
    let request = heard(&mut stage.top, "textDocument/definition").await;
    stage.top.peer.reply(&request, json!([])).await.unwrap();
    stage.top.peer.reply(&request, json!([1])).await.unwrap();
    assert_eq!(value(&pending.await.unwrap()), json!([]));
    speak(&mut stage.top).await;
    assert_eq!(stage.h.session.counters().unknown_answers, 1);
}

#[tokio::test]
async fn symbols_of_open_and_built_modules() {
    let mut stage = Stage::new().await;
    stage.low_is_known("$/lean/ileanInfoFinal").await;
    let symbols = |query: &'static str| {
        let session = stage.h.session.clone();
        async move { serde_json::to_value(session.workspace_symbols(query).await).unwrap() }
    };
    let symbol = |name: &str, at: Value| json!({"name": name, "kind": 14, "location": at});
    let (low, far) = (stage.uri("Low.lean"), stage.uri("Far/Away.lean"));
    assert_eq!(symbols("low").await, json!([symbol("low", place(&low, 4))]));
    assert_eq!(symbols("FAR").await, json!([symbol("far", place(&far, 1))]));
    assert_eq!(symbols("hid").await, json!([symbol("hid", place(&low, 6))]));
    assert_eq!(symbols("").await, json!([]));
    assert_eq!(symbols("nothing like it").await, json!([]));
    // A closed document is what was built of it.
    stage.h.session.close(&stage.project.path("Low.lean")).await;
    assert_eq!(symbols("low").await, json!([symbol("low", place(&low, 99))]));
}
