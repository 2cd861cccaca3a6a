//! The steps that tests against real Lean are made of.

use serde_json::{Value, json};

use super::expect::equal;
use super::lanes::Lane;

/// What a test comes to.
pub type Outcome = Result<(), String>;

/// A small proof with two branches.
pub const PROOF: &str =
    "theorem t (p q : Prop) (hp : p) (hq : q) : p ∧ q := by\n  constructor\n  · exact hp\n  · exact hq\n";
/// A tactic that waits, polling for interruption; and one that computes.
pub const META: &str = "import Lean\n\nelab \"poll_a_while\" : tactic => do\n  for _ in [0:500] do\n    IO.sleep 20\n    Lean.Core.checkInterrupted\n\nexample : True := by\n  trivial\n";

/// Writes and updates; the version.
pub async fn put(lane: &Lane, file: &str, text: &str) -> Result<u64, String> {
    lane.write(file, text);
    let answer = lane.ask(json!({"op": "update_file", "path": lane.path(file)}), None).await;
    answer["result"]["version"].as_u64().ok_or_else(|| format!("update: {answer}"))
}

/// A probe, as a request.
pub fn run_at(lane: &Lane, file: &str, version: u64, line: u32, character: u32, text: &str) -> Value {
    json!({"op": "run_at", "path": lane.path(file), "version": version, "line": line, "character": character, "text": text})
}

/// A probe.
pub async fn probe(lane: &Lane, file: &str, version: u64, line: u32, character: u32, text: &str) -> Value {
    lane.ask(run_at(lane, file, version, line, character, text), None).await
}

/// A barrier.
pub async fn sync(lane: &Lane, file: &str) -> Value {
    lane.ask(json!({"op": "sync_file", "path": lane.path(file)}), None).await
}

/// The answer failed with this code.
pub fn code(answer: &Value, want: &str) -> Outcome {
    equal("error code", &answer["error"]["code"], &json!(want)).map_err(|e| format!("{e}; answer: {answer}"))
}

/// The probe was answered, and the text was accepted.
pub fn succeeds(answer: &Value) -> Outcome {
    equal("success", &answer["result"]["success"], &json!(true)).map_err(|e| format!("{e}; answer: {answer}"))
}

/// A condition, with what was seen when it does not hold.
pub fn holds(what: &str, condition: bool, seen: &Value) -> Outcome {
    if condition { Ok(()) } else { Err(format!("{what}; seen: {seen}")) }
}
