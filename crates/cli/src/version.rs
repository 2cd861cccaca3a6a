//! `version`: what this is. Runs nothing and asks nobody.

use beam_broker::daemon::PROTOCOL;
use beam_toolchain::{Store, extension};

use crate::context::{Context, VERSION};
use crate::error::{CliError, Ending};
use crate::ui;

/// Prints the lines.
pub fn run(ctx: &Context) -> Result<Ending, CliError> {
    let mut lines = vec![format!("lean-beam {VERSION}"), format!("daemon protocol: {PROTOCOL}")];
    if let Ok(program) = std::env::current_exe() {
        lines.push(format!("binary: {}", program.display()));
    }
    if let Ok(store) = Store::open(&ctx.env) {
        lines.push(format!("beam home: {}", store.home()));
    }
    if let Ok(hash) = extension::source_hash() {
        lines.push(format!("extension source: {}", &hash[..hash.len().min(16)]));
    }
    ui::answer(&lines.join("\n"))?;
    Ok(Ending::Done)
}
