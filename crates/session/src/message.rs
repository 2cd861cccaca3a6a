//! What the tasks of a session say to each other: closed enums, and nothing that acts on them.

use std::sync::Arc;
use std::time::Duration;

use beam_base::{AbsPath, Utf16Range};
use beam_lean::ilean::{Ident, Places};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::error::{RequestFailure, SessionError};
use crate::info::DocumentInfo;
use crate::mirror::{Applied, Snapshot};
use crate::request::Queued;
use crate::setup::SetupReport;

/// Everything a handle, or a document task, may ask of the router.
pub(crate) enum ToRouter {
    Apply {
        path: AbsPath,
        snap: Snapshot,
        reply: oneshot::Sender<Applied>,
    },
    Request {
        path: AbsPath,
        request: Queued,
    },
    Cancel {
        path: AbsPath,
        key: u64,
    },
    Close {
        path: AbsPath,
        reply: oneshot::Sender<bool>,
    },
    KillWorker {
        path: AbsPath,
        reply: oneshot::Sender<bool>,
    },
    Documents {
        reply: oneshot::Sender<Vec<oneshot::Receiver<DocumentInfo>>>,
    },
    Document {
        path: AbsPath,
        reply: oneshot::Sender<DocumentInfo>,
    },
    Prestart {
        reply: oneshot::Sender<Result<(), SessionError>>,
    },
    /// A document's text changed; open importers of it are to be told.
    Changed {
        uri: String,
        module: Option<String>,
    },
    /// What every open document knows of these identifiers.
    Locate {
        idents: Arc<[Ident]>,
        reply: oneshot::Sender<Vec<oneshot::Receiver<InDocument>>>,
    },
    /// What every open document defines.
    Definitions {
        reply: oneshot::Sender<Vec<oneshot::Receiver<Defined>>>,
    },
    Shutdown {
        grace: Duration,
        reply: oneshot::Sender<()>,
    },
}

impl ToRouter {
    /// Ends a message nobody will handle. All but requests end by dropping their reply channel.
    pub(crate) fn refuse(self, failure: RequestFailure) {
        if let Self::Request { request, .. } = self {
            request.end(Err(failure));
        }
    }
}

/// Everything that may be asked of a document task.
pub(crate) enum ToDocument {
    Apply {
        snap: Snapshot,
        reply: oneshot::Sender<Applied>,
    },
    Request(Queued),
    Cancel {
        key: u64,
    },
    KillWorker {
        reply: oneshot::Sender<bool>,
    },
    Info {
        reply: oneshot::Sender<DocumentInfo>,
    },
    DependencyChanged {
        uri: String,
        module: Option<String>,
    },
    Locate {
        idents: Arc<[Ident]>,
        reply: oneshot::Sender<InDocument>,
    },
    Definitions {
        reply: oneshot::Sender<Defined>,
    },
    /// The answer to a composed request.
    Made {
        key: u64,
        value: Box<RawValue>,
    },
    /// A line of the log of what is done before a worker starts, as a diagnostic.
    SetupLine {
        round: u64,
        item: Value,
    },
    /// The imports are as ready as they will be.
    SetUp {
        round: u64,
        report: SetupReport,
    },
    Close,
    Shutdown {
        grace: Duration,
    },
}

/// What an open document knows of some identifiers.
pub(crate) struct InDocument {
    pub(crate) uri: String,
    pub(crate) module: Option<String>,
    /// Whether it knows anything yet; if not, its built state has to do.
    pub(crate) speaks: bool,
    pub(crate) places: Vec<Places>,
}

/// What an open document defines.
pub(crate) struct Defined {
    pub(crate) uri: String,
    pub(crate) module: Option<String>,
    pub(crate) speaks: bool,
    pub(crate) names: Vec<(String, Utf16Range)>,
}
