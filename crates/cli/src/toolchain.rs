//! `toolchain …` and the lists of accepted toolchains.

use beam_toolchain::support::Registries;
use beam_toolchain::{Entry, Store};

use crate::args::ToolchainCommand;
use crate::context::Context;
use crate::embedded::install;
use crate::error::{CliError, Ending};
use crate::ui;

/// Runs one of them.
pub fn run(ctx: &Context, command: &ToolchainCommand) -> Result<Ending, CliError> {
    let store = Store::open(&ctx.env)?;
    match command {
        ToolchainCommand::Install => {
            let entry = install(ctx, &store)?;
            ui::answer(&describe(&entry))?;
        }
        ToolchainCommand::List => list(ctx, &store)?,
        ToolchainCommand::Remove(id) => {
            store.remove(id)?;
            ui::answer(&format!("removed: {id}"))?;
        }
        ToolchainCommand::Path(id) => ui::answer(&store.path(id)?.to_string())?,
    }
    Ok(Ending::Done)
}

fn describe(entry: &Entry) -> String {
    format!(
        "id: {}\nlean: {} (embedded, WebAssembly)\npath: {}\nlean binary: {}",
        entry.id,
        entry.manifest.lean_version,
        entry.dir,
        entry.lean()
    )
}

/// One line per entry: its id first, then what it is.
fn list(ctx: &Context, store: &Store) -> Result<(), CliError> {
    let mut lines: Vec<String> = store
        .list()
        .iter()
        .map(|e| {
            let mb = e.manifest.shape.bytes / 1_000_000;
            format!("{} embedded Lean {} {mb} MB {}", e.id, e.manifest.lean_version, e.dir)
        })
        .collect();
    lines.extend(store.extensions().iter().map(|e| {
        let verdict = match &e.manifest.verdict.reason {
            None => "qualified",
            Some(_) => "rejected",
        };
        format!("{} extension {verdict} {}", e.id, e.dir)
    }));
    lines.extend(store.broken().iter().map(|b| format!("{} unusable: {}", b.id, b.why)));
    if lines.is_empty() {
        ctx.ui.say("nothing is installed; `lean-beam toolchain install embedded` installs a Lean");
        return Ok(());
    }
    ui::answer(&lines.join("\n"))
}

/// `validated-toolchains`
pub fn validated(ctx: &Context) -> Result<Ending, CliError> {
    ui::answer(&Registries::load(&Store::open(&ctx.env)?)?.validated().join("\n"))?;
    Ok(Ending::Done)
}

/// `compatible-release-lines`
pub fn release_lines(ctx: &Context) -> Result<Ending, CliError> {
    ui::answer(&Registries::load(&Store::open(&ctx.env)?)?.release_lines().join("\n"))?;
    Ok(Ending::Done)
}
