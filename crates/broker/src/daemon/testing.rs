//! A service with scripted behaviour, and temporary projects, for the tests of this module.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use beam_base::{AbsPath, CancelToken, Utf16Pos, Utf16Range};
use beam_wire::request::Decoded;
use beam_wire::run::RunAt;
use beam_wire::stream::Event;
use beam_wire::{ErrorBody, FailureCode, Operation, Progress, Request, Response, StreamDiagnostic};
use serde_json::json;
use tokio::sync::{Notify, mpsc};

use super::Service;
use super::control::{Control, HostPaths};

/// What the texts of `run_at` make the service do: `ok`, `hang`, `panic`, `progress N`, `diagnostics N`, `gate`.
#[derive(Clone)]
pub(crate) struct Fake(Arc<Inner>);

struct Inner {
    root: AbsPath,
    started: Instant,
    asked: CancelToken,
    pub(crate) closed: CancelToken,
    active: AtomicUsize,
    cancelled: AtomicUsize,
    sent: AtomicUsize,
    changed: Notify,
    gate: Notify,
}

impl Fake {
    pub(crate) fn new(root: &AbsPath) -> Self {
        Self(Arc::new(Inner {
            root: root.clone(),
            started: Instant::now(),
            asked: CancelToken::new(),
            closed: CancelToken::new(),
            active: AtomicUsize::new(0),
            cancelled: AtomicUsize::new(0),
            sent: AtomicUsize::new(0),
            changed: Notify::new(),
            gate: Notify::new(),
        }))
    }

    /// Events that were taken over by the listener so far.
    pub(crate) fn sent(&self) -> usize {
        self.0.sent.load(Ordering::SeqCst)
    }

    pub(crate) fn open_gate(&self) {
        self.0.gate.notify_one();
    }

    pub(crate) fn drained(&self) -> bool {
        self.0.closed.is_cancelled()
    }

    /// Waits until so many requests were dropped unfinished.
    pub(crate) async fn cancelled(&self, n: usize) {
        self.until(|i| i.cancelled.load(Ordering::SeqCst) >= n).await;
    }

    /// Waits until so many requests run.
    pub(crate) async fn active(&self, n: usize) {
        self.until(|i| i.active.load(Ordering::SeqCst) >= n).await;
    }

    async fn until(&self, done: impl Fn(&Inner) -> bool) {
        loop {
            let changed = self.0.changed.notified();
            if done(&self.0) {
                return;
            }
            changed.await;
        }
    }

    async fn text(&self, text: &str, events: mpsc::Sender<Event>) -> Response {
        let (word, n) = text.split_once(' ').map_or((text, 0), |(w, n)| (w, n.parse().unwrap_or(0)));
        match word {
            "ok" => {}
            "hang" => tokio::select! {
                () = std::future::pending() => {}
                () = self.0.closed.cancelled() => {
                    return Response::failed(ErrorBody::new(FailureCode::RequestCancelled, "drained"));
                }
            },
            "gate" => self.0.gate.notified().await,
            "panic" => panic!("on purpose"),
            "progress" => {
                for k in 0..n {
                    let _full = events.try_send(Event::FileProgress(progress(k)));
                }
            }
            "diagnostics" => {
                for k in 0..n {
                    if events.send(Event::Diagnostic(diagnostic(&format!("{k} {}", "x".repeat(1000))))).await.is_err() {
                        break;
                    }
                    self.0.sent.fetch_add(1, Ordering::SeqCst);
                    self.0.changed.notify_waiters();
                }
            }
            other => return Response::failed(ErrorBody::new(FailureCode::InvalidParams, format!("no script {other}"))),
        }
        Response::ok(json!({ "did": text }))
    }
}

/// Counts a request as active; as cancelled if it is dropped before it was finished.
struct Running<'a> {
    inner: &'a Inner,
    finished: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.inner.active.fetch_sub(1, Ordering::SeqCst);
        if !self.finished {
            self.inner.cancelled.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.changed.notify_waiters();
    }
}

impl Service for Fake {
    async fn run(&self, request: Decoded, events: mpsc::Sender<Event>) -> Response {
        self.0.active.fetch_add(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
        let mut running = Running { inner: &self.0, finished: false };
        let response = match request {
            Err(rejected) => Response::failed(rejected.error),
            Ok(r) => match r.operation {
                Operation::Stats(_) => Response::ok(json!({ "root": self.0.root.to_string() })),
                Operation::Shutdown(_) => {
                    self.0.asked.cancel();
                    Response::ok(json!({ "shutdown": true }))
                }
                Operation::RunAt(run) => self.text(&run.text, events).await,
                _ => self.text("ok", events).await,
            },
        };
        running.finished = true;
        response
    }

    async fn shutdown_asked(&self) {
        self.0.asked.cancelled().await;
    }

    fn active_requests(&self) -> usize {
        self.0.active.load(Ordering::SeqCst)
    }

    fn last_activity(&self) -> Instant {
        self.0.started
    }

    async fn drain(&self, _: Duration) {
        self.0.closed.cancel();
    }
}

pub(crate) fn progress(updates: u64) -> Progress {
    Progress { updates, done: false, range_start_line: None, range_end_line: None }
}

pub(crate) fn diagnostic(message: &str) -> StreamDiagnostic {
    let at = Utf16Pos { line: 0, character: 0 };
    StreamDiagnostic {
        path: "A.lean".into(),
        uri: "file:///A.lean".into(),
        version: Some(1),
        severity: Some(1),
        range: Utf16Range { start: at, end: at },
        message: message.into(),
        save_blocking: None,
        completion_blocking: false,
    }
}

/// A `run_at` with such a text.
pub(crate) fn run_at(text: &str) -> Request {
    let path = "A.lean".try_into().unwrap();
    let mut request = Request::new(RunAt::new(path, 1, 0, 0, text.into()));
    request.workspace_id = Some("w".into());
    request
}

/// A temporary project with its control directory.
pub(crate) fn project() -> (tempfile::TempDir, Control) {
    let dir = tempfile::tempdir().unwrap();
    let root = AbsPath::canonical(dir.path()).unwrap();
    let control = Control::locate(&root, &HostPaths::default());
    control.create().unwrap();
    (dir, control)
}
