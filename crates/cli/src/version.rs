//! `version`: what this is. Runs nothing and asks nobody.

use beam_broker::daemon::PROTOCOL;
use beam_toolchain::{Store, extension};

use crate::context::{Context, VERSION};
use crate::error::{CliError, Ending};
use crate::ui;

/// Prints the lines.
pub fn run(ctx: &Context) -> Result<Ending, CliError> {
    print(ctx, vec![format!("lean-beam {VERSION}"), format!("daemon protocol: {PROTOCOL}")])
}

/// Prints the lines of the MCP server.
pub fn mcp(ctx: &Context) -> Result<Ending, CliError> {
    let protocol = beam_mcp::PREFERRED_REVISION;
    print(ctx, vec![format!("{} {VERSION}", beam_mcp::SERVER_NAME), format!("mcp protocol: {protocol}")])
}

fn print(ctx: &Context, mut lines: Vec<String>) -> Result<Ending, CliError> {
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
