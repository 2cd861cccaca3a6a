//! The client's side of a connection.
//!
//! A client keeps its connection open until the response has arrived: a connection that ends early cancels the request.

use std::io;
use std::time::Duration;

use beam_base::AbsPath;
use beam_base::frame::{self, FrameError};
use beam_wire::stream::Event;
use beam_wire::{Request, Response, StreamMessage};
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::{TcpStream, UnixStream};

use super::FRAME_CAP;
use super::process::our_uid;
use super::registry::Token;

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

trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// One connection: one request out, events and a response in.
pub struct Connection {
    io: BufReader<Box<dyn Duplex>>,
}

impl Connection {
    /// Connects, and makes sure on a socket that the other side is our own user's process (D4).
    pub async fn open(endpoint: &Endpoint) -> Result<Self, ClientError> {
        let io: Box<dyn Duplex> = match endpoint {
            Endpoint::Unix(path) => Box::new(connect_unix(path).await?),
            Endpoint::Tcp { port, token } => {
                let mut stream = TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, *port))
                    .await
                    .map_err(ClientError::NotListening)?;
                stream.set_nodelay(true).map_err(ClientError::Io)?;
                // A port can be taken by anybody once its daemon is gone. What such a one learns is the token of a daemon that no longer is.
                frame::write_counted(&mut stream, token.expose().as_bytes()).await.map_err(ClientError::Io)?;
                Box::new(stream)
            }
        };
        Ok(Self { io: BufReader::new(io) })
    }

    /// Sends the request frame.
    ///
    /// A failing write is no failure yet: a daemon that refuses a frame (too large, too many connections) answers without
    /// reading all of it. What it has to say is read by [`Connection::next`].
    pub async fn send(&mut self, body: &[u8]) {
        let _said_by_next = frame::write_counted(&mut self.io, body).await;
    }

    /// The next message.
    pub async fn next(&mut self) -> Result<StreamMessage, ClientError> {
        match frame::read_counted(&mut self.io, FRAME_CAP).await {
            Ok(Some(body)) => StreamMessage::decode(&body).map_err(ClientError::Message),
            Ok(None) => Err(ClientError::Closed),
            Err(FrameError::Io(e)) if e.kind() == io::ErrorKind::ConnectionReset => Err(ClientError::Closed),
            Err(e) => Err(ClientError::Frame(e)),
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
            Err(e) => return Err(ClientError::NotListening(e)),
        }
    };
    let uid = stream.peer_cred().map_err(ClientError::Io)?.uid();
    if uid != our_uid() {
        return Err(ClientError::Foreign { path: path.clone(), uid });
    }
    Ok(stream)
}
