//! The other end of an LSP connection, driven step by step. It does what it is told and nothing by itself: no answer is
//! given, no message is swallowed, unless a test says so.

use beam_base::frame::{self, FrameError};
use beam_base::rpc::{BadMessage, Incoming, RequestId};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{self, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

/// Frames the peer accepts.
const CAP: usize = 64 << 20;

/// A message the peer received.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// A request.
    Request {
        /// Its id as spelled.
        id: Value,
        /// Method.
        method: String,
        /// Parameters, `null` if absent.
        params: Value,
    },
    /// A notification.
    Notification {
        /// Method.
        method: String,
        /// Parameters, `null` if absent.
        params: Value,
    },
    /// An answer to a request of the peer's.
    Response {
        /// Id of that request.
        id: Value,
        /// Result or error object.
        outcome: Result<Value, Value>,
    },
}

impl Message {
    /// Its method; none for a response.
    #[must_use]
    pub fn method(&self) -> Option<&str> {
        match self {
            Self::Request { method, .. } | Self::Notification { method, .. } => Some(method),
            Self::Response { .. } => None,
        }
    }

    /// Its parameters; `null` for a response.
    #[must_use]
    pub fn params(&self) -> &Value {
        match self {
            Self::Request { params, .. } | Self::Notification { params, .. } => params,
            Self::Response { .. } => &Value::Null,
        }
    }

    /// Its id; `null` for a notification.
    #[must_use]
    pub fn id(&self) -> &Value {
        match self {
            Self::Request { id, .. } | Self::Response { id, .. } => id,
            Self::Notification { .. } => &Value::Null,
        }
    }

    /// The whole as one JSON value, for [`Value::pointer`].
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Request { id, method, params } => json!({"id": id, "method": method, "params": params}),
            Self::Notification { method, params } => json!({"method": method, "params": params}),
            Self::Response { id, outcome: Ok(result) } => json!({"id": id, "result": result}),
            Self::Response { id, outcome: Err(error) } => json!({"id": id, "error": error}),
        }
    }
}

/// Why the peer could not do its step.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The other side closed the connection.
    #[error("the connection was closed while waiting for {0}")]
    Closed(String),
    /// Something else came.
    #[error("expected {expected}, got {got}")]
    Unexpected {
        /// What the step was waiting for.
        expected: String,
        /// What came, as JSON.
        got: String,
    },
    /// What came is no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// What came is no message.
    #[error(transparent)]
    Message(#[from] BadMessage),
    /// Writing failed.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
    /// Not JSON where JSON was to be.
    #[error("bad JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A script that cannot be followed.
    #[error("bad script: {0}")]
    Script(String),
}

/// The other end of an LSP connection.
pub struct Peer {
    reader: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Peer {
    /// A peer that reads messages from `reader` and writes its own to `writer`.
    #[must_use]
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self { reader: BufReader::new(Box::new(reader)), writer: Box::new(writer) }
    }

    /// The next message; `None` at the end of the connection.
    pub async fn next(&mut self) -> Result<Option<Message>, PeerError> {
        let Some(body) = frame::read_lsp(&mut self.reader, CAP).await? else { return Ok(None) };
        let value = |raw: Option<Box<RawValue>>| raw.map_or(Ok(Value::Null), |raw| serde_json::from_str(raw.get()));
        let id_value = |id: &RequestId| serde_json::from_str(id.as_json());
        Ok(Some(match Incoming::parse(&body)? {
            Incoming::Request { id, method, params } => {
                Message::Request { id: id_value(&id)?, method, params: value(params)? }
            }
            Incoming::Notification { method, params } => Message::Notification { method, params: value(params)? },
            Incoming::Response { id, outcome } => Message::Response {
                id: id.as_ref().map_or(Ok(Value::Null), id_value)?,
                outcome: match outcome {
                    Ok(result) => Ok(value(Some(result))?),
                    Err(error) => Err(serde_json::to_value(error)?),
                },
            },
        }))
    }

    /// The next message, which must be a request or notification of this method.
    pub async fn expect(&mut self, method: &str) -> Result<Message, PeerError> {
        match self.next().await? {
            None => Err(PeerError::Closed(format!("`{method}`"))),
            Some(message) if message.method() == Some(method) => Ok(message),
            Some(message) => {
                Err(PeerError::Unexpected { expected: format!("`{method}`"), got: message.to_json().to_string() })
            }
        }
    }

    /// The next message, which must be the answer to the peer's request `id`.
    pub async fn expect_response(&mut self, id: &Value) -> Result<Result<Value, Value>, PeerError> {
        let expected = || format!("the response to {id}");
        match self.next().await? {
            None => Err(PeerError::Closed(expected())),
            Some(Message::Response { id: got, outcome }) if got == *id => Ok(outcome),
            Some(message) => Err(PeerError::Unexpected { expected: expected(), got: message.to_json().to_string() }),
        }
    }

    /// Reads on until the other side closes the connection, and returns what came.
    pub async fn until_closed(&mut self) -> Result<Vec<Message>, PeerError> {
        let mut seen = Vec::new();
        while let Some(message) = self.next().await? {
            seen.push(message);
        }
        Ok(seen)
    }

    /// Answers a request.
    pub async fn reply(&mut self, to: &Message, result: impl Serialize) -> Result<(), PeerError> {
        self.send(&json!({"jsonrpc": "2.0", "id": to.id(), "result": result})).await
    }

    /// Answers a request with an error.
    pub async fn reply_error(&mut self, to: &Message, code: i64, message: &str) -> Result<(), PeerError> {
        self.send(&json!({"jsonrpc": "2.0", "id": to.id(), "error": {"code": code, "message": message}})).await
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: impl Serialize) -> Result<(), PeerError> {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await
    }

    /// Sends a request under an id of the peer's.
    pub async fn ask(&mut self, id: impl Serialize, method: &str, params: impl Serialize) -> Result<(), PeerError> {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await
    }

    /// Sends any JSON as a well-formed frame.
    pub async fn send(&mut self, message: &Value) -> Result<(), PeerError> {
        frame::write_lsp(&mut self.writer, &serde_json::to_vec(message)?).await?;
        Ok(())
    }

    /// Writes bytes as they are.
    pub async fn raw(&mut self, bytes: &[u8]) -> Result<(), PeerError> {
        self.writer.write_all(bytes).await?;
        self.writer.flush().await?;
        Ok(())
    }

    /// Writes the first `keep` bytes of a frame, and no more of it.
    pub async fn half_frame(&mut self, message: &Value, keep: usize) -> Result<(), PeerError> {
        let mut whole = Vec::new();
        frame::write_lsp(&mut whole, &serde_json::to_vec(message)?).await?;
        whole.truncate(keep);
        self.raw(&whole).await
    }
}
