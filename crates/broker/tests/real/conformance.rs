//! Every conformance case, through the engine, against real Lean workers: one test per case, named after its file.
//!
//! Workers are expensive (seconds to start, hundreds of megabytes), so cases share a few *lanes*: a folder with documents that stay
//! open from case to case. A case begins by writing its texts into the lane's files, which Lean sees as an edit.

mod support;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};
use support::expect;
use support::lanes::{Lane, Lanes};
use tokio::task::JoinHandle;

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    let lanes = Arc::new(Lanes::new(2));
    // More threads than lanes would only wait for one.
    args.test_threads = Some(args.test_threads.unwrap_or(usize::MAX).min(lanes.len()));
    let trials = cases()
        .into_iter()
        .map(|(name, path)| {
            let lanes = Arc::clone(&lanes);
            Trial::test(name, move || run(&lanes, &path))
        })
        .collect();
    let conclusion = libtest_mimic::run(&args, trials);
    lanes.shut_down();
    if conclusion.has_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Cases in an order that changes the imports of a lane's documents as seldom as possible: plain files first.
fn cases() -> Vec<(String, PathBuf)> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance");
    let mut out: Vec<_> = std::fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .map(|e| e.expect("a directory entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .map(|p| (p.file_stem().expect("a name").to_string_lossy().into_owned(), p))
        .collect();
    assert!(out.len() > 100, "the conformance cases are missing from {}", dir.display());
    out.sort_by_cached_key(|(name, path)| {
        let text = std::fs::read_to_string(path).expect("a readable case");
        (text.contains("\"needs\""), name.clone())
    });
    out
}

fn run(lanes: &Lanes, path: &PathBuf) -> Result<(), Failed> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let case: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    lanes.with(|lane| async move { Runner::new(lane, &case).run(&case).await }).map_err(Failed::from)
}

struct Runner {
    lane: Arc<Lane>,
    default_file: String,
    handles: HashMap<String, Value>,
    todos: HashMap<String, Value>,
    pending: HashMap<String, JoinHandle<Value>>,
    versions: HashMap<String, u64>,
}

impl Runner {
    fn new(lane: Arc<Lane>, case: &Value) -> Self {
        let files = case["files"].as_object().expect("files");
        Self {
            lane,
            default_file: files.keys().next().expect("a file").clone(),
            handles: HashMap::new(),
            todos: HashMap::new(),
            pending: HashMap::new(),
            versions: HashMap::new(),
        }
    }

    async fn run(&mut self, case: &Value) -> Result<(), String> {
        for (file, text) in case["files"].as_object().expect("files") {
            self.write_and_update(file, text.as_str().expect("text")).await?;
        }
        for (n, step) in case["steps"].as_array().expect("steps").iter().enumerate() {
            self.step(step).await.map_err(|e| format!("step {n} {step}\n  {e}"))?;
        }
        Ok(())
    }

    fn file(&self, step: &Value) -> String {
        step["file"].as_str().map_or_else(|| self.default_file.clone(), str::to_owned)
    }

    async fn write_and_update(&mut self, file: &str, text: &str) -> Result<(), String> {
        self.lane.write(file, text);
        self.update(file).await
    }

    async fn update(&mut self, file: &str) -> Result<(), String> {
        let answer = self.lane.ask(json!({"op": "update_file", "path": self.lane.path(file)}), None).await;
        let version = answer["result"]["version"].as_u64().ok_or_else(|| format!("update failed: {answer}"))?;
        self.versions.insert(file.to_owned(), version);
        Ok(())
    }

    async fn step(&mut self, step: &Value) -> Result<(), String> {
        let op = step["op"].as_str().expect("op");
        let file = self.file(step);
        match op {
            "edit" => return self.write_and_update(&file, step["text"].as_str().expect("text")).await,
            "open" => return self.update(&file).await,
            "close" => {
                let answer = self.lane.ask(json!({"op": "close", "path": self.lane.path(&file)}), None).await;
                return expect::accepted(&answer);
            }
            "cancel" => {
                let id = self.lane.request_id(step["ref"].as_str().expect("ref"));
                let answer = self.lane.ask_process(json!({"op": "cancel", "cancelRequestId": id})).await;
                return expect::equal("cancelled", &answer["result"]["cancelled"], &json!(true));
            }
            "await" => {
                let task = self.pending.remove(step["ref"].as_str().expect("ref")).expect("a pending step");
                let answer = task.await.map_err(|e| e.to_string())?;
                return self.judge(step, &answer);
            }
            _ => {}
        }
        let request = self.request(op, step, &file)?;
        if let Some(reference) = step["async"].as_str() {
            self.pending.insert(reference.to_owned(), self.lane.ask_later(request, reference).await);
            return Ok(());
        }
        let answer = self.lane.ask(request, None).await;
        self.judge(step, &answer)
    }

    /// The broker request of a step.
    fn request(&self, op: &str, step: &Value, file: &str) -> Result<Value, String> {
        let offset = step["version_offset"].as_i64().unwrap_or(0);
        let version = i64::try_from(self.versions[file]).expect("a small version") + offset;
        let mut r = json!({ "path": self.lane.path(file) });
        let place = |r: &mut Value, at: &Value, line: &str, character: &str| {
            r[line] = at["line"].clone();
            r[character] = at["character"].clone();
        };
        match op {
            "run_at" | "run_at_handle" | "goals" => {
                place(&mut r, &step["position"], "line", "character");
                r["version"] = version.into();
            }
            "todo" => {
                place(&mut r, &step["start"], "line", "character");
                place(&mut r, &step["end"], "endLine", "endCharacter");
                r["version"] = version.into();
            }
            "run_with" | "run_with_linear" | "release" => {
                let name = step["handle"].as_str().expect("handle");
                // A name that was never saved is a malformed handle, to be sent as it is.
                r["handle"] = self.handles.get(name).cloned().unwrap_or_else(|| name.into());
            }
            "code_action_resolve" => {
                r["version"] = version.into();
                r["codeAction"] = self.raw_action(step)?;
            }
            "sync" => {}
            other => return Err(format!("unknown step `{other}`")),
        }
        for key in ["text", "mode", "kinds", "suggest"] {
            if !step[key].is_null() {
                r[key] = step[key].clone();
            }
        }
        let (name, extra) = match op {
            "run_at_handle" => ("run_at", json!({"storeHandle": true})),
            "run_with" => ("run_with", json!({"storeHandle": true, "linear": false})),
            "run_with_linear" => ("run_with", json!({"storeHandle": true, "linear": true})),
            "sync" => ("sync_file", json!({})),
            same => (same, json!({})),
        };
        r["op"] = name.into();
        for (key, value) in extra.as_object().expect("an object") {
            r[key] = value.clone();
        }
        Ok(r)
    }

    fn raw_action(&self, step: &Value) -> Result<Value, String> {
        let todo = &self.todos[step["from_todo"].as_str().expect("from_todo")];
        let items = todo["items"].as_array().ok_or("the todo has no items")?;
        let found = items.iter().find(|i| i["codeAction"]["title"] == step["title"]);
        let mut action = found.ok_or("no such action in the todo")?["codeAction"].clone();
        if step["drop_data"] == true {
            action.as_object_mut().expect("an action").remove("data");
        }
        Ok(action)
    }

    fn judge(&mut self, step: &Value, answer: &Value) -> Result<(), String> {
        if let Some(name) = step["save_as"].as_str() {
            self.handles.insert(name.to_owned(), answer["result"]["handle"].clone());
        }
        if let Some(name) = step["id"].as_str() {
            self.todos.insert(name.to_owned(), answer["result"].clone());
        }
        let want = &step["expect"];
        if want.is_null() {
            return expect::accepted(answer);
        }
        expect::step(want, answer).map_err(|e| format!("{e}\n  answer: {answer}"))
    }
}
