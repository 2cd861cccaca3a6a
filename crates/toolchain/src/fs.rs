//! File operations whose failures name what was tried on which path.

use std::io;

use beam_base::AbsPath;

/// A failed file operation. A full disk says what helps.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {path}: {source}{}", full_hint(.source))]
pub struct FsError {
    /// A verb.
    pub action: &'static str,
    /// On what.
    pub path: AbsPath,
    /// Why.
    pub source: io::Error,
}

impl FsError {
    /// Makes an error of that action (a verb) on that path.
    pub fn at(action: &'static str, path: &AbsPath) -> impl FnOnce(io::Error) -> Self {
        let path = path.clone();
        move |source| Self { action, path, source }
    }

    /// Whether the disk, a quota or a size limit is the reason.
    #[must_use]
    pub fn is_full(&self) -> bool {
        is_full(&self.source)
    }
}

fn is_full(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

fn full_hint(e: &io::Error) -> &'static str {
    if is_full(e) { "; free about 1 GB there, or set LEAN_BEAM_HOME to a folder on another disk" } else { "" }
}

/// Calls `f` for every file below `dir`, in no order. Links are reported, never followed.
///
/// # Errors
/// A folder or file that cannot be looked at.
pub fn walk(dir: &AbsPath, f: &mut dyn FnMut(&AbsPath, u64)) -> Result<(), FsError> {
    for entry in std::fs::read_dir(dir).map_err(FsError::at("read the folder", dir))? {
        let entry = entry.map_err(FsError::at("read the folder", dir))?;
        let path = AbsPath::new(entry.path()).map_err(|e| FsError::at("look at", dir)(e.into()))?;
        let meta = entry.metadata().map_err(FsError::at("look at", &path))?;
        if meta.is_dir() {
            walk(&path, f)?;
        } else {
            f(&path, meta.len());
        }
    }
    Ok(())
}

/// Removes a folder or file; one that is not there is removed.
pub(crate) fn remove_tree(path: &AbsPath) -> io::Result<()> {
    // Two sweepers of `removed` may meet: each finds that the other has deleted something.
    for _ in 0..8 {
        let done = match std::fs::symlink_metadata(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
            Ok(meta) if meta.is_dir() => std::fs::remove_dir_all(path),
            Ok(_) => std::fs::remove_file(path),
        };
        match done {
            Ok(()) => return Ok(()),
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::other("it keeps being filled"))
}
