//! An agent as a script: for each goal of `tests/agent/goals.json` it has eight ideas, some of them wrong, some of them no proofs that look
//! like one, and looks for the first that holds. `beam-bench agent` runs the same.

use std::time::{Duration, Instant};

use beam_broker::Engine;
use beam_wire::Request;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// The file with the goals.
pub const FILE: &str = "Goals.lean";
/// The file with the proofs.
pub const PROVED: &str = "Proved.lean";

/// A goal and the agent's ideas.
#[derive(Debug, Deserialize)]
pub struct Goal {
    /// The theorem, up to its proof.
    pub statement: String,
    /// What is tried, in this order.
    pub candidates: Vec<String>,
    /// The first candidate that is a proof.
    pub proof: usize,
}

/// All of them.
pub fn goals() -> Result<Vec<Goal>, serde_json::Error> {
    serde_json::from_str(include_str!("../../../../../tests/agent/goals.json"))
}

/// A file with such a proof for each goal. A goal and its proof are two lines and a blank one.
pub fn text<'a>(goals: impl IntoIterator<Item = (&'a Goal, &'a str)>) -> String {
    goals.into_iter().map(|(goal, proof)| format!("{} := by\n  {proof}\n\n", goal.statement)).collect()
}

/// What a session cost.
#[derive(Debug, Default, Clone, Copy)]
pub struct Cost {
    /// Requests.
    pub calls: usize,
    /// Bytes of requests and answers, as JSON.
    pub bytes: usize,
    /// Time until the last answer.
    pub took: Duration,
}

/// How the agent asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `run_at` with one candidate after the other, until one holds.
    OneByOne,
    /// `try` with all of them.
    AtOnce,
}

/// An agent at work on a file of goals, which is at this version.
pub struct Agent<'a> {
    /// Whom it asks.
    pub engine: &'a Engine,
    /// The workspace's id.
    pub workspace: &'a str,
    /// Of [`FILE`].
    pub version: u64,
}

impl Agent<'_> {
    /// Asks what is no part of the session's cost.
    pub async fn ask(engine: &Engine, workspace: &str, mut request: Value) -> Result<Value, String> {
        request["workspaceId"] = workspace.into();
        let Value::Object(map) = request else { return Err("a request is an object".to_owned()) };
        let (tx, mut rx) = mpsc::channel(16);
        let unread = tokio::spawn(async move { while rx.recv().await.is_some() {} });
        let response = engine.run(Request::from_map(map), tx).await;
        unread.await.map_err(|e| e.to_string())?;
        let answer = serde_json::to_value(response).map_err(|e| e.to_string())?;
        if answer["ok"] == true { Ok(answer["result"].clone()) } else { Err(answer.to_string()) }
    }

    /// For each goal the index of the first candidate that solves it without caveats, and what it cost to know.
    pub async fn solve(&self, goals: &[Goal], way: Way) -> Result<(Vec<Option<usize>>, Cost), String> {
        let mut cost = Cost::default();
        let mut found = Vec::new();
        let start = Instant::now();
        for (n, goal) in goals.iter().enumerate() {
            // The place of the proof, where the file has a `sorry`.
            let place = json!({"path": FILE, "version": self.version, "line": 3 * n + 1, "character": 2});
            found.push(match way {
                Way::OneByOne => self.one_by_one(goal, &place, &mut cost).await?,
                Way::AtOnce => self.at_once(goal, &place, &mut cost).await?,
            });
        }
        cost.took = start.elapsed();
        Ok((found, cost))
    }

    async fn one_by_one(&self, goal: &Goal, place: &Value, cost: &mut Cost) -> Result<Option<usize>, String> {
        for (index, text) in goal.candidates.iter().enumerate() {
            let mut request = place.clone();
            request["op"] = "run_at".into();
            request["text"] = text.as_str().into();
            let result = self.counted(request, cost).await?;
            let solved = result["success"] == true && result["proofState"]["goals"] == json!([]);
            if solved && result.get("caveats").is_none() {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    async fn at_once(&self, goal: &Goal, place: &Value, cost: &mut Cost) -> Result<Option<usize>, String> {
        let mut request = place.clone();
        request["op"] = "try".into();
        request["texts"] = json!(goal.candidates);
        let result = self.counted(request, cost).await?;
        Ok(result["solved"].as_u64().and_then(|n| usize::try_from(n).ok()))
    }

    async fn counted(&self, request: Value, cost: &mut Cost) -> Result<Value, String> {
        let asked = request.to_string().len();
        let result = Self::ask(self.engine, self.workspace, request).await?;
        cost.calls += 1;
        cost.bytes += asked + result.to_string().len();
        Ok(result)
    }
}
