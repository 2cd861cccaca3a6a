//! Lanes: folders whose documents stay open, so that one warm worker serves many tests.

use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use beam_base::AbsPath;
use beam_broker::qualify::Qualifier;
use beam_broker::{Engine, EngineConfig};
use beam_embedded::testing;
use beam_toolchain::Choice;
use beam_wire::Request;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The workspace id of these tests.
pub const WORKSPACE: &str = "real-lean";

/// An engine over a temporary project on the embedded Lean, which is installed if this is its first use.
pub fn engine() -> (Engine, AbsPath, tempfile::TempDir) {
    drop(testing::shared_embedded_for_tests(&Qualifier));
    let dir = tempfile::tempdir().expect("a temporary folder");
    let root = AbsPath::canonical(dir.path()).expect("its canonical path");
    std::fs::write(root.join("lean-toolchain"), "leanprover/lean4:v4.28.0\n").expect("a toolchain file");
    let mut config = EngineConfig::new(root.clone(), WORKSPACE, testing::shared_env());
    config.settings.choice = Choice::Embedded;
    (Engine::new(config), root, dir)
}

/// Sees to it that the embedded Lean is there.
pub async fn installed() {
    let install = || testing::shared_embedded_for_tests(&Qualifier);
    drop(tokio::task::spawn_blocking(install).await.expect("an installed Lean"));
}

/// Asks the engine as a client would: through the wire's own decoder.
pub async fn ask(engine: &Engine, request: Value) -> Value {
    ask_with_events(engine, request).await.0
}

/// As [`ask`], with the events that came before the answer.
pub async fn ask_with_events(engine: &Engine, request: Value) -> (Value, Vec<Value>) {
    let Value::Object(map) = request else { panic!("a request is an object") };
    let (tx, mut rx) = mpsc::channel(16);
    let collect = tokio::spawn(async move {
        let mut events = Vec::new();
        while let Some(event) = rx.recv().await {
            events.push(serde_json::to_value(event).expect("an event is JSON"));
        }
        events
    });
    let response = engine.run(Request::from_map(map), tx).await;
    (serde_json::to_value(response).expect("a response is JSON"), collect.await.expect("the collector"))
}

/// One folder of warm documents.
pub struct Lane {
    engine: Engine,
    dir: PathBuf,
    name: String,
    serial: AtomicU64,
}

impl Lane {
    /// Writes a file of this lane.
    pub fn write(&self, file: &str, text: &str) {
        std::fs::write(self.dir.join(file), text).expect("a writable lane");
    }

    /// A file's path as requests name it: relative to the root.
    pub fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.name)
    }

    /// The client request id that goes with a step's reference, unique in the process.
    pub fn request_id(&self, reference: &str) -> String {
        format!("{}-{}-{reference}", self.name, self.serial.load(Ordering::Relaxed))
    }

    /// A request about the workspace.
    pub async fn ask(&self, mut request: Value, id: Option<&str>) -> Value {
        request["workspaceId"] = WORKSPACE.into();
        if let Some(id) = id {
            request["clientRequestId"] = id.into();
        }
        ask(&self.engine, request).await
    }

    /// A request about the workspace, with the events that came before its answer.
    pub async fn ask_with_events(&self, mut request: Value) -> (Value, Vec<Value>) {
        request["workspaceId"] = WORKSPACE.into();
        ask_with_events(&self.engine, request).await
    }

    /// The lane's folder.
    pub fn dir(&self) -> &std::path::Path {
        &self.dir
    }

    /// A request about the whole process.
    pub async fn ask_process(&self, request: Value) -> Value {
        ask(&self.engine, request).await
    }

    /// Sends without waiting, and gives Lean the time to begin with it.
    pub async fn ask_later(&self, mut request: Value, reference: &str) -> JoinHandle<Value> {
        request["workspaceId"] = WORKSPACE.into();
        request["clientRequestId"] = self.request_id(reference).into();
        let engine = self.engine.clone();
        let task = tokio::spawn(async move { ask(&engine, request).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        task
    }
}

/// A pool of lanes over one engine; made on first use.
pub struct Lanes {
    n: usize,
    runtime: tokio::runtime::Runtime,
    pool: Mutex<Option<Pool>>,
}

struct Pool {
    engine: Engine,
    _dir: tempfile::TempDir,
    take: Arc<Mutex<Receiver<Arc<Lane>>>>,
    give: Sender<Arc<Lane>>,
}

impl Lanes {
    /// A pool of `n`; nothing is started yet, so listing tests costs nothing.
    pub fn new(n: usize) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        Self { n, runtime, pool: Mutex::new(None) }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.n
    }

    fn lane(&self) -> (Arc<Lane>, Sender<Arc<Lane>>) {
        let (take, give) = {
            let mut pool = self.pool.lock().expect("the pool");
            let pool = pool.get_or_insert_with(|| self.make());
            (Arc::clone(&pool.take), pool.give.clone())
        };
        let lane = take.lock().expect("the lanes").recv().expect("a lane");
        (lane, give)
    }

    fn make(&self) -> Pool {
        let (engine, root, dir) =
            self.runtime.block_on(async { tokio::task::spawn_blocking(engine).await.expect("an engine") });
        let (give, take) = channel();
        for n in 0..self.n {
            let name = format!("lane{n}");
            let dir = root.join(&name).as_path().to_path_buf();
            std::fs::create_dir(&dir).expect("a lane");
            let lane = Lane { engine: engine.clone(), dir, name, serial: AtomicU64::new(0) };
            give.send(Arc::new(lane)).expect("the pool is open");
        }
        Pool { engine, _dir: dir, take: Arc::new(Mutex::new(take)), give }
    }

    /// Runs one test on a lane of its own; the lane goes back whatever happens.
    pub fn with<F, Fut>(&self, test: F) -> Result<(), String>
    where
        F: FnOnce(Arc<Lane>) -> Fut,
        Fut: Future<Output = Result<(), String>>,
    {
        let (lane, give) = self.lane();
        lane.serial.fetch_add(1, Ordering::Relaxed);
        let run = std::panic::AssertUnwindSafe(|| self.runtime.block_on(test(Arc::clone(&lane))));
        let outcome = std::panic::catch_unwind(run);
        give.send(lane).map_err(|_| "the pool is closed")?;
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Ends the workers.
    pub fn shut_down(&self) {
        if let Some(pool) = self.pool.lock().expect("the pool").take() {
            self.runtime.block_on(pool.engine.drain(Duration::from_secs(2)));
        }
    }
}
