//! Files that import each other: built on demand, stale when a file below them changed, ready again after the plan.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::lanes::WORKSPACE;
use crate::support::project::{Gate, Project};

/// A diamond over a file with a `module` header, and one that is broken.
pub fn five(root: &Path) {
    let app = root.join("App");
    std::fs::create_dir_all(&app).unwrap();
    let write = |name: &str, text: &str| std::fs::write(app.join(name), text).unwrap();
    std::fs::write(root.join("lakefile.toml"), "name = \"app\"\n\n[[lean_lib]]\nname = \"App\"\nglobs = [\"App.+\"]\n")
        .unwrap();
    write("Base.lean", "module\n\npublic def base : Nat := 1\n");
    write("Left.lean", "import App.Base\n\ndef left : Nat := base + 1\n");
    write("Right.lean", "import App.Base\n\ndef right : Nat := base + 2\n");
    write("Top.lean", "import App.Left\nimport App.Right\n\ntheorem sum : left + right = 5 := by decide\n");
    write("Bad.lean", "import App.Base\n\ndef bad : Nat := \"one\"\n");
}

fn messages(events: &[Value]) -> Vec<String> {
    let of = |e: &Value| e["payload"]["message"].as_str().or(e["message"].as_str()).map(str::to_owned);
    events.iter().filter_map(of).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_are_built_and_the_plan_works() {
    let p = Project::new(five).await;

    // Nothing is built yet: the first barrier builds what Top imports, and shows it.
    let (clean, events) = p.ask_with_events(json!({"op": "sync_file", "path": "App/Top.lean"})).await;
    assert_eq!(clean["ok"], true, "{clean}");
    assert_eq!(clean["result"]["diagnostics"]["counts"]["total"], 0, "{clean}");
    let log = messages(&events);
    for module in ["App.Base", "App.Left", "App.Right"] {
        assert!(log.iter().any(|line| line.contains(&format!("Built {module}"))), "{module}: {log:?}");
    }
    assert!(p.artifact("App/Base.olean.private").exists(), "the whole family of a module file");

    // Changed on disk behind everybody's back, two levels down.
    p.write("App/Base.lean", "module\n\npublic def base : Nat := 2\n");
    let before = p.built_at("App/Base.olean");
    let stale = p.sync("App/Top.lean").await;
    assert_eq!(stale["error"]["code"], "syncBarrierIncomplete", "{stale}");
    let data = &stale["error"]["data"];
    assert_eq!(data["staleDirectDeps"], json!([]), "it is no direct import");
    let evidence = data["completionBlockingDiagnostics"][0]["message"].as_str().unwrap();
    assert!(evidence.contains("App/Base.lean"), "{evidence}");
    assert_eq!(data["recoveryPlan"], json!(["lean-beam refresh \"App/Top.lean\""]));
    assert_eq!(p.built_at("App/Base.olean"), before, "nothing is rebuilt unasked");
    // The importer between them is as stale, whether or not it is edited meanwhile.
    p.write("App/Left.lean", "import App.Base\n\ndef left : Nat := base + 1\n\n");
    assert_eq!(p.sync("App/Left.lean").await["ok"], true, "opened just now, so it sees the new one");
    let ready = p.run_plan(&data["recoveryPlan"]).await;
    assert_eq!(ready["ok"], true, "{ready}");
    assert_eq!(ready["result"]["diagnostics"]["counts"]["error"], 1, "3 + 4 is not 5: {ready}");
    assert_ne!(p.built_at("App/Base.olean"), before);

    p.write("App/Top.lean", "import App.Left\nimport App.Right\n\ntheorem sum : left + right = 7 := by decide\n");
    assert_eq!(p.sync("App/Top.lean").await["result"]["readiness"]["saveReady"], true);
    p.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_synced_change_is_saved_and_seen_without_a_build() {
    let p = Project::new(five).await;
    assert_eq!(p.sync("App/Left.lean").await["ok"], true);
    assert_eq!(p.sync("App/Top.lean").await["ok"], true);
    p.write("App/Left.lean", "import App.Base\n\ndef left : Nat := base + 11\n");
    assert_eq!(p.sync("App/Left.lean").await["ok"], true);
    let stale = p.sync("App/Top.lean").await;
    assert_eq!(stale["error"]["code"], "syncBarrierIncomplete", "{stale}");
    let data = &stale["error"]["data"];
    let dep = json!({"module": "App.Left", "path": "App/Left.lean", "needsSave": true});
    assert_eq!((&data["staleDirectDeps"], &data["saveDeps"]), (&json!([dep]), &json!(["App/Left.lean"])));
    let plan = json!(["lean-beam save \"App/Left.lean\"", "lean-beam refresh \"App/Top.lean\""]);
    assert_eq!(data["recoveryPlan"], plan);

    let saved = p.run(&plan[0]).await;
    assert_eq!(saved["ok"], true, "{saved}");
    let at = p.built_at("App/Left.olean");
    let (ready, events) = p.run_with_events(&plan[1]).await;
    assert_eq!(ready["ok"], true, "{ready}");
    // 12 + 3: the importer sees the saved text.
    assert_eq!(ready["result"]["diagnostics"]["counts"]["error"], 1, "{ready}");
    assert_eq!(p.built_at("App/Left.olean"), at, "{:?}", messages(&events));
    assert!(messages(&events).iter().all(|line| !line.contains("Built")), "{:?}", messages(&events));
    // The same for a change that nobody saved: the refresh builds it.
    p.write("App/Left.lean", "import App.Base\n\ndef left : Nat := base + 1\n");
    assert_eq!(p.sync("App/Left.lean").await["ok"], true);
    let (ready, events) = p.run_with_events(&plan[1]).await;
    assert_eq!(ready["result"]["readiness"]["saveReady"], true, "{ready}");
    assert!(messages(&events).iter().any(|line| line.contains("Built App.Left")), "{:?}", messages(&events));
    p.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dependency_that_does_not_build_is_never_clean() {
    let p = Project::new(|root| {
        five(root);
        std::fs::write(root.join("App/User.lean"), "import App.Bad\n\n#check bad\n").unwrap();
    })
    .await;
    for op in ["sync_file", "refresh_file", "sync_file"] {
        let answer = p.ask(json!({"op": op, "path": "App/User.lean"})).await;
        assert_eq!(answer["error"]["code"], "syncBarrierIncomplete", "{answer}");
        let data = &answer["error"]["data"];
        let evidence = data["completionBlockingDiagnostics"].to_string();
        for part in ["Failed to build module dependencies.", "App/Bad.lean:3"] {
            assert!(evidence.contains(part), "{part}: {evidence}");
        }
        assert_eq!(data["recoveryPlan"], json!(["lean-beam refresh \"App/User.lean\""]));
    }
    // The broken file itself is judged, and cannot be saved.
    let bad = p.sync("App/Bad.lean").await;
    assert_eq!(bad["result"]["readiness"]["reason"], "documentErrors", "{bad}");
    p.write("App/Bad.lean", "import App.Base\n\ndef bad : Nat := base\n");
    let ready = p.ask(json!({"op": "refresh_file", "path": "App/User.lean"})).await;
    assert_eq!(ready["result"]["readiness"]["saveReady"], true, "{ready}");
    p.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn update_does_not_wait_and_a_cancel_is_heard_during_a_build() {
    let gate = Gate::closed();
    let p = Project::new(|root| {
        five(root);
        let slow = format!("import Lean\n\n{}\ndef slow : Nat := 1\n", gate.command());
        std::fs::write(root.join("App/Slow.lean"), slow).unwrap();
        std::fs::write(root.join("App/User.lean"), "import App.Slow\n\nexample : True := by\n  trivial\n").unwrap();
    })
    .await;
    // The gate is closed, so that whoever waited for the build would wait for ever.
    let update = p.ask(json!({"op": "update_file", "path": "App/User.lean"})).await;
    assert_eq!(update["result"], json!({"version": 1, "changed": true}));
    let probe = json!({"op": "run_at", "workspaceId": WORKSPACE, "path": "App/User.lean", "version": 1, "line": 3, "character": 2, "text": "trivial"});
    let mut cancelled = probe.clone();
    cancelled["clientRequestId"] = "q".into();
    let (engine, mut first) = (p.engine.clone(), Box::pin(p.ask(cancelled)));
    tokio::select! {
        answer = &mut first => panic!("answered before it was cancelled: {answer}"),
        () = gate.reached() => {}
    }
    let told = crate::support::lanes::ask(&engine, json!({"op": "cancel", "cancelRequestId": "q"})).await;
    assert_eq!(told["result"]["cancelled"], true);
    assert_eq!(first.await["error"]["code"], "requestCancelled");
    gate.open();
    // The build was not of that request alone: another one gets its worker.
    assert_eq!(p.ask(probe).await["result"]["success"], true);
    p.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn builds_can_be_forbidden() {
    let p = Project::with(five, |settings| settings.build = beam_broker::BuildPolicy::Never).await;
    for request in [
        json!({"op": "sync_file", "path": "App/Top.lean"}),
        json!({"op": "run_at", "path": "App/Top.lean", "version": 1, "line": 3, "character": 0, "text": "#check 1"}),
    ] {
        let answer = p.ask(request).await;
        assert_eq!(answer["error"]["code"], "syncBarrierIncomplete", "{answer}");
        let data = &answer["error"]["data"];
        assert_eq!(data["reason"], "buildRefused");
        assert_eq!(data["modules"], json!(["App.Base", "App.Left", "App.Right"]));
    }
    assert!(!p.root.join(".lake/build/lib").exists(), "nothing was built");
    // What needs no build is answered.
    assert_eq!(p.sync("App/Base.lean").await["ok"], true);
    p.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_configuration_is_said_and_not_acted_upon() {
    let p = Project::new(|root| {
        five(root);
        std::fs::write(root.join("App/Opt.lean"), "#check fun (x : Nat) => x\n").unwrap();
        let lakefile = std::fs::read_to_string(root.join("lakefile.toml")).unwrap();
        std::fs::write(root.join("lakefile.toml"), format!("{lakefile}leanOptions.pp.funBinderTypes = true\n"))
            .unwrap();
    })
    .await;
    let all = json!({"op": "sync_file", "path": "App/Opt.lean", "diagnosticScope": "all", "diagnosticsInResult": true});
    let (first, events) = p.ask_with_events(all.clone()).await;
    let text = first["result"]["diagnostics"]["items"][0]["message"].as_str().unwrap();
    assert!(text.contains("fun (x : Nat)"), "the worker has the option: {text}");
    assert!(messages(&events).iter().all(|m| !m.contains("configuration")), "{events:?}");
    let stats = json!({"op": "stats"});
    let lean = |stats: &Value| stats["result"]["sessions"]["lean"]["configChanged"].clone();
    assert_eq!(lean(&p.ask(stats.clone()).await), Value::Null);

    std::fs::write(p.root.join("lakefile.toml"), "name = \"other\"\n").unwrap();
    let (again, events) = p.ask_with_events(json!({"op": "refresh_file", "path": "App/Opt.lean"})).await;
    assert_eq!(again["ok"], true);
    assert!(
        messages(&events).iter().any(|m| m.contains("`lakefile.toml`") && m.contains("lean-beam shutdown")),
        "{events:?}"
    );
    assert_eq!(lean(&p.ask(stats).await), true);
    p.drain().await;
}
