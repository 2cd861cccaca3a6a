//! Two hundred calls, fifty in flight, twenty cancelled at random, two roots, a drop in the middle.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Client, modern_call};

/// Xorshift: seeds are reproducible everywhere.
pub struct Random(u64);

impl Random {
    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// A storm, and what was seen of it.
pub struct Storm {
    client: Client,
    random: Random,
    roots: [String; 2],
    /// Makes the `lean_run_at` arguments besides workspace and path.
    probe: fn(&mut Random) -> Value,
    /// How long silence must last to be the end.
    patience: Duration,
    in_flight: BTreeSet<u64>,
    /// What a cancellation was sent for.
    pub cancelled: BTreeSet<u64>,
    /// What was answered.
    pub answered: BTreeMap<u64, Value>,
    /// Last progress count of each call.
    progress: BTreeMap<u64, u64>,
    /// Ids that were answered before the drop was.
    before_drop: Option<BTreeSet<u64>>,
}

/// Calls of a storm.
pub const CALLS: u64 = 200;
const DROP: u64 = 100;
const IN_FLIGHT: usize = 50;
const CANCELS: usize = 20;

impl Storm {
    /// A storm about to begin.
    pub fn new(
        client: Client,
        seed: u64,
        roots: [String; 2],
        probe: fn(&mut Random) -> Value,
        patience: Duration,
    ) -> Self {
        Self {
            client,
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            roots,
            probe,
            patience,
            in_flight: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            answered: BTreeMap::new(),
            progress: BTreeMap::new(),
            before_drop: None,
        }
    }

    async fn submit(&mut self, id: u64) {
        let root = &self.roots[usize::try_from(id % 2).unwrap()];
        let request = if id == DROP {
            modern_call(id, "lean_drop_workspace", json!({ "workspace": { "root": root } }), json!({}))
        } else {
            let mut args = (self.probe)(&mut self.random);
            args["workspace"] = json!({ "root": root });
            args["path"] = "A.lean".into();
            // Versions do not go back: what is opened anew after the drop is at the next one. The fence sees to it that these come after.
            if id > DROP && id % 2 == DROP % 2 && args.get("version").is_some() {
                args["version"] = 2.into();
            }
            modern_call(id, "lean_run_at", args, json!({ "progressToken": id }))
        };
        self.client.send(&request).await;
        self.in_flight.insert(id);
    }

    async fn cancel_one(&mut self) {
        let candidates: Vec<_> = self.in_flight.iter().filter(|id| !self.cancelled.contains(id)).copied().collect();
        let id = candidates[usize::try_from(self.random.below(candidates.len() as u64)).unwrap()];
        let line = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
        self.client.send(&line).await;
        self.cancelled.insert(id);
    }

    /// Takes one message, or finds that there is none.
    async fn take(&mut self) -> bool {
        let Ok(line) = tokio::time::timeout(self.patience, self.client.line()).await else { return false };
        let m: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if let Some(token) = m["params"]["progressToken"].as_u64() {
            assert!(!self.answered.contains_key(&token), "progress after the answer of {token}");
            let count = m["params"]["progress"].as_u64().unwrap();
            let last = self.progress.insert(token, count).unwrap_or(0);
            assert_eq!(count, last + 1, "progress of {token}");
            if token > DROP {
                assert!(self.answered.contains_key(&DROP), "{token} began before the drop was answered");
            }
            return true;
        }
        let id = m["id"].as_u64().expect("an answer");
        assert_eq!(m["result"]["isError"], false, "{m}");
        if id == DROP {
            self.before_drop = Some(self.answered.keys().copied().collect());
        }
        assert!(self.answered.insert(id, m).is_none(), "{id} was answered twice");
        self.in_flight.remove(&id);
        true
    }

    /// Runs it, and checks what can be seen from outside.
    pub async fn run(&mut self) {
        let when: BTreeSet<_> = std::iter::from_fn(|| Some(self.random.below(CALLS))).take(400).collect();
        let mut when: Vec<_> = when.into_iter().collect();
        while when.len() > CANCELS {
            let out = usize::try_from(self.random.below(when.len() as u64)).unwrap();
            when.remove(out);
        }
        for id in 0..CALLS {
            while self.in_flight.iter().filter(|id| !self.cancelled.contains(id)).count() >= IN_FLIGHT {
                assert!(self.take().await, "fifty in flight and nothing comes");
            }
            self.submit(id).await;
            if when.contains(&id) {
                self.cancel_one().await;
            }
        }
        while self.in_flight.iter().any(|id| !self.cancelled.contains(id)) {
            assert!(self.take().await, "{:?} are never answered", self.in_flight);
        }
        while self.take().await {}
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.cancelled.len(), CANCELS);
        for id in 0..CALLS {
            assert!(self.answered.contains_key(&id) || self.cancelled.contains(&id), "{id} has no answer");
        }
        // The fence: everything before the drop ended first, nothing after it began.
        let before = self.before_drop.as_ref().expect("the drop was answered, cancelled or not");
        for id in 0..DROP {
            assert!(before.contains(&id) || !self.answered.contains_key(&id), "{id} was answered after the drop");
        }
        assert!(before.iter().all(|id| *id < DROP));
    }
}
