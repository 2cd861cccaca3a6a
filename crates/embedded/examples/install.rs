//! Installs the embedded toolchain into `LEAN_BEAM_HOME` and tells how long each phase took.
//!
//!     LEAN_BEAM_HOME=/some/where cargo run -p beam-embedded --release --example install

#![allow(clippy::print_stderr, clippy::print_stdout)]

use std::sync::Mutex;
use std::time::Instant;

use beam_toolchain::progress::Progress;
use beam_toolchain::{HostEnv, Store};

#[path = "../tests/support/mod.rs"]
#[allow(dead_code)]
mod support;

struct Clock {
    begun: Instant,
    phase: Mutex<Option<(String, Instant, u64)>>,
}

impl Clock {
    fn end(&self) {
        if let Some((name, at, done)) = self.phase.lock().expect("no panics").take() {
            eprintln!("{:7.2} s  {name} ({done})", at.elapsed().as_secs_f64());
        }
    }
}

impl Progress for Clock {
    fn phase(&self, name: &str, _: Option<u64>) {
        self.end();
        *self.phase.lock().expect("no panics") = Some((name.to_owned(), Instant::now(), 0));
    }
    fn advance(&self, n: u64) {
        if let Some(phase) = self.phase.lock().expect("no panics").as_mut() {
            phase.2 += n;
        }
    }
    fn note(&self, line: &str) {
        eprintln!("{line}");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let env = HostEnv::capture();
    let store = Store::open(&env)?;
    let clock = Clock { begun: Instant::now(), phase: Mutex::new(None) };
    let result = beam_embedded::install(&store, &env, &support::probe, &clock);
    clock.end();
    eprintln!("{:7.2} s  in all", clock.begun.elapsed().as_secs_f64());
    // The height of this process's own memory, its children not counted.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|l| l.starts_with("VmHWM"));
    eprintln!("{}", peak.unwrap_or("no figure for memory"));
    let entry = result?;
    println!("{}", entry.dir);
    println!("{}", serde_json::to_string_pretty(&entry.manifest)?);
    Ok(())
}
