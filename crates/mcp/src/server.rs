//! The coordinator: one reader, one writer, and the calls between them.
//!
//! The reader answers what needs no work in the order of the stream, admits tool calls, and waits for room in the outbox before it
//! reads on. A client that stops reading therefore stops being read; what it can make us keep is bounded by [`CALLS`],
//! [`AT_WORK`] and the outbox.

use std::sync::Arc;
use std::time::Duration;

use beam_base::CancelToken;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use crate::active::{Active, CallState};
use crate::call::{self, Admitted, Shared};
use crate::envelope;
use crate::fault::Fault;
use crate::fence::{Fence, Passage};
use crate::lines::{self, LINE_CAP, Read};
use crate::outbox::{Gone, Outbox, outbox};
use crate::protocol::{Answer, Protocol, Step, ToolCall};
use crate::reply;
use crate::service::Service;
use crate::tools::{Kind, Limits};

/// Calls that may be admitted and not flushed. Beyond them nothing is read, cancellations included, so this is far above what any
/// client has in flight.
const CALLS: usize = 1024;
/// A call counts once more for every so many bytes of its line: arguments that wait are bounded too.
const BYTES_PER_CALL: usize = 64 * 1024;
/// Calls that may be at work at once; the others stand in line, where cancelling them costs nothing.
const AT_WORK: usize = 128;
/// From the end of stdin to the end of the process: clients kill after two seconds.
const FAREWELL: Duration = Duration::from_millis(1500);
/// What is nearly finished at the end of stdin may still be answered, so that requests can be piped in.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// What the broker gets for ending its child processes.
const DRAIN: Duration = Duration::from_millis(800);

/// How a server is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long a call may take before a client that gave no progress token gets a sign of life.
    pub status_delay: Duration,
    /// Bytes of a tool's result as JSON; what is larger is cut, and the cut is stated.
    pub max_output_bytes: usize,
    /// Cancelled when the process was told to end.
    pub stop: CancelToken,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            status_delay: Duration::from_secs(2),
            max_output_bytes: Limits::default().max_output_bytes,
            stop: CancelToken::new(),
        }
    }
}

/// A variable that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadVariable(String);

impl Options {
    /// Variable with the status delay in milliseconds, for tests.
    pub const STATUS_DELAY: &str = "LEAN_BEAM_MCP_TEST_STATUS_DELAY_MS";

    /// Reads the options out of environment variables.
    ///
    /// # Errors
    /// A variable that is set has a value that means nothing.
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Self, BadVariable> {
        let mut options = Self::default();
        if let Some(text) = var(Self::STATUS_DELAY) {
            let ms = text.trim().parse().map_err(|_| {
                BadVariable(format!("{} must be a whole number of milliseconds, not {text:?}", Self::STATUS_DELAY))
            })?;
            options.status_delay = Duration::from_millis(ms);
        }
        let limits = Limits::parse(var(Limits::VARIABLE).as_deref()).map_err(BadVariable)?;
        options.max_output_bytes = limits.max_output_bytes;
        Ok(options)
    }
}

/// Why a server ended. All of them are regular.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// The client closed stdin.
    InputClosed,
    /// The client closed stdout.
    OutputClosed,
    /// The process was told to end.
    Stopped,
}

/// Serves MCP on a pair of streams until the client or [`Options::stop`] ends it. When this returns, the service is drained.
pub async fn serve<S: Service>(
    stdin: impl AsyncRead + Unpin,
    stdout: impl AsyncWrite + Unpin + Send + 'static,
    service: S,
    options: Options,
) -> ExitReason {
    let (outbox, drainage) = outbox();
    let mut writer = tokio::spawn(drainage.drain(stdout));
    let shared = Shared {
        service: service.clone(),
        outbox: outbox.clone(),
        limits: Limits { max_output_bytes: options.max_output_bytes },
        status_delay: options.status_delay,
        at_work: Arc::new(Semaphore::new(AT_WORK)),
    };
    let mut server = Server {
        protocol: Protocol::new(),
        active: Active::default(),
        fence: Fence::default(),
        outbox,
        calls: TaskTracker::new(),
        slots: Arc::new(Semaphore::new(CALLS)),
        shared,
    };
    let reason = tokio::select! {
        biased;
        () = options.stop.cancelled() => ExitReason::Stopped,
        _ = &mut writer => ExitReason::OutputClosed,
        reason = server.read(stdin) => reason,
    };
    tracing::debug!(?reason, "the MCP server ends");
    server.farewell(reason, service, writer).await;
    reason
}

struct Server<S> {
    protocol: Protocol,
    active: Active,
    fence: Fence,
    outbox: Outbox,
    calls: TaskTracker,
    slots: Arc<Semaphore>,
    shared: Shared<S>,
}

impl<S: Service> Server<S> {
    /// Reads until the stream ends. Never answers out of order, never admits out of order.
    async fn read(&mut self, stdin: impl AsyncRead + Unpin) -> ExitReason {
        let mut stdin = BufReader::with_capacity(64 * 1024, stdin);
        loop {
            let (step, bytes) = match lines::next(&mut stdin, LINE_CAP).await {
                Ok(Read::Line(line)) => (self.decide(&line).await, line.len()),
                Ok(Read::TooLong) => (Step::Answer(Answer { id: None, outcome: Err(too_long()) }), 0),
                // A stream that cannot be read any more has ended.
                Ok(Read::End) | Err(_) => return ExitReason::InputClosed,
            };
            if self.take(step, bytes).await == Err(Gone) {
                return ExitReason::OutputClosed;
            }
        }
    }

    /// A message under an id that is in use is ignored, whatever else is wrong with it: its answer could be taken for the answer to the
    /// first.
    async fn decide(&mut self, line: &[u8]) -> Step {
        let message = envelope::parse(line);
        match envelope::id_of(&message) {
            Some(id) if self.active.is_busy(id.key()).await => {
                tracing::debug!(?id, "ignored: the id is in use");
                Step::Silence
            }
            _ => self.protocol.message(message),
        }
    }

    async fn take(&mut self, step: Step, bytes: usize) -> Result<(), Gone> {
        match step {
            Step::Silence => Ok(()),
            Step::Answer(answer) => {
                tracing::debug!(id = ?answer.id, outcome = ?answer.outcome, "answered");
                let lease = answer.id.as_ref().map(|id| self.active.own(id.key().clone(), None, None));
                self.outbox.end(reply::answer(&answer), lease).await
            }
            Step::Cancel(key) => {
                let won = self.active.cancel(&key);
                tracing::debug!(?key, won, "cancelled");
                Ok(())
            }
            Step::Call(call) => {
                self.admit(*call, bytes).await;
                Ok(())
            }
        }
    }

    async fn admit(&mut self, call: ToolCall, bytes: usize) {
        tracing::debug!(id = ?call.id, tool = call.tool.name, "admitted");
        let weight = u32::try_from((1 + bytes / BYTES_PER_CALL).min(CALLS)).unwrap_or(1);
        let slot = Arc::clone(&self.slots).acquire_many_owned(weight).await.ok();
        let state = Arc::new(CallState::default());
        let (passage, cancellable) = match call.tool.kind {
            // Half an eviction cannot be taken back.
            Kind::DropWorkspace => (Passage::Eviction, None),
            Kind::Version | Kind::Stats | Kind::Feedback | Kind::Operation => (Passage::Call, Some(state.clone())),
        };
        let lease = self.active.own(call.id.key().clone(), cancellable, slot);
        let ticket = self.fence.ticket(passage);
        let admitted = Admitted { call, state, ticket, lease };
        self.calls.spawn(call::run(self.shared.clone(), admitted));
    }

    /// Cancels, drains and flushes, all within [`FAREWELL`] (M5).
    async fn farewell(self, reason: ExitReason, service: S, mut writer: JoinHandle<std::io::Result<()>>) {
        let deadline = Instant::now() + FAREWELL;
        let Self { active, calls, outbox, shared, .. } = self;
        drop((outbox, shared));
        calls.close();
        if reason == ExitReason::InputClosed {
            let _still_busy = timeout_at(Instant::now() + LAST_WORDS, calls.wait()).await;
        }
        active.cancel_all();
        // What cannot be cancelled goes on meanwhile, and may answer.
        let drained = async { tokio::join!(service.drain(DRAIN), calls.wait()) };
        let _late = timeout_at(deadline, drained).await;
        // Every sender ends with its call, so the writer does when it has written everything; unless nobody reads.
        if !writer.is_finished() && timeout_at(deadline, &mut writer).await.is_err() {
            writer.abort();
        }
    }
}

fn too_long() -> Fault {
    Fault::NotJson(format!("it is longer than {LINE_CAP} bytes and was skipped"))
}
