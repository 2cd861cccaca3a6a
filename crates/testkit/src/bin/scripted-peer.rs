//! A process that behaves as a script says: `scripted-peer SCRIPT.json`. See `testkit::script`.
//!
//! Exit code 97 means that client and script are out of step; stderr says how. With `SCRIPTED_PEER_CHILD` naming a file it first
//! starts a child that sleeps and holds the pipes, and writes the child's pid there: for tests that the whole group is killed.

use std::process::ExitCode;

use testkit::peer::{Peer, PeerError};
use testkit::script::{self, Script};
use tokio::io::AsyncWriteExt;

/// Out of step, or no usable script.
const OUT_OF_STEP: i32 = 97;

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(_) => return ExitCode::FAILURE,
    };
    let code = runtime.block_on(follow());
    // Not by returning: dropping the runtime would wait for a read of stdin that never ends.
    std::process::exit(code);
}

async fn follow() -> i32 {
    let mut stderr = tokio::io::stderr();
    let outcome = async {
        let path = std::env::args_os().nth(1).ok_or_else(|| PeerError::Script("no script named".into()))?;
        let script: Script = serde_json::from_slice(&std::fs::read(path)?)?;
        if let Some(note) = std::env::var_os("SCRIPTED_PEER_CHILD") {
            // Deliberately not waited for: it is the orphan of the test.
            let child = std::process::Command::new("sleep").arg("600").spawn()?;
            std::fs::write(note, child.id().to_string())?;
        }
        let mut peer = Peer::new(tokio::io::stdin(), tokio::io::stdout());
        script::run(&script, &mut peer, &mut stderr).await
    }
    .await;
    match outcome {
        Ok(code) => code,
        Err(error) => {
            stderr.write_all(format!("scripted-peer: {error}\n").as_bytes()).await.ok();
            stderr.flush().await.ok();
            OUT_OF_STEP
        }
    }
}
