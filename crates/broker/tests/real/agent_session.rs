//! A scripted agent proves twenty goals with eight candidates each, with `try` and without it. Both ways find the same proofs, and what
//! they call solved stands in the file. One worker, one file.

#[path = "agent/script.rs"]
mod script;
mod support;

use std::time::Duration;

use beam_base::AbsPath;
use beam_broker::Engine;
use script::{Agent, Cost, FILE, Goal, PROVED, Way};
use serde_json::{Value, json};
use support::lanes::{WORKSPACE, engine};

/// What both ways may take together on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(300);

#[test]
fn an_agent_proves_twenty_goals_with_try_and_without() {
    // A runtime of its own: qualifying a fresh install brings up another one.
    let (engine, root, _dir) = engine();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let goals = script::goals().unwrap();
        assert!(goals.len() == 20 && goals.iter().all(|goal| goal.candidates.len() == 8));
        tokio::time::timeout(PATIENCE, session(&engine, &root, &goals)).await.expect("the session comes to an end");
        engine.drain(Duration::from_secs(2)).await;
    });
}

async fn session(engine: &Engine, root: &AbsPath, goals: &[Goal]) {
    std::fs::write(root.join(FILE), script::text(goals.iter().map(|goal| (goal, "sorry")))).unwrap();
    let ask = async |request: Value| Agent::ask(engine, WORKSPACE, request).await.unwrap();
    let version = ask(json!({"op": "sync_file", "path": FILE})).await["version"].as_u64().unwrap();
    let agent = Agent { engine, workspace: WORKSPACE, version };

    let (with_try, cheap) = agent.solve(goals, Way::AtOnce).await.unwrap();
    let (without, dear) = agent.solve(goals, Way::OneByOne).await.unwrap();
    let wanted: Vec<_> = goals.iter().map(|goal| Some(goal.proof)).collect();
    assert_eq!(without, wanted);
    assert_eq!(with_try, without, "`try` and single calls find the same");
    assert_costs(goals, cheap, dear);

    // The engine reads the disk, so the copy is a file of its own: what is solved is what Lean accepts there.
    let proofs = goals.iter().zip(&with_try).map(|(goal, found)| (goal, goal.candidates[found.unwrap()].as_str()));
    std::fs::write(root.join(PROVED), script::text(proofs)).unwrap();
    let done = ask(json!({"op": "sync_file", "path": PROVED})).await;
    assert_eq!(done["diagnostics"]["counts"]["total"], 0, "{done}");
    assert_eq!(done["readiness"]["saveReady"], true, "{done}");
    assert!(done.get("sorries").is_none(), "{done}");
    let verdict = ask(json!({"op": "check", "path": PROVED, "version": done["version"]})).await;
    assert_eq!((&verdict["verdict"], &verdict["sorries"]), (&json!("proved"), &json!([])), "{verdict}");
    assert_eq!(verdict["declarations"].as_array().unwrap().len(), goals.len(), "{verdict}");

    // The file of goals was only looked at: each of them is still open.
    let open = ask(json!({"op": "sync_file", "path": FILE})).await;
    assert_eq!(open["sorries"].as_array().unwrap().len(), goals.len(), "{open}");
    assert_eq!(open["version"], version, "{open}");
}

/// One call for a goal instead of one for each candidate up to the proof, and fewer bytes.
fn assert_costs(goals: &[Goal], cheap: Cost, dear: Cost) {
    assert_eq!(cheap.calls, goals.len());
    assert_eq!(dear.calls, goals.iter().map(|goal| goal.proof + 1).sum::<usize>());
    assert!(cheap.bytes < dear.bytes, "with try {cheap:?}, without {dear:?}");
}
