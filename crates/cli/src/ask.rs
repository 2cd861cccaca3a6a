//! One request over one connection, with everything that happens while it is under way: diagnostics, progress, an interrupt.

use std::time::{Duration, Instant};

use beam_broker::daemon::client::{self, ClientError, Connection, Endpoint, Watch};
use beam_wire::stream::Event;
use beam_wire::{Args, Op, Request, Response, StreamMessage};
use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

use crate::error::CliError;
use crate::ui::{self, Ui};

/// How often an interrupted command asks the daemon to cancel until it is heard.
const AGAIN: Duration = Duration::from_millis(500);

/// What is asked, and how it is watched.
pub struct Question<'a> {
    /// Where the daemon is.
    pub endpoint: &'a Endpoint,
    /// The frame.
    pub body: Vec<u8>,
    /// How lines call it.
    pub what: &'a str,
    /// Set for commands that wait: they show what happens, and an interrupt cancels this id.
    pub cancel_id: Option<&'a str>,
    /// Who is told when the daemon does not respond.
    pub watch: Watch,
    /// The streams.
    pub ui: &'a Ui,
}

/// Why a question has no answer.
#[derive(Debug)]
pub enum Failed {
    /// The connection.
    Client(ClientError),
    /// Interrupted twice, or the like.
    Local(CliError),
}

/// Asks, and waits for the answer.
pub async fn ask(question: Question<'_>) -> Result<Response, Failed> {
    let mut connection =
        Connection::open_watched(question.endpoint, question.watch.clone()).await.map_err(Failed::Client)?;
    match question.cancel_id {
        None => {
            connection.send(&question.body).await;
            connection.response(|m| show(&question, &m)).await.map_err(Failed::Client)
        }
        Some(id) => watch(&question, id, connection).await,
    }
}

fn show(question: &Question<'_>, message: &StreamMessage) {
    match &message.event {
        Event::Diagnostic(d) => question.ui.say(&ui::diagnostic_line(d)),
        Event::FileProgress(p) => {
            question.ui.say_progress(|| format!("{}: {}", question.what, ui::progress_text(p)));
        }
        Event::Response(_) => {}
    }
}

/// Whether the user wants out, and whether the daemon knows.
enum Stop {
    No,
    Asking { heard: bool },
}

async fn watch(question: &Question<'_>, id: &str, mut connection: Connection) -> Result<Response, Failed> {
    // From here on an interrupt does not end this process: the daemon's answer to it does.
    let mut interrupt: Signal = signal(SignalKind::interrupt())
        .map_err(|source| Failed::Local(CliError::System { what: "cannot listen to interrupts", source }))?;
    let began = Instant::now();
    question.ui.say_progress(|| format!("{}: asking", question.what));
    connection.send(&question.body).await;
    let mut second = interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    second.tick().await;
    let mut again = interval(AGAIN);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stop = Stop::No;
    loop {
        tokio::select! {
            message = connection.next() => {
                let message = message.map_err(Failed::Client)?;
                if let Event::Response(response) = message.event {
                    return Ok(response);
                }
                show(question, &message);
            }
            _ = interrupt.recv() => match stop {
                Stop::No => {
                    question.ui.say("interrupted: asking the daemon to cancel the request (interrupt again to leave at once)");
                    stop = Stop::Asking { heard: false };
                    again.reset_immediately();
                }
                // The connection ends with this process, and that cancels, too.
                Stop::Asking { .. } => return Err(Failed::Local(CliError::Interrupted)),
            },
            _ = again.tick(), if matches!(stop, Stop::Asking { heard: false }) => {
                stop = Stop::Asking { heard: cancel(question.endpoint, id).await };
            }
            _ = second.tick(), if question.ui.progress() => {
                question.ui.say_progress(|| format!("{}: waiting, {} s", question.what, began.elapsed().as_secs()));
            }
        }
    }
}

/// Asks for the cancellation; true when the daemon knew the request. It may not have read it yet, so this is repeated.
async fn cancel(endpoint: &Endpoint, id: &str) -> bool {
    let request = Request::new(Op::Cancel, Args { cancel_request_id: Some(id.to_owned()), ..Args::default() });
    client::call_within(endpoint, &request, AGAIN)
        .await
        .is_ok_and(|r| r.outcome.is_ok_and(|r| r["cancelled"] == Value::Bool(true)))
}
