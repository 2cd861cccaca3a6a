//! The daemon's process: leaves the session of whoever started it, serves, says so on the pipe it was given.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use beam_base::AbsPath;
use beam_broker::daemon::serve::{self, Config};
use beam_broker::daemon::{Control, HostPaths, Registry, listener, start};
use beam_broker::{BuildPolicy, EngineConfig};
use beam_toolchain::Choice;
use tracing_subscriber::EnvFilter;

use crate::args::{DaemonArgs, ToolchainWish};
use crate::connect::Backstage;
use crate::context::{Context, IDLE_SECONDS, VERSION};
use crate::error::{CliError, Ending};

/// Serves until there is a reason to stop.
pub fn run<B: Backstage>(ctx: &Context, backstage: &B, args: &DaemonArgs) -> Result<Ending, CliError> {
    // Fails when we lead a process group already, as when started by hand from a shell: then the terminal is the user's wish.
    let _by_hand = rustix::process::setsid();
    logging(ctx);
    let root = AbsPath::canonical(ctx.cwd.join(&args.root))
        .map_err(|source| CliError::RootDoesNotResolve { path: args.root.clone().into(), source })?;
    let host = HostPaths {
        control_dir: args.control_dir.as_ref().map(|d| AbsPath::resolve(&ctx.cwd, d)),
        runtime_dir: variable(ctx, "XDG_RUNTIME_DIR"),
        tmp_dir: variable(ctx, "TMPDIR"),
    };
    let control = Control::locate(&root, &host);
    control.create()?;
    let wish = args.toolchain.clone().unwrap_or_default();
    let toolchain = match &wish {
        ToolchainWish::Auto => "auto".to_owned(),
        ToolchainWish::Embedded => "embedded".to_owned(),
        ToolchainWish::Lean(path) => path.to_string(),
    };
    let daemon_bin = std::env::current_exe().ok().and_then(|p| AbsPath::new(p).ok());
    let executable = daemon_bin.as_ref().map(ToString::to_string).unwrap_or_default();
    let idle = args.idle.unwrap_or(IDLE_SECONDS);
    let config = Config {
        workspace_id: args.workspace_id.clone(),
        config_hash: args
            .config_hash
            .clone()
            .unwrap_or_else(|| start::config_hash(&root, VERSION, &executable, &toolchain)),
        version: VERSION.to_owned(),
        toolchain: Some(pinned(&root).unwrap_or(toolchain)),
        daemon_bin,
        port: args.port,
        idle: (idle > 0).then(|| Duration::from_secs(idle)),
        limits: listener::Limits::default(),
        control,
    };
    let mut engine = EngineConfig::new(root, args.workspace_id.clone(), ctx.env.clone());
    // The client has read the variable; what it decided comes as an option.
    engine.settings.build = if args.no_build { BuildPolicy::Never } else { BuildPolicy::OnDemand };
    engine.settings.choice = match wish {
        ToolchainWish::Auto => Choice::Auto,
        ToolchainWish::Embedded => Choice::Embedded,
        ToolchainWish::Lean(path) => Choice::Lean(AbsPath::resolve(&ctx.cwd, path)),
    };
    // Two threads: the work is done by Lean's own processes, and idle threads cost memory.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("beam")
        .enable_all()
        .build()
        .map_err(|source| CliError::System { what: "cannot start", source })?;
    let why = runtime.block_on(async {
        let service = backstage.service(engine);
        serve::serve(config, service, ready).await
    })?;
    tracing::info!(?why, "ended");
    // Blocking work that nobody waits for any more must not keep the process.
    runtime.shutdown_timeout(Duration::from_millis(100));
    Ok(Ending::Done)
}

/// Tells the starter, then lets go of its pipe and of the lock on standard input. What is printed from now on goes to the log.
fn ready(registry: &Registry) {
    let mut out = io::stdout();
    let told = writeln!(out, "ready {}", registry.daemon_id).and_then(|()| out.flush());
    if told.is_err() {
        // The starter is gone. It has registered us with nobody else, but clients find us by the registry all the same.
        tracing::info!("nobody waits for this daemon");
    }
    let let_go = std::fs::File::open("/dev/null").and_then(|null| {
        rustix::stdio::dup2_stdin(null.as_fd())?;
        rustix::stdio::dup2_stdout(io::stderr().as_fd())?;
        Ok(())
    });
    if let Err(e) = let_go {
        tracing::error!("cannot let go of the starter's files: {e}");
    }
}

/// `LEAN_BEAM_BROKER_TRACE`: a filter in `tracing`'s syntax, or any other value for debug lines of ours.
fn logging(ctx: &Context) {
    let filter = match ctx.env.var("LEAN_BEAM_BROKER_TRACE") {
        None | Some("0") => EnvFilter::new("warn"),
        Some(text) if text.contains('=') => EnvFilter::new(text),
        Some(_) => EnvFilter::new("info,lean_beam=debug,beam_broker=debug,beam_session=debug,beam_toolchain=debug"),
    };
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(io::stderr);
    // Set by somebody else only in tests that run a daemon in their own process.
    let _already = subscriber.try_init();
}

fn variable(ctx: &Context, name: &str) -> Option<AbsPath> {
    ctx.env.var_os(name).and_then(|d| AbsPath::new(d).ok())
}

/// The toolchain that the project names.
fn pinned(root: &AbsPath) -> Option<String> {
    let text = std::fs::read_to_string(root.join("lean-toolchain")).ok()?;
    text.lines().map(str::trim).find(|l| !l.is_empty()).map(str::to_owned)
}
