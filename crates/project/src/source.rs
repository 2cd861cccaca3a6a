//! Source files as the builder sees them: the hash of the text and what it imports, read again only when the file has changed.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use beam_base::AbsPath;

use crate::trace::time_of;
use beam_lean::{Header, imports_of};

/// A file changed as recently as this may change again without its time changing.
const SETTLED: Duration = Duration::from_secs(3);

/// A text, looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// Hash of the text with line ends normalised.
    pub hash: String,
    pub header: Header,
    /// Modification time, nanoseconds since 1970; 0 for a text that is not from a file.
    pub modified: u64,
}

impl Source {
    pub fn of_text(text: &str) -> Self {
        // Lean and Lake: `\r\n` is `\n`, a lone `\r` stays.
        let hash = blake3::hash(text.replace("\r\n", "\n").as_bytes()).to_hex().to_string();
        Self { hash, header: imports_of(text), modified: 0 }
    }

    /// Reads a file. Bytes that are no UTF-8 are replaced, as Lean does.
    pub fn read(path: &AbsPath) -> io::Result<Self> {
        // The time first: if the file changes in between, the older time makes the next look read it again.
        let modified = time_of(&std::fs::metadata(path)?);
        let bytes = std::fs::read(path)?;
        Ok(Self { modified, ..Self::of_text(&String::from_utf8_lossy(&bytes)) })
    }
}

/// Remembers sources by path, size and time.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    seen: Mutex<HashMap<AbsPath, (u64, Arc<Source>)>>,
}

impl Sources {
    pub fn read(&self, path: &AbsPath) -> io::Result<Arc<Source>> {
        let meta = std::fs::metadata(path)?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((size, source)) = seen.get(path)
            && *size == meta.len()
            && source.modified == time_of(&meta)
        {
            return Ok(Arc::clone(source));
        }
        let source = Arc::new(Source::read(path)?);
        let settled = meta.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        if settled.is_some_and(|age| age >= SETTLED) {
            seen.insert(path.clone(), (meta.len(), Arc::clone(&source)));
        } else {
            seen.remove(path);
        }
        Ok(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_do_not_count_and_a_change_is_seen() {
        let tmp = tempfile::tempdir().unwrap();
        let path = AbsPath::new(tmp.path().join("A.lean")).unwrap();
        let sources = Sources::default();
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            sources.read(&path).unwrap().hash.clone()
        };
        let first = read(b"import A\n\ndef x := 1\n");
        assert_eq!(read(b"import A\r\n\r\ndef x := 1\r\n"), first);
        assert_ne!(read(b"import A\n\ndef x := 2\n"), first);
        assert_ne!(read(b"import A\n\ndef x := \r1\n"), first);
        // Same size within one tick of the clock.
        assert_eq!(read(b"import A\n\ndef x := 1\n"), first);
        assert_eq!(Source::of_text("import A\n\ndef x := 1\n").hash, first);
        assert_eq!(read(b"\xff"), Source::of_text("\u{fffd}").hash);
    }

    #[test]
    fn a_settled_file_is_not_read_twice() {
        let tmp = tempfile::tempdir().unwrap();
        let path = AbsPath::new(tmp.path().join("A.lean")).unwrap();
        let sources = Sources::default();
        let write = |text: &str, age: u64| {
            std::fs::write(&path, text).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age)).unwrap();
        };
        write("import A", 10);
        let first = sources.read(&path).unwrap();
        assert!(Arc::ptr_eq(&first, &sources.read(&path).unwrap()));
        write("import B", 9);
        assert_ne!(*first, *sources.read(&path).unwrap());
    }
}
