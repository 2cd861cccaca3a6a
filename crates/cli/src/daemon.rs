//! The daemon's process: leaves the session of whoever started it, serves, says so on the pipe it was given.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
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

/// Longest start, unless `BEAM_DAEMON_START_TIMEOUT_MS` says otherwise. Less than the starter waits, so that it hears why.
const START: Duration = Duration::from_secs(20);
/// Longest cause that is told, in bytes; a pipe takes that much at once.
const CAUSE: usize = 2000;

/// Serves until there is a reason to stop.
///
/// The daemon holds the control lock until it is ready. A start that fails or hangs, whatever the reason, ends the process and with it
/// the lock, and says why on the starter's pipe: a log may be what cannot be written.
pub fn run<B: Backstage>(ctx: &Context, backstage: &B, args: &DaemonArgs) -> Result<Ending, CliError> {
    let start = Start::begin(ctx)?;
    serve(ctx, backstage, args, &start).inspect_err(|e| {
        start.fail(&e.to_string());
    })
}

/// How far the start has come. There is one way out of `Starting`, taken once.
struct Start(Arc<AtomicU8>);

const STARTING: u8 = 0;
const READY: u8 = 1;
const FAILED: u8 = 2;

impl Start {
    fn begin(ctx: &Context) -> Result<Self, CliError> {
        let state = Arc::new(AtomicU8::new(STARTING));
        let (of_panics, of_deadline) = (Self(Arc::clone(&state)), Self(Arc::clone(&state)));
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            of_panics.fail(&info.to_string());
            before(info);
        }));
        let limit = ctx.env.var("BEAM_DAEMON_START_TIMEOUT_MS").and_then(|t| t.trim().parse().ok());
        let limit = limit.map_or(START, Duration::from_millis);
        let watched = std::thread::Builder::new().name("beam-start".to_owned()).spawn(move || {
            std::thread::sleep(limit);
            if of_deadline.fail(&format!("it was not ready within {} ms", limit.as_millis())) {
                // Whatever hangs, hangs on: only the end of the process lets go of the lock.
                std::process::exit(1);
            }
        });
        let start = Self(state);
        match watched {
            Ok(_detached) => Ok(start),
            Err(source) => {
                let error = CliError::System { what: "cannot start a thread", source };
                start.fail(&error.to_string());
                Err(error)
            }
        }
    }

    fn leave(&self, to: u8) -> bool {
        self.0.compare_exchange(STARTING, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn ready(&self) {
        if !self.leave(READY) {
            // The deadline has told the starter that there is no daemon, and ends this process.
            std::process::exit(1);
        }
    }

    /// Says why, in one line; true if the start had not come to an end yet.
    fn fail(&self, why: &str) -> bool {
        if !self.leave(FAILED) {
            return false;
        }
        let mut line = why.lines().map(str::trim).collect::<Vec<_>>().join(" / ");
        while line.len() > CAUSE {
            line.pop();
        }
        // Past the buffer of `stdout`, whose lock may be what hangs.
        let _nobody_waits = rustix::io::write(rustix::stdio::stdout(), format!("{}{line}\n", start::FAILED).as_bytes());
        true
    }
}

fn serve<B: Backstage>(ctx: &Context, backstage: &B, args: &DaemonArgs, start: &Start) -> Result<Ending, CliError> {
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
        serve::serve(config, service, |registry| {
            start.ready();
            ready(registry);
        })
        .await
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
