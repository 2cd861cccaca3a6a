//! What reads stdin: lines to messages, and what must never wait.
//!
//! The server answers in the order of the stream, and waits while the client does not take its answers. Two things must not wait with
//! it: a cancellation of a call that is active, which frees what others wait for, and the end of the input. So this reads ahead of
//! the server, up to [`LOOK_AHEAD`], does those cancellations itself, and says when the input has ended.
//!
//! A cancellation that finds no active call stays in its place in the order: its request may stand in the queue before it.

use std::sync::Arc;

use tokio::io::{AsyncRead, BufReader};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::active::Active;
use crate::envelope::{self, Inbound, Message, RefusedMessage};
use crate::lines::{self, InputLine, LINE_CAP};
use crate::protocol;
use crate::rpc_error::RpcError;

/// Bytes of lines that may be read and not yet taken. A longer line stands in the queue alone.
const LOOK_AHEAD: u32 = 128 * 1024;

/// A message as it was read.
#[derive(Debug)]
pub(crate) struct Received {
    /// What it says.
    pub(crate) message: Message,
    /// Length of its line.
    pub(crate) bytes: usize,
    _room: OwnedSemaphorePermit,
}

/// The receiving side.
#[derive(Debug)]
pub(crate) struct Intake {
    queue: mpsc::UnboundedReceiver<Received>,
}

impl Intake {
    /// The next message; `None` when the input has ended and all of it has been taken.
    pub(crate) async fn next(&mut self) -> Option<Received> {
        self.queue.recv().await
    }
}

/// The receiving side, and the work of reading, which resolves when the input has ended: also while messages before the end wait.
pub(crate) fn intake(stdin: impl AsyncRead + Unpin, active: Active) -> (Intake, impl Future<Output = ()>) {
    // Unbounded as a channel; the semaphore is the bound, in bytes.
    let (tx, queue) = mpsc::unbounded_channel();
    (Intake { queue }, read(stdin, active, tx))
}

async fn read(stdin: impl AsyncRead + Unpin, active: Active, queue: mpsc::UnboundedSender<Received>) {
    let room = Arc::new(Semaphore::new(LOOK_AHEAD as usize));
    let mut stdin = BufReader::with_capacity(64 * 1024, stdin);
    loop {
        let (message, bytes) = match lines::next(&mut stdin, LINE_CAP).await {
            Ok(InputLine::Line(line)) => (envelope::parse(&line), line.len()),
            Ok(InputLine::TooLong) => (Err(RefusedMessage { id: None, error: too_long() }), 0),
            // A stream that cannot be read any more has ended.
            Ok(InputLine::End) | Err(_) => break,
        };
        if cancels_now(&active, &message) {
            continue;
        }
        let needed = u32::try_from(bytes).unwrap_or(LOOK_AHEAD).min(LOOK_AHEAD);
        let Ok(room) = Arc::clone(&room).acquire_many_owned(needed).await else { break };
        if queue.send(Received { message, bytes, _room: room }).is_err() {
            break;
        }
    }
}

fn cancels_now(active: &Active, message: &Message) -> bool {
    match message {
        Ok(Inbound::Notification { method, params }) if method == protocol::CANCELLED => {
            let won = protocol::cancelled(params).is_some_and(|key| active.cancel(&key));
            if won {
                tracing::debug!("cancelled as soon as it was read");
            }
            won
        }
        _ => false,
    }
}

fn too_long() -> RpcError {
    RpcError::NotJson(format!("it is longer than {LINE_CAP} bytes and was skipped"))
}
