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

/// No Lean is started by any of this.
#[tokio::test]
async fn a_root_that_cannot_be_spelled_or_served_leaves_nothing_behind() {
    use std::os::unix::ffi::OsStrExt as _;
    let dir = tempfile::tempdir().unwrap();
    let strange = dir.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&strange).unwrap();
    std::fs::write(strange.join("A.lean"), "").unwrap();
    std::os::unix::fs::symlink(&strange, dir.path().join("cafe")).unwrap();
    let link = dir.path().join("cafe").to_str().unwrap().to_owned();
    let engine = engine();
    refused(&init(&engine, "w", &link, None).await, &[&link, "not valid UTF-8", "rename"]);
    let sound = project(dir.path(), "sound");
    let rocq = json!({"op": "init_workspace", "workspaceId": "w", "root": sound, "rocqCmd": "coq-lsp"});
    refused(&ask(&engine, rocq).await, &["rocqCmd", "leave it out"]);
    let list = || async { ask(&engine, json!({"op": "list_workspaces"})).await["result"]["workspaces"].clone() };
    assert_eq!(list().await, json!([]));
    assert_eq!(init(&engine, "w", &sound, None).await["ok"], true);
    assert_eq!(list().await[0]["root"], json!(sound));
    // A file behind such a path, before any Lean is looked for.
    let file = json!({"op": "update_file", "workspaceId": "w", "path": format!("{link}/A.lean")});
    refused(&ask(&engine, file).await, &["cafe/A.lean", "not valid UTF-8", "rename"]);
    let stats = ask(&engine, json!({"op": "stats"})).await;
    assert_eq!(stats["result"]["workspaces"]["w"]["root"], json!(sound));
}

/// A project whose lakefile cannot be read any more, as on a mount that is gone: reading it waits for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_does_not_answer_holds_up_nobody() {
    let p = crate::support::project::Project::new(crate::project_stale::five).await;
    assert_eq!(p.sync("App/Base.lean").await["ok"], true);
    let lakefile = p.root.join("lakefile.toml");
    std::fs::remove_file(&lakefile).unwrap();
    let made = std::process::Command::new("mkfifo").arg(lakefile.as_path()).status().unwrap();
    assert!(made.success());
    let before = json!({"op": "stats"});
    for _ in 0..3 {
        let asked = tokio::time::timeout(std::time::Duration::from_secs(30), p.ask(before.clone()));
        let session = asked.await.expect("stats waits for a file")["result"]["sessions"]["lean"].clone();
        // What is not known is not said.
        assert_eq!((&session["active"], &session["configChanged"]), (&json!(true), &Value::Null), "{session}");
    }
    let synced = tokio::time::timeout(std::time::Duration::from_secs(60), p.sync("App/Base.lean"));
    let synced = synced.await.expect("the barrier waits for a file it does not need");
    assert_eq!(synced["ok"], true, "{synced}");
    // Lets the readers go, for whom the test's own end would wait.
    drop(std::fs::OpenOptions::new().write(true).open(&lakefile).unwrap());
    p.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_are_bounded_and_the_refusal_says_what_to_release() {
    let fill = |root: &Path| {
        std::fs::write(root.join("A.lean"), "theorem t : True ∧ True := by\n  constructor\n  all_goals trivial\n")
            .unwrap();
    };
    let p = crate::support::project::Project::with(fill, |settings| settings.max_handles = 3).await;
    let probe = |version: u64, store: bool| json!({"op": "run_at", "path": "A.lean", "version": version, "line": 1, "character": 2, "text": "constructor", "storeHandle": store});
    let next = |handle: &Value, linear: bool| json!({"op": "run_with", "path": "A.lean", "handle": handle, "text": "skip", "storeHandle": true, "linear": linear});
    let mut minted = Vec::new();
    for _ in 0..3 {
        minted.push(p.ask(probe(1, true)).await["result"]["handle"].clone());
    }
    assert!(minted.iter().all(Value::is_object), "{minted:?}");
    let full = p.ask(probe(1, true)).await;
    refused(&full, &["`A.lean` has 3 handles", "release", "BEAM_MAX_HANDLES"]);
    let data = &full["error"]["data"];
    assert_eq!((&data["reason"], &data["limit"], &data["oldest"]), (&json!("tooManyHandles"), &json!(3), &minted[0]));
    refused(&p.ask(next(&minted[0], false)).await, &["3 handles"]);
    // What needs no place, or gives one up, goes on.
    assert_eq!(p.ask(probe(1, false)).await["result"]["success"], true);
    let child = p.ask(next(&minted[1], true)).await["result"]["handle"].clone();
    assert!(child.is_object(), "{child}");
    refused(&p.ask(probe(1, true)).await, &["3 handles"]);
    let release = json!({"op": "release", "path": "A.lean", "handle": data["oldest"]});
    assert_eq!(p.ask(release).await["ok"], true);
    assert!(p.ask(probe(1, true)).await["result"]["handle"].is_object());
    // An edit ends them all.
    p.write("A.lean", "theorem t : True ∧ True := by\n  constructor\n  all_goals exact trivial\n");
    for _ in 0..3 {
        let r = p.ask(probe(2, true)).await;
        assert!(r["result"]["handle"].is_object(), "{r}");
    }
    p.drain().await;
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
    // Nor does a version come back: the file was open before, in a session that is gone.
    let mut anew = probe.clone();
    let old = ask(&engine, probe).await;
    assert_eq!(
        (&old["error"]["code"], &old["error"]["data"]["currentVersion"]),
        (&json!("contentModified"), &json!(2))
    );
    anew["version"] = 2.into();
    let anew = ask(&engine, anew).await;
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
