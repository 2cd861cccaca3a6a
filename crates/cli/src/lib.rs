//! The executable `lean-beam`, as a library so that its tests can be a `lean-beam` with a scripted engine.
//!
//! Owns arguments, rendering, exit codes and the commands that are not operations. Must never decide what an operation means:
//! that is the broker's.
//!
//! Invariants:
//! * **C1** stdout is the answer, stderr all else: [`ui::answer`] is the only writer of stdout, but for the MCP server, whose frames
//!   are its answers.
//! * **C2** exit codes come from one exhaustive match: [`error::exit_code`].

pub mod args;
pub mod ask;
pub mod client;
pub mod connect;
pub mod context;
pub mod daemon;
pub mod doctor;
pub mod embedded;
pub mod error;
pub mod grammar;
pub mod input;
pub mod manual;
pub mod mcp;
pub mod notes;
pub mod progress;
pub mod quickstart;
pub mod render;
pub mod request;
pub mod shutdown;
pub mod toolchain;
pub mod ui;
pub mod verbs;
pub mod version;

use std::ffi::OsString;
use std::process::ExitCode;

use args::{Command, Globals, Tool};
use connect::Backstage;
use context::Context;
use error::{CliError, Ending};

/// Runs the command of this process: `args` begin with the program's name, which may choose the tool (D5).
pub fn main<B: Backstage>(args: impl IntoIterator<Item = OsString>, backstage: &B) -> ExitCode {
    let mut args = args.into_iter();
    let name = args.next().unwrap_or_default();
    let (globals, command) = match grammar::parse(args, Tool::of(&name)) {
        Ok((globals, command)) => (globals, Ok(command)),
        Err(e) => (Globals::default(), Err(CliError::from(e))),
    };
    let ctx = match Context::capture(globals) {
        Ok(ctx) => ctx,
        Err(e) => {
            // Without surroundings there are no streams to speak of; the message is all there is.
            let _unheard = std::io::Write::write_all(&mut std::io::stderr(), format!("beam: {e}\n").as_bytes());
            return ExitCode::from(error::exit_code(&Err(e)));
        }
    };
    let outcome = command.and_then(|command| run(&ctx, backstage, command));
    if let Err(e) = &outcome {
        report(&ctx, e);
    }
    ExitCode::from(error::exit_code(&outcome))
}

fn run<B: Backstage>(ctx: &Context, backstage: &B, command: Command) -> Result<Ending, CliError> {
    match command {
        Command::Version => version::run(ctx),
        Command::Verb(call) => verbs::run(ctx, backstage, &call),
        Command::Shutdown => shutdown::run(ctx),
        Command::Doctor(backend) => doctor::run(ctx, backend),
        Command::Toolchain(command) => toolchain::run(ctx, &command),
        Command::ValidatedToolchains => toolchain::validated(ctx),
        Command::CompatibleReleaseLines => toolchain::release_lines(ctx),
        Command::Quickstart { dir } => quickstart::run(ctx, dir.as_deref()),
        Command::Completions(shell) => manual::completions(shell),
        Command::Man(dir) => manual::man(&dir),
        Command::Daemon(args) => daemon::run(ctx, backstage, &args),
        Command::Client(args) => client::run(ctx, &args),
        Command::Mcp(args) => mcp::run(ctx, &args),
    }
}

fn report(ctx: &Context, error: &CliError) {
    // A reader that has gone away knows.
    if matches!(error, CliError::Stdout(e) if e.kind() == std::io::ErrorKind::BrokenPipe) {
        return;
    }
    match error {
        // Help that was asked for is an answer (C1); a mistake is not.
        CliError::CommandLine(e) if !e.use_stderr() => drop(ui::answer(e.render().to_string().trim_end())),
        CliError::CommandLine(e) => ctx.ui.raw(&e.render().to_string()),
        other => ctx.ui.say(&other.to_string()),
    }
}
