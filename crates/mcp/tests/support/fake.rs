//! A broker with scripted behaviour, for faults and timing.
//!
//! What an operation does is written into its `text`, `query` or `path`, as words between semicolons:
//! `file UPDATES DONE`, `lake N`, `diag SEVERITY`, `gate NAME`, `sleep MS`, `hang`, `panic`, `big BYTES`, `progress N`,
//! `flood N`, `fail`. A `.lean` at the end is ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use beam_base::{AbsPath, Utf16Pos, Utf16Range};
use beam_broker::Dropped;
use beam_mcp::Service;
use beam_wire::request::Decoded;
use beam_wire::stream::Event;
use beam_wire::{Answer, ErrorBody, FailureCode, Op, Operation, Progress, Request, Response, StreamDiagnostic};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

/// The broker. Clones share it.
#[derive(Clone, Default)]
pub struct Fake(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// Workspaces and how often each was made.
    workspaces: Mutex<BTreeMap<String, bool>>,
    made: Mutex<Vec<String>>,
    log: Mutex<Vec<String>>,
    open: Mutex<BTreeSet<String>>,
    changed: Notify,
    active: AtomicUsize,
    peak: AtomicUsize,
    cancelled: AtomicUsize,
    started: AtomicUsize,
    set_up: Mutex<Option<String>>,
    /// Evictions wait for the gate `drop` if this is set.
    gated_drop: Mutex<bool>,
    /// Statistics wait for the gate `stats` if this is set.
    gated_stats: Mutex<bool>,
    drained: Notify,
}

struct Running<'a>(&'a Inner, bool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::SeqCst);
        if !self.1 {
            self.0.cancelled.fetch_add(1, Ordering::SeqCst);
        }
        self.0.changed.notify_waiters();
    }
}

impl Fake {
    /// Makes set-up fail from now on.
    pub fn fail_set_up(&self, why: &str) {
        *self.0.set_up.lock().unwrap() = Some(why.to_owned());
    }

    /// Makes evictions wait for the gate `drop`.
    pub fn gate_drops(&self) {
        *self.0.gated_drop.lock().unwrap() = true;
    }

    /// Makes statistics wait for the gate `stats`.
    pub fn gate_stats(&self) {
        *self.0.gated_stats.lock().unwrap() = true;
    }

    /// Opens a gate for everyone, for ever.
    pub fn open(&self, gate: &str) {
        self.0.open.lock().unwrap().insert(gate.to_owned());
        self.0.changed.notify_waiters();
    }

    /// What happened, in order.
    pub fn log(&self) -> Vec<String> {
        self.0.log.lock().unwrap().clone()
    }

    /// Operations that run.
    pub fn active(&self) -> usize {
        self.0.active.load(Ordering::SeqCst)
    }

    /// Most operations that ran at once.
    pub fn peak(&self) -> usize {
        self.0.peak.load(Ordering::SeqCst)
    }

    /// Operations that were begun.
    pub fn started(&self) -> usize {
        self.0.started.load(Ordering::SeqCst)
    }

    /// Operations that were dropped unfinished.
    pub fn cancelled(&self) -> usize {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    /// Ids of the workspaces that were made, in order.
    pub fn made(&self) -> Vec<String> {
        self.0.made.lock().unwrap().clone()
    }

    /// Waits until it holds.
    pub async fn until(&self, holds: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.0.changed.notified();
            if holds(self) {
                return;
            }
            changed.await;
        }
    }

    fn note(&self, what: impl Into<String>) {
        self.0.log.lock().unwrap().push(what.into());
        self.0.changed.notify_waiters();
    }

    async fn gate(&self, name: &str) {
        self.until(|fake| fake.0.open.lock().unwrap().contains(name)).await;
    }

    async fn script(&self, script: &str, events: &mpsc::Sender<Event>) -> Option<usize> {
        let mut big = None;
        for step in script.trim_end_matches(".lean").split(';').map(str::trim) {
            let mut words = step.split(' ');
            let (verb, arg) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let n = arg.parse::<u64>().unwrap_or(0);
            match verb {
                "file" => {
                    let p = progress(n, words.next() == Some("true"));
                    let _gone = events.send(Event::FileProgress(p)).await;
                }
                "progress" => {
                    for k in 0..n {
                        let _full = events.try_send(Event::FileProgress(progress(25 * k, false)));
                        tokio::task::yield_now().await;
                    }
                }
                "lake" => {
                    for k in 0..n {
                        let text = format!("ℹ [{k}/{n}] Replayed Dep{k}");
                        let mut line = diagnostic(Some(3), &text);
                        line.range.end.line = 1;
                        let _gone = events.send(Event::Diagnostic(line)).await;
                    }
                }
                "diag" => {
                    let severity = (n > 0).then(|| u8::try_from(n).unwrap());
                    let _gone = events.send(Event::Diagnostic(diagnostic(severity, &format!("m{n}")))).await;
                }
                "flood" => {
                    for k in 0..n {
                        let text = format!("{k} {}", "x".repeat(10_000));
                        if events.send(Event::Diagnostic(diagnostic(Some(1), &text))).await.is_err() {
                            break;
                        }
                        self.note("flooded");
                    }
                }
                "gate" => self.gate(arg).await,
                "sleep" => tokio::time::sleep(Duration::from_millis(n)).await,
                "hang" => std::future::pending().await,
                "panic" => panic!("on purpose"),
                "big" => big = Some(usize::try_from(n).unwrap()),
                _ => {}
            }
        }
        big
    }
}

impl Service for Fake {
    fn open_workspace(&self, id: &str, root: AbsPath) -> Result<(), ErrorBody> {
        assert_eq!(id, format!("local:{root}"));
        if self.0.workspaces.lock().unwrap().insert(id.to_owned(), true).is_none() {
            self.0.made.lock().unwrap().push(id.to_owned());
        }
        Ok(())
    }

    async fn set_up(&self, _id: &str) -> Result<(), String> {
        match self.0.set_up.lock().unwrap().clone() {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    async fn run(&self, request: Decoded, events: mpsc::Sender<Event>) -> Response<Answer> {
        let request = match request {
            Ok(request) => request,
            Err(rejected) => return Response::failed(rejected.error),
        };
        let script = script_of(&request);
        let active = self.0.active.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.peak.fetch_max(active, Ordering::SeqCst);
        self.0.started.fetch_add(1, Ordering::SeqCst);
        let mut running = Running(&self.0, false);
        self.note(format!("begin {script}"));
        let big = self.script(&script, &events).await;
        running.1 = true;
        self.note(format!("end {script}"));
        let known = self.0.workspaces.lock().unwrap().contains_key(request.workspace_id.as_deref().unwrap_or_default());
        if !known {
            return Response::failed(ErrorBody::new(FailureCode::InvalidParams, "there is no such workspace"));
        }
        if script.ends_with("fail") {
            let error =
                ErrorBody::new(FailureCode::ContentModified, "on purpose").with_data(json!({ "currentVersion": 2 }));
            return Response::failed(error);
        }
        answer(&request, &script, big)
    }

    async fn drop_workspace(&self, id: &str) -> Dropped {
        let gated = *self.0.gated_drop.lock().unwrap();
        self.note(format!("drop with {} active", self.active()));
        if gated {
            self.gate("drop").await;
        }
        let dropped = self.0.workspaces.lock().unwrap().remove(id).is_some();
        self.note("dropped");
        Dropped { dropped, invalidated_handles: dropped }
    }

    fn has_runtime(&self) -> bool {
        !self.0.workspaces.lock().unwrap().is_empty() && self.0.set_up.lock().unwrap().is_none()
    }

    async fn stats(&self, id: Option<&str>) -> Option<Value> {
        let gated = *self.0.gated_stats.lock().unwrap();
        if gated {
            self.gate("stats").await;
        }
        match id {
            None => Some(json!({ "uptimeMs": 1, "workspaces": {} })),
            Some(id) => self.0.workspaces.lock().unwrap().contains_key(id).then(|| json!({ "id": id })),
        }
    }

    async fn open_docs(&self, id: &str) -> Option<Value> {
        self.0.workspaces.lock().unwrap().contains_key(id).then(|| json!({ "workspace_id": id }))
    }

    async fn drain(&self, _grace: Duration) {
        self.note("drained");
        self.0.drained.notify_waiters();
    }
}

fn script_of(request: &Request) -> String {
    let fields = request.operation.to_fields();
    ["text", "query", "path"].iter().find_map(|key| fields.get(*key)?.as_str()).unwrap_or_default().to_owned()
}

fn answer(request: &Request, script: &str, big: Option<usize>) -> Response<Answer> {
    let Response { outcome, file_progress } = answer_json(request, script, big);
    let decode = |value| Answer::decode(request.op().spec().answer, value).expect("the fake keeps the types");
    Response { outcome: outcome.map(decode), file_progress }
}

fn answer_json(request: &Request, script: &str, big: Option<usize>) -> Response {
    let sync = json!({
        "path": "A.lean", "version": 1,
        "diagnostics": { "counts": { "error": 0, "warning": 0, "information": 0, "hint": 0, "unknown": 0, "total": 0 } },
        "readiness": { "saveReady": true, "reason": "ok", "blockingErrorCount": 0, "blockingDiagnostics": [], "blockingMessages": [] },
    });
    let save = json!({
        "path": "A.lean", "module": "A", "version": 1, "sourceHash": "9a9bdc9950870951", "olean": "/o", "ilean": "/i", "c": "/c",
        "trace": "/t", "sync": sync,
    });
    match request.op() {
        Op::RunAt | Op::RunWith => {
            let text = big.map_or_else(|| script.to_owned(), |n| "y".repeat(n));
            let message = json!({ "severity": "information", "text": text });
            Response::ok(json!({ "success": true, "messages": [message], "traces": [] }))
        }
        Op::UpdateFile => Response::ok(json!({ "version": 1, "changed": true })),
        Op::SyncFile | Op::RefreshFile => Response::ok(sync).with_progress(Some(progress(7, true))),
        Op::SaveOlean => Response::ok(save).with_progress(Some(progress(7, true))),
        Op::Close if matches!(&request.operation, Operation::Close(close) if close.save_artifacts == Some(true)) => {
            Response::ok(json!({ "closed": true, "saved": save })).with_progress(Some(progress(7, true)))
        }
        Op::Close => Response::ok(json!({ "closed": true })),
        Op::Goals => Response::ok(json!({ "goals": [] })),
        Op::Todo => {
            let at = json!({ "line": 0, "character": 0 });
            Response::ok(json!({ "version": 1, "range": { "start": at, "end": at }, "items": [] }))
        }
        Op::TryTexts => Response::ok(json!({ "results": [{ "index": 0, "outcome": "ok" }] })),
        Op::Search => Response::ok(json!({ "version": 1, "hits": [] })),
        Op::Check => Response::ok(json!({
            "version": 1, "declarations": [], "verdict": "proved", "axioms": [], "unusualAxioms": [], "sorries": [], "unsafeParts": [],
            "errors": [],
        })),
        Op::Snippet => Response::ok(json!({ "success": true, "imports": ["Init"], "diagnostics": [] })),
        Op::CodeActions => Response::ok(json!({ "version": 1, "actions": [] })),
        Op::DiagnosticsOf => {
            Response::ok(json!({ "version": 1, "total": 0, "diagnostics": [] })).with_progress(Some(progress(7, true)))
        }
        Op::CodeActionResolve => Response::ok(json!({ "version": 1, "codeAction": { "title": "x" } })),
        _ => Response::ok(Value::Null),
    }
}

fn progress(updates: u64, done: bool) -> Progress {
    Progress { updates, done, range_start_line: None, range_end_line: Some(9) }
}

fn diagnostic(severity: Option<u8>, message: &str) -> StreamDiagnostic {
    let at = Utf16Pos { line: 0, character: 0 };
    StreamDiagnostic {
        path: "A.lean".into(),
        uri: "file:///A.lean".into(),
        version: Some(1),
        severity,
        range: Utf16Range { start: at, end: at },
        message: message.into(),
        save_blocking: None,
        completion_blocking: false,
    }
}
