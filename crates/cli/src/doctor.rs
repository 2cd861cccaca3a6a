//! `doctor`: which Lean, extension and daemon would be used, and why. Reads only: builds nothing, starts nothing.

use std::fmt::Display;
use std::time::Duration;

use beam_base::AbsPath;
use beam_broker::daemon::incident;
use beam_broker::daemon::start::{self, Probe};
use beam_broker::daemon::{Control, Registry, client};
use beam_toolchain::extension::{self, Verdict};
use beam_toolchain::support::{Registries, Support};
use beam_toolchain::{Release, Store, Toolchain, ToolchainKind, ToolchainOrigin, wanted};
use beam_wire::{Args, Backend, Op, Request};

use crate::connect;
use crate::context::{Context, VERSION, WORKSPACE};
use crate::error::{CliError, Ending};
use crate::ui;

/// Stands for what cannot be said.
const NONE: &str = "(none)";
/// Incidents that are listed.
const RECENT: usize = 5;

#[derive(Default)]
struct Report(Vec<String>);

impl Report {
    fn line(&mut self, label: &str, value: impl Display) {
        // One line each: a message of several becomes one.
        let value = value.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" / ");
        self.0.push(format!("{label}: {value}"));
    }
}

/// Prints the report.
pub fn run(ctx: &Context, backend: Backend) -> Result<Ending, CliError> {
    let root = ctx.root(backend)?;
    let mut report = Report::default();
    let store = Store::open(&ctx.env)?;
    report.line("lean-beam", VERSION);
    report.line("beam home", store.home());
    report.line("project root", &root);
    match backend {
        Backend::Lean => lean(ctx, &store, &root, &mut report),
        Backend::Rocq => {
            let coq = ctx.env.var("BEAM_ROCQ_CMD").map(str::to_owned);
            let found = coq.or_else(|| ctx.env.find_in_path("coq-lsp").map(|p| p.to_string()));
            report.line("coq-lsp", found.as_deref().unwrap_or(NONE));
        }
    }
    daemon(ctx, &ctx.control(&root), &mut report)?;
    ui::answer(&report.0.join("\n"))?;
    Ok(Ending::Done)
}

fn lean(ctx: &Context, store: &Store, root: &AbsPath, report: &mut Report) {
    admission(ctx, store, root, report);
    report.line("toolchain choice", ctx.choice_text());
    beam_process::end_on_interrupt();
    let toolchain = beam_toolchain::resolve(root, &ctx.env, &ctx.choice());
    match &toolchain {
        Ok(tc) => {
            report.line("lean binary", &tc.lean);
            report.line("lean version", &tc.version);
            report.line("lean kind", kind(tc.kind));
            report.line("lean found", found(&tc.found));
            report.line("lean prefix", &tc.prefix);
            report.line("lean libdir", &tc.lib_dir);
            report.line("lake", tc.lake.as_ref().map_or_else(|| NONE.to_owned(), ToString::to_string));
            report.line("toolchain fingerprint", tc.fingerprint.short());
            if let Some(notice) = &tc.notice {
                report.line("notice", notice);
            }
        }
        Err(e) => {
            report.line("lean binary", NONE);
            report.line("problem", e);
        }
    }
    report.line("extension source hash", extension::source_hash().map_or_else(|e| e.to_string(), short));
    report.line("extension", state(toolchain.ok().as_ref(), store));
}

/// What the project asks for, and whether that is accepted.
fn admission(ctx: &Context, store: &Store, root: &AbsPath, report: &mut Report) {
    match wanted(root, &ctx.env) {
        Ok(Some((wanted, admission))) => {
            report.line("project toolchain", &wanted.name);
            report.line("project toolchain admission", admission.as_str());
            report.line("project toolchain validated", admission == Support::Validated);
            let line = Release::parse(&wanted.name).map(|r| format!("v{}.{}", r.major, r.minor));
            report.line("project toolchain release line", line.as_deref().unwrap_or("(not applicable)"));
            report.line("project toolchain accepted", admission != Support::Unsupported);
        }
        Ok(None) => report.line("project toolchain", NONE),
        Err(e) => report.line("project toolchain", e),
    }
    match Registries::load(store) {
        Ok(r) => {
            report.line("validated toolchains", format!("{} (lean-beam validated-toolchains)", r.validated().len()));
            report.line(
                "compatible release lines",
                format!("{} (lean-beam compatible-release-lines)", r.release_lines().len()),
            );
            report.line("custom toolchains registry", format!("{} ({})", r.custom_path(), r.custom().len()));
        }
        Err(e) => report.line("custom toolchains registry", e),
    }
}

fn state(toolchain: Option<&Toolchain>, store: &Store) -> String {
    let Some(toolchain) = toolchain else {
        return NONE.to_owned();
    };
    match extension::find_extension(toolchain, store) {
        Err(e) => e.to_string(),
        Ok(None) => "not built yet; the first command builds it".to_owned(),
        Ok(Some(ext)) => match ext.verdict {
            Verdict::Qualified => format!("ready {}", ext.dir),
            Verdict::Pending => format!("not qualified {}", ext.dir),
            Verdict::Rejected(why) => format!("rejected: {why} (log {})", ext.log),
        },
    }
}

fn kind(kind: ToolchainKind) -> &'static str {
    match kind {
        ToolchainKind::Native => "native",
        ToolchainKind::Embedded => "embedded",
    }
}

fn found(found: &ToolchainOrigin) -> String {
    match found {
        ToolchainOrigin::Elan { channel } => format!("elan toolchain {channel}"),
        ToolchainOrigin::Path => "PATH".to_owned(),
        ToolchainOrigin::EmbeddedFallback => "store, for want of another".to_owned(),
        ToolchainOrigin::Explicit => "as chosen".to_owned(),
    }
}

fn daemon(ctx: &Context, control: &Control, report: &mut Report) -> Result<(), CliError> {
    report.line("control directory", control.dir());
    report.line("registry", control.registry_path());
    match connect::runtime()?.block_on(start::probe(control)) {
        Probe::Live(registry) => live(ctx, control, &registry, report)?,
        Probe::Stale(_) => report.line("daemon status", "stale"),
        Probe::Absent => report.line("daemon status", "absent"),
    }
    let incidents = incident::newest_first(control);
    if incidents.is_empty() {
        report.line("daemon incidents", "none");
    } else {
        report.line("daemon incidents", format!("{} recent", incidents.len()));
    }
    for path in incidents.iter().take(RECENT) {
        report.line("daemon incident", path.display());
    }
    Ok(())
}

fn live(ctx: &Context, control: &Control, registry: &Registry, report: &mut Report) -> Result<(), CliError> {
    let wanted = ctx.wanted(control.root())?;
    report.line("daemon status", "live");
    report.line("daemon pid", registry.pid);
    report.line("daemon pid namespace", registry.pid_namespace.as_deref().unwrap_or(NONE));
    report.line("daemon endpoint", registry.endpoint_text());
    report.line("daemon config hash", &registry.config_hash);
    report.line("daemon version", &registry.version);
    report.line("daemon started", &registry.started_at);
    if registry.config_hash != wanted.config_hash {
        report.line("daemon configuration", "differs from this command's; the next command replaces it");
    }
    let mut request = Request::new(Op::Stats, Args::default());
    request.workspace_id = Some(WORKSPACE.to_owned());
    let endpoint = start::endpoint(registry);
    let asked = client::call_within(&endpoint, &request, Duration::from_secs(2));
    // One that does not answer in time is busy; then nothing is said.
    let stats = connect::runtime()?.block_on(asked).ok().and_then(|response| response.outcome.ok());
    if stats.is_some_and(|stats| stats["sessions"]["lean"]["configChanged"] == true) {
        report.line("project configuration", "changed since the daemon read it; `lean-beam shutdown`, then go on");
    }
    Ok(())
}

fn short(hash: &str) -> String {
    hash.chars().take(16).collect()
}
