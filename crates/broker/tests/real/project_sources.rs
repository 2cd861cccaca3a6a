//! The sources are the user's: whatever is asked, nothing outside of the build folder is written, made or removed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::project_stale::five;
use crate::support::lanes::{self, WORKSPACE};
use crate::support::project::Project;

/// Line ends, a last line without one and characters of every length: what a careless writer would change.
const CLEAN: &str =
    "import App.Base\r\n\r\ntheorem t : 1 = 1 := by\r\n  skip\r\n  rfl\r\n\r\n/-- ü😀 -/\r\ndef all : Nat := base";
/// It offers a code action, holds an error and so cannot be saved.
const ACTION: &str = "#guard_msgs in\n#eval 7\n";

/// Every file that is not made by a build: content and time of the last change.
type Sources = BTreeMap<PathBuf, (Vec<u8>, SystemTime)>;

fn sources(root: &Path) -> Sources {
    let mut out = Sources::new();
    let mut queue = vec![root.to_path_buf()];
    while let Some(dir) = queue.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != ".lake" && name != ".beam") {
                    queue.push(path);
                }
            } else {
                let changed = path.metadata().and_then(|m| m.modified()).unwrap();
                out.insert(path.clone(), (std::fs::read(&path).unwrap(), changed));
            }
        }
    }
    out
}

/// Asks, and looks at every source afterwards.
struct Witness {
    project: Project,
    before: Sources,
    asked: Vec<String>,
}

impl Witness {
    async fn ask(&mut self, request: Value) -> Value {
        let op = request["op"].as_str().unwrap().to_owned();
        let process = ["cancel", "list_workspaces", "reset_stats", "shutdown"].contains(&op.as_str());
        let answer = if process {
            lanes::ask(&self.project.engine, request.clone()).await
        } else {
            self.project.ask(request.clone()).await
        };
        let after = sources(&self.project.root);
        let names = |s: &Sources| s.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&after), names(&self.before), "{request} made or removed a file");
        for (path, was) in &self.before {
            assert!(after[path] == *was, "{request} wrote {}", path.display());
        }
        self.asked.push(op);
        answer
    }

    /// The operation did its work: only then has it shown that it writes no source.
    async fn done(&mut self, request: Value) -> Value {
        let answer = self.ask(request.clone()).await;
        assert_eq!(answer["ok"], true, "{request}: {answer}");
        answer["result"].clone()
    }
}

/// X1: each operation does its work once, those that can fail by their file fail once, too, and after each of them every source is what
/// it was. `save_olean` and `close` with `saveArtifacts` do save.
#[tokio::test(flavor = "multi_thread")]
async fn no_lean_file_is_ever_written() {
    let project = Project::new(|root| {
        five(root);
        std::fs::write(root.join("App/All.lean"), CLEAN).unwrap();
        std::fs::write(root.join("App/Action.lean"), ACTION).unwrap();
    })
    .await;
    let before = sources(&project.root);
    assert!(before.len() >= 9, "the project's files: {:?}", before.keys());
    let mut w = Witness { project, before, asked: Vec::new() };
    let (all, action) = ("App/All.lean", "App/Action.lean");
    let on = |op: &str, path: &str| json!({"op": op, "path": path});
    let at = |op: &str, line: u32, character: u32| json!({"op": op, "path": all, "version": 1, "line": line, "character": character});
    let with = |mut request: Value, more: Value| {
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request
    };

    w.done(json!({"op": "ensure"})).await;
    w.done(on("update_file", all)).await;
    w.done(on("sync_file", all)).await;
    let kept = w.done(with(at("run_at", 3, 2), json!({"text": "skip", "storeHandle": true}))).await;
    let next = json!({"op": "run_with", "path": all, "handle": kept["handle"], "text": "rfl", "storeHandle": true});
    let next = w.done(next).await;
    w.done(json!({"op": "release", "path": all, "handle": next["handle"]})).await;
    w.done(with(at("goals", 3, 2), json!({"mode": "before"}))).await;
    w.done(at("hover", 7, 18)).await;
    w.done(at("signature_help", 7, 18)).await;
    w.done(at("definition", 7, 18)).await;
    w.done(at("references", 7, 5)).await;
    w.done(json!({"op": "document_symbols", "path": all, "version": 1})).await;
    w.done(json!({"op": "workspace_symbols", "query": "base"})).await;

    w.done(on("update_file", action)).await;
    let range = json!({"op": "todo", "path": action, "version": 1, "line": 0, "character": 0, "endLine": 2, "endCharacter": 0, "kinds": ["code_action"]});
    let items = w.done(range).await["items"].clone();
    let offered = items
        .as_array()
        .unwrap()
        .iter()
        .find(|i| i["codeAction"].is_object())
        .unwrap_or_else(|| panic!("no code action: {items}"));
    let resolve =
        json!({"op": "code_action_resolve", "path": action, "version": 1, "codeAction": offered["codeAction"]});
    let resolved = w.done(resolve).await;
    assert!(resolved.to_string().contains("newText"), "the edit is told, and left to the client: {resolved}");
    assert_eq!(w.ask(on("save_olean", action)).await["ok"], false, "it holds an error");
    let close_save = |path: &str| with(on("close", path), json!({"saveArtifacts": true}));
    assert_eq!(w.ask(close_save(action)).await["ok"], false);

    w.done(on("save_olean", all)).await;
    assert!(w.project.artifact("App/All.olean").is_file(), "it was saved");
    w.done(on("refresh_file", all)).await;
    std::fs::remove_file(w.project.artifact("App/All.olean")).unwrap();
    w.done(close_save(all)).await;
    assert!(w.project.artifact("App/All.olean").is_file(), "it was saved again");
    w.done(on("close", action)).await;
    w.done(json!({"op": "open_docs"})).await;
    w.done(json!({"op": "cancel", "cancelRequestId": "nobody"})).await;
    w.done(json!({"op": "stats"})).await;
    w.done(json!({"op": "reset_stats"})).await;
    let root = w.project.root.to_string();
    for mode in ["verify", "reset"] {
        w.done(json!({"op": "init_workspace", "workspaceId": WORKSPACE, "root": root, "workspaceMode": mode})).await;
    }
    w.done(json!({"op": "list_workspaces"})).await;
    w.done(json!({"op": "drop_workspace"})).await;
    w.ask(json!({"op": "shutdown"})).await;
    assert_eq!(w.asked.iter().filter(|op| beam_wire::Op::from_name(op).is_none()).count(), 0, "{:?}", w.asked);
    w.asked.sort();
    w.asked.dedup();
    // The literal list: an operation that is added to the table has to be added here, and asked above.
    let every = [
        "cancel",
        "close",
        "code_action_resolve",
        "definition",
        "document_symbols",
        "drop_workspace",
        "ensure",
        "goals",
        "hover",
        "init_workspace",
        "list_workspaces",
        "open_docs",
        "references",
        "refresh_file",
        "release",
        "reset_stats",
        "run_at",
        "run_with",
        "save_olean",
        "shutdown",
        "signature_help",
        "stats",
        "sync_file",
        "todo",
        "update_file",
        "workspace_symbols",
    ];
    assert_eq!(w.asked, every);
    w.project.drain().await;
}

/// A probe behind an error, a warning and a slow command is the first to need the imports: it shows how they are built, and
/// nothing of what the file's own text comes to.
#[tokio::test(flavor = "multi_thread")]
async fn a_probe_streams_the_build_of_its_imports_and_no_other_diagnostic() {
    let p = Project::new(|root| {
        five(root);
        let text = "import App.Left\nimport Lean\n\ndef bad : Nat := \"one\"\n\ntheorem w : True := by\n  sorry\n\nrun_cmd IO.sleep 500\n\ntheorem t : True := by\n  trivial\n";
        std::fs::write(root.join("App/Probe.lean"), text).unwrap();
    })
    .await;
    assert_eq!(p.ask(json!({"op": "update_file", "path": "App/Probe.lean"})).await["ok"], true);
    let at =
        json!({"op": "run_at", "path": "App/Probe.lean", "version": 1, "line": 11, "character": 2, "text": "trivial"});
    let (answer, events) = p.ask_with_events(at).await;
    assert_eq!(answer["result"]["success"], true, "{answer}");
    let shown: Vec<&str> = events
        .iter()
        .filter(|e| e["kind"] == "diagnostic")
        .map(|e| e["payload"]["message"].as_str().unwrap())
        .collect();
    for module in ["App.Base", "App.Left"] {
        assert!(shown.iter().any(|line| line.contains(&format!("Built {module}"))), "{module}: {shown:?}");
    }
    let others: Vec<_> = shown.iter().filter(|line| !line.contains("Built App.") || line.lines().count() > 1).collect();
    assert!(others.is_empty(), "more than the build: {others:?}");
    // The diagnostics were there to be shown: the barrier counts them.
    let synced = p.sync("App/Probe.lean").await;
    let counts = &synced["result"]["diagnostics"]["counts"];
    assert_eq!((&counts["error"], &counts["warning"]), (&json!(1), &json!(1)), "{synced}");
    p.drain().await;
}
