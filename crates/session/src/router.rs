//! The router task: which document task belongs to which path. Owns that map and the spare worker; never speaks LSP.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use beam_base::AbsPath;
use tokio::sync::{mpsc, oneshot};

use crate::document::{self, Links};
use crate::error::{RequestFailure, SessionError};
use crate::message::{ToDocument, ToRouter};
use crate::mirror::{Applied, Snapshot};
use crate::request::{Queued, tell};
use crate::shared::{Shared, Tally};
use crate::worker::Worker;

pub(crate) struct Router {
    shared: Arc<Shared>,
    /// For the document tasks. Weak, so that the tasks of a session do not keep each other alive after its last handle.
    own: mpsc::WeakUnboundedSender<ToRouter>,
    documents: HashMap<AbsPath, mpsc::UnboundedSender<ToDocument>>,
    spare: Option<Worker>,
    /// Cloned into every worker's supervisor; when all clones are gone, so are all processes.
    alive: mpsc::Sender<()>,
    all_gone: mpsc::Receiver<()>,
}

/// Whether the router goes on.
#[must_use]
enum Flow {
    Continue,
    Shutdown { grace: Duration, reply: oneshot::Sender<()> },
}

impl Router {
    pub(crate) fn new(shared: Arc<Shared>, own: mpsc::WeakUnboundedSender<ToRouter>) -> Self {
        let (alive, all_gone) = mpsc::channel(1);
        Self { shared, own, documents: HashMap::new(), spare: None, alive, all_gone }
    }

    /// Runs until the session is shut down or its last handle is dropped; in the latter case every worker is killed by its owner's drop.
    pub(crate) async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<ToRouter>) {
        while let Some(message) = inbox.recv().await {
            if let Flow::Shutdown { grace, reply } = self.handle(message) {
                self.shut_down(inbox, grace, reply).await;
                return;
            }
        }
    }

    fn handle(&mut self, message: ToRouter) -> Flow {
        match message {
            ToRouter::Apply { path, snap, reply } => self.apply(path, snap, reply),
            ToRouter::Request { path, request } => self.request(&path, request),
            ToRouter::Cancel { path, key } => {
                // A document that is gone has ended its requests.
                if let Some(document) = self.documents.get(&path) {
                    drop(document.send(ToDocument::Cancel { key }));
                }
            }
            ToRouter::Close { path, reply } => {
                let was_open =
                    self.documents.remove(&path).is_some_and(|document| document.send(ToDocument::Close).is_ok());
                tell(reply, was_open);
            }
            ToRouter::KillWorker { path, reply } => {
                if let Some(document) = self.documents.get(&path) {
                    drop(document.send(ToDocument::KillWorker { reply }));
                }
            }
            ToRouter::Documents { reply } => {
                tell(reply, self.ask_each(|reply| ToDocument::Info { reply }));
            }
            ToRouter::Document { path, reply } => {
                if let Some(document) = self.documents.get(&path) {
                    drop(document.send(ToDocument::Info { reply }));
                }
            }
            ToRouter::Locate { idents, reply } => {
                tell(reply, self.ask_each(|reply| ToDocument::Locate { idents: idents.clone(), reply }));
            }
            ToRouter::Definitions { reply } => tell(reply, self.ask_each(|reply| ToDocument::Definitions { reply })),
            ToRouter::Prestart { reply } => tell(reply, self.prestart()),
            ToRouter::Changed { uri, module } => {
                for document in self.documents.values() {
                    drop(document.send(ToDocument::DependencyChanged { uri: uri.clone(), module: module.clone() }));
                }
            }
            ToRouter::Shutdown { grace, reply } => return Flow::Shutdown { grace, reply },
        }
        Flow::Continue
    }

    /// Asks every document; the router does not wait for their answers.
    fn ask_each<T>(&self, question: impl Fn(oneshot::Sender<T>) -> ToDocument) -> Vec<oneshot::Receiver<T>> {
        let ask = |document: &mpsc::UnboundedSender<ToDocument>| {
            let (reply, answer) = oneshot::channel();
            drop(document.send(question(reply)));
            answer
        };
        self.documents.values().map(ask).collect()
    }

    fn apply(&mut self, path: AbsPath, snap: Snapshot, reply: oneshot::Sender<Applied>) {
        let (snap, reply) = match self.documents.get(&path) {
            None => (snap, reply),
            Some(document) => match document.send(ToDocument::Apply { snap, reply }) {
                // The task died of a defect; the document starts anew.
                Err(mpsc::error::SendError(ToDocument::Apply { snap, reply })) => (snap, reply),
                Ok(()) | Err(_) => return,
            },
        };
        let (document, inbox) = mpsc::unbounded_channel();
        let spare = self.spare.take().filter(|worker| !worker.is_dead());
        let links = Links { router: self.own.clone(), own: document.downgrade(), alive: self.alive.clone() };
        tokio::spawn(document::run(self.shared.clone(), links, path.clone(), snap, spare, inbox, reply));
        self.documents.insert(path, document);
    }

    fn request(&mut self, path: &AbsPath, request: Queued) {
        let Some(document) = self.documents.get(path) else {
            request.end(Err(RequestFailure::NotOpen(path.clone())));
            return;
        };
        if let Err(mpsc::error::SendError(ToDocument::Request(request))) = document.send(ToDocument::Request(request)) {
            self.documents.remove(path);
            request.end(Err(RequestFailure::Lost));
        }
    }

    fn prestart(&mut self) -> Result<(), SessionError> {
        if self.spare.as_ref().is_some_and(|worker| !worker.is_dead()) {
            return Ok(());
        }
        let process = self.shared.config.spawn.spawn(&[]).map_err(|error| SessionError::Spawn(error.to_string()))?;
        Tally::add(&self.shared.tally.worker_starts);
        self.spare = Some(Worker::adopt(process, &self.shared.config, self.alive.clone()));
        Ok(())
    }

    async fn shut_down(
        mut self,
        mut inbox: mpsc::UnboundedReceiver<ToRouter>,
        grace: Duration,
        reply: oneshot::Sender<()>,
    ) {
        // From here on sends fail, and what was queued before is ended here, so no caller waits for nobody.
        inbox.close();
        let mut waiting = vec![reply];
        while let Ok(message) = inbox.try_recv() {
            match message {
                ToRouter::Shutdown { reply, .. } => waiting.push(reply),
                other => other.refuse(RequestFailure::SessionClosed),
            }
        }
        for document in self.documents.into_values() {
            drop(document.send(ToDocument::Shutdown { grace }));
        }
        if let Some(spare) = self.spare.take() {
            spare.retire(grace);
        }
        drop(self.alive);
        // Nothing is ever sent here: this resolves when the last clone of the sender is dropped.
        self.all_gone.recv().await;
        for reply in waiting {
            tell(reply, ());
        }
    }
}
