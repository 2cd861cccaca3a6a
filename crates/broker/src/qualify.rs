//! Qualification of an extension build: real probes in a real worker, on the very toolchain it was built for (K4), and the way from a project to a worker that can be started.

#![allow(
    clippy::disallowed_methods,
    reason = "runs on blocking threads: begun by the preparation of a workspace, and by commands"
)]

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use beam_base::{AbsPath, Deadline, uri};
use beam_session::{CommandSpawn, RequestFailure, RequestSpec, Session, SessionConfig, Snapshot};
use beam_toolchain::{Choice, HostEnv, Progress, Qualify, Store, WorkerLaunch};
use serde_json::{Value, json};

use crate::worker::worker_command;

/// Runs the probes. Stateless.
#[derive(Debug, Clone, Copy, Default)]
pub struct Qualifier;

/// How long the probes may take together. A slow machine needs a minute to start its first worker.
const LIMIT: Duration = Duration::from_secs(180);

/// The document that is probed: it elaborates a proof, generates and runs code, holds an error and something unfinished.
const TEXT: &str = "theorem t (p q : Prop) (hp : p) (hq : q) : p ∧ q := by
  constructor
  · exact hp
  · exact hq

def double (xs : List Nat) : List Nat := xs.map (· * 2)

#eval double [1, 2, 21]

example : 1 = 2 := by decide

theorem later : 2 = 2 := sorry
";

impl Qualify for Qualifier {
    fn qualify(&self, launch: &WorkerLaunch) -> Result<(), String> {
        // A runtime of its own: this is called from blocking code, sometimes inside another runtime's blocking pool.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        let dir = tempdir()?;
        let outcome = runtime.block_on(probe(launch, &dir));
        // What is left behind is an empty folder in the system's temporary place; not worth failing for.
        drop(std::fs::remove_dir_all(&dir));
        outcome
    }
}

fn tempdir() -> Result<AbsPath, String> {
    let dir = std::env::temp_dir().join(format!("lean-beam-qualify-{}-{}", std::process::id(), fastish()));
    std::fs::create_dir(&dir).map_err(|e| format!("cannot make `{}`: {e}", dir.display()))?;
    AbsPath::canonical(&dir).map_err(|e| format!("cannot resolve `{}`: {e}", dir.display()))
}

/// Distinguishes folders of one process made at different times.
fn fastish() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos())
}

async fn probe(launch: &WorkerLaunch, dir: &AbsPath) -> Result<(), String> {
    let mut launch = launch.clone();
    launch.cwd = dir.clone();
    let mut config = SessionConfig::new(dir.clone(), 1, Arc::new(CommandSpawn(worker_command(launch))));
    // One text at a time: whoever asks after a cancelled probe is asked only when that has really ended.
    config.max_in_flight = 1;
    let session = Session::new(config);
    let outcome = checks(&session, dir).await;
    session.shutdown(Duration::from_secs(2)).await;
    outcome
}

struct Probe<'a> {
    session: &'a Session,
    path: AbsPath,
    deadline: Deadline,
}

/// JSON-RPC codes of Lean's that the checks expect.
const CONTENT_MODIFIED: i64 = -32801;
const INVALID_PARAMS: i64 = -32602;

impl Probe<'_> {
    /// Opens a document of the session.
    async fn open<'a>(session: &'a Session, path: AbsPath, text: &str) -> Result<Probe<'a>, String> {
        let snapshot = Snapshot::new(session.reserve(), text, None);
        session.apply(&path, snapshot).await.map_err(|e| e.to_string())?;
        Ok(Probe { session, path, deadline: Deadline::after(LIMIT) })
    }

    fn spec(&self, method: &str, params: Value) -> RequestSpec {
        RequestSpec::new(method, params).at_version(1).with_deadline(self.deadline)
    }

    async fn ask(&self, method: &str, params: Value) -> Result<Value, String> {
        let spec = self.spec(method, params);
        let reply = self.session.request(&self.path, spec, None).await.map_err(|e| format!("{method}: {e}"))?;
        serde_json::from_str(reply.value.get()).map_err(|e| format!("{method}: the answer is not JSON: {e}"))
    }

    /// Asks for what Lean must refuse, with this code.
    async fn refused(&self, what: &str, method: &str, params: Value, code: i64) -> Result<(), String> {
        match self.session.request(&self.path, self.spec(method, params), None).await {
            Err(RequestFailure::Server(error)) if error.code == code => Ok(()),
            Err(other) => Err(format!("{what} must be refused with {code}, not: {other}")),
            Ok(reply) => Err(format!("{what} must be refused; the answer was {}", reply.value.get())),
        }
    }

    fn uri(&self) -> String {
        uri::from_path(&self.path)
    }

    fn document(&self, version: u64) -> Value {
        json!({ "uri": self.uri(), "version": version })
    }

    fn text_at(&self, version: u64, line: u32, character: u32, text: &str) -> Value {
        json!({
            "textDocument": self.document(version),
            "position": { "line": line, "character": character },
            "text": text,
            "storeHandle": true,
        })
    }

    async fn run_at(&self, line: u32, character: u32, text: &str) -> Result<Value, String> {
        self.ask("$/lean/runAt", self.text_at(1, line, character, text)).await
    }

    fn with(&self, handle: &Value, text: &str, linear: bool) -> Value {
        json!({
            "textDocument": { "uri": self.uri() },
            "handle": handle,
            "text": text,
            "storeHandle": true,
            "linear": linear,
        })
    }

    async fn barrier(&self) -> Result<Value, String> {
        self.ask("$/beam/waitForDiagnostics", json!({ "uri": self.uri(), "version": 1 })).await
    }
}

/// One check: what was looked at, and whether it is as it must be.
fn expect(what: &str, holds: bool, seen: &Value) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what}; the answer was {seen}")) }
}

/// The built-in conformance set. Each check stands for a promise that a changed Lean could break without failing to compile.
async fn checks(session: &Session, dir: &AbsPath) -> Result<(), String> {
    let p = Probe::open(session, dir.join("Qualify.lean"), TEXT).await?;
    tactics_and_commands(&p).await?;
    handles(&p).await?;
    views(&p).await?;
    cancellation(&p).await?;
    broken_header(session, dir).await
}

async fn tactics_and_commands(p: &Probe<'_>) -> Result<(), String> {
    let r = p.run_at(1, 2, "exact ⟨hp, hq⟩").await?;
    expect(
        "a closing tactic must succeed and leave no goal",
        r["success"] == true && r["proofState"]["goals"] == json!([]),
        &r,
    )?;
    let r = p.run_at(1, 2, "exact hp").await?;
    expect(
        "a wrong tactic must fail with an error and the untouched goal",
        r["success"] == false
            && r["messages"][0]["severity"] == "error"
            && r["proofState"]["goals"][0]["target"] == "p ∧ q"
            && r["handle"].is_null(),
        &r,
    )?;
    let r = p.run_at(6, 0, "#eval (double [3], (List.range 4).foldl (· + ·) 0)").await?;
    expect(
        "generated code must run",
        r["success"] == true && r["messages"][0]["text"].as_str().map(str::trim) == Some("([6], 6)"),
        &r,
    )?;
    let stale = p.text_at(2, 1, 2, "exact ⟨hp, hq⟩");
    p.refused("a text for another version of the document", "$/lean/runAt", stale, CONTENT_MODIFIED).await
}

async fn handles(p: &Probe<'_>) -> Result<(), String> {
    let split = p.run_at(1, 2, "constructor").await?;
    expect(
        "a splitting tactic must leave two goals and a handle",
        split["proofState"]["goals"].as_array().is_some_and(|g| g.len() == 2) && split["handle"].is_object(),
        &split,
    )?;
    let first = &split["handle"];
    let branch = p.ask("$/lean/runWith", p.with(first, "exact hp", false)).await?;
    expect(
        "a continuation must see the state behind its handle",
        branch["success"] == true && branch["proofState"]["goals"][0]["target"] == "q",
        &branch,
    )?;
    let again = p.ask("$/lean/runWith", p.with(first, "exact hp", true)).await?;
    expect("a handle must serve a second continuation", again["proofState"] == branch["proofState"], &again)?;
    let used_up = p.with(first, "exact hp", false);
    p.refused("a handle that a linear continuation used up", "$/lean/runWith", used_up, INVALID_PARAMS).await?;
    let second = &branch["handle"];
    let release = json!({ "textDocument": { "uri": p.uri() }, "handle": second });
    let released = p.ask("$/lean/releaseHandle", release.clone()).await?;
    expect("a handle must be released", released.is_null(), &released)?;
    p.refused("a handle that was released", "$/lean/releaseHandle", release, INVALID_PARAMS).await
}

async fn views(p: &Probe<'_>) -> Result<(), String> {
    let at = json!({ "textDocument": p.document(1), "position": { "line": 2, "character": 4 } });
    let goals = p.ask("$/lean/goalsPrev", at.clone()).await?;
    expect(
        "the goals in front of a tactic must be found",
        goals["goals"][0]["target"] == "p" && goals["goals"][0]["hyps"].as_array().is_some_and(|h| h.len() == 3),
        &goals,
    )?;
    let goals = p.ask("$/lean/goalsAfter", at).await?;
    expect("the goals behind a tactic must be found", goals["goals"] == json!([]), &goals)?;
    let range = json!({ "start": { "line": 5, "character": 0 }, "end": { "line": 12, "character": 0 } });
    let todo = p.ask("$/lean/todo", json!({ "textDocument": p.document(1), "range": range })).await?;
    let holds = |item: &Value, kind: &str, line: u32| item["kind"] == kind && item["range"]["start"]["line"] == line;
    let items = todo["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    expect(
        "what is left to do must be an error and a `sorry`, each in its place",
        items.iter().any(|item| holds(item, "diagnostic", 9)) && items.iter().any(|item| holds(item, "sorry", 11)),
        &todo,
    )?;
    let b = p.barrier().await?;
    let verdict = &b["saveReadiness"];
    let hash = format!("{:016x}", beam_lean::lean_text_hash(TEXT));
    expect(
        "the barrier must see the error and this text",
        verdict["saveReady"] == false && verdict["textHash"] == hash.as_str(),
        &b,
    )
}

/// A probe that would never end is cancelled: it ends, in the same worker, which goes on as before.
async fn cancellation(p: &Probe<'_>) -> Result<(), String> {
    // Not `repeat`, which is a macro that unfolds itself: it ends at the recursion limit, on a fast machine within milliseconds. This one loops, a
    // hundred thousand times over a context that grows.
    let endless = p.text_at(1, 1, 2, "set_option maxHeartbeats 0 in repeat' have := hp");
    let running = p.session.request(&p.path, p.spec("$/lean/runAt", endless).running_text(), None);
    let cancel = running.canceller();
    let (outcome, ()) = tokio::join!(running, async {
        // Time to begin; one that has not begun is cancelled as well, and ends even sooner.
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.cancel();
    });
    if !matches!(outcome, Err(RequestFailure::Cancelled)) {
        return Err(format!("a probe without end must go on until it is cancelled, not: {outcome:?}"));
    }
    // Stands in line until the cancelled one has left the worker.
    let next = p.spec("$/lean/runAt", p.text_at(1, 1, 2, "exact ⟨hp, hq⟩")).running_text();
    let reply = p.session.request(&p.path, next, None).await.map_err(|e| format!("after a cancellation: {e}"))?;
    let reply: Value = serde_json::from_str(reply.value.get()).map_err(|e| e.to_string())?;
    expect("a probe after a cancelled one must be as before", reply["success"] == true, &reply)?;
    let counters = p.session.counters();
    let kept = counters.refused_cancels == 0 && counters.worker_starts == 1;
    expect("a cancelled probe must stop", kept, &json!(format!("{counters:?}")))
}

/// A document whose imports cannot be had has no messages of its own below the header; all the same it is not ready.
async fn broken_header(session: &Session, dir: &AbsPath) -> Result<(), String> {
    let p = Probe::open(session, dir.join("Broken.lean"), "import Not.There\n\ndef fine := 1\n").await?;
    let b = p.barrier().await?;
    expect("a document with a missing import must not be ready", b["saveReadiness"]["saveReady"] == false, &b)
}

/// Why there is no worker to start for a project.
#[derive(Debug)]
pub enum PrepareError {
    /// No usable toolchain.
    Resolve(beam_toolchain::ResolveError),
    /// The store cannot be used.
    Store(beam_toolchain::StoreError),
    /// The extension does not build or does not qualify.
    Extension(beam_toolchain::ExtensionError),
    /// The worker's environment cannot be had.
    Launch(beam_toolchain::LaunchError),
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(e) => e.fmt(f),
            Self::Store(e) => e.fmt(f),
            Self::Extension(e) => e.fmt(f),
            Self::Launch(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for PrepareError {}

/// A project's toolchain, and how workers are started on it.
#[derive(Debug)]
pub struct Prepared {
    /// The toolchain.
    pub toolchain: beam_toolchain::Toolchain,
    /// The extension's build for it.
    pub extension: beam_toolchain::Extension,
    /// The command that starts a worker.
    pub launch: WorkerLaunch,
}

/// From a project to the command that starts its workers: finds the toolchain, builds and qualifies the extension if that was not done yet. Blocking; minutes on first use.
pub fn prepare(
    root: &AbsPath,
    env: &HostEnv,
    choice: &Choice,
    qualify: &dyn Qualify,
    progress: &dyn Progress,
) -> Result<Prepared, PrepareError> {
    let toolchain = beam_toolchain::resolve(root, env, choice).map_err(PrepareError::Resolve)?;
    let store = Store::open(env).map_err(PrepareError::Store)?;
    let extension = beam_toolchain::ensure_extension(&toolchain, &store, env, qualify, progress)
        .map_err(PrepareError::Extension)?;
    let launch = beam_toolchain::worker_launch(&toolchain, &extension, root, env).map_err(PrepareError::Launch)?;
    Ok(Prepared { toolchain, extension, launch })
}
