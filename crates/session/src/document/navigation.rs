//! The document's part in navigation: its index, and requests that wait for it or are corrected by it.

use std::future::Future;

use beam_base::Utf16Pos;
use beam_lean::ilean::Ident;
use serde_json::value::RawValue;
use tokio_util::task::AbortOnDropHandle;

use crate::document::state::Document;
use crate::message::{Defined, InDocument, ToDocument};
use crate::navigate;
use crate::pending::Place;
use crate::request::{Composed, Queued};

impl Document {
    /// Begins to answer what waits for the index, if that is complete.
    pub(super) fn answer_from_index(&mut self) {
        if !self.index.is_complete(self.mirror.version) {
            return;
        }
        for request in self.pending.take_indexed() {
            let Some(Composed::References { at, include_declaration }) = request.composed else { continue };
            let idents = self.index.refs().at(at);
            let (shared, router) = (self.shared.clone(), self.links.router.clone());
            let answer = async move { navigate::references(&shared, &router, idents, include_declaration).await };
            self.make(request, answer);
        }
    }

    pub(super) fn correct_definition(&mut self, request: Queued, at: Utf16Pos, links: Box<RawValue>) {
        let here = self.index.refs().at(at);
        let (shared, router, rename) = (self.shared.clone(), self.links.router.clone(), self.rename.clone());
        let answer = async move { navigate::definition(&shared, &router, links, here, rename.as_ref()).await };
        self.make(request, answer);
    }

    /// Has a task make the answer. The request stays in the table meanwhile, so it can be cancelled, and an edit or a deadline
    /// ends it like any other; the request's end, whatever it is, ends the task.
    pub(super) fn make(&mut self, mut request: Queued, answer: impl Future<Output = Box<RawValue>> + Send + 'static) {
        let (key, own) = (request.key, self.links.own.clone());
        let task = tokio::spawn(async move {
            let value = answer.await;
            if let Some(own) = own.upgrade() {
                own.send(ToDocument::Made { key, value }).ok();
            }
        });
        request.making = Some(AbortOnDropHandle::new(task));
        // What it sends comes to this very task, so it cannot be here before this.
        self.pending.insert(request, Place::Making);
    }

    /// Whether a changed file is among what this one imports. Lean tells the whole closure, but only of files it finds in its source
    /// path; without one it is empty, and the modules named in the header have to do.
    pub(super) fn imports(&self, uri: &str, module: Option<&str>) -> bool {
        self.import_closure.contains(uri)
            || self.direct_imports.iter().any(|import| Some(import.module.as_str()) == module)
    }

    pub(super) fn module(&mut self) -> Option<String> {
        self.index.own_module().map(str::to_owned).or_else(|| self.module.clone())
    }

    pub(super) fn locate(&mut self, idents: &[Ident]) -> InDocument {
        let (uri, module, refs) = (self.uri.clone(), self.module(), self.index.refs());
        let places = idents.iter().filter_map(|ident| refs.places(ident).cloned()).collect();
        InDocument { uri, module, speaks: !refs.is_empty(), places }
    }

    pub(super) fn defined(&mut self) -> Defined {
        let (uri, module, refs) = (self.uri.clone(), self.module(), self.index.refs());
        let names = refs.definitions().map(|(_, name, range)| (name.to_owned(), range)).collect();
        Defined { uri, module, speaks: !refs.is_empty(), names }
    }
}
