//! How long the first sync of a file takes through a session, and what it costs us.
//!
//! `cargo run --release -p beam-session --example first_sync -- FILE… -- lean --worker -Dserver.reportDelayMs=0`: for each file, a session
//! of its own over that worker command, the text, and Lean's barrier with somebody watching. Compare with `time lean FILE`.

// Printing figures is what this program is for.
#![allow(clippy::print_stdout)]

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use beam_base::AbsPath;
use beam_session::{CommandSpawn, Observation, RequestSpec, Session, SessionConfig, Snapshot, WorkerCommand};
use serde_json::json;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let at = args.iter().position(|arg| arg == "--").ok_or("usage: first_sync FILE… -- PROGRAM ARGUMENT…")?;
    let (files, command) = (&args[..at], &args[at + 1..]);
    let (program, rest) = command.split_first().ok_or("which worker?")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    for file in files {
        let path = AbsPath::canonical(std::path::Path::new(file))?;
        let root = AbsPath::canonical(path.as_path().parent().ok_or("a file has a folder")?)?;
        let worker = WorkerCommand {
            program: program.clone(),
            args: rest.to_vec(),
            env: Vec::new(),
            env_remove: Vec::new(),
            cwd: root.clone(),
        };
        let text = std::fs::read_to_string(&path)?;
        runtime.block_on(sync(SessionConfig::new(root, 1, Arc::new(CommandSpawn(worker))), &path, &text))?;
    }
    Ok(())
}

async fn sync(config: SessionConfig, path: &AbsPath, text: &str) -> Result<(), Failure> {
    let session = Session::new(config);
    let (start, ours) = (Instant::now(), cpu("self")?);
    for (name, text) in [("first", text.to_owned()), ("after an edit at the end", format!("{text}\n-- edited\n"))] {
        let began = Instant::now();
        let applied = session.apply(path, Snapshot::new(session.reserve(), &text, None)).await?;
        let (observer, mut observed) = beam_session::observer();
        let params = json!({ "uri": session.uri_of(path), "version": applied.version });
        let spec = RequestSpec::new("textDocument/waitForDiagnostics", params).at_version(applied.version);
        let pending = session.request(path, spec, Some(observer));
        tokio::pin!(pending);
        let mut seen = 0;
        loop {
            tokio::select! {
                Some(observation) = observed.recv() => {
                    seen += 1;
                    // As one who shows them.
                    if let Observation::Diagnostics(list) = observation {
                        drop(list.items()?);
                    }
                },
                reply = &mut pending => {
                    reply?;
                    break;
                }
            }
        }
        println!("{path}: {name}: {:.2} s, {seen} observations", began.elapsed().as_secs_f64());
    }
    let worker = session.document(path).await.and_then(|it| it.worker.pid).ok_or("no worker")?;
    let (ours, theirs) = (cpu("self")? - ours, cpu(&worker.to_string())?);
    println!(
        "{path}: in all {:.2} s; processor time: session {ours:.2} s, worker {theirs:.2} s",
        start.elapsed().as_secs_f64()
    );
    session.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

/// Processor time of a process, in seconds.
fn cpu(pid: &str) -> Result<f64, Failure> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    // Linux counts these in hundredths of a second for every program, whatever its own clock.
    #[allow(clippy::cast_precision_loss)]
    Ok(ticks as f64 / 100.0)
}
