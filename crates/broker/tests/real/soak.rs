//! Twenty-four clients and one writer on two documents. Every answer must fit the text of the version it names; none may be lost.
//!
//! 20 seconds; `BEAM_SOAK_SECONDS=60` makes it longer.

// The tally of a passed run is what this test is read for.
#![allow(clippy::print_stderr)]

mod support;

use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};
use support::lanes::{Lane, Lanes};

const CLIENTS: usize = 24;
const FILE: &str = "Soak.lean";
const PAUSE: Duration = Duration::from_millis(300);

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let lanes = Arc::new(Lanes::new(1));
    let shared = Arc::clone(&lanes);
    let trial = Trial::test("every_answer_fits_the_version_it_names", move || {
        shared.with(every_answer_fits_the_version_it_names).map_err(Failed::from)
    });
    let conclusion = libtest_mimic::run(&args, vec![trial]);
    lanes.shut_down();
    if conclusion.has_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Text number `n`: its goal names `n`, and every other one holds an error.
fn text(n: u64) -> String {
    let tail = if n.is_multiple_of(2) { "def bad : Nat := \"x\"\n" } else { "def good : Nat := 1\n" };
    format!("theorem t (h : {n} = {n}) : {n} + 0 = {n} := by\n  skip\n  exact h\n\n{tail}")
}

/// What one client saw.
struct Seen {
    kind: &'static str,
    asked: u64,
    answer: Value,
}

struct World {
    lane: Arc<Lane>,
    over: AtomicBool,
    /// The version a client would use now.
    version: AtomicU64,
    sent: AtomicU64,
    seen: Mutex<Vec<Seen>>,
    /// Which text a version holds. Only the writer writes, so after its update it knows.
    texts: Mutex<HashMap<u64, u64>>,
}

impl World {
    async fn write(&self, n: u64) -> Result<(), String> {
        self.lane.write(FILE, &text(n));
        let answer = self.lane.ask(json!({"op": "update_file", "path": self.lane.path(FILE)}), None).await;
        let version = answer["result"]["version"].as_u64().ok_or_else(|| format!("update: {answer}"))?;
        self.texts.lock().expect("texts").insert(version, n);
        self.version.store(version, Ordering::SeqCst);
        Ok(())
    }

    async fn client(&self, serial: usize) {
        let mut step = serial;
        while !self.over.load(Ordering::SeqCst) {
            step += 1;
            let version = self.version.load(Ordering::SeqCst);
            let at = json!({"path": self.lane.path(FILE), "version": version, "line": 1, "character": 2});
            let (kind, mut request) = match step % 6 {
                0 => ("sync", json!({"op": "sync_file", "path": self.lane.path(FILE)})),
                1 | 4 => ("goals", json!({"op": "goals", "mode": "before"})),
                _ => ("probe", json!({"op": "run_at", "text": "skip"})),
            };
            if kind != "sync" {
                for (key, value) in at.as_object().expect("an object") {
                    request[key] = value.clone();
                }
            }
            self.sent.fetch_add(1, Ordering::SeqCst);
            let answer = self.lane.ask(request, None).await;
            self.seen.lock().expect("seen").push(Seen { kind, asked: version, answer });
        }
    }
}

async fn every_answer_fits_the_version_it_names(lane: Arc<Lane>) -> Result<(), String> {
    let seconds = std::env::var("BEAM_SOAK_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(20);
    let world = Arc::new(World {
        lane,
        over: AtomicBool::new(false),
        version: AtomicU64::new(0),
        sent: AtomicU64::new(0),
        seen: Mutex::default(),
        texts: Mutex::default(),
    });
    world.write(1).await?;
    let counted = |stats: &Value| {
        ["run_at", "goals", "sync_file"]
            .iter()
            .filter_map(|op| stats["result"]["byBackend"]["lean"]["ops"][*op]["count"].as_u64())
            .sum::<u64>()
    };
    let before = counted(&world.lane.ask(json!({"op": "stats"}), None).await);
    let mut clients = tokio::task::JoinSet::new();
    for serial in 0..CLIENTS {
        let world = Arc::clone(&world);
        clients.spawn(async move { world.client(serial).await });
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut n = 1;
    while Instant::now() < end {
        n += 1;
        world.write(n).await?;
        tokio::time::sleep(PAUSE).await;
    }
    world.over.store(true, Ordering::SeqCst);
    while let Some(done) = clients.join_next().await {
        done.map_err(|e| e.to_string())?;
    }
    let after = counted(&world.lane.ask(json!({"op": "stats"}), None).await);
    let sent = world.sent.load(Ordering::SeqCst);
    if after - before != sent {
        return Err(format!("{sent} requests sent, {} ended", after - before));
    }
    judge(&world, sent, n)
}

fn judge(world: &World, sent: u64, writes: u64) -> Result<(), String> {
    let texts = world.texts.lock().expect("texts");
    let seen = world.seen.lock().expect("seen");
    if u64::try_from(seen.len()) != Ok(sent) {
        return Err(format!("{sent} requests, {} answers", seen.len()));
    }
    let mut tally: BTreeMap<String, u64> = BTreeMap::new();
    for Seen { kind, asked, answer } in seen.iter() {
        let fits = match *kind {
            _ if answer["error"]["code"] == "contentModified" => Some("stale"),
            "sync" => {
                let version = answer["result"]["version"].as_u64();
                let n = version.and_then(|v| texts.get(&v));
                let errors = answer["result"]["diagnostics"]["counts"]["error"].as_u64();
                let ready = answer["result"]["readiness"]["saveReady"].as_bool();
                n.is_some_and(|n| errors == Some(u64::from(n % 2 == 0)) && ready == Some(n % 2 == 1)).then_some("right")
            }
            _ => {
                let goals = if *kind == "goals" {
                    &answer["result"]["goals"]
                } else {
                    &answer["result"]["proofState"]["goals"]
                };
                let n = texts.get(asked);
                n.is_some_and(|n| goals[0]["target"] == format!("{n} + 0 = {n}").as_str()).then_some("right")
            }
        };
        let Some(fits) = fits else {
            return Err(format!("a {kind} about version {asked} (text {:?}) was answered {answer}", texts.get(asked)));
        };
        *tally.entry(format!("{kind} {fits}")).or_default() += 1;
    }
    // A soak in which nobody ever got an answer proves nothing.
    for must in ["probe right", "goals right", "sync right"] {
        if !tally.contains_key(must) {
            return Err(format!("no `{must}` among {sent} answers and {writes} texts: {tally:?}"));
        }
    }
    eprintln!("{sent} requests over {writes} texts: {tally:?}");
    Ok(())
}
