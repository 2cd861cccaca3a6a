//! Verbs of the table: get the daemon, ask, print the answer, say what people should know.

use std::time::Duration;

use beam_base::AbsPath;
use beam_broker::daemon::{ClientError, Control, Registry, clock, start};
use beam_wire::verb::Daemon;
use beam_wire::{Backend, Request, Response};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Call;
use crate::ask::{self, Failed, Question};
use crate::connect::{self, Backstage, Connected};
use crate::context::Context;
use crate::error::{CliError, Ending};
use crate::request::{self, Prepared};
use crate::{notes, render, ui};

/// How long the command that started the daemon waits for others before it ends; see the leases.
const OUTLAST: Duration = Duration::from_secs(30);
/// How often a daemon that is gone before it was asked anything is replaced.
const ATTEMPTS: u32 = 3;

/// Runs a verb.
pub fn run<B: Backstage>(ctx: &Context, backstage: &B, call: &Call) -> Result<Ending, CliError> {
    let backend = call.backend;
    let root = match call.spec.daemon {
        Daemon::Start => ctx.root(backend)?,
        Daemon::Existing => ctx.any_root()?,
    };
    // Everything that can be wrong with the arguments is told before a daemon is started.
    let id = request_id(ctx, call.spec.waits);
    let prepared = request::prepare(ctx, call, &root, id.as_deref())?;
    let request = match &prepared.request {
        Ok(request) => request,
        // The same answer that a daemon would give.
        Err(error) => return finish(ctx, call, &prepared, &Response::failed(error.clone())),
    };
    let runtime = connect::runtime()?;
    let control = ctx.control(&root);
    match call.spec.daemon {
        Daemon::Existing => {
            let registry = connect::existing(ctx, &control, &runtime)?;
            let response = ask(ctx, &runtime, &prepared, request, &registry, cancel_id(call, id.as_deref()))
                .map_err(|e| failed(&control, &registry, e))?;
            finish(ctx, call, &prepared, &response)
        }
        Daemon::Start => {
            let at = ProjectOf { root: &root, control: &control, backend, request };
            started(ctx, backstage, call, &prepared, &runtime, &at, id.as_deref())
        }
    }
}

/// The project of a verb.
struct ProjectOf<'a> {
    root: &'a AbsPath,
    control: &'a Control,
    backend: Backend,
    request: &'a Request,
}

fn started<B: Backstage>(
    ctx: &Context,
    backstage: &B,
    call: &Call,
    prepared: &Prepared,
    runtime: &Runtime,
    at: &ProjectOf<'_>,
    id: Option<&str>,
) -> Result<Ending, CliError> {
    let hold = call.hold;
    let mut attempt = 1;
    loop {
        let Connected { registry, started, lease } =
            connect::connect(ctx, backstage, runtime, at.root, at.backend, hold)?;
        match ask(ctx, runtime, prepared, at.request, &registry, cancel_id(call, id)) {
            // It ended between two questions (idle, replaced). Nothing was sent, so nothing is asked twice.
            Err(Failed::Client(ClientError::NotListening(_))) if attempt < ATTEMPTS => attempt += 1,
            Err(e) => return Err(failed(at.control, &registry, e)),
            Ok(response) => {
                let ending = finish(ctx, call, prepared, &response)?;
                if hold && ending == Ending::Done {
                    runtime.block_on(hold_until_interrupted(ctx))?;
                } else if let Some(lease) = lease.filter(|_| started) {
                    runtime.block_on(lease.outlast_others(at.control, OUTLAST));
                }
                return Ok(ending);
            }
        }
    }
}

fn ask(
    ctx: &Context,
    runtime: &Runtime,
    prepared: &Prepared,
    request: &Request,
    registry: &Registry,
    cancel_id: Option<&str>,
) -> Result<Response, Failed> {
    runtime.block_on(ask::ask(Question {
        endpoint: &start::endpoint(registry),
        body: request.encode(),
        what: &prepared.what,
        cancel_id,
        watch: connect::watch(ctx).map_err(Failed::Local)?,
        ui: &ctx.ui,
    }))
}

fn failed(control: &Control, registry: &Registry, failed: Failed) -> CliError {
    match failed {
        Failed::Client(error) => connect::lost(control, registry, error),
        Failed::Local(error) => error,
    }
}

/// The user's id, or one of our own for commands that an interrupt may have to cancel. That one is never shown.
fn request_id(ctx: &Context, waits: bool) -> Option<String> {
    ctx.request_id.clone().or_else(|| waits.then(|| format!("cli-{}-{:x}", std::process::id(), clock::nanos())))
}

fn cancel_id<'a>(call: &Call, id: Option<&'a str>) -> Option<&'a str> {
    id.filter(|_| call.spec.waits)
}

/// Prints the answer (C1) and says on stderr what people should know about it.
fn finish(ctx: &Context, call: &Call, prepared: &Prepared, response: &Response) -> Result<Ending, CliError> {
    let op = call.spec.op;
    let ending = match &response.outcome {
        Ok(_) => {
            if call.spec.waits {
                ctx.ui.say_progress(|| ui::completion_line(&prepared.what, op, response));
            }
            for note in ui::rejected_notes(op, response, prepared.text.as_deref()) {
                ctx.ui.say(&note);
            }
            for note in notes::of(op, response, call.path()) {
                ctx.ui.say(&note);
            }
            Ending::Done
        }
        Err(error) => {
            if call.spec.waits {
                ctx.ui.say(&ui::failure_line(&call.typed, op, error));
            } else {
                ctx.ui.say(&error.message);
            }
            if let Some(line) = ui::recovery_line(error) {
                ctx.ui.say(&line);
            }
            Ending::Refused
        }
    };
    print(ctx, response)?;
    Ok(ending)
}

/// The one answer on stdout, with the user's own request id.
pub fn print(ctx: &Context, response: &Response) -> Result<(), CliError> {
    let mut value = serde_json::to_value(response).unwrap_or_default();
    if let (Some(id), Value::Object(map)) = (&ctx.request_id, &mut value) {
        map.insert("clientRequestId".to_owned(), id.as_str().into());
    }
    ui::answer(&render::pretty(value))
}

/// `ensure --hold`: the lease is held, and the process stays, until it is interrupted.
async fn hold_until_interrupted(ctx: &Context) -> Result<(), CliError> {
    let mut interrupt = signal(SignalKind::interrupt())
        .map_err(|source| CliError::System { what: "cannot listen to interrupts", source })?;
    beam_process::leave_interrupts();
    ctx.ui.say("holding the daemon until interrupted");
    interrupt.recv().await;
    Ok(())
}
