//! Qualification of an extension build: real probes in a real worker, on the very toolchain it was built for (K4), and the way from a project to a worker that can be started.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use beam_base::{AbsPath, Deadline, uri};
use beam_session::{CommandSpawn, RequestSpec, Session, SessionConfig, Snapshot};
use beam_toolchain::{Choice, HostEnv, Progress, Qualify, Store, WorkerLaunch};
use serde_json::{Value, json};

use crate::engine::worker_command;

/// Runs the probes. Stateless.
#[derive(Debug, Clone, Copy, Default)]
pub struct Qualifier;

/// How long the probes may take together. A slow machine needs a minute to start its first worker.
const LIMIT: Duration = Duration::from_secs(180);

/// The document that is probed: it elaborates a proof, generates and runs code, and holds an error.
const TEXT: &str = "theorem t (p q : Prop) (hp : p) (hq : q) : p ∧ q := by
  constructor
  · exact hp
  · exact hq

def double (xs : List Nat) : List Nat := xs.map (· * 2)

#eval double [1, 2, 21]

example : 1 = 2 := by decide
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
    let session = Session::new(SessionConfig::new(dir.clone(), 1, Arc::new(CommandSpawn(worker_command(launch)))));
    let path = dir.join("Qualify.lean");
    let outcome = checks(&session, &path).await;
    session.shutdown(Duration::from_secs(2)).await;
    outcome
}

struct Probe<'a> {
    session: &'a Session,
    path: &'a AbsPath,
    deadline: Deadline,
}

impl Probe<'_> {
    async fn ask(&self, method: &str, params: Value) -> Result<Value, String> {
        let spec = RequestSpec::new(method, params).at_version(1).with_deadline(self.deadline);
        let reply = self.session.request(self.path, spec, None).await.map_err(|e| format!("{method}: {e}"))?;
        serde_json::from_str(reply.value.get()).map_err(|e| format!("{method}: the answer is not JSON: {e}"))
    }

    fn document(&self) -> Value {
        json!({ "uri": uri::from_path(self.path), "version": 1 })
    }

    async fn run_at(&self, line: u32, character: u32, text: &str) -> Result<Value, String> {
        let params = json!({ "textDocument": self.document(), "position": { "line": line, "character": character }, "text": text, "storeHandle": true });
        self.ask("$/lean/runAt", params).await
    }
}

/// One check: what was looked at, and whether it is as it must be.
fn expect(what: &str, holds: bool, seen: &Value) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what}; the answer was {seen}")) }
}

async fn checks(session: &Session, path: &AbsPath) -> Result<(), String> {
    let snapshot = Snapshot::new(session.reserve(), TEXT, None);
    session.apply(path, snapshot).await.map_err(|e| e.to_string())?;
    let p = Probe { session, path, deadline: Deadline::after(LIMIT) };

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
    let r = p.run_at(1, 2, "constructor").await?;
    expect(
        "a splitting tactic must leave two goals and a handle",
        r["proofState"]["goals"].as_array().is_some_and(|g| g.len() == 2) && r["handle"].is_object(),
        &r,
    )?;
    let next = json!({ "textDocument": { "uri": uri::from_path(path) }, "handle": r["handle"], "text": "exact hp" });
    let r = p.ask("$/lean/runWith", next).await?;
    expect(
        "a continuation must see the state behind its handle",
        r["success"] == true && r["proofState"]["goals"][0]["target"] == "q",
        &r,
    )?;
    let r = p.run_at(6, 0, "#eval (double [3], (List.range 4).foldl (· + ·) 0)").await?;
    expect(
        "generated code must run",
        r["success"] == true && r["messages"][0]["text"].as_str().map(str::trim) == Some("([6], 6)"),
        &r,
    )?;
    let goals = p
        .ask("$/lean/goalsPrev", json!({ "textDocument": p.document(), "position": { "line": 2, "character": 4 } }))
        .await?;
    expect(
        "goals must be found",
        goals["goals"][0]["target"] == "p" && goals["goals"][0]["hyps"].as_array().is_some_and(|h| h.len() == 3),
        &goals,
    )?;
    let b = p.ask("$/beam/waitForDiagnostics", json!({ "uri": uri::from_path(path), "version": 1 })).await?;
    let verdict = &b["saveReadiness"];
    let hash = format!("{:016x}", beam_session::lean_text_hash(TEXT));
    expect(
        "the barrier must see the error and this text",
        verdict["saveReady"] == false && verdict["textHash"] == hash.as_str(),
        &b,
    )
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
