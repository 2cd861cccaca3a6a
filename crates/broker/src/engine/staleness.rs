//! Whether a document's worker still sees its imports as they are (sync and save section 3; broker protocol section 10).
//!
//! Two sources. What the worker was started with is known exactly ([`SetupReport`]): a workspace file that holds another text now makes its
//! importers stale, whether anybody told us of the change or not. And there is the history of syncs and saves, which speaks where
//! nobody knows what text an artifact was made from. Knowing goes before remembering: a dependency that the worker saw in its present text
//! is no hint, whatever happened to it in between.

use std::sync::Arc;

use beam_base::AbsPath;
use beam_session::{ImportedSource, SetupReport};
use beam_wire::StreamDiagnostic;

use super::diagnostics::{DocumentName, FIRST_LINE};
use super::disk::DiskSilent;
use super::history::StaleDep;
use super::live::LiveSession;

/// What stands between a document and a verdict that can be believed.
#[derive(Debug, Default)]
pub(super) struct Staleness {
    /// Direct imports that moved on, in header order.
    pub(super) deps: Vec<StaleDep>,
    /// Diagnostics that say why the imports are not in order.
    pub(super) evidence: Vec<StreamDiagnostic>,
    /// The worker must be replaced, whatever this request did to the document.
    pub(super) certain: bool,
}

impl Staleness {
    /// Whether the barrier is incomplete because of it. A document that was just opened or edited passes once its dependencies need
    /// nothing more.
    pub(super) fn blocks(&self, changed: bool) -> bool {
        self.certain || (!self.deps.is_empty() && (!changed || self.deps.iter().any(|d| d.needs_save)))
    }
}

/// Looks at the disk; cheap, as only files whose time or length changed are read.
///
/// # Errors
/// The disk does not answer: then nothing is known, and the barrier must not pass.
pub(super) async fn look(
    live: &Arc<LiveSession>,
    root: &AbsPath,
    name: &DocumentName,
    direct: &[String],
    setup: Option<Arc<SetupReport>>,
) -> Result<Staleness, DiskSilent> {
    let mut found = Staleness::default();
    let Some(setup) = setup else {
        found.deps = hints(live, root, &name.path, direct, None).await?;
        return Ok(found);
    };
    if let Some(problem) = &setup.problem {
        found.evidence.push(top(name, problem.clone()));
        found.certain = true;
    }
    let moved = moved(live, Arc::clone(&setup)).await?;
    found.deps = hints(live, root, &name.path, direct, setup.built.then_some(&*setup)).await?;
    for source in moved {
        found.certain = true;
        let path = source.path.display_in(root);
        let message = format!(
            "Imports are out of date and should be rebuilt: `{path}` changed on disk after they were loaded. Refresh this file."
        );
        found.evidence.push(top(name, message));
        let is_direct = direct.contains(&source.module);
        if is_direct && found.deps.iter().all(|d| d.module != source.module) {
            // Its present text was never synced: reading it anew, with its artifact, is all there is to do.
            found.deps.push(StaleDep { module: source.module, path, needs_save: false });
        }
    }
    found.deps.sort_by_key(|d| direct.iter().position(|m| *m == d.module));
    Ok(found)
}

/// Files that no longer hold the text with which they were imported.
pub(super) async fn moved(live: &LiveSession, setup: Arc<SetupReport>) -> Result<Vec<ImportedSource>, DiskSilent> {
    live.disk.need(move || setup.imports.iter().filter(|s| !s.is_current()).cloned().collect()).await
}

/// What the history has against the document, less what is known to be in order.
async fn hints(
    live: &Arc<LiveSession>,
    root: &AbsPath,
    relative: &str,
    direct: &[String],
    seen: Option<&SetupReport>,
) -> Result<Vec<StaleDep>, DiskSilent> {
    let mut deps = {
        let history = live.history();
        let mut deps = history.stale_deps(relative, direct);
        if let Some(seen) = seen {
            deps.retain(|d| {
                let loaded = seen.imports.iter().find(|s| s.module == d.module).map(|s| s.hash);
                loaded.is_none() || loaded != history.known(&d.module).map(|(hash, _)| hash)
            });
        }
        deps
    };
    if deps.iter().all(|d| !d.needs_save) {
        return Ok(deps);
    }
    let (built, root) = (Arc::clone(live), root.clone());
    let look = move || {
        for dep in deps.iter_mut().filter(|d| d.needs_save) {
            // Somebody may have built it outside: an artifact made after the last edit holds that edit.
            dep.needs_save = !built.is_built(&dep.module, &root.join(&dep.path));
        }
        deps
    };
    live.disk.need(look).await
}

/// A diagnostic over the first line, where Lean puts those about imports.
fn top(name: &DocumentName, message: String) -> StreamDiagnostic {
    StreamDiagnostic {
        path: name.path.clone(),
        uri: name.uri.clone(),
        version: None,
        severity: Some(1),
        range: FIRST_LINE,
        message,
        save_blocking: Some(true),
        completion_blocking: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_blocks() {
        let dep = |needs_save| StaleDep { module: "Low".into(), path: "Low.lean".into(), needs_save };
        let with = |deps: Vec<StaleDep>, certain| Staleness { deps, evidence: Vec::new(), certain };
        for (staleness, changed, expected) in [
            (with(vec![], false), false, false),
            (with(vec![dep(false)], false), false, true),
            (with(vec![dep(false)], false), true, false),
            (with(vec![dep(true)], false), true, true),
            (with(vec![], true), true, true),
        ] {
            assert_eq!(staleness.blocks(changed), expected, "{staleness:?} {changed}");
        }
    }
}
