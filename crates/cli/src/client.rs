//! `beam-client`: raw requests to a running daemon. Nothing is added to what the caller wrote.

use beam_base::AbsPath;
use beam_broker::daemon::client::{Connection, Endpoint};
use beam_broker::daemon::registry::Token;
use beam_broker::daemon::{ClientError, Control, Registry, start};
use beam_wire::stream::Event;
use beam_wire::{Response, StreamMessage};

use crate::args::{ClientArgs, JsonSource, TextSource};
use crate::context::Context;
use crate::error::{CliError, Ending};
use crate::{connect, input, render, ui};

/// Sends one request and prints the answer, or every message.
pub fn run(ctx: &Context, args: &ClientArgs) -> Result<Ending, CliError> {
    let body = match &args.request {
        // As written: the broker's view of bytes that are no JSON is what this tool is for.
        JsonSource::Inline(text) => text.clone(),
        other => {
            input::text(
                &match other {
                    JsonSource::File(path) => TextSource::File(path.clone()),
                    _ => TextSource::Stdin,
                },
                &ctx.cwd,
            )?
            .text
        }
    };
    let (endpoint, registry) = endpoint(ctx, args)?;
    let runtime = connect::runtime()?;
    let response = runtime.block_on(exchange(ctx, args.stream, &endpoint, body.as_bytes()));
    let response = response.map_err(|e| match (e, registry) {
        (Failed::Local(e), _) => e,
        (Failed::Client(error), Some((control, registry))) => connect::lost(&control, &registry, error),
        (Failed::Client(error), None) => CliError::Client { error, facts: Vec::new() },
    })?;
    if !args.stream {
        ui::answer(&render::pretty(serde_json::to_value(&response).unwrap_or_default()))?;
    }
    Ok(if response.outcome.is_ok() { Ending::Done } else { Ending::Refused })
}

enum Failed {
    Client(ClientError),
    Local(CliError),
}

async fn exchange(ctx: &Context, stream: bool, endpoint: &Endpoint, body: &[u8]) -> Result<Response, Failed> {
    let watch = connect::watch(ctx).map_err(Failed::Local)?;
    let mut connection = Connection::open_watched(endpoint, watch).await.map_err(Failed::Client)?;
    connection.send(body).await;
    loop {
        let message = connection.next().await.map_err(Failed::Client)?;
        if stream {
            ui::answer(&compact(&message)).map_err(Failed::Local)?;
        }
        match message.event {
            Event::Response(response) => return Ok(response),
            Event::Diagnostic(d) if !stream => ctx.ui.say(&ui::diagnostic_line(&d)),
            Event::Diagnostic(_) | Event::FileProgress(_) => {}
        }
    }
}

fn compact(message: &StreamMessage) -> String {
    String::from_utf8_lossy(&message.encode()).into_owned()
}

/// `--socket`, or `--port` with the token, or the project's registry.
fn endpoint(ctx: &Context, args: &ClientArgs) -> Result<(Endpoint, Option<(Control, Registry)>), CliError> {
    if let Some(path) = &args.socket {
        return Ok((Endpoint::Unix(AbsPath::resolve(&ctx.cwd, path)), None));
    }
    let token = ctx.env.var("BEAM_TOKEN").map(Token::from_text);
    if let (Some(port), Some(token)) = (ctx.globals.port, &token) {
        return Ok((Endpoint::Tcp { port, token: token.clone() }, None));
    }
    let control = ctx.control(&ctx.any_root()?);
    let Some(registry) = Registry::read(&control) else {
        return Err(CliError::NoDaemon { root: control.root().to_string(), facts: Vec::new() });
    };
    let endpoint = match ctx.globals.port {
        None => start::endpoint(&registry),
        Some(port) => match &registry.token {
            Some(token) => Endpoint::Tcp { port, token: token.clone() },
            None => {
                return Err(CliError::Value(format!(
                    "the daemon of {} listens on no port; start it with --port, or set BEAM_TOKEN for another daemon",
                    control.root()
                )));
            }
        },
    };
    Ok((endpoint, Some((control, registry))))
}
