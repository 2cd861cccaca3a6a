//! A session over fake processes: the test plays every worker.
//!
//! Clocks are paused: time moves only when every task waits, so a test that reads a message from a fake worker sees exactly what was
//! sent, and a grace or a deadline passes without anybody sleeping.

// Each test file uses its own part of this.
#![allow(dead_code, missing_docs)]

use std::ffi::OsString;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use beam_base::AbsPath;
use beam_session::{
    Applied, BoxFuture, EndStatus, ExitReason, GroupSignal, Pending, Reply, RequestFailure, RequestSpec, Session,
    SessionConfig, Snapshot, Spawn, WorkerControl, WorkerProcess,
};
use serde_json::{Value, json};
use testkit::peer::Message;
use testkit::worker::{self, Exit, FakeWorker, Process, Signal};
use tokio::sync::mpsc;

pub const GRACE: Duration = Duration::from_secs(2);

/// Starts fake processes and hands their other side to the test.
pub struct FakeSpawn {
    born: mpsc::UnboundedSender<FakeWorker>,
    count: AtomicU32,
    obedient: bool,
    broken: AtomicBool,
    args: Mutex<Vec<Vec<OsString>>>,
}

impl Spawn for FakeSpawn {
    fn spawn(&self, more_args: &[OsString]) -> io::Result<WorkerProcess> {
        self.args.lock().unwrap().push(more_args.to_vec());
        if self.broken.load(Ordering::SeqCst) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no such program"));
        }
        let pid = 1000 + self.count.fetch_add(1, Ordering::SeqCst);
        let (client, fake) = if self.obedient { worker::pair_obedient(pid) } else { worker::pair(pid) };
        self.born.send(fake).ok();
        Ok(WorkerProcess {
            stdin: Box::new(client.stdin),
            stdout: Box::new(client.stdout),
            stderr: Box::new(client.stderr),
            control: Box::new(FakeControl(client.process)),
        })
    }
}

struct FakeControl(Process);

impl WorkerControl for FakeControl {
    fn pid(&self) -> Option<u32> {
        Some(self.0.pid())
    }
    fn wait(&mut self) -> BoxFuture<'_, io::Result<EndStatus>> {
        Box::pin(async {
            Ok(match self.0.wait().await {
                Exit::Code(code) => EndStatus::Code(code),
                Exit::Signal(signal) => EndStatus::Signal(signal),
            })
        })
    }
    fn signal_group(&mut self, signal: GroupSignal) {
        self.0.signal(match signal {
            GroupSignal::Terminate => Signal::Terminate,
            GroupSignal::Kill => Signal::Kill,
        });
    }
}

impl Drop for FakeControl {
    fn drop(&mut self) {
        self.0.signal(Signal::Kill);
    }
}

pub struct Harness {
    pub session: Session,
    pub spawn: Arc<FakeSpawn>,
    born: mpsc::UnboundedReceiver<FakeWorker>,
}

pub fn path(name: &str) -> AbsPath {
    AbsPath::new(format!("/proj/{name}")).unwrap()
}

impl Harness {
    pub fn new() -> Self {
        Self::with(false, |_| {})
    }

    pub fn with(obedient: bool, change: impl FnOnce(&mut SessionConfig)) -> Self {
        fail_on_deadlock();
        let (born_tx, born) = mpsc::unbounded_channel();
        let spawn = Arc::new(FakeSpawn {
            born: born_tx,
            count: AtomicU32::new(0),
            obedient,
            broken: AtomicBool::new(false),
            args: Mutex::default(),
        });
        let mut config = SessionConfig::new(AbsPath::new("/proj").unwrap(), 3, spawn.clone());
        config.cancel_grace = GRACE;
        change(&mut config);
        Self { session: Session::new(config), spawn, born }
    }

    /// Makes every further start fail, or work again.
    pub fn break_spawn(&self, broken: bool) {
        self.spawn.broken.store(broken, Ordering::SeqCst);
    }

    /// Processes started so far.
    pub fn started(&self) -> u32 {
        self.spawn.count.load(Ordering::SeqCst)
    }

    /// The arguments of every start so far.
    pub fn args(&self) -> Vec<Vec<OsString>> {
        self.spawn.args.lock().unwrap().clone()
    }

    /// The next process that was started, before it read anything.
    pub async fn newborn(&mut self) -> FakeWorker {
        self.born.recv().await.expect("the harness holds the spawner")
    }

    /// The next process, after it read `initialize` and `didOpen`; with the latter's params.
    pub async fn worker(&mut self) -> (FakeWorker, Value) {
        let mut fake = self.newborn().await;
        fake.peer.expect("initialize").await.unwrap();
        let open = fake.peer.expect("textDocument/didOpen").await.unwrap();
        (fake, open.params().clone())
    }

    pub async fn apply(&self, name: &str, text: &str) -> Applied {
        self.session.apply(&path(name), Snapshot::new(self.session.reserve(), text, None)).await.unwrap()
    }

    /// Opens a document; the result is its worker, which has said one thing.
    pub async fn open(&mut self, name: &str, text: &str) -> FakeWorker {
        assert!(self.apply(name, text).await.opened);
        let (mut fake, _) = self.worker().await;
        speak(&mut fake).await;
        fake
    }

    pub fn ask(&self, name: &str, spec: RequestSpec) -> Pending {
        self.session.request(&path(name), spec, None)
    }
}

/// On a paused clock time moves when everybody waits. If it moves this far, everybody waits for each other.
fn fail_on_deadlock() {
    tokio::spawn(async {
        tokio::time::sleep(Duration::from_secs(1000 * 3600)).await;
        // A panic here would end this task only, and the test would wait on.
        std::process::abort();
    });
}

/// Has the worker say something without consequence, and the session hear it.
pub async fn speak(fake: &mut FakeWorker) {
    fake.peer.ask("hello", "workspace/inlayHint/refresh", json!(null)).await.unwrap();
    assert_eq!(fake.peer.expect_response(&json!("hello")).await.unwrap(), Ok(Value::Null));
}

pub fn spec(method: &str) -> RequestSpec {
    RequestSpec::new(method, json!({"a": 1}))
}

/// Reads a request of this method.
pub async fn heard(fake: &mut FakeWorker, method: &str) -> Message {
    let message = fake.peer.expect(method).await.unwrap();
    assert!(matches!(message, Message::Request { .. }), "{message:?}");
    message
}

/// Reads the cancellation of that request.
pub async fn cancelled(fake: &mut FakeWorker, request: &Message) {
    let cancel = fake.peer.expect("$/cancelRequest").await.unwrap();
    assert_eq!(cancel.params()["id"], *request.id());
}

/// Nothing reaches the worker while everything else has run as far as it can.
pub async fn silence(fake: &mut FakeWorker) {
    let quiet = tokio::time::timeout(Duration::from_millis(1), fake.peer.next()).await;
    assert!(quiet.is_err(), "the worker was sent {quiet:?}");
}

pub fn value(reply: &Reply) -> Value {
    serde_json::from_str(reply.value.get()).unwrap()
}

/// The exit a request ended with.
pub fn exit_of(outcome: Result<Reply, RequestFailure>) -> beam_session::WorkerExit {
    match outcome {
        Err(RequestFailure::WorkerExited(exit)) => *exit,
        other => panic!("expected a lost worker, got {other:?}"),
    }
}

pub fn reason_of(outcome: Result<Reply, RequestFailure>) -> ExitReason {
    exit_of(outcome).reason
}
