//! Real processes: groups, exit statuses, stderr, and that nothing is left behind (S1, S7).

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use beam_base::AbsPath;
use beam_session::{
    CommandSpawn, EndStatus, ExitReason, RequestFailure, RequestSpec, Session, SessionConfig, Snapshot, WorkerCommand,
    WorkerExit,
};
use serde_json::{Value, json};
use testkit::TempProject;

/// A session whose workers follow this script.
struct Stage {
    project: TempProject,
    session: Session,
}

impl Stage {
    fn new(script: &Value, child: bool) -> Self {
        Self::with(script, child, |_| {})
    }

    fn with(script: &Value, child: bool, change: impl FnOnce(&mut SessionConfig)) -> Self {
        let project = TempProject::empty().unwrap();
        let script = project.write("script.json", script.to_string()).unwrap();
        let note = project.path("child.pid");
        let command = WorkerCommand {
            program: testkit::bin::scripted_peer().into(),
            args: vec![script.as_path().into(), "and".into(), "more".into()],
            env: if child { vec![("SCRIPTED_PEER_CHILD".into(), note.as_path().into())] } else { vec![] },
            env_remove: vec!["SCRIPTED_PEER_UNUSED".into()],
            cwd: project.root().clone(),
        };
        let mut config = SessionConfig::new(project.root().clone(), 1, Arc::new(CommandSpawn(command)));
        change(&mut config);
        Self { project, session: Session::new(config) }
    }

    fn file(&self) -> AbsPath {
        self.project.path("A.lean")
    }

    async fn open(&self) {
        self.session.apply(&self.file(), Snapshot::new(self.session.reserve(), "text", None)).await.unwrap();
    }

    async fn ask(&self, method: &str) -> Result<Value, RequestFailure> {
        let reply = self.session.request(&self.file(), RequestSpec::new(method, json!({"x": 5})), None).await?;
        Ok(serde_json::from_str(reply.value.get()).unwrap())
    }

    async fn lost(&self, method: &str) -> WorkerExit {
        match self.ask(method).await {
            Err(RequestFailure::WorkerExited(exit)) => *exit,
            other => panic!("{other:?}"),
        }
    }

    /// The pid of the worker's own child, once it was written.
    async fn child(&self) -> u32 {
        let note = self.project.path("child.pid");
        loop {
            if let Ok(Ok(pid)) = fs::read_to_string(&note).map(|text| text.parse()) {
                return pid;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn pid(&self) -> u32 {
        self.session.document(&self.file()).await.unwrap().worker.pid.unwrap()
    }
}

/// Whether a process runs; a zombie does not.
fn runs(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

async fn gone(pid: u32) {
    let begun = Instant::now();
    while runs(pid) {
        assert!(begun.elapsed() < Duration::from_secs(10), "process {pid} is still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Reacts to whatever comes.
fn reactive() -> Value {
    json!({
        "ignore": ["initialize", "textDocument/didOpen", "textDocument/didChange", "$/cancelRequest"],
        "rules": {
            "echo": [{"reply": {"$from": "/params"}}],
            "die": [{"stderr": "first"}, {"stderr": "second"}, {"exit": 3}],
            "hang": [],
            "torn": [{"half_frame": [40, {"id": 1, "result": "0123456789012345678901234567890123456789"}]}, {"exit": 4}],
            "noise": [{"garbage": "[DEBUG] noise\n"}, {"huge_frame": 1_000_000_000_000_u64}, {"reply": {"x": 6}}],
            "flood": [{"garbage": "[DEBUG] noise\n".repeat(2 << 20)}, "stall"],
            "stall": ["stall"]
        }
    })
}

#[tokio::test]
async fn a_conversation() {
    let stage = Stage::new(&reactive(), false);
    stage.open().await;
    assert_eq!(stage.ask("echo").await.unwrap(), json!({"x": 5}));
    let exit = stage.lost("die").await;
    assert_eq!((exit.reason, exit.status), (ExitReason::Crash, Some(EndStatus::Code(3))));
    assert_eq!(exit.stderr_tail, ["first", "second"]);
    assert_eq!(stage.ask("echo").await.unwrap(), json!({"x": 5}));
    assert_eq!(stage.lost("torn").await.status, Some(EndStatus::Code(4)));
    assert_eq!(stage.ask("noise").await.unwrap(), json!({"x": 6}), "an answer behind noise");
    assert!(matches!(stage.lost("flood").await.reason, ExitReason::Garbage(_)));
    // What the script does not know makes it end, and its stderr says why.
    let exit = stage.lost("unheard of").await;
    assert_eq!(exit.status, Some(EndStatus::Code(97)));
    assert!(exit.stderr_tail.concat().contains("unheard of"), "{exit:?}");
    let pid = stage.pid_of_fresh().await;
    stage.session.shutdown(Duration::from_secs(5)).await;
    assert!(!runs(pid), "shutdown resolves when the processes are gone");
}

impl Stage {
    async fn pid_of_fresh(&self) -> u32 {
        self.ask("echo").await.unwrap();
        self.pid().await
    }
}

/// Many callers write at once, each frame arrives whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s1_frames_of_many_callers_do_not_mix() {
    let stage = Arc::new(Stage::new(&reactive(), false));
    stage.open().await;
    let callers: Vec<_> = (0..40)
        .map(|n| {
            let stage = stage.clone();
            tokio::spawn(async move {
                let text = n.to_string().repeat(5000);
                let spec = RequestSpec::new("echo", json!({"text": text}));
                let reply = stage.session.request(&stage.file(), spec, None).await.unwrap();
                assert_eq!(serde_json::from_str::<Value>(reply.value.get()).unwrap()["text"], *text);
                stage.session.apply(&stage.file(), Snapshot::new(stage.session.reserve(), &text, None)).await.unwrap();
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!(stage.session.counters().worker_losses, 0);
}

#[tokio::test]
async fn s7_killed_by_a_signal_with_its_children() {
    let stage = Stage::new(&reactive(), true);
    stage.open().await;
    stage.ask("echo").await.unwrap();
    let (pid, child) = (stage.pid().await, stage.child().await);
    assert!(runs(pid) && runs(child));
    let waiting = stage.session.request(&stage.file(), RequestSpec::new("hang", json!({})), None);
    let killed = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
    assert!(killed.success());
    match waiting.await {
        Err(RequestFailure::WorkerExited(exit)) => assert_eq!(exit.status, Some(EndStatus::Signal(9))),
        other => panic!("{other:?}"),
    }
    gone(child).await;
}

/// A stalled worker reads neither `exit` nor the end of its input.
#[tokio::test]
async fn s7_shutdown_ends_the_stubborn_and_their_children() {
    let stage = Stage::new(&reactive(), true);
    stage.open().await;
    stage.ask("echo").await.unwrap();
    let (pid, child) = (stage.pid().await, stage.child().await);
    let stalled = stage.session.request(&stage.file(), RequestSpec::new("stall", json!({})), None);
    stage.session.shutdown(Duration::from_millis(50)).await;
    assert!(matches!(stalled.await, Err(RequestFailure::SessionClosed)));
    gone(pid).await;
    gone(child).await;
}

#[tokio::test]
async fn s7_dropping_the_session_kills_the_group() {
    let stage = Stage::new(&reactive(), true);
    stage.open().await;
    stage.ask("echo").await.unwrap();
    let (pid, child) = (stage.pid().await, stage.child().await);
    drop(stage.session);
    gone(pid).await;
    gone(child).await;
}

/// A runtime that goes away drops every task wherever it stands.
#[test]
fn s7_a_runtime_that_shuts_down_leaves_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (stage, pid, child) = runtime.block_on(async {
        let stage = Stage::new(&reactive(), true);
        stage.open().await;
        stage.ask("echo").await.unwrap();
        let pids = (stage.pid().await, stage.child().await);
        (stage, pids.0, pids.1)
    });
    assert!(runs(pid) && runs(child));
    drop(runtime);
    let begun = Instant::now();
    while runs(pid) || runs(child) {
        assert!(begun.elapsed() < Duration::from_secs(10), "left behind: {pid} or {child}");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(stage);
}

#[tokio::test]
async fn a_program_that_does_not_exist() {
    let project = TempProject::empty().unwrap();
    let command = WorkerCommand {
        program: project.path("no-such-lean").as_path().into(),
        args: vec![],
        env: vec![],
        env_remove: vec![],
        cwd: project.root().clone(),
    };
    let session = Session::new(SessionConfig::new(project.root().clone(), 1, Arc::new(CommandSpawn(command))));
    let file = project.path("A.lean");
    session.apply(&file, Snapshot::new(session.reserve(), "", None)).await.unwrap();
    match session.request(&file, RequestSpec::new("m", json!({})), None).await {
        Err(RequestFailure::WorkerExited(exit)) => assert!(matches!(exit.reason, ExitReason::SpawnFailed(_))),
        other => panic!("{other:?}"),
    }
}

/// A worker that goes on with a text that was replaced, here by burning a processor, is replaced once the new text is done; what waits goes
/// to the next worker, and its answers say why. Without an edit the same burning is nobody's business.
#[tokio::test]
async fn work_on_a_replaced_text_that_does_not_stop_gets_the_worker_replaced() {
    let progress = |version: u64, processing: Value| json!({"notify": ["$/lean/fileProgress", {"textDocument": {"uri": "u", "version": version}, "processing": processing}]});
    let all = json!([{"range": {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}}]);
    let script = json!({
        "ignore": ["initialize", "$/cancelRequest"],
        "rules": {
            "textDocument/didOpen": [progress(1, all), "burn"],
            "textDocument/didChange": [progress(2, json!([]))],
            "echo": [{"reply": {"$from": "/params"}}],
            "hang": []
        }
    });
    let stage = Stage::with(&script, false, |config| config.cancel_grace = Duration::from_millis(300));
    stage.open().await;
    stage.ask("echo").await.unwrap();
    let old = stage.pid().await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(stage.pid().await, old, "nothing was replaced, so nothing has to stop");
    stage.session.apply(&stage.file(), Snapshot::new(stage.session.reserve(), "other", None)).await.unwrap();
    let waiting = stage.session.request(&stage.file(), RequestSpec::new("hang", json!({})), None);
    gone(old).await;
    let reply = stage.session.request(&stage.file(), RequestSpec::new("echo", json!({})), None).await.unwrap();
    assert_eq!(reply.replaced.as_deref(), Some("an elaboration of an earlier text did not stop"));
    let info = stage.session.document(&stage.file()).await.unwrap();
    assert_eq!((info.worker.starts, info.pending), (2, 1), "what waited still waits");
    let counters = stage.session.counters();
    assert_eq!((counters.abandoned_elaborations, counters.worker_losses), (1, 0));
    drop(waiting);
}
