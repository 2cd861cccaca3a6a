//! A project of its own on real Lean.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use beam_base::AbsPath;
use beam_broker::{Engine, EngineConfig, EngineSettings};
use beam_embedded::testing;
use beam_toolchain::Choice;
use serde_json::{Value, json};

use super::lanes::{self, WORKSPACE, installed};

/// A temporary project and an engine over it.
pub struct Project {
    pub engine: Engine,
    pub root: AbsPath,
    _dir: tempfile::TempDir,
}

impl Project {
    /// A project made of what `fill` writes into its root.
    pub async fn new(fill: impl FnOnce(&Path)) -> Self {
        Self::with(fill, |_| {}).await
    }

    /// The same, with other settings.
    pub async fn with(fill: impl FnOnce(&Path), change: impl FnOnce(&mut EngineSettings)) -> Self {
        installed().await;
        let dir = tempfile::tempdir().expect("a temporary folder");
        let root = AbsPath::canonical(dir.path()).expect("its canonical path");
        std::fs::write(root.join("lean-toolchain"), "leanprover/lean4:v4.28.0\n").expect("a toolchain file");
        fill(&root);
        let mut config = EngineConfig::new(root.clone(), WORKSPACE, testing::shared_env());
        config.settings.choice = Choice::Embedded;
        change(&mut config.settings);
        Self { engine: Engine::new(config), root, _dir: dir }
    }

    pub fn write(&self, file: &str, text: &str) {
        std::fs::write(self.root.join(file), text).expect("a writable project");
    }

    /// The path of an artifact in the library folder.
    pub fn artifact(&self, file: &str) -> PathBuf {
        self.root.join(".lake/build/lib/lean").join(file).as_path().to_path_buf()
    }

    /// When an artifact was made.
    pub fn built_at(&self, file: &str) -> SystemTime {
        self.artifact(file).metadata().and_then(|m| m.modified()).expect("an artifact")
    }

    pub async fn ask(&self, request: Value) -> Value {
        self.ask_with_events(request).await.0
    }

    pub async fn ask_with_events(&self, mut request: Value) -> (Value, Vec<Value>) {
        request["workspaceId"] = WORKSPACE.into();
        lanes::ask_with_events(&self.engine, request).await
    }

    pub async fn sync(&self, file: &str) -> Value {
        self.ask(json!({"op": "sync_file", "path": file})).await
    }

    pub async fn save(&self, file: &str) -> Value {
        self.ask(json!({"op": "save_olean", "path": file})).await
    }

    /// Does what a line of a recovery plan says.
    pub async fn run(&self, line: &Value) -> Value {
        self.run_with_events(line).await.0
    }

    pub async fn run_with_events(&self, line: &Value) -> (Value, Vec<Value>) {
        let line = line.as_str().expect("a line");
        let rest = line.strip_prefix("lean-beam ").expect("a command of ours");
        let (verb, path) = rest.split_once(' ').expect("a verb and a path");
        let path: String = serde_json::from_str(path).expect("a quoted path");
        let op = match verb {
            "save" => "save_olean",
            "refresh" => "refresh_file",
            other => panic!("a plan does not {other}"),
        };
        self.ask_with_events(json!({"op": op, "path": path})).await
    }

    /// Does all that a plan says; the last answer.
    pub async fn run_plan(&self, plan: &Value) -> Value {
        let mut last = Value::Null;
        for line in plan.as_array().expect("a plan") {
            last = self.run(line).await;
        }
        last
    }

    pub async fn drain(&self) {
        self.engine.drain(Duration::from_secs(2)).await;
    }
}
