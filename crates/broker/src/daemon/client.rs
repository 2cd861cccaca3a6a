//! The client's side of a connection.
//!
//! A client keeps its connection open until the response has arrived: a connection that ends early cancels the request.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use beam_base::AbsPath;
use beam_base::frame::{self, FrameError};
use beam_base::guarded::our_uid;
use beam_wire::stream::Event;
use beam_wire::{Args, FailureCode, Op, Request, Response, StreamMessage};
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::FRAME_CAP;
use super::process::Listener;
use super::registry::Token;

/// How long a daemon without room is asked again.
const BUSY: Duration = Duration::from_secs(10);
/// A live daemon answers `stats` at once; a machine under load gets a little more.
const PING: Duration = Duration::from_secs(2);

/// Where a daemon listens.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// Its socket.
    Unix(AbsPath),
    /// Loopback TCP.
    Tcp {
        /// Port on 127.0.0.1.
        port: u16,
        /// What is shown first.
        token: Token,
    },
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens there.
    #[error("no daemon answers there: {0}")]
    NotListening(io::Error),
    /// Another user's process listens there.
    #[error("the process at {path} belongs to user {uid}, not to you: nothing was sent to it")]
    Foreign {
        /// The socket.
        path: AbsPath,
        /// Whose it is.
        uid: u32,
    },
    /// The connection ended before the response.
    #[error("the daemon closed the connection before it answered")]
    Closed,
    /// The connection failed.
    #[error("the connection to the daemon failed: {0}")]
    Io(io::Error),
    /// What came is no frame.
    #[error("the daemon's answer cannot be read: {0}")]
    Frame(FrameError),
    /// What came is no message.
    #[error("the daemon's answer cannot be read: {0}")]
    Message(serde_json::Error),
    /// It has no room for another connection.
    #[error("busy: the daemon takes no more connections at present; try again")]
    Busy,
    /// It did not answer in time.
    #[error("the daemon did not answer within {0} ms")]
    Slow(u128),
}

impl ClientError {
    /// Whether the daemon was lost under way, as opposed to not being there or not being understood.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Closed | Self::Io(_) | Self::Frame(FrameError::Truncated | FrameError::Io(_)))
    }
}

/// Somebody does not respond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silence {
    /// The daemon's process, where it is known; for messages only.
    pub pid: Option<u32>,
    /// For how long by now.
    pub waited: Duration,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pid = self.pid.map(|p| format!(" (pid {p})")).unwrap_or_default();
        write!(f, "the daemon{pid} has not responded for {} s; still waiting", self.waited.as_secs_f64().round())
    }
}

/// When whoever waits is told that nobody responds, and how.
#[derive(Clone)]
pub struct Watch {
    /// Silence of that length is told, and again after each such length.
    pub after: Duration,
    tell: Arc<dyn Fn(&Silence) + Send + Sync>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("after", &self.after).finish_non_exhaustive()
    }
}

impl Watch {
    /// How long silence lasts until it is told, unless somebody says otherwise.
    pub const AFTER: Duration = Duration::from_secs(5);

    /// Tells by `tell`.
    #[must_use]
    pub fn new(after: Duration, tell: impl Fn(&Silence) + Send + Sync + 'static) -> Self {
        Self { after, tell: Arc::new(tell) }
    }

    /// The usual patience, and nobody to tell.
    #[must_use]
    pub fn quiet() -> Self {
        Self::short(Self::AFTER)
    }

    /// Other patience, and nobody to tell.
    #[must_use]
    pub fn short(after: Duration) -> Self {
        Self::new(after, |_| {})
    }

    pub(super) fn tell(&self, silence: &Silence) {
        (self.tell)(silence);
    }
}

trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

type Io = BufReader<Box<dyn Duplex>>;

/// One connection: one request out, events and a response in.
///
/// The conversation runs in a task of its own, which ends with this: a caller may stop waiting for the next message at any moment and
/// wait again, without losing half a frame.
pub struct Connection {
    endpoint: Endpoint,
    watch: Option<Watch>,
    opened: Option<Io>,
    listener: Option<Listener>,
    messages: Option<mpsc::Receiver<Result<StreamMessage, ClientError>>>,
    conversation: Option<JoinHandle<()>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(task) = &self.conversation {
            task.abort();
        }
    }
}

impl Connection {
    /// Connects, and makes sure on a socket that the other side is our own user's process (D4).
    pub async fn open(endpoint: &Endpoint) -> Result<Self, ClientError> {
        let (io, listener) = connect(endpoint).await?;
        Ok(Self {
            endpoint: endpoint.clone(),
            watch: None,
            opened: Some(io),
            listener,
            messages: None,
            conversation: None,
        })
    }

    /// The same; silence is told. A request that takes long is no silence: it is when the daemon does not answer others either.
    pub async fn open_watched(endpoint: &Endpoint, watch: Watch) -> Result<Self, ClientError> {
        let mut connection = Self::open(endpoint).await?;
        connection.watch = Some(watch);
        Ok(connection)
    }

    /// The process on the other side, once.
    pub(super) fn take_listener(&mut self) -> Option<Listener> {
        self.listener.take()
    }

    /// Sends the request frame. A daemon that is busy is asked again, for some seconds.
    ///
    /// A failing write is no failure yet: a daemon that refuses a frame (too large, too many connections) answers without
    /// reading all of it. What it has to say is read by [`Connection::next`].
    pub async fn send(&mut self, body: &[u8]) {
        let Some(io) = self.opened.take() else {
            return;
        };
        let (sender, receiver) = mpsc::channel(16);
        let talk = Conversation {
            endpoint: self.endpoint.clone(),
            body: body.to_vec(),
            pid: self.listener.as_ref().map(Listener::pid),
            watch: self.watch.clone(),
            messages: sender,
        };
        self.messages = Some(receiver);
        self.conversation = Some(tokio::spawn(talk.run(io)));
    }

    /// The next message.
    pub async fn next(&mut self) -> Result<StreamMessage, ClientError> {
        match &mut self.messages {
            None => Err(ClientError::Closed),
            Some(messages) => messages.recv().await.unwrap_or(Err(ClientError::Closed)),
        }
    }

    /// The response; events on the way are handed to `event`.
    pub async fn response(&mut self, mut event: impl FnMut(StreamMessage)) -> Result<Response, ClientError> {
        loop {
            let message = self.next().await?;
            match message.event {
                Event::Response(response) => return Ok(response),
                Event::FileProgress(_) | Event::Diagnostic(_) => event(message),
            }
        }
    }
}

struct Conversation {
    endpoint: Endpoint,
    body: Vec<u8>,
    pid: Option<u32>,
    watch: Option<Watch>,
    messages: mpsc::Sender<Result<StreamMessage, ClientError>>,
}

impl Conversation {
    /// Asks, and while the answer is that the daemon is busy, again with growing pauses.
    async fn run(self, mut io: Io) {
        let began = Instant::now();
        let mut pause = Duration::from_millis(25);
        loop {
            let last = Mutex::new(Instant::now());
            let busy = tokio::select! {
                busy = self.exchange(&mut io, &last) => busy,
                () = self.observe(&last) => return,
            };
            let Some(busy) = busy else {
                return;
            };
            if began.elapsed() + pause > BUSY {
                let _nobody_waits = self.messages.send(Ok(busy)).await;
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
            io = match connect(&self.endpoint).await {
                Ok((io, _)) => io,
                Err(error) => {
                    let _nobody_waits = self.messages.send(Err(error)).await;
                    return;
                }
            };
        }
    }

    /// One request and its messages. Returned is the answer of a daemon that has no room: it has done nothing.
    async fn exchange(&self, io: &mut Io, last: &Mutex<Instant>) -> Option<StreamMessage> {
        let _said_by_the_answer = frame::write_counted(io, &self.body).await;
        loop {
            let message = read(io).await;
            if let Ok(mut last) = last.lock() {
                *last = Instant::now();
            }
            if let Ok(StreamMessage { event: Event::Response(Response { outcome: Err(error), .. }), .. }) = &message
                && error.is(FailureCode::Busy)
            {
                return message.ok();
            }
            let ends = !matches!(&message, Ok(m) if !matches!(m.event, Event::Response(_)));
            if self.messages.send(message).await.is_err() || ends {
                return None;
            }
        }
    }

    /// Tells about silence, for ever. The daemon is asked something that it answers at once: only if it does not is it silent.
    async fn observe(&self, last: &Mutex<Instant>) {
        let Some(watch) = &self.watch else {
            return std::future::pending().await;
        };
        let request = Request::new(Op::Stats, Args::default());
        loop {
            tokio::time::sleep(watch.after).await;
            let quiet = || last.lock().map_or(Duration::ZERO, |l| l.elapsed());
            // What answers, answers at once, whatever it says.
            if quiet() < watch.after || call_once(&self.endpoint, &request, watch.after.min(PING)).await.is_ok() {
                if let Ok(mut last) = last.lock() {
                    *last = Instant::now();
                }
                continue;
            }
            watch.tell(&Silence { pid: self.pid, waited: quiet() });
        }
    }
}

async fn read(io: &mut Io) -> Result<StreamMessage, ClientError> {
    match frame::read_counted(io, FRAME_CAP).await {
        Ok(Some(body)) => StreamMessage::decode(&body).map_err(ClientError::Message),
        Ok(None) => Err(ClientError::Closed),
        Err(FrameError::Io(e)) if e.kind() == io::ErrorKind::ConnectionReset => Err(ClientError::Closed),
        Err(e) => Err(ClientError::Frame(e)),
    }
}

/// Asks one thing, without interest in events.
pub async fn call(endpoint: &Endpoint, request: &Request) -> Result<Response, ClientError> {
    let mut connection = Connection::open(endpoint).await?;
    connection.send(&request.encode()).await;
    connection.response(|_| {}).await
}

/// As [`call`], but not for ever.
pub async fn call_within(endpoint: &Endpoint, request: &Request, limit: Duration) -> Result<Response, ClientError> {
    tokio::time::timeout(limit, call(endpoint, request)).await.unwrap_or(Err(ClientError::Slow(limit.as_millis())))
}

/// One attempt: a daemon without room is [`ClientError::Busy`].
pub(super) async fn call_once(
    endpoint: &Endpoint,
    request: &Request,
    limit: Duration,
) -> Result<Response, ClientError> {
    let attempt = async {
        let (mut io, _) = connect(endpoint).await?;
        let _said_by_the_answer = frame::write_counted(&mut io, &request.encode()).await;
        loop {
            if let Event::Response(response) = read(&mut io).await?.event {
                let busy = response.outcome.as_ref().is_err_and(|e| e.is(FailureCode::Busy));
                return if busy { Err(ClientError::Busy) } else { Ok(response) };
            }
        }
    };
    tokio::time::timeout(limit, attempt).await.unwrap_or(Err(ClientError::Slow(limit.as_millis())))
}

async fn connect(endpoint: &Endpoint) -> Result<(Io, Option<Listener>), ClientError> {
    let (io, listener): (Box<dyn Duplex>, _) = match endpoint {
        Endpoint::Unix(path) => {
            let stream = connect_unix(path).await?;
            let listener = Listener::of(&stream);
            (Box::new(stream), listener)
        }
        Endpoint::Tcp { port, token } => {
            let mut stream = TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, *port)).await.map_err(unconnected)?;
            stream.set_nodelay(true).map_err(ClientError::Io)?;
            // A port can be taken by anybody once its daemon is gone. What such a one learns is the token of a daemon that no longer is.
            frame::write_counted(&mut stream, token.expose().as_bytes()).await.map_err(ClientError::Io)?;
            (Box::new(stream), None)
        }
    };
    Ok((BufReader::new(io), listener))
}

/// Nobody listens there only if the system says so: a client out of descriptors knows nothing about its daemon.
fn unconnected(error: io::Error) -> ClientError {
    use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound, PermissionDenied};
    match error.kind() {
        ConnectionRefused | NotFound | NotADirectory | PermissionDenied => ClientError::NotListening(error),
        io::ErrorKind::WouldBlock => ClientError::Busy,
        _ => ClientError::Io(error),
    }
}

async fn connect_unix(path: &AbsPath) -> Result<UnixStream, ClientError> {
    let mut tries = 0;
    let stream = loop {
        match UnixStream::connect(path).await {
            Ok(stream) => break stream,
            // A full backlog. Unlike with TCP there is nothing to wait on but time.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && tries < 1000 => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(e) => return Err(unconnected(e)),
        }
    };
    let uid = stream.peer_cred().map_err(ClientError::Io)?.uid();
    if uid != our_uid() {
        return Err(ClientError::Foreign { path: path.clone(), uid });
    }
    Ok(stream)
}
