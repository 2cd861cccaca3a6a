//! Getting at the daemon: the running one, a new one, or a clear word that there is none.

use std::time::Duration;

use beam_base::AbsPath;
use beam_broker::EngineConfig;
use beam_broker::daemon::client::Watch;
use beam_broker::daemon::incident::{self, IncidentKind};
use beam_broker::daemon::lease::Lease;
use beam_broker::daemon::probe::{self, Probe};
use beam_broker::daemon::start::{self, Found};
use beam_broker::daemon::{ClientError, Control, Registry, Service};
use beam_broker::qualify::Qualifier;
use beam_toolchain::{Choice, HostEnv, Progress, Store};
use beam_wire::Backend;
use tokio::runtime::Runtime;

use crate::context::Context;
use crate::error::CliError;
use crate::progress::Drawn;

/// What stands behind the commands: the engine, and what has to be there before a daemon with one makes sense.
/// Tests bring another.
pub trait Backstage {
    /// What the daemon serves.
    type Service: Service;

    /// Makes the engine. Called in the daemon.
    fn service(&self, config: EngineConfig) -> Self::Service;

    /// Finds the project's Lean and makes sure that the extension is built for it: the one step that may take long, done
    /// where somebody sees its progress. Called in the client before it starts a daemon.
    fn prepare(&self, root: &AbsPath, env: &HostEnv, choice: &Choice, progress: &dyn Progress) -> Result<(), CliError>;
}

/// The real one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lean;

impl Backstage for Lean {
    type Service = beam_broker::Engine;

    fn service(&self, config: EngineConfig) -> Self::Service {
        beam_broker::Engine::new(config)
    }

    fn prepare(&self, root: &AbsPath, env: &HostEnv, choice: &Choice, progress: &dyn Progress) -> Result<(), CliError> {
        let toolchain = beam_toolchain::resolve(root, env, choice)?;
        if let Some(notice) = &toolchain.notice {
            progress.note(notice);
        }
        beam_toolchain::ensure_extension(&toolchain, &Store::open(env)?, env, &Qualifier, progress)?;
        Ok(())
    }
}

/// One thread: a client waits for one answer.
pub fn runtime() -> Result<Runtime, CliError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| CliError::System { what: "cannot start", source })
}

/// `BEAM_SILENCE_MS`: after how many milliseconds of silence a line on stderr says that the daemon does not respond.
pub fn watch(ctx: &Context) -> Result<Watch, CliError> {
    let after = match ctx.env.var_os("BEAM_SILENCE_MS") {
        None => Watch::AFTER,
        Some(text) => match text.to_str().and_then(|t| t.trim().parse::<u64>().ok()).filter(|ms| *ms > 0) {
            Some(ms) => Duration::from_millis(ms),
            None => {
                return Err(CliError::Value(format!(
                    "BEAM_SILENCE_MS must be a whole number of milliseconds above 0, not {:?}",
                    text.display().to_string()
                )));
            }
        },
    };
    let ui = ctx.ui.clone();
    Ok(Watch::new(after, move |silence| ui.say(&silence.to_string())))
}

/// A daemon of ours to talk to, and our lease on it.
#[derive(Debug)]
pub struct Connected {
    /// Its entry.
    pub registry: Registry,
    /// Whether this process started it.
    pub started: bool,
    /// `None` where nothing can be written; then nobody waits for us.
    pub lease: Option<Lease>,
}

/// The project's daemon, started if need be.
pub fn connect<B: Backstage>(
    ctx: &Context,
    backstage: &B,
    runtime: &Runtime,
    root: &AbsPath,
    backend: Backend,
    hold: bool,
) -> Result<Connected, CliError> {
    let control = ctx.control(root);
    let wanted = ctx.wanted(root)?;
    let limit = ctx.lock_limit()?;
    let watch = watch(ctx)?;
    // Errors of the control directory are told by `obtain`, if a daemon has to be started at all.
    let _told_below = control.create();
    let lease = Lease::take(&control, hold).ok();
    if let Some(registry) = runtime.block_on(start::reuse(&control, &wanted, &watch))? {
        note_differences(ctx, &registry);
        return Ok(Connected { registry, started: false, lease });
    }
    control.create()?;
    if backend == Backend::Lean {
        backstage.prepare(root, &ctx.env, &ctx.choice(), &Drawn::new(&ctx.ui))?;
    }
    ctx.ui.say_progress(|| format!("starting the daemon for {root}"));
    let Found { registry, started } = runtime.block_on(start::obtain(&control, &wanted, limit, &watch))?;
    if started.is_none() {
        note_differences(ctx, &registry);
    }
    Ok(Connected { registry, started: started.is_some(), lease })
}

/// Options that only a new daemon can honour.
fn note_differences(ctx: &Context, registry: &Registry) {
    let shut_down = "the running daemon keeps its settings; `lean-beam shutdown` first";
    if let Some(port) = ctx.globals.port
        && registry.requested_port != Some(port)
    {
        ctx.ui.say(&format!("note: --port {port} has no effect: {shut_down}"));
    }
    if let Some(idle) = ctx.globals.idle
        && registry.idle_seconds.unwrap_or(0) != idle
    {
        ctx.ui.say(&format!("note: --idle {idle} has no effect: {shut_down}"));
    }
}

/// The running daemon, for commands that never start one.
pub fn existing(ctx: &Context, control: &Control, runtime: &Runtime) -> Result<Registry, CliError> {
    let stale = match runtime.block_on(probe::probe_with(control, &watch(ctx)?)) {
        // Busy is not dead: its entry stays, and the error says what is the matter.
        Probe::Unresponsive(registry, error) => {
            return Err(CliError::Start(start::unresponsive(registry, error)));
        }
        Probe::Live(registry) => return Ok(registry),
        Probe::Stale(registry) => Some(registry),
        Probe::Absent => None,
    };
    let root = control.root().to_string();
    // Recorded before the entry is taken away: the record holds it. A project that never had a control directory gets none.
    let facts = if control.dir().is_dir() {
        incident::record(control, IncidentKind::NoLiveDaemon, "no daemon answers for this root", stale.as_ref())
    } else {
        Vec::new()
    };
    if let Some(registry) = stale {
        registry.remove(control);
    }
    Err(CliError::NoDaemon { root, facts })
}

/// A failure of the connection as an error of the command, with a record where a daemon was lost.
#[must_use]
pub fn lost(control: &Control, registry: &Registry, error: ClientError) -> CliError {
    let facts = if error.is_lost() {
        incident::record(control, IncidentKind::ConnectionClosed, &error.to_string(), Some(registry))
    } else {
        Vec::new()
    };
    CliError::Client { error, facts }
}
