//! What Lean's watchdog answers in a worker's stead: references, workspace symbols, and where definitions are *now*.
//!
//! A worker knows its own file and the built state of its imports. Positions in other files come from the index: open documents
//! speak for themselves, built modules through their `.ilean` files. This module decides; the document task keeps the request.

use std::collections::BTreeSet;
use std::sync::Arc;

use beam_base::{Utf16Range, uri};
use beam_lean::ilean::{Ident, Rename};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::library::{Covered, Definition, InFile, IndexRoots};
use crate::message::ToRouter;
use crate::shared::Shared;

/// How many symbols one answer holds at most; as Lean's watchdog.
const MAX_SYMBOLS: usize = 100;
/// LSP's `SymbolKind.Constant`, the only kind the reference data tells.
const CONSTANT: u32 = 14;

/// A place in a file, as LSP spells it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Location {
    /// The file.
    pub uri: String,
    /// Where in it.
    pub range: Utf16Range,
}

/// A definition found by name, as LSP's `SymbolInformation`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Symbol {
    /// Its full name.
    pub name: String,
    /// LSP symbol kind; always that of a constant.
    pub kind: u32,
    /// Where it is defined.
    pub location: Location,
}

/// The way to the documents. Weak: an answer in the making keeps no session alive.
pub(crate) type Router = mpsc::WeakUnboundedSender<ToRouter>;

/// Asks every open document something through the router.
async fn ask_all<T>(
    router: Option<mpsc::UnboundedSender<ToRouter>>,
    question: impl FnOnce(oneshot::Sender<Vec<oneshot::Receiver<T>>>) -> ToRouter,
) -> Vec<T> {
    let (reply, asked) = oneshot::channel();
    // A session that is gone, or a document closed meanwhile, knows nothing.
    if router.is_none_or(|router| router.send(question(reply)).is_err()) {
        return Vec::new();
    }
    let mut answers = Vec::new();
    for answer in asked.await.unwrap_or_default() {
        answers.extend(answer.await.ok());
    }
    answers
}

/// What is wanted to be known of some identifiers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Where they are defined: the identifier names the one module that can say so.
    Definition,
    /// Everywhere they stand: any module may.
    Everything,
}

/// Everything the documents and the library know about these identifiers. Dropping the future stops the search.
async fn locate(shared: &Arc<Shared>, router: &Router, idents: Vec<Ident>, wanted: Wanted) -> Vec<InFile> {
    if idents.is_empty() {
        return Vec::new();
    }
    let idents: Arc<[Ident]> = idents.into();
    let asked = idents.clone();
    let mut covered = Covered::default();
    let mut found = Vec::new();
    for document in ask_all(router.upgrade(), |reply| ToRouter::Locate { idents: asked, reply }).await {
        if document.speaks {
            covered.modules.extend(document.module);
            covered.uris.insert(document.uri.clone());
        }
        found.extend(document.places.into_iter().map(|places| InFile { uri: document.uri.clone(), places }));
    }
    let shared = shared.clone();
    found.extend(
        search(move |stop| match wanted {
            Wanted::Definition => shared.library.find_definitions(&idents, &covered),
            Wanted::Everything => shared.library.find(&idents, &covered, stop),
        })
        .await,
    );
    found
}

/// Searches files on a thread that may block. A thread cannot be interrupted, so it looks at the token, which dropping this sets.
async fn search<T: Send + 'static>(work: impl FnOnce(&CancellationToken) -> Vec<T> + Send + 'static) -> Vec<T> {
    let stop = CancellationToken::new();
    let _guard = stop.clone().drop_guard();
    tokio::task::spawn_blocking(move || work(&stop)).await.unwrap_or_default()
}

/// The answer to `textDocument/references`: places in file order, none twice.
pub(crate) async fn references(
    shared: &Arc<Shared>,
    router: &Router,
    idents: Vec<Ident>,
    include_declaration: bool,
) -> Box<RawValue> {
    let found = locate(shared, router, idents, Wanted::Everything).await;
    let mut locations = BTreeSet::new();
    for InFile { uri, places } in found {
        let definition = places.definition.filter(|_| include_declaration);
        locations
            .extend(places.usages.iter().copied().chain(definition).map(|range| Location { uri: uri.clone(), range }));
    }
    raw(&locations)
}

/// The answer to `textDocument/definition`: the worker's links without Lean's own fields, moved to where the index says.
pub(crate) async fn definition(
    shared: &Arc<Shared>,
    router: &Router,
    worker: Box<RawValue>,
    here: Vec<Ident>,
    rename: Option<&Rename>,
) -> Box<RawValue> {
    let Ok(mut links) = serde_json::from_str::<Vec<Value>>(worker.get()) else {
        // `null`, or a shape of a release to come: the worker's word stands.
        return worker;
    };
    let is_default = |link: &Value| link.get("isDefault").and_then(Value::as_bool) == Some(true);
    if links.iter().all(is_default) {
        // Only guesses, such as the elaborator of a syntax: what the index says about this place is better.
        let found = locate(shared, router, here, Wanted::Definition).await;
        let known: BTreeSet<_> = found
            .into_iter()
            .filter_map(|it| it.places.definition.map(|range| Location { uri: it.uri, range }))
            .collect();
        if !known.is_empty() {
            let links = known
                .into_iter()
                .map(|at| json!({"targetUri": at.uri, "targetRange": at.range, "targetSelectionRange": at.range}));
            return raw(&links.collect::<Vec<_>>());
        }
    }
    for link in &mut links {
        let Some(fields) = link.as_object_mut() else { continue };
        fields.shift_remove("isDefault");
        let ident = fields.shift_remove("ident").and_then(|it| link_ident(&it, shared.library.roots(), rename));
        let Some(ident) = ident else { continue };
        let found = locate(shared, router, vec![ident], Wanted::Definition).await;
        let Some((uri, range)) = found.into_iter().find_map(|it| it.places.definition.map(|range| (it.uri, range)))
        else {
            continue;
        };
        let range = json!(range);
        // The worker's ranges are wider and better where they are about the same place.
        if fields.get("targetUri").and_then(Value::as_str) != Some(&uri)
            || fields.get("targetSelectionRange") != Some(&range)
        {
            fields.insert("targetUri".into(), uri.into());
            fields.insert("targetRange".into(), range.clone());
            fields.insert("targetSelectionRange".into(), range);
        }
    }
    raw(&links)
}

#[derive(Deserialize)]
struct LinkIdent {
    decl: String,
    #[serde(default)]
    module: Option<String>,
    #[serde(default)]
    uri: Option<String>,
}

/// The identifier a link is about: named by module, or by URI in some releases.
fn link_ident(value: &Value, roots: &IndexRoots, rename: Option<&Rename>) -> Option<Ident> {
    let ident = LinkIdent::deserialize(value).ok()?;
    let module = ident.module.or_else(|| roots.module_of(&uri::to_path(&ident.uri?)?))?;
    let (module, name) = match rename {
        Some(rename) => (rename.apply(&module), rename.apply_in_private(ident.decl)),
        None => (module, ident.decl),
    };
    Some(Ident::Const { module, name })
}

/// Definitions whose names match, the best first.
pub(crate) async fn symbols(shared: &Arc<Shared>, router: mpsc::UnboundedSender<ToRouter>, query: &str) -> Vec<Symbol> {
    if query.is_empty() {
        return Vec::new();
    }
    let mut covered = Covered::default();
    let mut found = Vec::new();
    for document in ask_all(Some(router), |reply| ToRouter::Definitions { reply }).await {
        if document.speaks {
            covered.modules.extend(document.module);
            covered.uris.insert(document.uri.clone());
        }
        let named = document.names.into_iter().filter(|(name, _)| score(query, name).is_some());
        found.extend(named.map(|(name, range)| Definition { name, uri: document.uri.clone(), range }));
    }
    let (shared, asked) = (shared.clone(), query.to_owned());
    let built = move |stop: &CancellationToken| {
        shared.library.definitions(|name| score(&asked, name).is_some(), &covered, stop)
    };
    found.extend(search(built).await);
    let mut scored: Vec<_> = found.into_iter().filter_map(|it| Some((score(query, &it.name)?, it))).collect();
    scored.sort_by(|(a, x), (b, y)| a.cmp(b).then_with(|| (&x.name, &x.uri).cmp(&(&y.name, &y.uri))));
    scored.truncate(MAX_SYMBOLS);
    let symbol = |it: Definition| Symbol {
        name: shown(&it.name).to_owned(),
        kind: CONSTANT,
        location: Location { uri: it.uri, range: it.range },
    };
    scored.into_iter().map(|(_, it)| symbol(it)).collect()
}

/// A name as its author wrote it: a private one carries `_private.<module>.0.` in front.
fn shown(name: &str) -> &str {
    let Some(rest) = name.strip_prefix("_private.") else { return name };
    let mut quoted = false;
    for (at, c) in rest.char_indices() {
        match c {
            '«' => quoted = true,
            '»' => quoted = false,
            // A quoted part may hold anything, file names in particular.
            '.' if !quoted => {
                if let Some(plain) = rest.get(at..).and_then(|tail| tail.strip_prefix(".0.")) {
                    return plain;
                }
            }
            _ => {}
        }
    }
    rest
}

/// How badly a name matches, lower is better: kind of match, then length. `None` if it does not, or is a name Lean made up.
fn score(query: &str, name: &str) -> Option<(u8, usize)> {
    let name = shown(name);
    if name.split('.').any(|part| part.starts_with('_')) {
        return None;
    }
    let (wanted, lower) = (query.to_lowercase(), name.to_lowercase());
    let last = lower.rsplit('.').next().unwrap_or_default();
    let kind = if name == query {
        0
    } else if lower == wanted || last == wanted {
        1
    } else if last.starts_with(&wanted) {
        2
    } else if lower.starts_with(&wanted) {
        3
    } else if lower.contains(&wanted) {
        4
    } else if is_subsequence(&wanted, &lower) {
        5
    } else {
        return None;
    };
    Some((kind, name.len()))
}

fn is_subsequence(wanted: &str, name: &str) -> bool {
    let mut chars = name.chars();
    wanted.chars().all(|c| chars.any(|it| it == c))
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    // Our own plain structures always serialise.
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_names_come_first() {
        let mut names = [
            "Nat.add_comm",
            "add",
            "Nat.add",
            "Nat.Add.foo",
            "Nat.toadd",
            "Nat.a_d_d",
            "Nat.sub",
            "_eval.add",
            "X._add",
        ];
        names.sort_by_key(|name| score("add", name).map_or((9, 0), |it| it));
        let matching: Vec<_> = names.into_iter().filter(|name| score("add", name).is_some()).collect();
        assert_eq!(matching, ["add", "Nat.add", "Nat.add_comm", "Nat.toadd", "Nat.Add.foo", "Nat.a_d_d"]);
        assert_eq!(score("hid", "_private.A.B.0.N.hid"), score("hid", "N.hid"));
        assert_eq!(shown("_private.«external:file:///a.0.b».0.N.hid"), "N.hid");
        assert_eq!(shown("_private.A.B"), "A.B");
    }

    /// A thread cannot be interrupted; it is told when nobody waits for it any more.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_search_stops_with_whoever_waits_for_it() {
        let (begun, has_begun) = oneshot::channel();
        let (ended, has_ended) = oneshot::channel();
        let work = search(move |stop: &CancellationToken| {
            begun.send(()).unwrap();
            while !stop.is_cancelled() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
            Vec::<()>::new()
        });
        let task = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(work));
        has_begun.await.unwrap();
        drop(task);
        has_ended.await.unwrap();
    }
}
