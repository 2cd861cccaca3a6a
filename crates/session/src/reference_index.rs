//! The reference data of an open document, as its worker reports it: in parts, then as a whole, per version.
//!
//! A worker sends all of it again after each edit, megabytes for a long file, and most documents are never asked where a name is
//! used. So it is kept as it came, and read when somebody asks.

use beam_lean::ilean::{self, Refs, Rename};
use serde_json::value::RawValue;

/// What is known of one document, and up to which version.
#[derive(Debug, Default)]
pub(crate) struct ReferenceIndex {
    version: u64,
    is_final: bool,
    refs: Refs,
    /// Came in and was not read yet; all about `version`.
    unread: Vec<Box<RawValue>>,
    rename: Option<Rename>,
    /// The module that the worker says it serves, once somebody asked; it stays the same for a worker's life.
    own_module: Option<String>,
}

impl ReferenceIndex {
    /// Of a worker that may call the document's module by another name.
    pub(crate) fn new(rename: Option<Rename>) -> Self {
        Self { rename, ..Self::default() }
    }

    pub(crate) fn update(&mut self, version: u64, is_final: bool, raw: Box<RawValue>) {
        if version < self.version || (version == self.version && self.is_final && !is_final) {
            return;
        }
        if is_final || version > self.version {
            self.refs = Refs::default();
            self.unread.clear();
        }
        self.unread.push(raw);
        self.version = version;
        self.is_final = is_final;
    }

    /// Everything about this version is known.
    pub(crate) fn is_complete(&self, version: u64) -> bool {
        self.is_final && self.version >= version
    }

    /// What is known so far. Reads what has come since it was last asked.
    pub(crate) fn refs(&mut self) -> &Refs {
        for raw in std::mem::take(&mut self.unread) {
            match ilean::parse(raw.get(), self.rename.as_ref()) {
                Ok(data) => self.refs.merge(data.refs),
                Err(error) => tracing::warn!(%error, "a worker's reference data has an unknown shape"),
            }
        }
        &self.refs
    }

    /// The module whose file this is, as the worker knows it.
    pub(crate) fn own_module(&mut self) -> Option<&str> {
        if self.own_module.is_none() {
            self.own_module = self.refs().own_module().map(str::to_owned);
        }
        self.own_module.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use beam_lean::ilean::Ident;
    use serde_json::json;

    fn one(line: u32) -> Box<RawValue> {
        let key = json!({"c": {"m": "M", "n": "f"}}).to_string();
        let text = json!({"version": 1, "references": {key: {"definition": null, "usages": [[line, 0, line, 1]]}}});
        RawValue::from_string(text.to_string()).unwrap()
    }

    fn usages(index: &mut ReferenceIndex) -> Vec<u32> {
        let f = Ident::Const { module: "M".into(), name: "f".into() };
        index.refs().places(&f).map_or(Vec::new(), |it| it.usages.iter().map(|r| r.start.line).collect())
    }

    #[test]
    fn parts_add_up_and_versions_replace() {
        // Whether somebody asks in between makes no difference.
        for asked in [true, false] {
            let mut index = ReferenceIndex::default();
            let update = |index: &mut ReferenceIndex, version, is_final, line| {
                index.update(version, is_final, one(line));
                if asked {
                    index.refs();
                }
            };
            update(&mut index, 1, false, 1);
            update(&mut index, 1, false, 2);
            assert!(!index.is_complete(1));
            assert_eq!(usages(&mut index), [1, 2]);
            update(&mut index, 1, true, 3);
            assert!(index.is_complete(1) && !index.is_complete(2));
            // What comes late says nothing new; what is newer starts afresh.
            update(&mut index, 1, false, 4);
            assert_eq!(usages(&mut index), [3]);
            update(&mut index, 2, false, 5);
            update(&mut index, 1, true, 6);
            assert!(!index.is_complete(1));
            assert_eq!(usages(&mut index), [5]);
        }
    }

    /// One message of an unknown shape costs what it said and nothing else.
    #[test]
    fn what_cannot_be_read_is_left_out() {
        let mut index = ReferenceIndex::default();
        index.update(1, false, RawValue::from_string(r#"{"references": 3}"#.to_owned()).unwrap());
        index.update(1, false, one(2));
        assert_eq!(usages(&mut index), [2]);
    }
}
