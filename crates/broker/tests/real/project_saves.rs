//! Checkpoints: what is written, what refuses, and that a failure leaves the old artifacts as they were.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::project_stale::five;
use crate::support::lanes::{WORKSPACE, ask};
use crate::support::project::{Gate, Project, begun};

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
    let before = artifacts(&p);
    let answer = p.save("App/Left.lean").await;
    assert_eq!(answer["ok"], false, "{answer}");
    // The trace was taken back before anything was put in place: it vouches for nothing now, and the rest is as it was.
    let trace = p.artifact("App/Left.trace").display().to_string();
    let record = |files: &mut BTreeMap<String, Vec<u8>>| {
        let bytes = files.remove(&trace).expect("a trace");
        serde_json::from_slice::<Value>(&bytes).expect("a trace is JSON")["leanBeam"]["record"].clone()
    };
    let (mut kept, mut after) = (before, artifacts(&p));
    assert!(record(&mut kept).is_object(), "the first save was recorded");
    assert_eq!(record(&mut after), Value::Null, "a record of artifacts that the failed save was about to replace");
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

#[tokio::test(flavor = "multi_thread")]
async fn saves_are_one_at_a_time_and_can_be_cancelled_in_line() {
    let gate = Gate::closed();
    let p = Project::new(|root| {
        five(root);
        let slow = format!("import Lean\n\n{}\ndef slow : Nat := 1\n", gate.command());
        std::fs::write(root.join("App/Slow.lean"), slow).unwrap();
    })
    .await;
    assert_eq!(p.sync("App/Base.lean").await["ok"], true);
    let slow = p.save("App/Slow.lean");
    let queued = async {
        gate.reached().await;
        let request =
            json!({"op": "save_olean", "workspaceId": WORKSPACE, "path": "App/Base.lean", "clientRequestId": "q"});
        let mut waiting = Box::pin(ask(&p.engine, request));
        begun(&mut waiting).await;
        let told = ask(&p.engine, json!({"op": "cancel", "cancelRequestId": "q"})).await;
        let cancelled = waiting.await;
        gate.open();
        (told, cancelled)
    };
    let (slow, (told, cancelled)) = tokio::join!(slow, queued);
    assert_eq!((&slow["ok"], &told["result"]["cancelled"]), (&json!(true), &json!(true)), "{slow}");
    assert_eq!(cancelled["error"]["code"], "requestCancelled");
    assert!(!p.artifact("App/Base.olean").exists(), "it was never begun");
    let (one, two) = tokio::join!(p.save("App/Base.lean"), p.save("App/Base.lean"));
    assert_eq!((&one["ok"], &two["ok"]), (&json!(true), &json!(true)), "{one} {two}");
    tidy(&p);
    p.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_during_the_save_is_saved_as_it_was() {
    let gate = Gate::closed();
    let p = Project::new(|root| {
        five(root);
        let slow = format!("import Lean\n\n{}\ndef slow : Nat := 1\n", gate.command());
        std::fs::write(root.join("App/Slow.lean"), slow).unwrap();
        std::fs::write(root.join("App/User.lean"), "import App.Slow\n\nexample : slow = 1 := rfl\n").unwrap();
    })
    .await;
    let change = async {
        gate.reached().await;
        p.write("App/Slow.lean", "import Lean\n\ndef slow : Nat := 2\n");
        gate.open();
    };
    let (saved, ()) = tokio::join!(p.save("App/Slow.lean"), change);
    assert_eq!((&saved["ok"], &saved["result"]["version"]), (&json!(true), &json!(1)), "{saved}");
    // The next build sees that the artifacts are of an older text.
    let user = p.sync("App/User.lean").await;
    assert_eq!(user["result"]["diagnostics"]["counts"]["error"], 1, "{user}");
    p.drain().await;
}
