//! A session over the native Lean in a folder of its own, and the texts that the tests share.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use beam_base::{AbsPath, Deadline, Utf16Pos};
use beam_session::{
    CommandSpawn, DocumentInfo, Observation, RequestFailure, RequestSpec, Session, SessionConfig, Snapshot,
    WorkerCommand,
};
use serde_json::{Value, json};
use testkit::{Fixture, TempProject, native};

/// For everything that takes a fraction of a second on an idle machine.
pub const LONG: Duration = Duration::from_secs(120);

/// Numbers and an equality, as there is no library; `early` can be asked about while something behind it is still elaborated.
pub const BASICS: &str = "prelude
inductive N where
  | z
  | s (n : N)
inductive Eq {α : Sort u} (a : α) : α → Prop where
  | refl : Eq a a
def early : N := N.z
";

/// [`BASICS`], a theorem that takes time exponential in `depth`, and an error behind it.
///
/// Two trees are compared whose leaves are equal only when they are computed, each at another place, so that there is nothing
/// to share. Ten is through at once; sixty never is.
pub fn slow(depth: usize) -> String {
    let numeral = format!("{}N.z{}", "N.s (".repeat(depth), ")".repeat(depth));
    format!(
        "{BASICS}inductive Path where
  | nil
  | l (p : Path)
  | r (p : Path)
inductive T where
  | leaf (p : Path)
  | node (a b : T)
set_option maxHeartbeats 0
set_option maxRecDepth 10000
noncomputable def same (p : Path) : Path := Path.rec Path.nil (fun _ q => Path.l q) (fun _ q => Path.r q) p
noncomputable def one (n : N) : Path → T :=
  N.rec (fun p => T.leaf p) (fun _ f p => T.node (f (Path.l p)) (f (Path.r p))) n
noncomputable def other (n : N) : Path → T :=
  N.rec (fun p => T.leaf (same p)) (fun _ f p => T.node (f (Path.l p)) (f (Path.r p))) n
def depth : N := {numeral}
theorem slow : Eq (one depth Path.nil) (other depth Path.nil) := Eq.refl
def late : N := oops
"
    )
}

pub struct Stage {
    pub project: TempProject,
    pub session: Session,
}

impl Stage {
    pub fn new() -> Self {
        Self::with(&Fixture::parse(""), |_, _| {})
    }

    pub fn of(fixture: &Fixture) -> Self {
        Self::with(fixture, |_, _| {})
    }

    pub fn with(fixture: &Fixture, change: impl FnOnce(&mut WorkerCommand, &mut SessionConfig)) -> Self {
        let project = TempProject::with(fixture).unwrap();
        let mut command = WorkerCommand {
            program: native::lean().into(),
            args: vec!["--worker".into(), "-Dserver.reportDelayMs=0".into()],
            env: vec![
                ("LEAN_PATH".into(), project.path("build").as_path().into()),
                ("LEAN_SRC_PATH".into(), project.root().as_path().into()),
            ],
            env_remove: vec!["LEAN_SYSROOT".into(), "LAKE".into(), "LAKE_HOME".into()],
            cwd: project.root().clone(),
        };
        // Replaced below, once the command is what the test wants.
        let nothing = Arc::new(CommandSpawn(command.clone()));
        let mut config = SessionConfig::new(project.root().clone(), 1, nothing);
        config.index.ileans.push(project.path("build"));
        change(&mut command, &mut config);
        config.spawn = Arc::new(CommandSpawn(command));
        Self { session: Session::new(config), project }
    }

    pub fn file(&self, name: &str) -> AbsPath {
        self.project.path(name)
    }

    pub fn uri(&self, name: &str) -> String {
        self.session.uri_of(&self.file(name))
    }

    /// Makes a text the document's; the version it got.
    pub async fn apply(&self, name: &str, text: &str) -> u64 {
        let snap = Snapshot::new(self.session.reserve(), text, None);
        self.session.apply(&self.file(name), snap).await.unwrap().version
    }

    pub fn at(&self, name: &str, pos: Utf16Pos) -> Value {
        json!({"textDocument": {"uri": self.uri(name)}, "position": pos})
    }

    pub async fn ask(&self, name: &str, method: &str, params: Value) -> Result<Value, RequestFailure> {
        let spec = RequestSpec::new(method, params).with_deadline(Deadline::after(LONG));
        let reply = self.session.request(&self.file(name), spec, None).await?;
        Ok(serde_json::from_str(reply.value.get()).unwrap())
    }

    pub async fn ask_at(&self, name: &str, method: &str, pos: Utf16Pos) -> Value {
        self.ask(name, method, self.at(name, pos)).await.unwrap()
    }

    /// What a hover over `early` of [`BASICS`] shows.
    pub async fn early(&self) -> String {
        let hover = self.ask_at("Main.lean", "textDocument/hover", Utf16Pos { line: 6, character: 5 }).await;
        hover["contents"]["value"].as_str().unwrap().to_owned()
    }

    pub fn barrier(&self, name: &str, version: u64) -> RequestSpec {
        let params = json!({"uri": self.uri(name), "version": version});
        let spec = RequestSpec::new("textDocument/waitForDiagnostics", params).at_version(version);
        spec.with_deadline(Deadline::after(LONG))
    }

    /// Waits until Lean has reported everything about this version; the messages of the last publish.
    pub async fn settle(&self, name: &str, version: u64) -> Vec<String> {
        self.settled(name, version).await.into_iter().map(|(_, _, message)| message).collect()
    }

    /// The same, with line and character.
    pub async fn settled(&self, name: &str, version: u64) -> Vec<(u64, u64, String)> {
        let (observer, mut observed) = beam_session::observer();
        self.session
            .request(&self.file(name), self.barrier(name, version), Some(observer.from_present()))
            .await
            .unwrap();
        let mut last = Vec::new();
        while let Some(observation) = observed.recv().await {
            if let Observation::Diagnostics(list) = observation {
                assert_eq!(list.version(), version);
                last = list.items().unwrap();
            }
        }
        let place = |item: &Value, of: &str| item["range"]["start"][of].as_u64().unwrap();
        let said = |item: &Value| item["message"].as_str().unwrap().trim_end().to_owned();
        last.iter().map(|item| (place(item, "line"), place(item, "character"), said(item))).collect()
    }

    pub async fn info(&self, name: &str) -> DocumentInfo {
        self.session.document(&self.file(name)).await.unwrap()
    }

    pub async fn pid(&self, name: &str) -> u32 {
        self.info(name).await.worker.pid.unwrap()
    }

    /// Compiles a module, as a build would.
    pub fn build(&self, module: &str) {
        std::fs::create_dir_all(self.file("build")).unwrap();
        let built = Command::new(native::lean())
            .arg(format!("--root={}", self.project.root()))
            .args(["-o", &format!("build/{module}.olean"), "-i", &format!("build/{module}.ilean")])
            .arg(format!("{module}.lean"))
            .env("LEAN_PATH", self.file("build").as_path())
            .current_dir(self.project.root())
            .output()
            .unwrap();
        assert!(built.status.success(), "{built:?}");
    }
}

/// Whether there is such a process, and it is more than a body waiting to be counted.
pub fn runs(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

/// Resident memory of a process in bytes.
pub fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

pub fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

/// Looks again and again until it holds: for what the kernel does in its own time.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONG, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The lines of a file, none if there is no such file.
pub fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}
