//! Reading the user's files: always from disk, at call time, and only reading (X1).

#![allow(clippy::disallowed_methods, reason = "runs on the blocking threads of `Disk`")]

use std::io;
use std::time::SystemTime;

use beam_base::{AbsPath, PathError};

/// One reading of a source file.
#[derive(Debug)]
pub(crate) struct Source {
    /// Canonical path.
    pub(crate) path: AbsPath,
    /// Content.
    pub(crate) text: String,
    /// When it was last written, where the file system says.
    pub(crate) modified: Option<SystemTime>,
}

/// Why a file could not be read as source text. Each message says which path and what is wrong with it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("`{0}` does not exist")]
    Missing(AbsPath),
    #[error("`{0}` is a folder, not a file")]
    Folder(AbsPath),
    #[error("`{0}` is not a regular file")]
    Special(AbsPath),
    #[error("`{path}` is not UTF-8: the first bad byte is at offset {offset} (line {line}); save the file as UTF-8")]
    NotUtf8 { path: AbsPath, offset: usize, line: usize },
    /// The name itself, or what a link on the way leads to.
    #[error("`{0}` leads to a place whose path is not valid UTF-8; rename that file or folder")]
    PathNotUtf8(AbsPath),
    #[error("`{path}` cannot be read: {error}")]
    Io { path: AbsPath, error: io::Error },
}

/// The path a request means: absolute, or relative to the workspace root.
pub(crate) fn locate(root: &AbsPath, path: &str) -> AbsPath {
    AbsPath::resolve(root, path)
}

/// The canonical path. A file that is gone keeps the spelling it had while it was there: the directory is resolved and the name appended.
pub(crate) fn canonical(asked: &AbsPath) -> Result<AbsPath, SourceError> {
    match AbsPath::canonical(asked) {
        Ok(path) => Ok(path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(SourceError::Missing(asked.clone())),
        Err(e) if path_not_utf8(&e) => Err(SourceError::PathNotUtf8(asked.clone())),
        Err(error) => Err(SourceError::Io { path: asked.clone(), error }),
    }
}

/// Whether a path could be resolved, and cannot be written down.
pub(crate) fn path_not_utf8(e: &io::Error) -> bool {
    let inner = e.get_ref().and_then(|inner| inner.downcast_ref::<PathError>());
    matches!(inner, Some(PathError::NotUtf8(_)))
}

/// The canonical path of a file that may be gone, for operations that only look it up.
pub(crate) fn canonical_or_gone(asked: &AbsPath) -> AbsPath {
    canonical(asked).unwrap_or_else(|_| match (asked.parent(), asked.as_utf8_path().file_name()) {
        (Some(dir), Some(name)) => AbsPath::canonical(&dir).map_or_else(|_| asked.clone(), |dir| dir.join(name)),
        _ => asked.clone(),
    })
}

/// Reads the whole file. Blocking.
pub(crate) fn read(asked: &AbsPath) -> Result<Source, SourceError> {
    let path = canonical(asked)?;
    let io_error = |error| SourceError::Io { path: path.clone(), error };
    let meta = std::fs::metadata(&path).map_err(io_error)?;
    if meta.is_dir() {
        return Err(SourceError::Folder(path));
    }
    if !meta.is_file() {
        // Reading a pipe or a device would block for ever.
        return Err(SourceError::Special(path));
    }
    let bytes = std::fs::read(&path).map_err(io_error)?;
    let text = String::from_utf8(bytes).map_err(|e| {
        let offset = e.utf8_error().valid_up_to();
        let line = e.as_bytes()[..offset].iter().filter(|&&b| b == b'\n').count() + 1;
        SourceError::NotUtf8 { path: path.clone(), offset, line }
    })?;
    Ok(Source { path, text, modified: meta.modified().ok() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bad_file_is_named_for_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let root = AbsPath::canonical(dir.path()).unwrap();
        std::fs::write(root.join("bad.lean"), b"ok\nx\xff").unwrap();
        std::fs::write(root.join("good.lean"), "def a := 1\r\n").unwrap();
        std::fs::create_dir(root.join("dir.lean")).unwrap();
        let fail =
            |name: &str| read(&locate(&root, name)).unwrap_err().to_string().replace(root.to_str().unwrap(), "ROOT");
        assert_eq!(fail("none.lean"), "`ROOT/none.lean` does not exist");
        assert_eq!(fail("dir.lean"), "`ROOT/dir.lean` is a folder, not a file");
        assert_eq!(
            fail("bad.lean"),
            "`ROOT/bad.lean` is not UTF-8: the first bad byte is at offset 4 (line 2); save the file as UTF-8"
        );
        assert_eq!(read(&locate(&root, "./x/../good.lean")).unwrap().text, "def a := 1\r\n");
    }

    #[test]
    fn a_deleted_file_keeps_its_canonical_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = AbsPath::canonical(dir.path()).unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
        assert_eq!(canonical_or_gone(&root.join("link/A.lean")), root.join("real/A.lean"));
    }
}
