//! An engine that does as it is told, in a daemon of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use beam_base::{AbsPath, CancelToken, Utf16Pos, Utf16Range};
use beam_broker::EngineConfig;
use beam_broker::daemon::Service;
use beam_toolchain::{Choice, HostEnv};
use beam_wire::request::Decoded;
use beam_wire::stream::Event;
use beam_wire::{ErrorBody, FailureCode, Op, Progress, Request, Response, StreamDiagnostic};
use lean_beam::error::CliError;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Variable: what preparing does. `fail` fails; a path gets a line for each call.
pub const PREPARE: &str = "TEST_PREPARE";
/// Variable: `fail` makes the daemon die before it is ready, `hang` never be ready.
pub const DAEMON: &str = "TEST_DAEMON";

pub struct Backstage;

impl lean_beam::connect::Backstage for Backstage {
    type Service = Fake;

    fn service(&self, config: EngineConfig) -> Fake {
        match config.settings.env.var(DAEMON) {
            Some("fail") => panic!("told to die before being ready"),
            Some("hang") => loop {
                std::thread::park();
            },
            _ => {}
        }
        Fake(Arc::new(Inner {
            root: config.root,
            choice: config.settings.choice,
            started: Instant::now(),
            asked: CancelToken::new(),
            state: Mutex::default(),
        }))
    }

    fn prepare(
        &self,
        root: &AbsPath,
        env: &HostEnv,
        choice: &Choice,
        _: &dyn beam_toolchain::Progress,
    ) -> Result<(), CliError> {
        match env.var(PREPARE) {
            Some("fail") => Err(CliError::Value("told to find no Lean".to_owned())),
            Some(path) => {
                use std::io::Write;
                let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
                writeln!(file, "{root} {choice:?}").unwrap();
                Ok(())
            }
            None => Ok(()),
        }
    }
}

#[derive(Clone)]
pub struct Fake(Arc<Inner>);

struct Inner {
    root: AbsPath,
    choice: Choice,
    started: Instant,
    asked: CancelToken,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    by_id: HashMap<String, CancelToken>,
    active: usize,
    /// Requests whose future was dropped before it ended.
    dropped: usize,
    last: Option<Instant>,
}

struct Running<'a> {
    inner: &'a Inner,
    id: Option<String>,
    ended: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.inner.state.lock().unwrap();
        state.active -= 1;
        state.last = Some(Instant::now());
        if !self.ended {
            state.dropped += 1;
        }
        if let Some(id) = &self.id {
            state.by_id.remove(id);
        }
    }
}

impl Service for Fake {
    async fn run(&self, request: Decoded, events: mpsc::Sender<Event>) -> Response {
        let request = match request {
            Ok(request) => request,
            Err(rejected) => return Response::failed(rejected.error),
        };
        let cancel = CancelToken::new();
        let id = request.client_request_id.clone();
        {
            let mut state = self.0.state.lock().unwrap();
            state.active += 1;
            if let Some(id) = &id {
                state.by_id.insert(id.clone(), cancel.clone());
            }
        }
        let mut running = Running { inner: &self.0, id, ended: false };
        let response = tokio::select! {
            response = self.answer(&request, &events) => response,
            () = cancel.cancelled() => failed(FailureCode::RequestCancelled, "the client cancelled the request"),
        };
        running.ended = true;
        response
    }

    async fn shutdown_asked(&self) {
        self.0.asked.cancelled().await;
    }

    fn active_requests(&self) -> usize {
        self.0.state.lock().unwrap().active
    }

    fn last_activity(&self) -> Instant {
        self.0.state.lock().unwrap().last.unwrap_or(self.0.started)
    }

    async fn drain(&self, _: Duration) {
        let tokens: Vec<_> = self.0.state.lock().unwrap().by_id.values().cloned().collect();
        for token in tokens {
            token.cancel();
        }
    }
}

fn failed(code: FailureCode, message: &str) -> Response {
    Response::failed(ErrorBody::new(code, message))
}

impl Fake {
    async fn answer(&self, request: &Request, events: &mpsc::Sender<Event>) -> Response {
        let fields = request.operation.to_fields();
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        match request.op() {
            Op::Ensure => Response::ok(json!({
                "workspace_id": request.workspace_id, "backend": request.backend.as_str(),
                "root": self.0.root.to_string(), "epoch": 1,
            })),
            Op::Stats => self.stats(),
            Op::OpenDocs => Response::ok(json!({ "files": [] })),
            Op::Cancel => {
                let token = self.0.state.lock().unwrap().by_id.get(text("cancelRequestId")).cloned();
                if let Some(token) = &token {
                    token.cancel();
                }
                Response::ok(json!({ "cancelled": token.is_some() }))
            }
            Op::Shutdown => {
                self.0.asked.cancel();
                Response::ok(json!({ "shutdown": true }))
            }
            Op::UpdateFile => Response::ok(
                json!({ "version": 1, "changed": true, "path": text("path"), "choice": format!("{:?}", self.0.choice) }),
            ),
            Op::SyncFile | Op::RefreshFile => sync(text("path"), events).await,
            Op::RunAt | Op::RunWith => run(text("text"), fields.get("storeHandle") == Some(&Value::Bool(true))).await,
            other => Response::ok(json!({ "op": other.name(), "args": fields })),
        }
    }

    fn stats(&self) -> Response {
        let state = self.0.state.lock().unwrap();
        Response::ok(json!({
            "id": "beam-cli-project", "root": self.0.root.to_string(), "pid": std::process::id(),
            "active": state.active - 1, "dropped": state.dropped,
        }))
    }
}

async fn run(text: &str, handle: bool) -> Response {
    match text {
        "hang" => std::future::pending().await,
        // As the machine's out-of-memory killer would.
        "die" => std::process::abort(),
        "stale" => return failed(FailureCode::ContentModified, "the file is at version 3, the request named 1"),
        _ => {}
    }
    let success = !text.starts_with("fail");
    let mut result = json!({ "success": success, "messages": [], "traces": [], "proofState": { "goals": [] } });
    match text {
        "caveats" => result["caveats"] = json!(["sorry", "recursion"]),
        "failhint" => result["hint"] = json!({ "code": "leadingBy", "text": "leave out the `by`" }),
        "old" => result["staleImports"] = json!(["B"]),
        _ => {}
    }
    if handle && success {
        result["handle"] = json!({
            "workspaceId": "beam-cli-project", "backend": "lean", "epoch": 1, "session": "s", "raw": { "value": text },
        });
    }
    Response::ok(result)
}

async fn sync(path: &str, events: &mpsc::Sender<Event>) -> Response {
    let progress =
        |done| Progress { updates: 2, done, range_start_line: (!done).then_some(1), range_end_line: Some(9) };
    let at = |line| Utf16Pos { line, character: 0 };
    let diagnostic = StreamDiagnostic {
        path: "A.lean".into(),
        uri: "file:///A.lean".into(),
        version: Some(1),
        severity: Some(1),
        range: Utf16Range { start: at(1), end: at(2) },
        message: "first line\n  second line".into(),
        save_blocking: Some(true),
        completion_blocking: false,
    };
    for event in [Event::FileProgress(progress(false)), Event::Diagnostic(diagnostic)] {
        events.send(event).await.unwrap();
    }
    if path.ends_with("Bad.lean") {
        return Response::failed(ErrorBody::new(FailureCode::SyncBarrierIncomplete, "imports are out of date").with_data(
            json!({ "targetPath": "Bad.lean", "staleDirectDeps": [], "recoveryPlan": ["lean-beam refresh \"Bad.lean\"", "lake build"] }),
        ));
    }
    let counts = json!({ "error": 1, "warning": 0, "information": 0, "hint": 0, "unknown": 0, "total": 1 });
    let readiness: Value = json!({
        "saveReady": false, "reason": "documentErrors", "blockingErrorCount": 1,
        "blockingDiagnostics": [], "blockingMessages": [],
    });
    let mut result =
        json!({ "path": "A.lean", "version": 1, "diagnostics": { "counts": counts }, "readiness": readiness });
    if path.ends_with("Open.lean") {
        result["sorries"] =
            json!([{ "line": 3, "character": 2, "declaration": "left" }, { "line": 7, "character": 0 }]);
    }
    Response::ok(result).with_progress(Some(progress(true)))
}
