//! Watching a document while a request is pending, and telling the client about it in order (R4).

use std::collections::HashSet;

use beam_session::{Observation, Observations, Pending, Published, Reply, RequestFailure};
use beam_wire::document::DiagnosticScope;
use beam_wire::stream::Event;
use beam_wire::{Progress, StreamDiagnostic};
use tokio::sync::mpsc;

use super::diagnostics::{self, DocumentName};

/// Which diagnostics a request lets through while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// None.
    Nothing,
    /// Lake's build log only: a probe waits for the imports, and wants to see why.
    SetupLines,
    /// By scope.
    Scope(DiagnosticScope),
}

/// A request's view of its document.
#[derive(Debug)]
pub(crate) struct Observer {
    name: DocumentName,
    show: Shown,
    events: mpsc::Sender<Event>,
    /// What was sent already: identical diagnostics go out once in a request.
    sent: HashSet<String>,
    /// The last publish seen; each replaces the one before, or adds to it.
    published: Option<Vec<StreamDiagnostic>>,
    /// The same as the worker wrote it.
    latest: Option<Published>,
    progress: Option<Progress>,
}

impl Observer {
    pub(crate) fn new(name: DocumentName, show: Shown, events: mpsc::Sender<Event>) -> Self {
        Self { name, show, events, sent: HashSet::new(), published: None, latest: None, progress: None }
    }

    /// Waits for the reply. Everything observed before it has gone out when this returns.
    pub(crate) async fn until(
        &mut self,
        mut pending: Pending,
        mut seen: Observations,
    ) -> Result<Reply, RequestFailure> {
        loop {
            tokio::select! {
                biased;
                Some(observation) = seen.recv() => self.observe(observation).await,
                outcome = &mut pending => {
                    // What came before the reply is already here.
                    while let Some(observation) = seen.try_recv() {
                        self.observe(observation).await;
                    }
                    return outcome;
                }
            }
        }
    }

    async fn observe(&mut self, observation: Observation) {
        match observation {
            Observation::Progress(p) => {
                let p = progress(p);
                self.progress = Some(p);
                self.send(Event::FileProgress(p)).await;
            }
            Observation::Diagnostics(list) => self.publish(list).await,
            Observation::BuildLine { version, item } => {
                if let Ok(lines) = diagnostics::read(&[item], Some(version), &self.name) {
                    self.show(&lines).await;
                }
            }
            // The new worker starts over: what the old one published is about another environment.
            Observation::Resent => (self.latest, self.published) = (None, None),
            // What the file printed besides is in the reply and in the document's description.
            _ => {}
        }
    }

    async fn publish(&mut self, list: Published) {
        // Mostly the list before and a few more: only those are read.
        let more = self.latest.as_ref().and_then(|before| list.items_since(before));
        let continues = more.is_some();
        let read = more.unwrap_or_else(|| list.items()).map_err(|error| error.to_string());
        let version = Some(list.version());
        self.latest = Some(list);
        let new = read.and_then(|items| diagnostics::read(&items, version, &self.name).map_err(|e| e.to_string()));
        match new {
            Ok(new) => {
                self.show(&new).await;
                match &mut self.published {
                    Some(all) if continues => all.extend(new),
                    published => *published = Some(new),
                }
            }
            // The barrier's own reply holds the authoritative list; a publish nobody understands is only not shown.
            Err(error) => tracing::warn!(%error, uri = self.name.uri, "unreadable publishDiagnostics"),
        }
    }

    /// Sends what the request shows of a list and has not sent yet.
    pub(crate) async fn show(&mut self, all: &[StreamDiagnostic]) {
        let shown: Vec<&StreamDiagnostic> = match self.show {
            Shown::Nothing => Vec::new(),
            Shown::SetupLines => all.iter().filter(|d| diagnostics::is_setup_line(d)).collect(),
            Shown::Scope(scope) => diagnostics::in_scope(scope, all),
        };
        for d in shown {
            let key = serde_json::to_string(d).unwrap_or_default();
            if self.sent.insert(key) {
                self.send(Event::Diagnostic(d.clone())).await;
            }
        }
    }

    /// The last publish seen while waiting, if any.
    pub(crate) fn published(&self) -> Option<&[StreamDiagnostic]> {
        self.published.as_deref()
    }

    /// Progress as far as observed by this request.
    pub(crate) fn progress(&self) -> Option<Progress> {
        self.progress
    }

    async fn send(&self, event: Event) {
        // A client that is gone is noticed by the front, which drops this whole request; until then there is nobody to tell.
        match event {
            // Progress is about now: a client that does not keep up misses some, and the request does not wait for it.
            Event::FileProgress(_) => drop(self.events.try_send(event)),
            Event::Diagnostic(_) | Event::Response(_) => drop(self.events.send(event).await),
        }
    }
}

/// The session's bookkeeping as the wire spells it.
pub(crate) fn progress(p: beam_session::Progress) -> Progress {
    let line = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Progress {
        updates: p.updates,
        done: p.done,
        range_start_line: p.range_start_line.map(line),
        range_end_line: p.range_end_line.map(line),
    }
}
