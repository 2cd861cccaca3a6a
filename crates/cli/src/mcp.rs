//! `lean-beam-mcp`: arguments of the MCP server, and the process around it. The server itself is `beam-mcp`.
//!
//! stdout belongs to the protocol; stderr stays empty unless `LEAN_BEAM_MCP_TRACE` asks for more or nothing can be served.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use beam_base::{AbsPath, CancelToken};
use beam_broker::{BuildPolicy, Engine, EngineSettings};
use beam_mcp::Options;
use beam_mcp::self_check::{self, SelfCheck};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::args::{self, ArgError, Command, Rest};
use crate::context::Context;
use crate::error::{CliError, Ending};
use crate::help::Topic;
use crate::{ui, version};

/// Usage of the server.
pub const USAGE: &str = "\
usage: lean-beam-mcp [--lean-cmd CMD] [--goals FORM] [--self-check FILE]

An MCP server on standard input and output. Every call names its project; nothing is started before a call needs it.

  --lean-cmd CMD     the Lean of every project: auto (default), embedded, or the path of a lean; also BEAM_TOOLCHAIN
  --goals FORM       how goals are shown where a call does not say: json (default), or text, which costs fewer tokens
  --self-check FILE  start a server, sync FILE of the project in the current directory, say whether all is well, and end
  --version          say what this is
  -h, --help         this

environment:
  BEAM_MCP_GOALS                         the same as --goals
  LEAN_BEAM_MCP_MAX_OUTPUT_BYTES         limit of a result where a call does not say (default 65536); the rest is cut, and said to be
  LEAN_BEAM_MCP_SELF_CHECK_TIMEOUT_MS    limit of each phase of the self-check (default 120000)
  LEAN_BEAM_MCP_TRACE                    1, or a filter such as beam_mcp=trace: traces on stderr
";

/// Arguments of the server.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct McpArgs {
    /// `--lean-cmd`
    pub lean_cmd: Option<OsString>,
    /// `--goals`
    pub goals: Option<OsString>,
    /// `--self-check`: check instead of serving.
    pub self_check: Option<PathBuf>,
    /// `--version`: say it instead of serving.
    pub version: bool,
}

/// Reads the server's arguments.
pub(crate) fn parse(mut rest: Rest) -> Result<Command, ArgError> {
    let mut out = McpArgs { version: rest.iter().any(|a| a == "--version"), ..McpArgs::default() };
    if out.version {
        return Ok(Command::Mcp(out));
    }
    while let Some(next) = rest.pop_front() {
        let text = next.to_string_lossy().into_owned();
        let (name, inline) = match text.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (text.as_str(), None),
        };
        let mut value = |name| args::value(name, inline.clone(), &mut rest).map_err(of_server);
        match name {
            "-h" | "--help" | "help" => return Ok(Command::Help(Topic::Mcp)),
            "--lean-cmd" => out.lean_cmd = Some(value("--lean-cmd")?),
            "--goals" => out.goals = Some(value("--goals")?),
            "--self-check" => out.self_check = Some(value("--self-check")?.into()),
            _ => return Err(ArgError::Usage(format!("unexpected argument {text}"), Topic::Mcp)),
        }
    }
    Ok(Command::Mcp(out))
}

/// The usage that is shown is the server's.
fn of_server(error: ArgError) -> ArgError {
    match error {
        ArgError::Usage(why, _) => ArgError::Usage(why, Topic::Mcp),
        other @ ArgError::Value(_) => other,
    }
}

/// Serves, checks or says what this is.
pub fn run(ctx: &Context, args: &McpArgs) -> Result<Ending, CliError> {
    if args.version {
        return version::mcp(ctx);
    }
    if ctx.globals.root.is_some() {
        let why = "the MCP server takes no --root: every call names its workspace".to_owned();
        return Err(CliError::Usage { why, topic: Topic::Mcp });
    }
    let mut ctx = ctx.clone();
    if let Some(word) = &args.lean_cmd {
        ctx.globals.toolchain = Some(args::wish(word.clone())?);
    }
    match &args.self_check {
        Some(file) => check(&ctx, args, file.as_os_str()),
        None => serve(&ctx, args),
    }
}

fn check(ctx: &Context, args: &McpArgs, file: &OsStr) -> Result<Ending, CliError> {
    let limit = self_check::limit(ctx.env.var(self_check::LIMIT_VARIABLE)).map_err(CliError::Value)?;
    let root = AbsPath::canonical(&ctx.cwd)
        .map_err(|source| CliError::RootDoesNotResolve { path: ctx.cwd.as_path().to_owned(), source })?;
    let program = std::env::current_exe()
        .map_err(|source| CliError::System { what: "cannot find this program's own file", source })?;
    let Some(file) = file.to_str() else {
        return Err(CliError::Value(format!("--self-check: FILE is not valid UTF-8: {}", file.display())));
    };
    let given = [("--lean-cmd", &args.lean_cmd), ("--goals", &args.goals)];
    let flags = given.into_iter().filter_map(|(name, value)| Some([name.into(), value.clone()?])).flatten().collect();
    let passed = SelfCheck { program, args: flags, root, file: file.to_owned(), limit }.run().map_err(Box::new)?;
    ui::answer(&passed)?;
    Ok(Ending::Done)
}

fn serve(ctx: &Context, args: &McpArgs) -> Result<Ending, CliError> {
    trace(ctx);
    let mut options =
        Options::from_vars(|name| ctx.env.var(name).map(str::to_owned)).map_err(|e| CliError::Value(e.to_string()))?;
    if let Some(form) = &args.goals {
        options.set_goals("--goals", &form.to_string_lossy()).map_err(|e| CliError::Value(e.to_string()))?;
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
