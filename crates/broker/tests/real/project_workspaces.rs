//! Workspaces come, are replaced, and go; handles belong to one life of one workspace.

use std::path::Path;

use beam_broker::{Engine, EngineSettings};
use beam_embedded::testing;
use beam_toolchain::Choice;
use serde_json::{Value, json};

use crate::support::lanes::{ask, installed};

fn engine() -> Engine {
    let mut settings = EngineSettings::new(testing::shared_env());
    settings.choice = Choice::Embedded;
    Engine::empty(settings)
}

fn project(dir: &Path, name: &str) -> String {
    let root = dir.join(name);
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("lean-toolchain"), "leanprover/lean4:v4.28.0\n").unwrap();
    std::fs::write(root.join("A.lean"), "theorem t : True ∧ True := by\n  constructor\n  all_goals trivial\n").unwrap();
    root.canonicalize().unwrap().to_str().unwrap().to_owned()
}

async fn init(engine: &Engine, id: &str, root: &str, mode: Option<&str>) -> Value {
    let mut request = json!({"op": "init_workspace", "workspaceId": id, "root": root});
    if let Some(mode) = mode {
        request["workspaceMode"] = mode.into();
    }
    ask(engine, request).await
}

#[track_caller]
fn refused(answer: &Value, parts: &[&str]) {
    assert_eq!(answer["error"]["code"], "invalidParams", "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

/// No Lean is started by any of this.
#[tokio::test]
async fn workspaces_are_set_verified_reset_and_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (project(dir.path(), "a"), project(dir.path(), "b"));
    std::os::unix::fs::symlink(&a, dir.path().join("alias")).unwrap();
    let alias = dir.path().join("alias").to_str().unwrap().to_owned();
    let engine = engine();
    let none = ask(&engine, json!({"op": "list_workspaces"})).await;
    assert_eq!(none["result"], json!({"workspaces": []}));
    assert_eq!(ask(&engine, json!({"op": "stats"})).await["result"]["workspaces"], json!({}));

    refused(&init(&engine, "w", &a, Some("verify")).await, &["\"w\""]);
    let made = init(&engine, "w", &a, None).await;
    let want = json!({"workspace_id": "w", "root": a, "initialized": true, "mode": "set", "runtime_reused": false, "invalidated_handles": false});
    assert_eq!(made["result"], want);
    for (root, mode) in [(&a, "set"), (&alias, "set"), (&alias, "verify")] {
        let again = init(&engine, "w", root, Some(mode)).await;
        assert_eq!(
            (&again["result"]["runtime_reused"], &again["result"]["root"]),
            (&json!(true), &json!(a)),
            "{again}"
        );
    }
    refused(&init(&engine, "v", &alias, None).await, &[&a, "\"w\""]);
    refused(&init(&engine, "w", &b, None).await, &["reset"]);
    refused(&init(&engine, "x", "/no/such/folder", None).await, &["/no/such/folder", "does not resolve"]);
    refused(&init(&engine, "x", &format!("{a}/A.lean"), None).await, &["not a folder"]);
    let other = json!({"op": "init_workspace", "workspaceId": "w", "root": a, "leanCmd": "/other/lean"});
    refused(&ask(&engine, other).await, &["reset"]);

    let reset = init(&engine, "w", &b, Some("reset")).await["result"].clone();
    assert_eq!(
        (&reset["previous_root"], &reset["invalidated_handles"], &reset["root"]),
        (&json!(a), &json!(true), &json!(b))
    );
    init(&engine, "v", &a, Some("reset")).await;
    let list = ask(&engine, json!({"op": "list_workspaces"})).await;
    let row =
        |id: &str, root: &str| json!({"workspace_id": id, "root": root, "lean_active": false, "rocq_active": false});
    assert_eq!(list["result"]["workspaces"], json!([row("v", &a), row("w", &b)]));

    let gone = ask(&engine, json!({"op": "drop_workspace", "workspaceId": "w"})).await;
    assert_eq!(gone["result"], json!({"workspace_id": "w", "dropped": true, "invalidated_handles": true}));
    let again = ask(&engine, json!({"op": "drop_workspace", "workspaceId": "w"})).await;
    let want = json!({"workspace_id": "w", "dropped": false, "invalidated_handles": false, "reason": "notFound"});
    assert_eq!(again["result"], want);
    refused(&ask(&engine, json!({"op": "update_file", "workspaceId": "w", "path": "A.lean"})).await, &["\"w\""]);
    // The count of what was done with a workspace goes with it.
    let stats = ask(&engine, json!({"op": "stats"})).await;
    assert_eq!(stats["result"]["workspaces"].as_object().unwrap().keys().collect::<Vec<_>>(), ["v"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_lives_as_long_as_its_workspace() {
    installed().await;
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (project(dir.path(), "a"), project(dir.path(), "b"));
    let engine = engine();
    init(&engine, "w", &a, None).await;
    init(&engine, "v", &b, None).await;
    let probe = json!({"op": "run_at", "workspaceId": "w", "path": "A.lean", "version": 1, "line": 1, "character": 2, "text": "constructor", "storeHandle": true});
    let handle = ask(&engine, probe.clone()).await["result"]["handle"].clone();
    assert_eq!(handle["workspaceId"], "w", "{handle}");
    let with = |id: Option<&str>| {
        let mut next = json!({"op": "run_with", "path": "A.lean", "handle": handle, "text": "trivial"});
        if let Some(id) = id {
            next["workspaceId"] = id.into();
        }
        next
    };
    refused(&ask(&engine, with(Some("v"))).await, &["\"w\"", "\"v\""]);
    assert_eq!(ask(&engine, with(None)).await["result"]["success"], true);

    let sleepy = json!({"op": "run_at", "workspaceId": "w", "path": "A.lean", "version": 1, "line": 1, "character": 2, "text": "sleep 60000"});
    let pending = tokio::spawn({
        let engine = engine.clone();
        async move { ask(&engine, sleepy).await }
    });
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    ask(&engine, json!({"op": "drop_workspace", "workspaceId": "w"})).await;
    assert_eq!(pending.await.unwrap()["error"]["code"], "workerExited");
    refused(&ask(&engine, with(None)).await, &["\"w\""]);

    init(&engine, "w", &a, None).await;
    assert_eq!(ask(&engine, with(None)).await["error"]["code"], "contentModified");
    let anew = ask(&engine, probe).await;
    assert_eq!(anew["result"]["success"], true, "{anew}");
    assert_eq!(ask(&engine, with(None)).await["error"]["code"], "contentModified");
    engine.drain(std::time::Duration::from_secs(2)).await;
}

/// The root says which Lean answers, not which files may be looked at.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_outside_the_root_is_named_absolutely_and_is_no_module() {
    let p = crate::support::project::Project::new(|_| {}).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().canonicalize().unwrap().join("X.lean");
    std::fs::write(&file, "example : True := by\n  trivial\n").unwrap();
    let path = file.to_str().unwrap();
    let synced = p.sync(path).await;
    assert_eq!((&synced["ok"], &synced["result"]["path"]), (&json!(true), &json!(path)), "{synced}");
    let probe =
        json!({"op": "run_at", "path": path, "version": 1, "line": 1, "character": 2, "text": "exact True.intro"});
    assert_eq!(p.ask(probe).await["result"]["success"], true);
    assert_eq!(p.save(path).await["error"]["code"], "saveTargetNotModule");
    p.drain().await;
}
