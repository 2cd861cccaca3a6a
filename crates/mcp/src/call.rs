//! One tool call, from its turn in the stream's order to its one answer.
//!
//! Order of what is looked at (mcp *tools/call*): turn, arguments, preparation update, workspace, set-up, broker. A call that is
//! cancelled before its turn is never dispatched.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::task::AbortOnDropHandle;

use crate::active::{CallState, Lease};
use crate::feedback;
use crate::fence::Ticket;
use crate::outbox::Outbox;
use crate::protocol::ToolCall;
use crate::reply;
use crate::report::{CallSubject, Reporter};
use crate::rpc_error::RpcError;
use crate::service::Service;
use crate::tools::{
    self, DecodedCall, Defaults, DropTarget, OperationCall, OutputLimits, Tool, ToolError, ToolKind, ToolOutput,
};

/// Events of one request that may stand between the broker and the reporter.
const EVENTS: usize = 64;

/// What all calls of a stream share.
#[derive(Debug, Clone)]
pub(crate) struct CallContext<S> {
    pub(crate) service: S,
    pub(crate) outbox: Outbox,
    pub(crate) limits: OutputLimits,
    /// What the server's owner wants where a call says nothing.
    pub(crate) defaults: Arc<Defaults>,
    pub(crate) status_delay: Duration,
    /// Calls that may be at work at once. Held until the answer is in the outbox, so answers that wait for room are bounded too.
    pub(crate) at_work: Arc<Semaphore>,
}

/// An admitted call.
#[derive(Debug)]
pub(crate) struct AdmittedCall {
    pub(crate) call: ToolCall,
    pub(crate) state: Arc<CallState>,
    pub(crate) ticket: Ticket,
    pub(crate) lease: Lease,
}

/// Runs a call to its one end.
pub(crate) async fn run<S: Service>(context: CallContext<S>, admitted: AdmittedCall) {
    let AdmittedCall { call, state, ticket, lease } = admitted;
    let (id, revision) = (call.id.clone(), call.revision);
    let ticket = Arc::new(ticket);
    let outbox = context.outbox.clone();
    // A task of its own: a panic becomes this call's answer. It holds the ticket too, so that a cancelled call keeps an eviction
    // waiting until it is really gone.
    let work = tokio::spawn(work(context, call, state.clone(), Arc::clone(&ticket)));
    let outcome = tokio::select! {
        biased;
        // Dropping the handle aborts the work, and with it exactly the broker admission that the work holds.
        () = state.cancelled() => return,
        outcome = AbortOnDropHandle::new(work) => outcome,
    };
    let (outcome, _at_work) = match outcome {
        Ok((outcome, at_work)) => (outcome, at_work),
        Err(e) => (Err(RpcError::Defect(panic_text(e))), None),
    };
    if !state.answer() {
        return;
    }
    let line = match outcome {
        Ok(output) => reply::call(&id, revision, &output),
        Err(error) => reply::error(Some(&id), &error),
    };
    // If the client is gone, the server ends; there is nobody to answer.
    let _gone = outbox.end(line, Some(lease)).await;
    drop(ticket);
}

type CallOutcome = Result<ToolOutput, RpcError>;
type WorkPermit = Option<tokio::sync::OwnedSemaphorePermit>;

async fn work<S: Service>(
    context: CallContext<S>,
    call: ToolCall,
    state: Arc<CallState>,
    ticket: Arc<Ticket>,
) -> (CallOutcome, WorkPermit) {
    let ToolCall { id, tool, arguments, token, revision: _, log } = call;
    let path =
        arguments.get("path").and_then(Value::as_str).filter(|_| tool.kind == ToolKind::Operation).map(str::to_owned);
    let about = CallSubject { id, tool, path, token, log };
    let mut reporter = Reporter::new(about, state, context.outbox.clone(), context.status_delay);
    if tool.kind == ToolKind::DropWorkspace {
        return (evict(&context, tool, arguments, &mut reporter, &ticket).await, None);
    }
    reporter.watch(ticket.turn()).await;
    let at_work = reporter.watch(Arc::clone(&context.at_work).acquire_owned()).await.ok();
    (dispatch(&context, tool, arguments, &mut reporter).await, at_work)
}

async fn dispatch<S: Service>(
    context: &CallContext<S>,
    tool: &'static Tool,
    arguments: Map<String, Value>,
    reporter: &mut Reporter,
) -> CallOutcome {
    match decode(context, tool, arguments, reporter).await? {
        Err(e) => Ok(e.into()),
        Ok(DecodedCall::Version) => {
            let structured = tools::version_object(context.service.has_runtime());
            Ok(ToolOutput { structured, is_error: false })
        }
        Ok(DecodedCall::Stats) => {
            // Before there is a runtime there is nothing that counts, not even time.
            let stats = if context.service.has_runtime() { context.service.stats(None).await } else { None };
            Ok(tools::stats(stats, &context.limits))
        }
        Ok(DecodedCall::Feedback(call)) => {
            Ok(feedback::report(&context.service, *call, &context.limits, reporter).await)
        }
        Ok(DecodedCall::Operation(call)) => operation(context, tool, &call, reporter).await,
        // A drop goes its own way before it gets here.
        Ok(DecodedCall::Drop(target)) => {
            Ok(tools::dropped(&target, &context.service.drop_workspace(&target.id()).await))
        }
    }
}

/// Reads the arguments. A descriptor is looked up in the file system, and a mount may hang: not on a thread that serves others.
async fn decode<S: Service>(
    context: &CallContext<S>,
    tool: &'static Tool,
    arguments: Map<String, Value>,
    reporter: &mut Reporter,
) -> Result<Result<DecodedCall, ToolError>, RpcError> {
    let (defaults, limits) = (Arc::clone(&context.defaults), context.limits);
    let decoding = tokio::task::spawn_blocking(move || tools::decode(tool, arguments, &defaults, &limits));
    reporter.watch(decoding).await.map_err(|e| RpcError::Defect(panic_text(e)))
}

/// An eviction says that it prepares before it waits for the calls before it.
async fn evict<S: Service>(
    context: &CallContext<S>,
    tool: &'static Tool,
    arguments: Map<String, Value>,
    reporter: &mut Reporter,
    ticket: &Ticket,
) -> CallOutcome {
    let target: DropTarget = match decode(context, tool, arguments, reporter).await? {
        Ok(DecodedCall::Drop(target)) => target,
        Ok(_) => return Err(RpcError::Defect(format!("{} was read as another tool", tool.name))),
        Err(e) => return Ok(e.into()),
    };
    reporter.preparing("preparing workspace eviction").await;
    reporter.watch(ticket.turn()).await;
    let dropped = reporter.watch(context.service.drop_workspace(&target.id())).await;
    Ok(tools::dropped(&target, &dropped))
}

async fn operation<S: Service>(
    context: &CallContext<S>,
    tool: &'static Tool,
    call: &OperationCall,
    reporter: &mut Reporter,
) -> CallOutcome {
    reporter.preparing("preparing the Lean workspace").await;
    let id = call.workspace.id();
    let root = call.workspace.root.clone();
    context.service.open_workspace(&id, root).map_err(|e| RpcError::SetUp(e.message))?;
    reporter.watch(context.service.set_up(&id)).await.map_err(RpcError::SetUp)?;
    let (events, seen) = mpsc::channel(EVENTS);
    let response = reporter.drive(context.service.run(Ok(call.request.clone()), events), seen).await;
    Ok(tools::project(tool, call, response))
}

fn panic_text(e: tokio::task::JoinError) -> String {
    match e.try_into_panic() {
        Ok(panic) => panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message")
            .to_owned(),
        Err(_) => "the runtime is ending".to_owned(),
    }
}
