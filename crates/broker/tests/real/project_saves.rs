//! Checkpoints: what is written, what refuses, and that a failure leaves the old artifacts as they were.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::project_stale::five;
use crate::support::lanes::{WORKSPACE, ask};
use crate::support::project::Project;

/// Every file under the build folder, with its content.
fn artifacts(p: &Project) -> BTreeMap<String, Vec<u8>> {
    fn walk(dir: &Path, out: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, out);
            } else {
                out.insert(path.display().to_string(), std::fs::read(&path).unwrap());
            }
        }
    }
    let mut out = BTreeMap::new();
    walk(&p.root.join(".lake/build"), &mut out);
    // The builder's lock is no artifact.
    out.retain(|name, _| !name.contains("lock"));
    out
}

/// Nothing that was staged or kept aside is left.
fn tidy(p: &Project) {
    for name in artifacts(p).keys() {
        let file = Path::new(name).file_name().unwrap().to_str().unwrap();
        assert!(!file.starts_with('.'), "left behind: {name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_writes_the_whole_family_and_says_where() {
    let p = Project::new(five).await;
    let saved = p.save("App/Base.lean").await;
    assert_eq!(saved["ok"], true, "{saved}");
    let r = &saved["result"];
    let at = |file: &str| json!(p.artifact(file).display().to_string());
    for (key, file) in [
        ("olean", "App/Base.olean"),
        ("ilean", "App/Base.ilean"),
        ("oleanServer", "App/Base.olean.server"),
        ("oleanPrivate", "App/Base.olean.private"),
        ("ir", "App/Base.ir"),
        ("trace", "App/Base.trace"),
    ] {
        assert_eq!(r[key], at(file), "{key}");
        assert!(p.artifact(file).is_file(), "{file}");
    }
    assert!(Path::new(r["c"].as_str().unwrap()).ends_with(".lake/build/ir/App/Base.c"));
    assert_eq!((&r["module"], &r["version"], &r["path"]), (&json!("App.Base"), &json!(1), &json!("App/Base.lean")));
    assert_eq!((&r["sync"]["version"], &r["sync"]["diagnostics"]["items"]), (&json!(1), &Value::Null));
    assert_eq!(r["sourceHash"].as_str().unwrap().len(), 16);
    assert_eq!(saved["fileProgress"]["done"], true);
    serde_json::from_value::<beam_wire::SaveResult>(r.clone()).expect("the closed shape");

    // A plain file has no such family.
    let plain = p.save("App/Left.lean").await;
    assert_eq!((&plain["result"]["oleanServer"], &plain["result"]["ir"]), (&Value::Null, &Value::Null), "{plain}");
    // The checkpoint of Base is what Left was judged against: nothing was built over it.
    let open = p.ask(json!({"op": "open_docs"})).await;
    let files = &open["result"]["sessions"]["lean"]["files"];
    assert_eq!(files.as_array().unwrap().iter().filter(|f| f["checkpointed"] == true).count(), 2, "{files}");
    p.write("App/Left.lean", "import App.Base\n\ndef left : Nat := base + 1 + 0\n");
    let open = p.ask(json!({"op": "open_docs"})).await;
    assert_eq!(open["result"]["sessions"]["lean"]["files"][1]["checkpointed"], false, "{open}");
    tidy(&p);

    let closed = p.ask(json!({"op": "close", "path": "App/Left.lean", "saveArtifacts": true})).await;
    assert_eq!(
        (&closed["result"]["closed"], &closed["result"]["saved"]["version"]),
        (&json!(true), &json!(2)),
        "{closed}"
    );
    let open = p.ask(json!({"op": "open_docs"})).await;
    assert_eq!(open["result"]["sessions"]["lean"]["files"].as_array().unwrap().len(), 1, "{open}");
    p.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_saved_says_why() {
    let p = Project::new(|root| {
        five(root);
        let lakefile = std::fs::read_to_string(root.join("lakefile.toml")).unwrap();
        let args = "\n[[lean_lib]]\nname = \"Args\"\nmoreLeanArgs = [\"-DmaxRecDepth=1000\"]\n";
        std::fs::write(root.join("lakefile.toml"), lakefile + args).unwrap();
        std::fs::write(root.join("Args.lean"), "def a := 1\n").unwrap();
        std::fs::write(root.join("Scratch.lean"), "def s := 1\n").unwrap();
    })
    .await;
    for (file, code) in [
        ("Scratch.lean", "saveTargetNotModule"),
        ("Args.lean", "saveUnsupportedSetup"),
        ("App/Bad.lean", "invalidParams"),
    ] {
        let answer = p.save(file).await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
        if code != "saveTargetNotModule" {
            assert_eq!(answer["error"]["data"]["sync"]["path"], file, "{answer}");
        }
    }
    // A close that was to save and could not leaves the document open.
    let closing = p.ask(json!({"op": "close", "path": "App/Bad.lean", "saveArtifacts": true})).await;
    assert_eq!(closing["error"]["code"], "invalidParams", "{closing}");
    let open = p.ask(json!({"op": "open_docs"})).await;
    assert!(open["result"].to_string().contains("App/Bad.lean"), "{open}");
    // What it is built from is not whole any more.
    assert_eq!(p.sync("App/Left.lean").await["ok"], true);
    std::fs::remove_file(p.artifact("App/Base.olean")).unwrap();
    let stale = p.save("App/Left.lean").await;
    assert_eq!(stale["error"]["code"], "saveTraceStale", "{stale}");
    assert!(stale["error"]["message"].as_str().unwrap().contains("App.Base"), "{stale}");
    assert!(!p.artifact("App/Left.olean").exists());
    let args = p.save("Args.lean").await;
    assert!(args["error"]["data"]["reason"].as_str().unwrap().contains("maxRecDepth"), "{args}");
    assert_eq!(args["error"]["data"]["path"], "Args.lean");
    tidy(&p);
    p.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn x2_a_failed_save_leaves_the_old_artifacts() {
    let p = Project::new(five).await;
    assert_eq!(p.save("App/Left.lean").await["ok"], true);
    p.write("App/Left.lean", "import App.Base\n\ndef left : Nat := base + 100\n");

    // The second artifact cannot take its place.
    let ilean = p.artifact("App/Left.ilean");
    std::fs::remove_file(&ilean).unwrap();
    std::fs::create_dir(&ilean).unwrap();
    let mut kept = artifacts(&p);
    let answer = p.save("App/Left.lean").await;
    assert_eq!(answer["ok"], false, "{answer}");
    let mut after = artifacts(&p);
    let trace = p.artifact("App/Left.trace").display().to_string();
    // Whatever lies there now, it is not what vouched for the artifacts that were to be replaced.
    let (old, new) = (kept.remove(&trace), after.remove(&trace));
    assert!(old.is_some() && new != old, "the old trace is still there");
    assert_eq!(after, kept);
    std::fs::remove_dir(&ilean).unwrap();

    // A trace that is a folder.
    drop(std::fs::remove_file(p.artifact("App/Left.trace")));
    std::fs::create_dir(p.artifact("App/Left.trace")).unwrap();
    let before = artifacts(&p);
    let answer = p.save("App/Left.lean").await;
    assert_eq!(answer["error"]["code"], "internalError", "{answer}");
    assert_eq!(artifacts(&p), before);
    std::fs::remove_dir(p.artifact("App/Left.trace")).unwrap();

    assert_eq!(p.save("App/Left.lean").await["ok"], true);
    tidy(&p);
    p.drain().await;
}

/// Within a minute, or never.
async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.unwrap_or_else(|_| panic!("{what} is held up"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_never_done_does_not_keep_others_from_being_saved() {
    let p = Project::new(|root| {
        five(root);
        let endless = "import Lean\n\nrun_cmd IO.sleep 3600000\n\ndef endless : Nat := 1\n";
        std::fs::write(root.join("App/Endless.lean"), endless).unwrap();
    })
    .await;
    let other = tempfile::tempdir().unwrap();
    five(other.path());
    std::fs::write(other.path().join("lean-toolchain"), "leanprover/lean4:v4.28.0\n").unwrap();
    let init = json!({"op": "init_workspace", "workspaceId": "other", "root": other.path()});
    assert_eq!(ask(&p.engine, init).await["ok"], true);
    let engine = p.engine.clone();
    let endless = tokio::spawn(async move {
        let save =
            json!({"op": "save_olean", "workspaceId": WORKSPACE, "path": "App/Endless.lean", "clientRequestId": "q"});
        ask(&engine, save).await
    });
    while p.engine.active_requests() == 0 {
        tokio::task::yield_now().await;
    }
    let saved = soon("a save in the same workspace", p.save("App/Base.lean")).await;
    assert_eq!(saved["ok"], true, "{saved}");
    let save = json!({"op": "save_olean", "workspaceId": "other", "path": "App/Base.lean"});
    let saved = soon("a save in another workspace", ask(&p.engine, save)).await;
    assert_eq!(saved["ok"], true, "{saved}");
    // It was under way all the time, and goes when it is told to.
    let told = ask(&p.engine, json!({"op": "cancel", "cancelRequestId": "q"})).await;
    assert_eq!(told["result"]["cancelled"], true);
    assert_eq!(endless.await.unwrap()["error"]["code"], "requestCancelled");
    assert!(!p.artifact("App/Endless.olean").exists(), "it was never begun");
    tidy(&p);
    p.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn saves_of_one_package_take_turns() {
    let p = Project::new(five).await;
    for file in ["App/Base.lean", "App/Left.lean", "App/Right.lean"] {
        assert_eq!(p.sync(file).await["ok"], true);
    }
    // Each reads what the other writes; whatever the order, nobody sees half of it.
    for _ in 0..3 {
        let (base, left, again, right) = tokio::join!(
            p.save("App/Base.lean"),
            p.save("App/Left.lean"),
            p.save("App/Base.lean"),
            p.save("App/Right.lean")
        );
        for saved in [base, again] {
            assert_eq!(saved["ok"], true, "{saved}");
        }
        for saved in [left, right] {
            // One that finds its import replaced under it says so; nothing else may be wrong with it.
            let code = &saved["error"]["code"];
            assert!(saved["ok"] == true || code == "saveTraceStale", "{saved}");
        }
        for file in ["App/Left.lean", "App/Right.lean"] {
            assert_eq!(p.ask(json!({"op": "refresh_file", "path": file})).await["ok"], true);
        }
    }
    tidy(&p);
    p.drain().await;
}

/// After the barrier was passed, and before the trace is written: the trace would vouch for another import than the one that was loaded.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_changes_under_a_save_leaves_no_trace() {
    let p = Project::new(five).await;
    assert_eq!(p.sync("App/Left.lean").await["ok"], true);
    // Whoever has the builder's lock holds up the save just before it begins to write.
    let folder = p.root.join(".lake/build/lean-beam");
    std::fs::create_dir_all(&folder).unwrap();
    let lock =
        std::fs::File::options().create(true).truncate(false).write(true).open(folder.join("build.lock")).unwrap();
    lock.lock().unwrap();
    let (engine, left) =
        (p.engine.clone(), json!({"op": "save_olean", "workspaceId": WORKSPACE, "path": "App/Left.lean"}));
    let save = tokio::spawn(async move { ask(&engine, left).await });
    tokio::time::sleep(Duration::from_secs(2)).await;
    p.write("App/Base.lean", "module\n\npublic def base : Nat := 77\n");
    lock.unlock().unwrap();
    let answer = save.await.unwrap();
    assert_eq!(answer["error"]["code"], "saveTraceStale", "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("`App/Base.lean` changed on disk") && message.ends_with("refresh this file and save again"),
        "{message}"
    );
    assert!(!p.artifact("App/Left.trace").exists());
    tidy(&p);
    p.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_during_the_save_is_saved_as_it_was() {
    let p = Project::new(|root| {
        five(root);
        let slow = "import Lean\n\nrun_cmd IO.sleep 2000\n\ndef slow : Nat := 1\n";
        std::fs::write(root.join("App/Slow.lean"), slow).unwrap();
        std::fs::write(root.join("App/User.lean"), "import App.Slow\n\nexample : slow = 1 := rfl\n").unwrap();
    })
    .await;
    let change = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        p.write("App/Slow.lean", "import Lean\n\ndef slow : Nat := 2\n");
    };
    let (saved, ()) = tokio::join!(p.save("App/Slow.lean"), change);
    assert_eq!((&saved["ok"], &saved["result"]["version"]), (&json!(true), &json!(1)), "{saved}");
    // The next build sees that the artifacts are of an older text.
    let user = p.sync("App/User.lean").await;
    assert_eq!(user["result"]["diagnostics"]["counts"]["error"], 1, "{user}");
    p.drain().await;
}
