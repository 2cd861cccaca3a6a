//! The one way to stdout (M1): a bounded queue, and the task that empties it.
//!
//! Bounded in bytes: who wants to send waits for room, so a client that stops reading stops us instead of filling our memory. Frames
//! leave in the order in which they entered, each as a whole and flushed. A notification about a call that has been cancelled while
//! the notification stood in the queue does not leave at all (M4).

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, mpsc};

use crate::active::{CallState, Lease};
use crate::reply::OutputLine;

/// Bytes that may stand in the queue. A larger frame goes in alone.
const ROOM: u32 = 1024 * 1024;

/// What a frame is for, which decides what happens around its writing.
#[derive(Debug)]
enum FramePurpose {
    /// A notification about a call in progress.
    Notification(Arc<CallState>),
    /// The terminal frame under an id, which is free once it is flushed. `None`: an error without an id.
    End(Option<Lease>),
}

#[derive(Debug)]
struct QueuedFrame {
    line: OutputLine,
    purpose: FramePurpose,
    _room: OwnedSemaphorePermit,
}

/// The sending side. Clones share the queue.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    queue: mpsc::UnboundedSender<QueuedFrame>,
    room: Arc<Semaphore>,
}

/// The other end is gone: the client closed its pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientGone;

/// Whether a notification that does not wait got in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Posted {
    /// It will go out.
    Yes,
    /// There is no room at the moment.
    Full,
}

/// The receiving side.
#[derive(Debug)]
pub(crate) struct OutboxWriter {
    queue: mpsc::UnboundedReceiver<QueuedFrame>,
    room: Arc<Semaphore>,
}

/// A queue.
pub(crate) fn outbox() -> (Outbox, OutboxWriter) {
    // Unbounded as a channel; the semaphore is the bound, in bytes.
    let (tx, rx) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(ROOM as usize));
    (Outbox { queue: tx, room: room.clone() }, OutboxWriter { queue: rx, room })
}

fn bytes(line: &OutputLine) -> u32 {
    u32::try_from(line.len()).unwrap_or(ROOM).min(ROOM)
}

impl Outbox {
    async fn send(&self, line: OutputLine, purpose: FramePurpose) -> Result<(), ClientGone> {
        let room = Arc::clone(&self.room).acquire_many_owned(bytes(&line)).await.map_err(|_| ClientGone)?;
        self.queue.send(QueuedFrame { line, purpose, _room: room }).map_err(|_| ClientGone)
    }

    /// Sends a terminal frame, waiting for room.
    pub(crate) async fn end(&self, line: OutputLine, lease: Option<Lease>) -> Result<(), ClientGone> {
        self.send(line, FramePurpose::End(lease)).await
    }

    /// Sends a notification, waiting for room.
    pub(crate) async fn notify(&self, line: OutputLine, call: &Arc<CallState>) -> Result<(), ClientGone> {
        self.send(line, FramePurpose::Notification(call.clone())).await
    }

    /// Sends a notification if there is room now.
    pub(crate) fn try_notify(&self, line: OutputLine, call: &Arc<CallState>) -> Result<Posted, ClientGone> {
        match Arc::clone(&self.room).try_acquire_many_owned(bytes(&line)) {
            Ok(room) => {
                let frame = QueuedFrame { line, purpose: FramePurpose::Notification(call.clone()), _room: room };
                self.queue.send(frame).map(|()| Posted::Yes).map_err(|_| ClientGone)
            }
            Err(TryAcquireError::NoPermits) => Ok(Posted::Full),
            Err(TryAcquireError::Closed) => Err(ClientGone),
        }
    }
}

impl OutboxWriter {
    /// Writes until every sender is gone, or the stream fails.
    pub(crate) async fn drain(mut self, mut out: impl AsyncWrite + Unpin) -> io::Result<()> {
        let outcome = self.write_all(&mut out).await;
        // Those who wait for room learn that there will be none.
        self.room.close();
        outcome
    }

    async fn write_all(&mut self, out: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        while let Some(QueuedFrame { line, purpose, _room }) = self.queue.recv().await {
            let lease = match purpose {
                FramePurpose::Notification(call) if call.is_cancelled() => continue,
                FramePurpose::Notification(_) => None,
                FramePurpose::End(lease) => lease,
            };
            if let Some(lease) = &lease {
                lease.leaving();
            }
            out.write_all(&line).await?;
            out.flush().await?;
            // The id is free from here on.
            drop(lease);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    fn note(n: u8) -> OutputLine {
        vec![n; 400 * 1024]
    }

    /// M1, M4.
    #[tokio::test]
    async fn m1_the_queue_is_bounded_and_forgets_the_cancelled() {
        let (tx, writer_half) = outbox();
        let [stays, goes] = [(); 2].map(|()| Arc::new(CallState::default()));
        tx.notify(note(1), &stays).await.unwrap();
        tx.notify(note(2), &goes).await.unwrap();
        assert_eq!(tx.try_notify(note(3), &stays), Ok(Posted::Full));
        let waiting = tokio::spawn({
            let (tx, stays) = (tx.clone(), stays.clone());
            async move { tx.notify(vec![4; 4 * ROOM as usize], &stays).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "it waits for room");
        assert!(goes.cancel());
        drop(tx);
        let (ours, mut theirs) = tokio::io::duplex(1024);
        let drained = tokio::spawn(writer_half.drain(ours));
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).await.unwrap();
        waiting.await.unwrap().unwrap();
        drained.await.unwrap().unwrap();
        all.dedup();
        assert_eq!(all, [1, 4]);
    }

    #[tokio::test]
    async fn a_closed_pipe_is_told_to_everybody() {
        let (tx, writer_half) = outbox();
        let (ours, theirs) = tokio::io::duplex(1024);
        drop(theirs);
        tx.end(b"x".to_vec(), None).await.unwrap();
        writer_half.drain(ours).await.unwrap_err();
        assert_eq!(tx.end(b"x".to_vec(), None).await, Err(ClientGone));
    }
}
