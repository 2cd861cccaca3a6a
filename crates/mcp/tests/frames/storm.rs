//! A hundred storms over a scripted broker.

use std::time::Duration;

use beam_mcp::Options;
use serde_json::{Value, json};

use crate::support::storm::{CALLS, Random, Storm};
use crate::support::{Client, Fake, project};

fn probe(random: &mut Random) -> Value {
    let (a, b) = (random.below(20), random.below(20));
    let text = format!("sleep {a}; file 1 false; sleep {b}; file 40 true");
    json!({ "version": 1, "line": 0, "character": 0, "text": text })
}

async fn storm(seed: u64) {
    let ((_a, a), (_b, b)) = (project(), project());
    let fake = Fake::default();
    let client = Client::start(fake.clone(), Options::default());
    let mut storm = Storm::new(client, seed, [a, b], probe, Duration::from_secs(1));
    storm.run().await;
    let drops: Vec<_> = fake.log().into_iter().filter(|l| l.starts_with("drop with")).collect();
    assert_eq!(drops, ["drop with 0 active"]);
    // What was cancelled in time was dropped at the broker, nothing else was.
    let unanswered = usize::try_from(CALLS).unwrap() - storm.answered.len();
    assert!(fake.cancelled() <= unanswered && fake.active() == 0);
}

/// M4.
#[test]
fn m4_a_hundred_storms() {
    for seed in 0..100 {
        println!("seed {seed}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(storm(seed));
    }
}
