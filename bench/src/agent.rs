//! What a session of an agent costs with `try` and without it: calls, tokens, seconds. The session is the one of the tests.

#[path = "../../crates/broker/tests/real/agent/script.rs"]
mod script;

use std::time::Duration;

use beam_base::AbsPath;
use beam_broker::{Engine, EngineConfig};
use beam_toolchain::HostEnv;
use serde_json::json;

use crate::levels::Failure;
use script::{Agent, Cost, FILE, PROVED, Way};

const WORKSPACE: &str = "bench";
/// What people reckon a token with, where no tokenizer is at hand.
const BYTES_OF_A_TOKEN: usize = 4;

/// Prints the cost of both ways.
pub fn run() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let root = AbsPath::canonical(dir.path())?;
    std::fs::write(root.join("lean-toolchain"), "leanprover/lean4:v4.28.0\n")?;
    let goals = script::goals()?;
    std::fs::write(root.join(FILE), script::text(goals.iter().map(|goal| (goal, "sorry"))))?;
    let engine = Engine::new(EngineConfig::new(root.clone(), WORKSPACE, HostEnv::capture()));
    tokio::runtime::Runtime::new()?.block_on(async {
        let opened = Agent::ask(&engine, WORKSPACE, json!({"op": "sync_file", "path": FILE})).await?;
        let version = opened["version"].as_u64().ok_or("sync names no version")?;
        let agent = Agent { engine: &engine, workspace: WORKSPACE, version };
        // Warms the worker: the first use of a tactic is slower than the others.
        agent.solve(&goals, Way::OneByOne).await?;
        let (without, dear) = agent.solve(&goals, Way::OneByOne).await?;
        let (with, cheap) = agent.solve(&goals, Way::AtOnce).await?;
        // A cheap wrong answer is no figure.
        let proofs: Vec<_> =
            goals.iter().zip(&with).filter_map(|(g, n)| Some((g, g.candidates[(*n)?].as_str()))).collect();
        std::fs::write(root.join(PROVED), script::text(proofs.iter().copied()))?;
        let proved = Agent::ask(&engine, WORKSPACE, json!({"op": "sync_file", "path": PROVED})).await?;
        let wanted: Vec<_> = goals.iter().map(|goal| Some(goal.proof)).collect();
        if with != wanted
            || without != wanted
            || proofs.len() != goals.len()
            || proved["diagnostics"]["counts"]["total"] != 0
        {
            return Err(format!("with try {with:?}, without {without:?}, and then {proved}").into());
        }
        println!("{} goals, 8 candidates each, all proved both ways", goals.len());
        print("one run_at after the other", dear, goals.len());
        print("one try for each goal", cheap, goals.len());
        engine.drain(Duration::from_secs(2)).await;
        Ok(())
    })
}

#[allow(clippy::cast_precision_loss)]
fn print(way: &str, cost: Cost, goals: usize) {
    let Cost { calls, bytes, took } = cost;
    let seconds = took.as_secs_f64() / goals as f64;
    println!("  {way:28} {calls:4} calls {:6} tokens {seconds:7.3} s per goal", bytes / BYTES_OF_A_TOKEN);
}
