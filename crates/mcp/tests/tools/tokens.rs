//! What the answers cost an agent: bytes and tokens per tool, over the tour of the documentation and ten probes that fail.
//!
//! Twice: as the tools answer by default, and as an agent gets it that follows the instructions (`goals: "text"`, here the server's
//! default, and `state: "changed"`, here in every call to a tool that offers it).
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

/// What a client reads before its first call. Gives the tools that may show only what changed.
async fn once_per_session(beam: &mut Beam) -> Vec<String> {
    let mut costs = Costs::default();
    let discovered = beam.client.ask(&client::modern("d", "server/discover", json!({}), json!({}))).await;
    costs.add("instructions", discovered["result"]["instructions"].as_str().unwrap().len());
    let listed = beam.client.ask(&client::modern("l", "tools/list", json!({}), json!({}))).await;
    let tools = &listed["result"]["tools"];
    costs.add("tools/list", tools.to_string().len());
    costs.print("once per session");
    assert!(costs.0["tools/list"].1 < 24_000);
    let offers = |tool: &&Value| tool["inputSchema"]["properties"].get("state").is_some();
    tools.as_array().unwrap().iter().filter(offers).map(|t| t["name"].as_str().unwrap().to_owned()).collect()
}

fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(4)
}

/// The tour, then the failing probes; of the tools in `changed`, only what changed.
async fn script(beam: &mut Beam, changed: &[String]) -> Costs {
    let as_asked = |tool: &str, mut arguments: Value| {
        if changed.iter().any(|name| name == tool) {
            arguments["state"] = "changed".into();
        }
        arguments
    };
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
                let (answer, _) = beam.call(&tool, as_asked(&tool, arguments)).await;
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
        let answer = beam.lean("lean_run_at", as_asked("lean_run_at", probe)).await;
        assert_eq!(answer["success"], false, "{text}: {answer}");
        costs.add("lean_run_at, failing", bytes(&answer));
    }
    costs
}

/// Bytes of all rows.
fn sum(costs: &Costs) -> usize {
    costs.0.values().map(|(_, bytes)| bytes).sum()
}

#[tokio::test]
async fn what_the_answers_cost() {
    let mut beam = Beam::start();
    let offering = once_per_session(&mut beam).await;
    assert!(offering.iter().any(|name| name == "lean_run_at"), "{offering:?}");
    let json = script(&mut beam, &[]).await;
    beam.end().await;
    json.print("tour and ten failing probes, default");
    // A failed probe tells its messages and one state: ten of them are not allowed to become dearer unnoticed.
    let failing = json.0["lean_run_at, failing"].1;
    assert!(failing <= 7_500, "{failing} bytes");
    let mut options = Options::default();
    options.set_goals("--goals", "text").unwrap();
    let mut beam = Beam::start_with(options);
    let text = script(&mut beam, &offering).await;
    beam.end().await;
    text.print("the same as text, and only what changed");
    let cheaper = text.0["lean_run_at, failing"].1;
    assert!(cheaper * 3 <= failing * 2, "{cheaper} bytes, {failing} by default: less than a third is saved");
    let (all, less) = (sum(&json), sum(&text));
    println!("saved: {} % of all, {} % of failing probes", 100 - less * 100 / all, 100 - cheaper * 100 / failing);
}
