//! The tasks around one worker process: writer, reader, stderr keeper, supervisor (S1, S7). Knows frames, not methods.
//!
//! Ends of a process, and who sees them: the supervisor is the only one that reports [`Event::Exited`], and it does so last, after
//! the reader has delivered what the process had written. So the owner never learns of a death before the answers that
//! preceded it. A grandchild may hold the pipes open after the process ended; then the reader is given a moment and no more.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use beam_base::frame;
use beam_base::rpc::Incoming;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::config::SessionConfig;
use crate::frames::{Found, FrameReader};
use crate::lsp;
use crate::process::{EndStatus, GroupSignal, WorkerControl, WorkerProcess};

/// Messages read ahead of the document task; beyond this the worker's own writes block, which slows it down and nobody else.
const READ_AHEAD: usize = 64;
/// Lines of stderr kept.
const TAIL_LINES: usize = 40;
/// Longest kept line of stderr, in bytes.
const TAIL_LINE_BYTES: usize = 1000;
/// Bytes of output without a message among them that are taken for the file's own.
const STRAY_CAP: usize = 16 << 20;
/// How long the rest of a message that was torn may be in coming.
const TORN_WAIT: Duration = Duration::from_millis(200);
/// How long pipes may stay open after the process ended.
const DRAIN: Duration = Duration::from_millis(300);
/// How long a process may live on after it closed its stdout or its stdin broke.
const EOF_GRACE: Duration = Duration::from_secs(1);
/// How long a group has between SIGTERM and SIGKILL.
const TERM_GRACE: Duration = Duration::from_millis(500);

/// What happened to a worker.
#[derive(Debug)]
pub(crate) enum Event {
    /// It said something.
    Message(Incoming),
    /// Its output holds this besides messages: what the file's own code printed.
    Stray(Vec<u8>),
    /// Messages can no longer be told from the rest of its output; the last thing that is read of it.
    Garbage(String),
    /// It is gone; the last event.
    Exited(EndStatus),
}

/// What the owner asks of the supervisor. A dropped sender means [`Order::Kill`].
enum Order {
    /// End by itself within the grace, then be signalled.
    Retire(Duration),
    Kill,
}

/// A worker as its owner holds it. Dropping it kills the process group (S7).
pub(crate) struct Worker {
    pid: Option<u32>,
    /// `None` once the worker is told to end: closing the queue closes stdin.
    writes: Option<mpsc::UnboundedSender<Vec<u8>>>,
    unread: Arc<AtomicUsize>,
    write_cap: usize,
    events: mpsc::Receiver<Event>,
    orders: mpsc::Sender<Order>,
    tail: Tail,
}

/// The worker does not read; its queue is over the cap.
#[derive(Debug)]
pub(crate) struct NotReading;

impl Worker {
    /// Takes charge of a started process and sends it `initialize`. `alive` is held until the process is gone.
    pub(crate) fn adopt(process: WorkerProcess, config: &SessionConfig, alive: mpsc::Sender<()>) -> Self {
        let WorkerProcess { stdin, stdout, stderr, control } = process;
        let pid = control.pid();
        let (writes, queue) = mpsc::unbounded_channel();
        let (event_tx, events) = mpsc::channel(READ_AHEAD);
        let (orders, order_rx) = mpsc::channel(2);
        let unread = Arc::new(AtomicUsize::new(0));
        let tail = Tail::default();
        let writer = tokio::spawn(write_all(stdin, queue, unread.clone()));
        let reader = tokio::spawn(read_all(stdout, config.frame_cap, event_tx.clone()));
        let keeper = tokio::spawn(keep_tail(stderr, tail.clone()));
        let pipes = Pipes { writer, reader, keeper };
        tokio::spawn(supervise(control, order_rx, pipes, event_tx, alive));
        let worker = Self { pid, writes: Some(writes), unread, write_cap: config.write_cap, events, orders, tail };
        // An empty queue is never over the cap.
        worker.send(lsp::initialize(config)).ok();
        worker
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Queues one message body. Never waits.
    pub(crate) fn send(&self, body: Vec<u8>) -> Result<(), NotReading> {
        let Some(writes) = &self.writes else { return Ok(()) };
        let size = body.len();
        // A single message may exceed the cap by itself; what counts is that earlier ones were read.
        let before = self.unread.fetch_add(size, Ordering::Relaxed);
        if before > 0 && before.saturating_add(size) > self.write_cap {
            return Err(NotReading);
        }
        // A writer that is gone hit a broken pipe: the process is ending, and the supervisor reports it.
        drop(writes.send(body));
        Ok(())
    }

    /// The next event; `Exited` is the last one, after which this never resolves again.
    pub(crate) async fn next_event(&mut self) -> Event {
        match self.events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// The process is known to be gone, or what it said before anybody asked was no message.
    pub(crate) fn is_dead(&self) -> bool {
        self.events.is_closed()
    }

    /// The last lines on stderr so far.
    pub(crate) fn stderr_tail(&self) -> Vec<String> {
        self.tail.lines()
    }

    /// Tells it to end and lets go of it; the supervisor sees to it, with signals after the grace.
    pub(crate) fn retire(mut self, grace: Duration) {
        self.send(lsp::exit()).ok();
        self.writes = None;
        // The supervisor takes orders at every point of its life; a full queue means one is there already.
        drop(self.orders.try_send(Order::Retire(grace)));
    }

    /// Kills it and lets go of it.
    pub(crate) fn kill(self) {
        drop(self.orders.try_send(Order::Kill));
    }
}

struct Pipes {
    writer: JoinHandle<()>,
    reader: JoinHandle<()>,
    keeper: JoinHandle<()>,
}

async fn write_all(
    mut stdin: Box<dyn AsyncWrite + Send + Unpin>,
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
    unread: Arc<AtomicUsize>,
) {
    while let Some(body) = queue.recv().await {
        if let Err(error) = frame::write_lsp(&mut stdin, &body).await {
            tracing::debug!(%error, "a worker's stdin broke");
            return;
        }
        unread.fetch_sub(body.len(), Ordering::Relaxed);
    }
}

async fn read_all(mut stdout: Box<dyn AsyncRead + Send + Unpin>, cap: usize, events: mpsc::Sender<Event>) {
    let mut frames = FrameReader::new(cap, STRAY_CAP);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        while let Some(found) = frames.next() {
            if report(found, &events).await == Reading::Over {
                return;
            }
        }
        let read = stdout.read(&mut buffer);
        let read =
            if frames.is_undecided() { tokio::time::timeout(TORN_WAIT, read).await.ok() } else { Some(read.await) };
        match read {
            Some(Ok(n)) if n > 0 => frames.feed(&buffer[..n]),
            // A process that dies while it writes leaves half a message. That is its death, not a breach of the protocol.
            Some(_) => return,
            None => {
                if let Some(found) = frames.settle()
                    && report(found, &events).await == Reading::Over
                {
                    return;
                }
            }
        }
    }
}

/// Whether the reader goes on.
#[derive(PartialEq)]
enum Reading {
    On,
    Over,
}

async fn report(found: Found, events: &mpsc::Sender<Event>) -> Reading {
    let event = match found {
        Found::Message(message) => Event::Message(message),
        Found::Stray(bytes) => Event::Stray(bytes),
        Found::Torn => {
            Event::Garbage("the file's own output stands in the middle of a message, which is lost".to_owned())
        }
        Found::NoMessages { bytes, announced: None } => {
            Event::Garbage(format!("{bytes} bytes of output without a message among them"))
        }
        Found::NoMessages { bytes, announced: Some(size) } => Event::Garbage(format!(
            "{bytes} bytes of output without a message among them, behind a message of {size} bytes, which exceeds the limit"
        )),
    };
    let fatal = matches!(event, Event::Garbage(_));
    if events.send(event).await.is_err() || fatal { Reading::Over } else { Reading::On }
}

async fn keep_tail(stderr: Box<dyn AsyncRead + Send + Unpin>, tail: Tail) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        // Longer lines come in pieces: a process that never ends its line must not fill our memory.
        let mut piece = (&mut stderr).take(TAIL_LINE_BYTES as u64);
        match piece.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                let text = text.trim_end_matches(['\n', '\r']);
                tracing::debug!(target: "beam_session::stderr", "{text}");
                tail.push(text.to_owned());
            }
        }
    }
}

/// Waits for the process's end, helps it along when told to, and reports it after everything it had to say.
async fn supervise(
    mut control: Box<dyn WorkerControl>,
    mut orders: mpsc::Receiver<Order>,
    mut pipes: Pipes,
    events: mpsc::Sender<Event>,
    alive: mpsc::Sender<()>,
) {
    let status = until_exit(&mut *control, &mut orders, &mut pipes).await;
    // The group goes with its leader, so that pipes held by a grandchild close, too.
    control.signal_group(GroupSignal::Kill);
    let drained = async {
        // A finished handle must not be awaited twice; `until_exit` may have consumed these.
        if !pipes.reader.is_finished() {
            drop((&mut pipes.reader).await);
        }
        if !pipes.keeper.is_finished() {
            drop((&mut pipes.keeper).await);
        }
    };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        pipes.reader.abort();
        pipes.keeper.abort();
    }
    pipes.writer.abort();
    drop(control);
    drop(alive);
    drop(events.send(Event::Exited(status)).await);
}

async fn until_exit(
    control: &mut dyn WorkerControl,
    orders: &mut mpsc::Receiver<Order>,
    pipes: &mut Pipes,
) -> EndStatus {
    let mut end = tokio::select! {
        // In this order: a retired worker's writer ends as well, and the order says how long to wait.
        biased;
        status = control.wait() => return status.unwrap_or(EndStatus::Unknown),
        order = orders.recv() => order.unwrap_or(Order::Kill),
        // Neither pipe closes before the process means to end, unless something is wrong with it.
        _ = &mut pipes.reader => Order::Retire(EOF_GRACE),
        _ = &mut pipes.writer => Order::Retire(EOF_GRACE),
    };
    if let Order::Retire(grace) = end {
        tokio::select! {
            status = control.wait() => return status.unwrap_or(EndStatus::Unknown),
            () = tokio::time::sleep(grace) => {}
            order = next_kill(orders) => end = order,
        }
    }
    if let Order::Retire(_) = end {
        control.signal_group(GroupSignal::Terminate);
        if let Ok(status) = tokio::time::timeout(TERM_GRACE, control.wait()).await {
            return status.unwrap_or(EndStatus::Unknown);
        }
    }
    control.signal_group(GroupSignal::Kill);
    control.wait().await.unwrap_or(EndStatus::Unknown)
}

/// An order that shortens a retirement. A closed channel does not: whoever retires a worker lets go of it.
async fn next_kill(orders: &mut mpsc::Receiver<Order>) -> Order {
    loop {
        match orders.recv().await {
            Some(Order::Kill) => return Order::Kill,
            Some(Order::Retire(_)) => {}
            None => std::future::pending().await,
        }
    }
}

/// The last lines of a stderr, shared between the task that reads them and whoever reports a death.
#[derive(Clone, Default)]
struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    // The lock is held for a push or a copy of forty lines, never across an await; a poisoned one still holds valid lines.
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == TAIL_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
