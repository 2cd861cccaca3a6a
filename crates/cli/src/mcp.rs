//! `lean-beam-mcp`: the process around the MCP server. The server itself is `beam-mcp`.
//!
//! stdout belongs to the protocol; stderr stays empty unless `LEAN_BEAM_MCP_TRACE` asks for more or nothing can be served.

use std::io;
use std::time::Duration;

use beam_base::{AbsPath, CancelToken};
use beam_broker::{BuildPolicy, Engine, EngineSettings};
use beam_mcp::Options;
use beam_mcp::self_check::{self, SelfCheck};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::args::McpArgs;
use crate::context::Context;
use crate::error::{CliError, Ending};
use crate::{ui, version};

/// Serves, checks or says what this is.
pub fn run(ctx: &Context, args: &McpArgs) -> Result<Ending, CliError> {
    if args.version {
        return version::mcp(ctx);
    }
    if ctx.globals.root.is_some() {
        return Err(CliError::Value("the MCP server takes no --root: every call names its workspace".to_owned()));
    }
    let mut ctx = ctx.clone();
    if let Some(word) = &args.lean_cmd {
        ctx.globals.toolchain = Some(word.clone());
    }
    match &args.self_check {
        Some(file) => check(&ctx, args, file.as_str()),
        None => serve(&ctx, args),
    }
}

fn check(ctx: &Context, args: &McpArgs, file: &str) -> Result<Ending, CliError> {
    let limit = self_check::limit(ctx.env.var(self_check::LIMIT_VARIABLE)).map_err(CliError::Value)?;
    let root = AbsPath::canonical(&ctx.cwd)
        .map_err(|source| CliError::RootDoesNotResolve { path: ctx.cwd.as_path().to_owned(), source })?;
    let program = std::env::current_exe()
        .map_err(|source| CliError::System { what: "cannot find this program's own file", source })?;
    let mut flags = Vec::new();
    if args.lean_cmd.is_some() {
        flags.extend(["--lean-cmd".into(), ctx.choice_text().into()]);
    }
    if let Some(form) = &args.goals {
        flags.extend(["--goals".into(), form.into()]);
    }
    let passed = SelfCheck { program, args: flags, root, file: file.to_owned(), limit }.run().map_err(Box::new)?;
    ui::answer(&passed)?;
    Ok(Ending::Done)
}

fn serve(ctx: &Context, args: &McpArgs) -> Result<Ending, CliError> {
    trace(ctx);
    let mut options =
        Options::from_vars(|name| ctx.env.var(name).map(str::to_owned)).map_err(|e| CliError::Value(e.to_string()))?;
    if let Some(form) = &args.goals {
        options.set_goals("--goals", form).map_err(|e| CliError::Value(e.to_string()))?;
    }
    let stop = CancelToken::new();
    options.stop = stop.clone();
    let mut settings = EngineSettings::new(ctx.env.clone());
    settings.choice = ctx.choice();
    settings.build = if ctx.no_build()? { BuildPolicy::Never } else { BuildPolicy::OnDemand };
    // Two threads: the work is done by Lean's own processes, and idle threads cost memory.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("beam-mcp")
        .enable_all()
        .build()
        .map_err(cannot_start)?;
    let why = runtime.block_on(async {
        let ends = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        for kind in ends {
            let mut ask = signal(kind).map_err(cannot_start)?;
            let stop = stop.clone();
            tokio::spawn(async move {
                ask.recv().await;
                stop.cancel();
            });
        }
        let engine = Engine::empty(settings);
        Ok::<_, CliError>(beam_mcp::serve(tokio::io::stdin(), tokio::io::stdout(), engine, options).await)
    })?;
    tracing::debug!(?why, "ended");
    // Threads that wait for a child see within some dozens of milliseconds that it must end, and end it. The thread that reads standard
    // input cannot be stopped, only left behind.
    runtime.shutdown_timeout(Duration::from_millis(250));
    Ok(Ending::Done)
}

fn cannot_start(source: io::Error) -> CliError {
    CliError::System { what: "cannot start", source }
}

/// Traces are off unless asked for: an MCP client may show stderr to people, or count it as a failure.
fn trace(ctx: &Context) {
    let filter = match ctx.env.var("LEAN_BEAM_MCP_TRACE") {
        None | Some("" | "0") => return,
        Some(text) if text.contains('=') => EnvFilter::new(text),
        Some(_) => EnvFilter::new("info,lean_beam=debug,beam_mcp=debug,beam_broker=debug,beam_session=debug"),
    };
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(io::stderr);
    let _already = subscriber.try_init();
}
