//! What happened to the modules of a workspace since a document was last synced (broker protocol section 10, staleness hints).
//!
//! A counter ticks on every successful sync and save. A direct import is a hint against a document when its text changed, or it was
//! saved, after that document's last sync. The first observation of a text is a baseline, not a change.

use std::collections::HashMap;

use serde::Serialize;

/// Event numbers; zero means never.
type Tick = u64;

/// The history of one session.
#[derive(Debug, Default)]
pub(crate) struct History {
    clock: Tick,
    modules: HashMap<String, ModuleHistory>,
    documents: HashMap<String, Tick>,
}

#[derive(Debug)]
struct ModuleHistory {
    path: String,
    last_save: Tick,
    last_text_change: Tick,
    hash: u64,
}

/// A direct import that moved on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StaleDep {
    /// Lean module name.
    pub(crate) module: String,
    /// Relative path.
    pub(crate) path: String,
    /// Its last text change was never saved.
    pub(crate) needs_save: bool,
}

impl History {
    /// The document at `relative`, which is this module if it is one, was synced with this text.
    pub(crate) fn synced(&mut self, relative: &str, module: Option<&str>, hash: u64) {
        self.clock += 1;
        let now = self.clock;
        self.documents.insert(relative.to_owned(), now);
        let Some(name) = module else { return };
        match self.modules.get_mut(name) {
            Some(m) if m.hash != hash => {
                m.hash = hash;
                m.last_text_change = now;
            }
            Some(_) => {}
            None => {
                self.modules.insert(
                    name.to_owned(),
                    ModuleHistory { path: relative.to_owned(), last_save: 0, last_text_change: 0, hash },
                );
            }
        }
    }

    /// The text that was last synced as this module has artifacts now.
    pub(crate) fn saved(&mut self, module: &str) {
        self.clock += 1;
        let now = self.clock;
        if let Some(m) = self.modules.get_mut(module) {
            m.last_save = now;
        }
    }

    /// The text of a module as it was last synced, and whether it changed since it was last saved.
    pub(crate) fn known(&self, module: &str) -> Option<(u64, bool)> {
        self.modules.get(module).map(|m| (m.hash, m.last_save < m.last_text_change))
    }

    /// A document was forgotten: a later sync of it starts without a past of its own.
    pub(crate) fn closed(&mut self, relative: &str) {
        self.documents.remove(relative);
    }

    /// Direct imports of the document that changed or were saved since its last sync, in import order.
    pub(crate) fn stale_deps(&self, relative: &str, imports: &[String]) -> Vec<StaleDep> {
        // A document without a sync of its own counts as having seen nothing: its worker has just read the *artifacts* of its imports,
        // and those do not hold a text that changed and was never saved.
        let seen = self.documents.get(relative).copied().unwrap_or(0);
        imports
            .iter()
            .filter_map(|name| {
                let m = self.modules.get(name)?;
                (m.last_text_change.max(m.last_save) > seen).then(|| StaleDep {
                    module: name.clone(),
                    path: m.path.clone(),
                    needs_save: m.last_save < m.last_text_change,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every file here is the module of its own name.
    fn synced(h: &mut History, file: &str, hash: u64) {
        h.synced(file, file.strip_suffix(".lean"), hash);
    }

    #[test]
    fn the_first_observation_is_a_baseline() {
        let imports = ["Low".to_owned(), "Other".to_owned()];
        let mut h = History::default();
        synced(&mut h, "Top.lean", 1);
        synced(&mut h, "Low.lean", 7);
        assert_eq!(h.stale_deps("Top.lean", &imports), []);
        synced(&mut h, "Low.lean", 8);
        let want = StaleDep { module: "Low".into(), path: "Low.lean".into(), needs_save: true };
        assert_eq!(h.stale_deps("Top.lean", &imports), [want]);
        synced(&mut h, "Top.lean", 1);
        assert_eq!(h.stale_deps("Top.lean", &imports), []);
    }

    #[test]
    fn a_save_is_news_to_importers_and_needs_no_other() {
        let imports = ["Low".to_owned()];
        let mut h = History::default();
        synced(&mut h, "Top.lean", 1);
        synced(&mut h, "Low.lean", 7);
        synced(&mut h, "Low.lean", 8);
        h.saved("Low");
        assert!(!h.stale_deps("Top.lean", &imports)[0].needs_save);
        synced(&mut h, "Top.lean", 1);
        assert_eq!(h.stale_deps("Top.lean", &imports), []);
        assert_eq!(h.known("Low"), Some((8, false)));
        synced(&mut h, "Low.lean", 9);
        assert_eq!(h.known("Low"), Some((9, true)));
    }

    #[test]
    fn reopening_an_importer_does_not_hide_an_unsaved_dependency() {
        let mut h = History::default();
        synced(&mut h, "Top.lean", 1);
        synced(&mut h, "Low.lean", 7);
        synced(&mut h, "Low.lean", 8);
        h.closed("Top.lean");
        assert!(h.stale_deps("Top.lean", &["Low".to_owned()])[0].needs_save);
    }
}
