//! Every way in which a request or a session can fail. Classified into public codes elsewhere; nobody parses a message.

use std::fmt;

use beam_base::AbsPath;
use beam_base::rpc::RpcError;

use crate::process::EndStatus;

/// Why a request did not get its result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RequestFailure {
    /// The worker answered with an error; code, message and data are its own.
    #[error("the server answered with error {}: {}", .0.code, .0.message)]
    Server(RpcError),
    /// The caller cancelled it.
    #[error("the request was cancelled")]
    Cancelled,
    /// Its deadline passed.
    #[error("the request ran into its deadline")]
    TimedOut,
    /// It names another version than the mirror's; nothing was sent.
    #[error("the document is at version {accepted}, the request is about version {expected}")]
    StaleVersion {
        /// The version the caller named.
        expected: u64,
        /// The tracked version.
        accepted: u64,
        /// The document.
        uri: String,
    },
    /// The document moved on while the request was pending.
    #[error("the document was {how} while the request was pending")]
    ContentModified {
        /// What happened to it.
        how: Modified,
        /// The version the request was about, if it named one.
        expected: Option<u64>,
        /// The document.
        uri: String,
    },
    /// The worker process is gone, or could not be started.
    #[error(transparent)]
    WorkerExited(Box<WorkerExit>),
    /// What the document imports would have to be built, and may not be. No worker was started.
    #[error("building {} is not allowed", .modules.join(", "))]
    BuildRefused {
        /// What would have to be built.
        modules: Vec<String>,
        /// The document.
        uri: String,
    },
    /// The document is not open in this session.
    #[error("{0} is not open")]
    NotOpen(AbsPath),
    /// The session was shut down.
    #[error("the session is closed")]
    SessionClosed,
    /// A task of the session died without ending the request; a defect of ours.
    #[error("the session lost the request")]
    Lost,
}

/// What ended a pending request about a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modified {
    /// A newer text was applied; the version it got.
    Edited {
        /// The tracked version after the edit.
        version: u64,
    },
    /// The document was closed.
    Closed,
}

impl fmt::Display for Modified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Edited { version } => write!(f, "edited (now version {version})"),
            Self::Closed => f.write_str("closed"),
        }
    }
}

/// How a worker was lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.describe())]
pub struct WorkerExit {
    /// Why.
    pub reason: ExitReason,
    /// Exit status, when the process ended by itself.
    pub status: Option<EndStatus>,
    /// The last lines it wrote to stderr (S7); may be empty.
    pub stderr_tail: Vec<String>,
    /// The document it served.
    pub uri: String,
}

impl WorkerExit {
    fn describe(&self) -> String {
        let mut text = format!("the file worker of {} {}", self.uri, self.reason);
        if let Some(status) = self.status {
            text.push_str(&format!(" ({status})"));
        }
        if let Some(last) = self.stderr_tail.iter().rev().find(|line| !line.trim().is_empty()) {
            text.push_str(&format!("; its last words: {last}"));
        }
        text
    }
}

/// Why a worker was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitReason {
    /// It ended by itself after it had spoken.
    Crash,
    /// It ended before it said anything.
    StartFailed,
    /// The process could not be created.
    SpawnFailed(String),
    /// It kept running text whose request was cancelled, and was replaced.
    RefusedCancel,
    /// It went on elaborating a text that had been replaced, and was replaced itself.
    AbandonedElaboration,
    /// It wrote something that is no message of the protocol, and was killed.
    Garbage(String),
    /// It did not read its input for too long, and was killed.
    Unresponsive,
    /// It was replaced because the file's header changed, and the request was not to be sent again.
    Replaced,
    /// It was killed on request.
    Killed,
}

impl ExitReason {
    /// The cause in a few words, for an answer of the worker that follows.
    pub(crate) fn cause(&self) -> String {
        match self {
            Self::AbandonedElaboration => "an elaboration of an earlier text did not stop".to_owned(),
            Self::RefusedCancel => "a cancelled request did not stop".to_owned(),
            other => format!("the file's worker {other}"),
        }
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash => f.write_str("ended unexpectedly"),
            Self::StartFailed => f.write_str("ended before it was ready"),
            Self::SpawnFailed(why) => write!(f, "could not be started: {why}"),
            Self::RefusedCancel => f.write_str("ignored a cancellation and was replaced"),
            Self::AbandonedElaboration => write!(f, "was replaced: {}", self.cause()),
            Self::Garbage(what) => write!(f, "broke the protocol and was killed: {what}"),
            Self::Unresponsive => f.write_str("stopped reading its input and was killed"),
            Self::Replaced => f.write_str("was replaced after a change of the file's header"),
            Self::Killed => f.write_str("was killed"),
        }
    }
}

/// Why the session could not do something other than a request.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    /// The session was shut down, or its tasks are gone with their runtime.
    #[error("the session is closed")]
    Closed,
    /// A worker process could not be created.
    #[error("cannot start a file worker: {0}")]
    Spawn(String),
}
