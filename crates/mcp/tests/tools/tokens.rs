//! What the answers cost an agent: bytes and tokens per tool, over the tour of the documentation and ten probes that fail.
//!
//! Counted is `content[0].text`: a client shows one of the two representations. A token is taken as four bytes of UTF-8, rounded up: the
//! usual rule of thumb, good for comparing, not for billing.

use std::collections::BTreeMap;

use super::tour::{blocks, next_call};
use super::*;

/// A proof with a context of ordinary size.
const PROBE: &str = "theorem probe (a b c d : Nat) (f : Nat → Nat) (hab : a ≤ b) (hbc : b ≤ c) (hcd : c ≤ d)
    (hf : ∀ x y, x ≤ y → f x ≤ f y) (h : a = b ∨ b = c) : f a ≤ f d ∧ a ≤ d := by
  constructor
  · skip
    sorry
  · sorry
";

/// Ways in which a probe fails that agents run into every day.
const FAILING: [&str; 10] = [
    "exact hf _ _ hab",
    "nonsense",
    "exact nonsense",
    "rfl",
    "simp",
    "omega",
    "apply hf; exact hab",
    "cases hab with | foo => rfl",
    "by simp",
    "intro x\nexact x",
];

/// Calls and bytes by tool.
#[derive(Default)]
struct Costs(BTreeMap<String, (usize, usize)>);

impl Costs {
    fn add(&mut self, what: &str, bytes: usize) {
        let entry = self.0.entry(what.to_owned()).or_default();
        entry.0 += 1;
        entry.1 += bytes;
    }

    fn print(&self, title: &str) {
        println!("| {title} | calls | bytes | tokens |\n| --- | ---: | ---: | ---: |");
        for (what, (calls, bytes)) in &self.0 {
            println!("| {what} | {calls} | {bytes} | {} |", tokens(*bytes));
        }
        let (calls, bytes) = self.0.values().fold((0, 0), |(n, b), (calls, bytes)| (n + calls, b + bytes));
        println!("| all | {calls} | {bytes} | {} |", tokens(bytes));
    }
}

/// What a client reads before its first call; and whether it may choose the form of goals.
async fn once_per_session(beam: &mut Beam) -> bool {
    let mut costs = Costs::default();
    let discovered = beam.client.ask(&client::modern("d", "server/discover", json!({}), json!({}))).await;
    costs.add("instructions", discovered["result"]["instructions"].as_str().unwrap().len());
    let listed = beam.client.ask(&client::modern("l", "tools/list", json!({}), json!({}))).await;
    let tools = &listed["result"]["tools"];
    costs.add("tools/list", tools.to_string().len());
    costs.print("once per session");
    assert!(costs.0["tools/list"].1 < 24_000);
    let run_at = tools.as_array().unwrap().iter().find(|t| t["name"] == "lean_run_at").unwrap();
    run_at["inputSchema"]["properties"].get("goals").is_some()
}

fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(4)
}

/// The tour, then the failing probes.
async fn script(beam: &mut Beam) -> Costs {
    let mut costs = Costs::default();
    let root = beam.root.to_string();
    // The folder's name has another length in each run.
    let bytes = |answer: &Value| answer.to_string().replace(&root, "/work/demo").len();
    let mut handle = Value::Null;
    for (info, text) in blocks() {
        let text = text.replace("/work/demo", &root);
        match info {
            "lean" => beam.write("Tour.lean", &format!("{text}\n")),
            "json call" => {
                let (tool, arguments) = next_call(&text, &handle);
                let (answer, _) = beam.call(&tool, arguments).await;
                costs.add(&tool, bytes(&answer));
                if answer["next_handle"].is_object() {
                    handle = answer["next_handle"].clone();
                }
            }
            _ => {}
        }
    }
    beam.write("Probe.lean", PROBE);
    beam.lean("lean_update", json!({ "path": "Probe.lean" })).await;
    for text in FAILING {
        let probe = json!({ "path": "Probe.lean", "version": 1, "line": 4, "character": 4, "text": text });
        let answer = beam.lean("lean_run_at", probe).await;
        assert_eq!(answer["success"], false, "{text}: {answer}");
        costs.add("lean_run_at, failing", bytes(&answer));
    }
    costs
}

#[tokio::test]
async fn what_the_answers_cost() {
    let mut beam = Beam::start();
    let chooses = once_per_session(&mut beam).await;
    let json = script(&mut beam).await;
    beam.end().await;
    json.print("tour and ten failing probes, default");
    // A failed probe tells its messages and one state: ten of them are not allowed to become dearer unnoticed.
    let failing = json.0["lean_run_at, failing"].1;
    assert!(failing <= 6_500, "{failing} bytes");
    if chooses {
        let mut options = Options::default();
        options.set_goals("--goals", "text").unwrap();
        let mut beam = Beam::start_with(options);
        let text = script(&mut beam).await;
        beam.end().await;
        text.print("the same with --goals text");
        let cheaper = text.0["lean_run_at, failing"].1;
        assert!(cheaper < failing, "{cheaper} bytes as text, {failing} as JSON");
    }
}
