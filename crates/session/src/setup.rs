//! What has to be done before a worker may read a document's imports: usually, building them. Done by somebody above us, through
//! [`Setup`]; what it found is kept for the worker's life, since that worker never looks at its imports again.

#![allow(
    clippy::disallowed_methods,
    reason = "runs on blocking threads: begun by whoever prepares or compares imports"
)]

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use beam_base::AbsPath;
use serde_json::Value;

use crate::process::BoxFuture;
use beam_lean::{lean_text_hash, normalize_newlines};

/// No file system keeps coarser times.
const GRANULARITY: Duration = Duration::from_secs(2);

/// Prepares the imports of a document, before each start of a worker for it.
pub trait Setup: Send + Sync {
    /// Prepares what `text`, the document's present content, imports. Dropping the future stops the work.
    fn set_up(&self, path: &AbsPath, text: Arc<str>, lines: SetupLines) -> BoxFuture<'static, SetupReport>;
}

/// What is known about the imports that a worker was started with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetupReport {
    /// Every source file of the workspace that the document imports, directly or not, as it was when it was built or looked at.
    pub imports: Vec<ImportedSource>,
    /// Whether the artifacts that the worker reads are of exactly these texts. Where nobody builds, nobody knows.
    pub built: bool,
    /// Why the imports are not in order, in Lake's words, if they are not.
    pub problem: Option<String>,
    /// Arguments that the worker needs beyond the usual ones: the Lean options of this file.
    pub worker_args: Vec<OsString>,
    /// Modules that would have to be built and may not be; with any, no worker is started.
    pub refused: Vec<String>,
}

/// A source file at the moment when it was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedSource {
    /// Lean module name.
    pub module: String,
    /// Where its source is.
    pub path: AbsPath,
    /// [`lean_text_hash`] of its text with `\n` line ends.
    pub hash: u64,
    /// When it was last written, and its length in bytes: as long as both are the same, so is the text.
    pub stamp: Option<(SystemTime, u64)>,
}

impl ImportedSource {
    /// The modification time and length of a file. Taken *before* its text is read, so that a write in between is noticed later. `None`
    /// for a file that was written so recently that another write could leave the same time.
    #[must_use]
    pub fn stamp_of(path: &AbsPath) -> Option<(SystemTime, u64)> {
        let meta = std::fs::metadata(path).ok()?;
        let modified = meta.modified().ok()?;
        // A time in the future is as good as any: the next write will have the present one.
        let is_old = SystemTime::now().duration_since(modified).map_or(true, |age| age > GRANULARITY);
        is_old.then_some((modified, meta.len()))
    }

    /// Whether the file still holds that text. Reads it only if its time or length changed. Blocking.
    #[must_use]
    pub fn is_current(&self) -> bool {
        let now = Self::stamp_of(&self.path);
        if now.is_some() && now == self.stamp {
            return true;
        }
        std::fs::read_to_string(&self.path).is_ok_and(|text| lean_text_hash(&normalize_newlines(&text)) == self.hash)
    }
}

/// Where the lines of a build log go while it is being written.
pub struct SetupLines(Box<dyn Fn(Value) + Send + Sync>);

impl SetupLines {
    /// Lines as LSP diagnostics, for whoever shows them.
    pub(crate) fn new(show: impl Fn(Value) + Send + Sync + 'static) -> Self {
        Self(Box::new(show))
    }

    /// Shows one line, as Lean shows those of Lake: an information at the top of the file.
    pub fn say(&self, line: &str) {
        (self.0)(serde_json::json!({
            "range": { "start": { "line": 0, "character": 0 }, "end": { "line": 1, "character": 0 } },
            "severity": 3,
            "source": "Lean 4",
            "message": line,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_compared_by_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = AbsPath::canonical(dir.path()).unwrap().join("A.lean");
        std::fs::write(&path, "def a := 1\r\n").unwrap();
        let hash = lean_text_hash("def a := 1\n");
        let source =
            ImportedSource { module: "A".into(), path: path.clone(), hash, stamp: ImportedSource::stamp_of(&path) };
        assert!(source.is_current());
        // Touched, and its line ends changed: the same text to Lean.
        std::fs::write(&path, "def a := 1\n").unwrap();
        assert!(source.is_current());
        std::fs::write(&path, "def a := 2\n").unwrap();
        assert!(!source.is_current());
        std::fs::remove_file(&path).unwrap();
        assert!(!source.is_current());
    }
}
