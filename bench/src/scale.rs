//! What a probe's time depends on: lines after and before the position, many at once, and how many went before.

use std::time::Instant;

use beam_base::{AbsPath, uri};
use beam_session::{RequestSpec, Session};
use serde_json::{Value, json};

use crate::levels::{Failure, Samples, open, raw_worker, right, timed};

const ROUNDS: usize = 40;
const PROOF: &str =
    "theorem t (p q : Prop) (hp : p) (hq : q) : p ∧ q := by\n  constructor\n  · exact hp\n  · exact hq\n";

/// Prints all of it.
pub fn run() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let root = AbsPath::canonical(dir.path())?;
    std::fs::write(root.join("lean-toolchain"), "leanprover/lean4:v4.28.0\n")?;
    let runtime = tokio::runtime::Runtime::new()?;
    let session = runtime.block_on(raw_worker(&root))?;
    let bench = Bench { session, root, runtime };

    println!("probe, median of {ROUNDS}, by lines after the position");
    bench.lines(|n| (format!("{PROOF}{}", filler(n)), 1))?;
    println!("probe, median of {ROUNDS}, by lines before the position");
    bench.lines(|n| (format!("{}{PROOF}", filler(n)), u32::try_from(n).unwrap_or(0) + 1))?;
    bench.many()?;
    bench.memory()?;
    bench.runtime.block_on(bench.session.shutdown(std::time::Duration::from_secs(2)));
    Ok(())
}

/// So many one-line commands.
fn filler(lines: usize) -> String {
    (0..lines).map(|n| format!("def filler{n} : Nat := {n}\n")).collect()
}

struct Bench {
    session: Session,
    root: AbsPath,
    runtime: tokio::runtime::Runtime,
}

impl Bench {
    async fn probe(&self, version: u64, line: u32, text: &str) -> Result<(), Failure> {
        let path = self.root.join("A.lean");
        let params = json!({
            "textDocument": { "uri": uri::from_path(&path), "version": version },
            "position": { "line": line, "character": 2 },
            "text": text,
        });
        let spec = RequestSpec::new("$/lean/runAt", params).at_version(version);
        let reply = self.session.request(&path, spec, None).await?;
        let value: Value = serde_json::from_str(reply.value.get())?;
        right(&value)
    }

    /// Waits until the whole text is elaborated, so that only the probe is measured.
    async fn settle(&self, version: u64) -> Result<(), Failure> {
        let path = self.root.join("A.lean");
        let params = json!({ "uri": uri::from_path(&path), "version": version });
        self.session
            .request(&path, RequestSpec::new("$/beam/waitForDiagnostics", params).at_version(version), None)
            .await?;
        Ok(())
    }

    fn lines(&self, text: impl Fn(usize) -> (String, u32)) -> Result<(), Failure> {
        let mut first = None;
        for n in [50, 500, 5000] {
            let (text, line) = text(n);
            let version = self.runtime.block_on(async {
                let version = open(&self.session, &self.root, &text).await?;
                self.settle(version).await?;
                Ok::<_, Failure>(version)
            })?;
            let mut samples = Samples::new("");
            for round in 0..ROUNDS + 5 {
                let took = timed(|| self.runtime.block_on(self.probe(version, line, "exact ⟨hp, hq⟩")))?;
                if round >= 5 {
                    samples.0.push(took);
                }
            }
            let median = samples.median();
            println!("  {n:5} lines {median:7.2} ms   ratio {:.2}", median / *first.get_or_insert(median));
        }
        Ok(())
    }

    fn many(&self) -> Result<(), Failure> {
        let text = "(have h : ∀ a b c : Nat, a < b → b < c → a + 1 < c := (by omega); exact ⟨hp, hq⟩)";
        let version = self.runtime.block_on(open(&self.session, &self.root, PROOF))?;
        self.runtime.block_on(self.probe(version, 1, text))?;
        let start = Instant::now();
        for _ in 0..32 {
            self.runtime.block_on(self.probe(version, 1, text))?;
        }
        let serial = start.elapsed();
        let start = Instant::now();
        self.runtime.block_on(async {
            let all: Vec<_> = (0..32).map(|_| self.probe(version, 1, text)).collect();
            futures_join(all).await
        })?;
        let parallel = start.elapsed();
        println!("32 probes: {} ms one after the other, {} ms at once", serial.as_millis(), parallel.as_millis());
        Ok(())
    }

    fn memory(&self) -> Result<(), Failure> {
        let version = self.runtime.block_on(open(&self.session, &self.root, PROOF))?;
        let pid = self
            .runtime
            .block_on(self.session.documents())
            .first()
            .and_then(|d| d.worker.pid)
            .ok_or("the worker has no pid")?;
        for n in 1..=3000 {
            self.runtime.block_on(self.probe(version, 1, "exact ⟨hp, hq⟩"))?;
            if n == 300 || n == 3000 {
                println!("worker RSS after {n} probes: {:.0} MB", crate::levels::rss_mb(u64::from(pid))?);
            }
        }
        Ok(())
    }
}

/// Waits for all of them; the first failure wins.
async fn futures_join<F: Future<Output = Result<(), Failure>>>(all: Vec<F>) -> Result<(), Failure> {
    let mut all: Vec<_> = all.into_iter().map(Box::pin).map(Some).collect();
    std::future::poll_fn(move |cx| {
        let mut waiting = false;
        for slot in &mut all {
            if let Some(f) = slot {
                match f.as_mut().poll(cx) {
                    std::task::Poll::Ready(Ok(())) => *slot = None,
                    std::task::Poll::Ready(Err(e)) => return std::task::Poll::Ready(Err(e)),
                    std::task::Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { std::task::Poll::Pending } else { std::task::Poll::Ready(Ok(())) }
    })
    .await
}
