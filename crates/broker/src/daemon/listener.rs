//! One connection on the daemon's side: one request frame in; events, then exactly one response out; close.
//!
//! * A connection that ends before its answer cancels the request: whoever kills a client must not leave a proof search running.
//!   Bytes after the request are read and dropped, only the end counts. On a socket a client that has only ended its own
//!   sending is answered.
//! * Memory is bounded per connection: one request frame, [`Limits::queue`] events, one batch of encoded events. When the client
//!   does not read, the queue fills and the engine's `send().await` waits: the slow client slows its own request and nobody
//!   else's. Progress events that have a later one right behind them in the queue are skipped (each supersedes the one before),
//!   diagnostics never are. A client that takes nothing for [`Limits::stall`] is gone.
//! * A client that does not send its request within [`Limits::request`] is told so and let go.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use beam_base::CancelToken;
use beam_base::frame::{self, FrameError};
use beam_wire::stream::Event;
use beam_wire::{ErrorBody, FailureCode, Request, Response, StreamMessage};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Interest};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

use super::registry::Token;
use super::{FRAME_CAP, Service};

/// How often a client that has half-closed its connection is looked at.
const HALF_CLOSED: Duration = Duration::from_millis(20);

/// What a connection may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest request frame, bytes.
    pub frame: usize,
    /// Time for the request to arrive.
    pub request: Duration,
    /// Time for a batch of events or a response to be taken by the client.
    pub stall: Duration,
    /// Events that wait for a slow client.
    pub queue: usize,
    /// Connections at one time; more are told that the daemon is busy.
    pub connections: usize,
    /// Time for the token to be shown on TCP.
    pub token: Duration,
    /// TCP connections at one time that have not shown it; more are closed at once.
    pub strangers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame: FRAME_CAP,
            request: Duration::from_secs(10),
            stall: Duration::from_secs(60),
            queue: 64,
            connections: 256,
            token: Duration::from_secs(3),
            strangers: 16,
        }
    }
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The response went out.
    Answered,
    /// The client went away, or stopped reading; its request was cancelled.
    ClientGone,
    /// It never asked anything.
    NoRequest,
    /// What it sent was no request frame; it was told so.
    Refused,
    /// It did not show the token in time, or showed another.
    WrongToken,
}

/// Who has to show what before the request is read.
#[derive(Debug)]
pub enum Gate {
    /// Nothing: the peer's user was checked, or could not have got here. It has its place among the connections.
    Open(OwnedSemaphorePermit),
    /// The first frame must be the token (loopback TCP, D4). It is not answered: the request may follow at once.
    Token {
        /// What must be shown, within [`Limits::token`].
        token: Token,
        /// The place among those who have not shown it yet: strangers on the port take none of the places of clients.
        waiting: OwnedSemaphorePermit,
        /// Where a place is taken then.
        room: Arc<Semaphore>,
    },
}

/// The daemon's side of a connected stream.
pub trait Peer: Send + 'static {
    /// What is read from.
    type Reader: AsyncRead + Unpin + Send + Sync;
    /// What is written to.
    type Writer: AsyncWrite + Unpin + Send;

    /// The two directions.
    fn halves(self) -> (Self::Reader, Self::Writer);

    /// Called after the end of input: resolves when the client does not read either. One that has only said that it will send nothing
    /// more (as `nc -N` does) waits for its answer.
    fn hung_up(reader: &Self::Reader) -> impl Future<Output = ()> + Send;
}

impl Peer for UnixStream {
    type Reader = tokio::net::unix::OwnedReadHalf;
    type Writer = tokio::net::unix::OwnedWriteHalf;

    fn halves(self) -> (Self::Reader, Self::Writer) {
        self.into_split()
    }

    async fn hung_up(reader: &Self::Reader) {
        // The system reports the two ends of a stream socket apart. It is asked again and again, because a socket that can be written to
        // is ready all the time: waiting for readiness would not wait.
        while let Ok(ready) = reader.as_ref().ready(Interest::WRITABLE).await {
            if ready.is_write_closed() {
                return;
            }
            tokio::time::sleep(HALF_CLOSED).await;
        }
    }
}

impl Peer for TcpStream {
    type Reader = tokio::net::tcp::OwnedReadHalf;
    type Writer = tokio::net::tcp::OwnedWriteHalf;

    fn halves(self) -> (Self::Reader, Self::Writer) {
        self.into_split()
    }

    /// At once: over TCP the end of a client and a half-closed one are the same segment, and whoever kills a client must not leave a
    /// proof search running.
    async fn hung_up(_: &Self::Reader) {}
}

/// Serves one connection to its end. `root_lost` is set when the project is no longer where the daemon serves it.
pub async fn connection<S: Service, P: Peer>(
    io: P,
    gate: Gate,
    service: &S,
    limits: &Limits,
    root_lost: &CancelToken,
) -> Ended {
    let (reader, mut writer) = io.halves();
    let mut reader = BufReader::new(reader);
    let _place = match pass(&mut reader, gate, limits).await {
        Passage::In(place) => place,
        Passage::Left => return Ended::NoRequest,
        Passage::Busy => return refuse(reader, writer, no_room(limits), limits).await,
        // Its place among the waiting is kept until it is gone.
        Passage::WrongToken(_waiting) => {
            let why = ErrorBody::new(
                FailureCode::InvalidParams,
                "the first frame on a TCP connection must be the daemon's token, as its registry has it",
            );
            let _gone = refuse(reader, writer, why, limits).await;
            return Ended::WrongToken;
        }
    };
    let body = match timeout(limits.request, receive(&mut reader, limits)).await {
        Ok(Ok(Some(body))) => body,
        Ok(Ok(None)) => return Ended::NoRequest,
        Ok(Err(why)) => return refuse(reader, writer, why, limits).await,
        Err(_) => {
            let text = format!("no complete request arrived within {} ms", limits.request.as_millis());
            return refuse(reader, writer, ErrorBody::new(FailureCode::InternalError, text), limits).await;
        }
    };
    let request = Request::decode(&body);
    drop(body);
    let id = match &request {
        Ok(request) => request.client_request_id.clone(),
        Err(rejected) => rejected.client_request_id.clone(),
    };

    let (events, queue) = mpsc::channel(limits.queue);
    let done = CancelToken::new();
    let response = {
        let mut pump = pin!(pump(queue, &mut writer, id.as_deref(), &done, limits.stall));
        let response = tokio::select! {
            response = service.run(request, events) => response,
            _lost = &mut pump => return Ended::ClientGone,
            () = left::<P>(&mut reader) => return Ended::ClientGone,
            // Before the engine's own "cancelled", which would not say why.
            () = root_lost.cancelled() => Response::failed(ErrorBody::new(
                FailureCode::ContentModified,
                "the project's folder was renamed, removed or replaced while this request was under way, and its daemon ends; \
                 run the command again where the project is now",
            )),
        };
        done.cancel();
        if pump.await.is_err() {
            return Ended::ClientGone;
        }
        response
    };
    let mut out = Vec::new();
    push(&mut out, Event::Response(response), id.as_deref());
    match deliver(&mut writer, &out, limits.stall).await {
        Ok(()) => Ended::Answered,
        Err(_) => Ended::ClientGone,
    }
}

/// What became of a client at the gate.
enum Passage {
    In(OwnedSemaphorePermit),
    Busy,
    Left,
    WrongToken(OwnedSemaphorePermit),
}

async fn pass<R: AsyncBufRead + Unpin>(reader: &mut R, gate: Gate, limits: &Limits) -> Passage {
    let (token, waiting, room) = match gate {
        Gate::Open(place) => return Passage::In(place),
        Gate::Token { token, waiting, room } => (token, waiting, room),
    };
    match timeout(limits.token, frame::read_counted(reader, 1024)).await {
        Ok(Ok(None)) => return Passage::Left,
        Ok(Ok(Some(shown))) if token.matches(&shown) => {}
        Ok(Ok(Some(_)) | Err(_)) | Err(_) => return Passage::WrongToken(waiting),
    }
    drop(waiting);
    room.try_acquire_owned().map_or(Passage::Busy, Passage::In)
}

/// The request frame.
async fn receive<R: AsyncBufRead + Unpin>(reader: &mut R, limits: &Limits) -> Result<Option<Vec<u8>>, ErrorBody> {
    frame::read_counted(reader, limits.frame).await.map_err(|e| {
        let code = match e {
            FrameError::TooLarge { .. } => FailureCode::InvalidParams,
            FrameError::Truncated | FrameError::Header(_) | FrameError::Io(_) => FailureCode::InternalError,
        };
        ErrorBody::new(code, format!("cannot read the request: {e}"))
    })
}

/// Writes events as they come until `done`, then what is left of them. An error means that the client takes no more.
async fn pump<W: AsyncWrite + Unpin>(
    mut queue: mpsc::Receiver<Event>,
    writer: &mut W,
    id: Option<&str>,
    done: &CancelToken,
    stall: Duration,
) -> io::Result<()> {
    let mut batch = Vec::new();
    let mut out = Vec::new();
    let mut closed = false;
    loop {
        let n = tokio::select! {
            biased;
            // The response is there: senders that somebody kept must not delay it. What was sent before is still delivered.
            () = done.cancelled(), if !closed => {
                queue.close();
                closed = true;
                continue;
            }
            n = queue.recv_many(&mut batch, 64) => n,
        };
        if n == 0 {
            if closed {
                return Ok(());
            }
            // All senders are gone; the response is what comes next.
            done.cancelled().await;
            return Ok(());
        }
        skip_superseded(&mut batch);
        for event in batch.drain(..) {
            // The terminal message is the listener's own (R4).
            if !matches!(event, Event::Response(_)) {
                push(&mut out, event, id);
            }
        }
        deliver(writer, &out, stall).await?;
        out.clear();
        out.shrink_to(64 * 1024);
    }
}

/// Drops progress that has progress right behind it.
fn skip_superseded(batch: &mut Vec<Event>) {
    let progress = |e: &Event| matches!(e, Event::FileProgress(_));
    let keep: Vec<bool> =
        (0..batch.len()).map(|n| !(progress(&batch[n]) && batch.get(n + 1).is_some_and(progress))).collect();
    let mut keep = keep.into_iter();
    batch.retain(|_| keep.next().unwrap_or(true));
}

fn push(out: &mut Vec<u8>, event: Event, id: Option<&str>) {
    let body = StreamMessage { event, client_request_id: id.map(str::to_owned) }.encode();
    out.extend_from_slice(format!("{}\n", body.len()).as_bytes());
    out.extend_from_slice(&body);
}

async fn deliver<W: AsyncWrite + Unpin>(writer: &mut W, out: &[u8], stall: Duration) -> io::Result<()> {
    let written = timeout(stall, async {
        writer.write_all(out).await?;
        writer.flush().await
    });
    written.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Resolves when the client is gone: it sends nothing more, and reads nothing either.
async fn left<P: Peer>(reader: &mut BufReader<P::Reader>) {
    gone(reader).await;
    P::hung_up(reader.get_ref()).await;
}

/// Resolves when the client has closed its side.
async fn gone<R: AsyncBufRead + Unpin>(reader: &mut R) {
    loop {
        match reader.fill_buf().await {
            Ok([]) | Err(_) => return,
            Ok(extra) => {
                let n = extra.len();
                reader.consume(n);
            }
        }
    }
}

/// Answers without having a request, then lets the client finish writing for a moment: closing with unread bytes would
/// reset a TCP connection and take the answer with it.
async fn refuse<R, W>(mut reader: R, mut writer: W, why: ErrorBody, limits: &Limits) -> Ended
where
    R: AsyncBufRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut out = Vec::new();
    push(&mut out, Event::Response(Response::failed(why)), None);
    if deliver(&mut writer, &out, limits.stall.min(Duration::from_secs(5))).await.is_err() {
        return Ended::ClientGone;
    }
    let _no_matter = writer.shutdown().await;
    let _enough = timeout(Duration::from_secs(1), gone(&mut reader)).await;
    Ended::Refused
}

fn no_room(limits: &Limits) -> ErrorBody {
    let text = format!("the daemon is busy: {} connections are open; try again", limits.connections);
    ErrorBody::new(FailureCode::Busy, text)
}

/// Tells a client that there are too many.
pub async fn busy<P: Peer>(io: P, limits: &Limits) -> Ended {
    let (reader, writer) = io.halves();
    refuse(BufReader::new(reader), writer, no_room(limits), limits).await
}

/// Tells a peer of another user that it has no business here (D4).
pub async fn foreign<P: Peer>(io: P, uid: Option<u32>, limits: &Limits) -> Ended {
    let (reader, writer) = io.halves();
    let whose = uid.map_or_else(|| "an unknown user".to_owned(), |u| format!("user {u}"));
    let text = format!("this daemon serves only the user who started it; the connection is from {whose}");
    refuse(BufReader::new(reader), writer, ErrorBody::new(FailureCode::InvalidParams, text), limits).await
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
