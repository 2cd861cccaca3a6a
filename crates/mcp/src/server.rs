//! The coordinator: one reader, one writer, and the calls between them.
//!
//! What needs no work is answered in the order of the stream, tool calls are admitted, and both wait for nothing but room in the outbox.
//! A client that stops reading therefore stops being read, after what [`intake`](crate::intake) reads ahead; what it can make us keep is
//! bounded by that, [`CALLS`], [`AT_WORK`] and the outbox. A call beyond [`CALLS`] is refused at once, never waited for: a cancellation
//! that would free a place may stand behind it.

use std::sync::Arc;
use std::time::Duration;

use beam_base::CancelToken;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::TaskTracker;

use crate::active::{Active, CallState};
use crate::call::{self, AdmittedCall, CallContext};
use crate::envelope::{self, Message};
use crate::fence::{Fence, TicketKind};
use crate::intake::{Intake, intake};
use crate::outbox::{ClientGone, Outbox, outbox};
use crate::protocol::{Decision, Protocol, ToolCall};
use crate::reply;
use crate::service::Service;
use crate::tools::{Defaults, OutputLimits, ToolError, ToolKind};

/// Calls that may be admitted and not flushed; the next one is refused. Far above what any client has in flight.
const CALLS: usize = 1024;
/// A call counts once more for every so many bytes of its line: arguments that wait are bounded too.
const BYTES_PER_CALL: usize = 64 * 1024;
/// Calls that may be at work at once; the others stand in line, where cancelling them costs nothing.
const AT_WORK: usize = 128;
/// From the end of stdin to the end of the process: clients kill after two seconds.
const SHUTDOWN_LIMIT: Duration = Duration::from_millis(1500);
/// What is nearly finished at the end of stdin may still be answered, so that requests can be piped in.
const FINISH_GRACE: Duration = Duration::from_millis(250);
/// What the broker gets for ending its child processes.
const DRAIN_LIMIT: Duration = Duration::from_millis(800);

/// How a server is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long a call may take before a client that gave no progress token gets a sign of life.
    pub status_delay: Duration,
    /// Bytes of a tool's result as JSON, where a call does not say; what is larger is cut, and the cut is stated.
    pub max_output_bytes: usize,
    /// Cancelled when the process was told to end.
    pub stop: CancelToken,
    /// What optional arguments are where a call leaves them out.
    pub defaults: Defaults,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            status_delay: Duration::from_secs(2),
            max_output_bytes: OutputLimits::default().max_output_bytes,
            stop: CancelToken::new(),
            defaults: Defaults::default(),
        }
    }
}

/// A variable or option that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadVariable(String);

impl Options {
    /// Variable with the status delay in milliseconds, for tests.
    pub const STATUS_DELAY: &str = "LEAN_BEAM_MCP_TEST_STATUS_DELAY_MS";

    /// Variable with the form of goals where a call does not say; the option `--goals` is for the same.
    pub const GOALS: &str = "BEAM_MCP_GOALS";

    /// Sets how goals are shown where a call does not say: `json` or `text`. `name` is what the user wrote it under.
    ///
    /// # Errors
    /// Goals have no such form.
    pub fn set_goals(&mut self, name: &str, form: &str) -> Result<(), BadVariable> {
        self.defaults.set("goals", form.into(), &["json", "text"]).map_err(|why| BadVariable(format!("{name} {why}")))
    }

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
        let limits = OutputLimits::parse(var(OutputLimits::VARIABLE).as_deref()).map_err(BadVariable)?;
        options.max_output_bytes = limits.max_output_bytes;
        if let Some(form) = var(Self::GOALS).filter(|form| !form.trim().is_empty()) {
            options.set_goals(Self::GOALS, form.trim())?;
        }
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
    let (outbox, writer_half) = outbox();
    let mut writer = tokio::spawn(writer_half.drain(stdout));
    let context = CallContext {
        service: service.clone(),
        outbox: outbox.clone(),
        limits: OutputLimits { max_output_bytes: options.max_output_bytes, full_messages: false },
        defaults: Arc::new(options.defaults.clone()),
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
        context,
    };
    let reason = {
        let (intake, reading) = intake(stdin, server.active.clone());
        tokio::select! {
            biased;
            () = options.stop.cancelled() => ExitReason::Stopped,
            _ = &mut writer => ExitReason::OutputClosed,
            reason = server.take_all(intake) => reason,
            // The client is leaving and does not take its answers: what it has sent after them is not looked at.
            () = async { reading.await; sleep(FINISH_GRACE).await } => ExitReason::InputClosed,
        }
    };
    tracing::debug!(?reason, "the MCP server ends");
    server.shut_down(reason, service, writer).await;
    reason
}

struct Server<S> {
    protocol: Protocol,
    active: Active,
    fence: Fence,
    outbox: Outbox,
    calls: TaskTracker,
    slots: Arc<Semaphore>,
    context: CallContext<S>,
}

impl<S: Service> Server<S> {
    /// Takes what is read, until the stream ends. Never answers out of order, never admits out of order.
    async fn take_all(&mut self, mut intake: Intake) -> ExitReason {
        while let Some(received) = intake.next().await {
            let decision = self.decide(received.message).await;
            if self.take(decision, received.bytes).await == Err(ClientGone) {
                return ExitReason::OutputClosed;
            }
        }
        ExitReason::InputClosed
    }

    /// A message under an id that is in use is ignored, whatever else is wrong with it: its answer could be taken for the answer to the
    /// first.
    async fn decide(&mut self, message: Message) -> Decision {
        match envelope::id_of(&message) {
            Some(id) if self.active.is_busy(id.key()).await => {
                tracing::debug!(?id, "ignored: the id is in use");
                Decision::Silence
            }
            _ => self.protocol.message(message),
        }
    }

    async fn take(&mut self, decision: Decision, bytes: usize) -> Result<(), ClientGone> {
        match decision {
            Decision::Silence => Ok(()),
            Decision::Answer(answer) => {
                tracing::debug!(id = ?answer.id, outcome = ?answer.outcome, "answered");
                let lease = answer.id.as_ref().map(|id| self.active.own(id.key().clone(), None, None));
                self.outbox.end(reply::answer(&answer), lease).await
            }
            Decision::Cancel(key) => {
                let won = self.active.cancel(&key);
                tracing::debug!(?key, won, "cancelled");
                Ok(())
            }
            Decision::Call(call) => match self.slot(bytes) {
                Some(slot) => {
                    self.admit(*call, slot);
                    Ok(())
                }
                None => self.refuse(&call).await,
            },
        }
    }

    /// A place for a call, if there is one now. Never waits: a cancellation further on in the stream may be what frees one.
    fn slot(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let weight = u32::try_from((1 + bytes / BYTES_PER_CALL).min(CALLS)).unwrap_or(1);
        Arc::clone(&self.slots).try_acquire_many_owned(weight).ok()
    }

    async fn refuse(&self, call: &ToolCall) -> Result<(), ClientGone> {
        tracing::debug!(id = ?call.id, tool = call.tool.name, "refused: too many calls");
        let lease = self.active.own(call.id.key().clone(), None, None);
        let line = reply::call(&call.id, call.revision, &ToolError::too_many_calls(CALLS).into());
        self.outbox.end(line, Some(lease)).await
    }

    fn admit(&mut self, call: ToolCall, slot: OwnedSemaphorePermit) {
        tracing::debug!(id = ?call.id, tool = call.tool.name, "admitted");
        let state = Arc::new(CallState::default());
        let (kind, cancellable) = match call.tool.kind {
            // Half an eviction cannot be taken back.
            ToolKind::DropWorkspace => (TicketKind::Eviction, None),
            ToolKind::Version | ToolKind::Stats | ToolKind::Feedback | ToolKind::Operation => {
                (TicketKind::Call, Some(state.clone()))
            }
        };
        let lease = self.active.own(call.id.key().clone(), cancellable, Some(slot));
        let ticket = self.fence.ticket(kind);
        let admitted = AdmittedCall { call, state, ticket, lease };
        self.calls.spawn(call::run(self.context.clone(), admitted));
    }

    /// Cancels, drains and flushes, all within [`SHUTDOWN_LIMIT`] (M5).
    async fn shut_down(self, reason: ExitReason, service: S, mut writer: JoinHandle<std::io::Result<()>>) {
        let deadline = Instant::now() + SHUTDOWN_LIMIT;
        let Self { active, calls, outbox, context, .. } = self;
        drop((outbox, context));
        calls.close();
        if reason == ExitReason::InputClosed {
            let _still_busy = timeout_at(Instant::now() + FINISH_GRACE, calls.wait()).await;
        }
        active.cancel_all();
        // What cannot be cancelled goes on meanwhile, and may answer.
        let drained = async { tokio::join!(service.drain(DRAIN_LIMIT), calls.wait()) };
        let _late = timeout_at(deadline, drained).await;
        // Every sender ends with its call, so the writer does when it has written everything; unless nobody reads.
        if !writer.is_finished() && timeout_at(deadline, &mut writer).await.is_err() {
            writer.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_from_variables_and_flags() {
        let read = |vars: &[(&str, &str)]| {
            Options::from_vars(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        };
        let defaults = |vars: &[(&str, &str)]| read(vars).unwrap().defaults;
        assert_eq!(defaults(&[]), Defaults::default());
        assert_eq!(defaults(&[(Options::GOALS, " ")]), Defaults::default());
        let text = defaults(&[(Options::GOALS, " text ")]);
        assert_ne!(text, Defaults::default());
        assert_ne!(text, defaults(&[(Options::GOALS, "json")]));
        let mut flagged = Options::default();
        flagged.set_goals("--goals", "text").unwrap();
        assert_eq!(flagged.defaults, text);
        let why = flagged.set_goals("--goals", "pictures").unwrap_err().to_string();
        assert!(why.starts_with("--goals ") && why.contains("text"), "{why}");
        assert!(read(&[(Options::GOALS, "Text")]).unwrap_err().to_string().starts_with(Options::GOALS));
        let sized = read(&[("LEAN_BEAM_MCP_MAX_OUTPUT_BYTES", "5000")]).unwrap();
        assert_eq!(sized.max_output_bytes, 5000);
    }
}
