//! The server on real Lean, in this process. A worker takes seconds and most of a gigabyte, so the tests take turns.

#![allow(clippy::print_stdout, reason = "figures and seeds, for who asks for them")]

#[path = "../support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use beam_broker::qualify::Qualifier;
use beam_broker::{Engine, EngineSettings};
use beam_embedded::testing;
use beam_mcp::{ExitReason, Options};
use beam_toolchain::Choice;
use beam_wire::Request;
use serde_json::{Value, json};
use support::storm::{Random, Storm};
use support::{Client, modern, modern_call, project};
use tokio::sync::{Mutex, mpsc};

static TURN: Mutex<()> = Mutex::const_new(());

const TEXT: &str = "theorem t : 1 + 1 = 2 := by\n  skip\n  rfl\n\ndef n : Nat := 3\n";

fn engine() -> Engine {
    // Installing runs a worker in a runtime of its own.
    let _installed = tokio::task::block_in_place(|| testing::shared_embedded_for_tests(&Qualifier));
    let mut settings = EngineSettings::new(testing::shared_env());
    settings.choice = Choice::Embedded;
    Engine::empty(settings)
}

fn lean_project() -> (tempfile::TempDir, String) {
    let (dir, root) = project();
    std::fs::write(dir.path().join("A.lean"), TEXT).unwrap();
    (dir, root)
}

fn on(root: &str, mut rest: Value) -> Value {
    rest["workspace"] = json!({ "root": root });
    rest["path"] = "A.lean".into();
    rest
}

fn at(root: &str, text: &str) -> Value {
    on(root, json!({ "version": 1, "line": 1, "character": 2, "text": text }))
}

async fn tool(c: &mut Client, name: &str, args: Value) -> Value {
    let answer = c.ask(&modern_call(1, name, args, json!({}))).await;
    answer["result"]["structuredContent"].clone()
}

/// From the first call that needs Lean to the last trace of a workspace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_lives_and_is_dropped() {
    let _turn = TURN.lock().await;
    let ((dir, root), (_dir2, root2)) = (lean_project(), lean_project());
    let mut c = Client::start(engine(), Options::default());
    assert_eq!(
        tool(&mut c, "beam_stats", json!({})).await["workspaces"],
        json!({}),
        "nothing is there before it is needed"
    );
    assert_eq!(tool(&mut c, "beam_version", json!({})).await["runtime_active"], false);

    let sync = on(&root, json!({ "diagnostics_in_result": true, "diagnostic_scope": "all" }));
    let extra = json!({ "progressToken": "p", "io.modelcontextprotocol/logLevel": "debug" });
    c.send(&modern_call("s", "lean_sync", sync, extra)).await;
    let seen = c.until(&json!("s")).await;
    assert!(seen[0]["params"]["message"].as_str().unwrap().contains("preparing"), "{seen:?}");
    let result = &seen.last().unwrap()["result"]["structuredContent"];
    assert_eq!((&result["workspace"], &result["version"]), (&json!({ "root": root }), &json!(1)), "{result}");
    assert_eq!(result["readiness"]["save_ready"], true, "{result}");
    assert_eq!(result["document_progress"]["done"], true, "{result}");
    assert_eq!(tool(&mut c, "beam_version", json!({})).await["runtime_active"], true);

    let probe = tool(&mut c, "lean_run_at", at(&root, "rfl")).await;
    assert_eq!((&probe["success"], &probe["proof_state"]["goals"]), (&json!(true), &json!([])), "{probe}");
    let wrong = tool(&mut c, "lean_run_at", at(&root, "exact 5")).await;
    assert_eq!(wrong["success"], false, "a failure of Lean's is a successful call: {wrong}");
    let kept = tool(&mut c, "lean_run_at_handle", at(&root, "skip")).await;
    let handle = kept["next_handle"].clone();
    let follow = |root: &str, handle: &Value| on(root, json!({ "handle": handle, "text": "rfl" }));
    assert_eq!(tool(&mut c, "lean_run_with", follow(&root, &handle)).await["success"], true);
    let foreign = tool(&mut c, "lean_run_with", follow(&root2, &handle)).await;
    assert_eq!(foreign["code"], "invalidParams", "{foreign}");
    let stale = on(&root, json!({ "version": 7, "line": 1, "character": 2, "text": "rfl" }));
    assert_eq!(tool(&mut c, "lean_run_at", stale).await["code"], "contentModified");

    let evict = json!({ "workspace": { "root": root } });
    let dropped = tool(&mut c, "lean_drop_workspace", evict.clone()).await;
    assert_eq!((&dropped["dropped"], &dropped["invalidated_handles"]), (&json!(true), &json!(true)));
    assert_eq!(tool(&mut c, "lean_drop_workspace", evict.clone()).await["reason"], "notFound");
    let after = tool(&mut c, "lean_run_with", follow(&root, &handle)).await;
    assert_eq!(after["code"], "contentModified", "a handle does not survive its runtime: {after}");
    // Versions do not go back: a position of before the drop is about a text that may have been another.
    assert_eq!(tool(&mut c, "lean_run_at", at(&root, "rfl")).await["code"], "contentModified");
    let version = tool(&mut c, "lean_update", on(&root, json!({}))).await["version"].clone();
    assert_eq!(version, 2);
    let mut anew = at(&root, "rfl");
    anew["version"] = version;
    assert_eq!(tool(&mut c, "lean_run_at", anew).await["success"], true, "made anew");
    let after = tool(&mut c, "lean_run_with", follow(&root, &handle)).await;
    assert_eq!(after["code"], "contentModified", "nor a new runtime: {after}");

    std::fs::remove_dir_all(dir.path()).unwrap();
    assert_eq!(tool(&mut c, "lean_run_at", at(&root, "rfl")).await["code"], "invalidInput");
    assert_eq!(
        tool(&mut c, "lean_drop_workspace", evict).await["dropped"],
        true,
        "a folder that is gone can be dropped"
    );
    std::fs::create_dir(dir.path()).unwrap();
    std::fs::write(dir.path().join("lean-toolchain"), "leanprover/lean4:v4.28.0\n").unwrap();
    std::fs::write(dir.path().join("A.lean"), TEXT).unwrap();
    let mut again = at(&root, "rfl");
    again["version"] = tool(&mut c, "lean_update", on(&root, json!({}))).await["version"].clone();
    assert_eq!(again["version"], 3);
    assert_eq!(tool(&mut c, "lean_run_at", again).await["success"], true);

    c.close_stdin();
    let before = Instant::now();
    assert_eq!(c.finish().await.1, ExitReason::InputClosed);
    // M5.
    assert!(before.elapsed() < Duration::from_secs(2), "{:?}", before.elapsed());
}

/// Two roots are used for the first time at once; a probe that never ends is cancelled down to Lean.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_cold_roots_and_a_cancelled_probe() {
    let _turn = TURN.lock().await;
    let ((_dir, root), (_dir2, root2)) = (lean_project(), lean_project());
    let mut c = Client::start(engine(), Options::default());
    c.send(&modern_call(1, "lean_update", on(&root, json!({})), json!({}))).await;
    c.send(&modern_call(2, "lean_update", on(&root2, json!({})), json!({}))).await;
    for _ in 0..2 {
        let m = c.recv().await;
        let own = if m["id"] == 1 { &root } else { &root2 };
        assert_eq!(
            m["result"]["structuredContent"],
            json!({ "workspace": { "root": own }, "version": 1, "changed": true })
        );
    }
    assert_eq!(tool(&mut c, "lean_run_at", at(&root, "rfl")).await["success"], true);
    c.send(&modern_call(
        "loop",
        "lean_run_at",
        at(&root, "set_option maxHeartbeats 0 in repeat' have := 1"),
        json!({}),
    ))
    .await;
    c.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "loop" } })).await;
    for _ in 0..3 {
        // Under the same id: it is free, and no answer of the cancelled call comes in between.
        let again = c.ask(&modern_call("loop", "lean_run_at", at(&root, "rfl"), json!({}))).await;
        assert_eq!(again["result"]["structuredContent"]["success"], true, "{again}");
    }
    let stats = tool(&mut c, "beam_stats", json!({})).await;
    assert_eq!(stats["workspaces"].as_object().unwrap().len(), 2, "{stats}");
    assert_eq!(c.end().await, ExitReason::InputClosed);
}

fn probe(random: &mut Random) -> Value {
    let text = ["rfl", "decide", "simp", "exact 5", "skip"][usize::try_from(random.below(5)).unwrap()];
    json!({ "version": 1, "line": 1, "character": 2, "text": text })
}

/// M4, on real Lean.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m4_a_storm_on_real_lean() {
    let _turn = TURN.lock().await;
    let ((_a, a), (_b, b)) = (lean_project(), lean_project());
    let client = Client::start(engine(), Options::default());
    let mut storm = Storm::new(client, 1, [a, b], probe, Duration::from_secs(120));
    storm.run().await;
    println!("answered {}, cancelled {}", storm.answered.len(), storm.cancelled.len());
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// What MCP adds to a probe, and what the first answer takes. The limits are for a busy machine; the figures are printed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mcp_adds_little_to_a_probe() {
    let _turn = TURN.lock().await;
    let (_dir, root) = lean_project();
    let engine = engine();
    let mut c = Client::start(engine.clone(), Options::default());
    let before = Instant::now();
    c.ask(&modern(0, "server/discover", json!({}), json!({}))).await;
    println!("first discover answer in process: {:?}", before.elapsed());
    tool(&mut c, "lean_sync", on(&root, json!({}))).await;
    let (mut raw, mut mcp) = (Vec::new(), Vec::new());
    for _ in 0..60 {
        let request = json!({
            "op": "run_at", "workspaceId": format!("local:{root}"), "path": "A.lean", "version": 1, "line": 1, "character": 2, "text": "rfl",
        });
        let Value::Object(map) = request else { unreachable!() };
        let (tx, mut rx) = mpsc::channel(64);
        let before = Instant::now();
        let response = engine.run(Request::from_map(map), tx).await;
        raw.push(before.elapsed());
        assert!(response.outcome.is_ok());
        rx.close();
        let call = modern_call(1, "lean_run_at", at(&root, "rfl"), json!({}));
        let before = Instant::now();
        let answer = c.ask(&call).await;
        mcp.push(before.elapsed());
        assert_eq!(answer["result"]["structuredContent"]["success"], true);
    }
    let (raw, mcp) = (median(raw), median(mcp));
    println!("probe: raw median {raw:?}, over MCP {mcp:?}, difference {:?}", mcp.saturating_sub(raw));
    assert!(mcp < raw + Duration::from_millis(100), "raw {raw:?}, over MCP {mcp:?}");
    assert_eq!(c.end().await, ExitReason::InputClosed);
}
