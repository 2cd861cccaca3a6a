//! Absolute paths as a type, so that no function has to ask "relative to what?".

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

/// An absolute path in UTF-8 (invariant B1). Not necessarily canonical: see [`AbsPath::canonical`].
///
/// Every path of ours stands in a JSON answer sooner or later, so a path that is not UTF-8 is refused where it comes in.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Utf8PathBuf", into = "Utf8PathBuf")]
pub struct AbsPath(Utf8PathBuf);

/// Why a path is no [`AbsPath`].
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// It is relative.
    #[error("`{0}` is not an absolute path")]
    Relative(Utf8PathBuf),
    /// It has bytes that are no UTF-8.
    #[error("the path `{}` is not valid UTF-8; rename the file or folder", .0.display())]
    NotUtf8(PathBuf),
}

impl From<PathError> for io::Error {
    fn from(e: PathError) -> Self {
        Self::new(io::ErrorKind::InvalidInput, e)
    }
}

/// The path as UTF-8, or the error that says it is not.
///
/// # Errors
/// The path has bytes that are no UTF-8.
pub fn utf8(path: impl Into<PathBuf>) -> Result<Utf8PathBuf, PathError> {
    Utf8PathBuf::from_path_buf(path.into()).map_err(PathError::NotUtf8)
}

impl AbsPath {
    /// Takes an absolute path as it is.
    ///
    /// # Errors
    /// The path is relative, or not UTF-8.
    pub fn new(path: impl Into<PathBuf>) -> Result<Self, PathError> {
        Self::try_from(utf8(path)?)
    }

    /// Resolves links and `..` on the file system; the path must exist.
    ///
    /// # Errors
    /// It does not exist, cannot be looked at, or leads to a place whose path is not UTF-8.
    pub fn canonical(path: impl AsRef<Path>) -> io::Result<Self> {
        // `canonicalize` of an existing path is absolute by its contract.
        Ok(Self(utf8(std::fs::canonicalize(path)?)?))
    }

    /// Makes a path absolute against `base` and removes `.` and `..` by text, without touching the file system.
    #[must_use]
    pub fn resolve(base: &Self, path: impl AsRef<Utf8Path>) -> Self {
        let mut out = Utf8PathBuf::new();
        for part in base.0.join(path).components() {
            match part {
                Utf8Component::CurDir => {}
                Utf8Component::ParentDir => {
                    // `/..` is `/`: popping the root is refused by `Utf8PathBuf` itself.
                    out.pop();
                }
                other => out.push(other),
            }
        }
        Self(out)
    }

    /// The process's current directory.
    ///
    /// # Errors
    /// It is gone, or its path is not UTF-8.
    pub fn current_dir() -> io::Result<Self> {
        Ok(Self(utf8(std::env::current_dir()?)?))
    }

    /// Appends a relative path. An absolute argument replaces the path, as [`Path::join`] does.
    #[must_use]
    pub fn join(&self, path: impl AsRef<Utf8Path>) -> Self {
        Self(self.0.join(path))
    }

    /// The containing directory; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.0.parent().map(|p| Self(p.to_path_buf()))
    }

    /// This path and every directory above it, innermost first.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> + '_ {
        self.0.ancestors().map(|p| Self(p.to_path_buf()))
    }

    /// The path relative to `root` if it lies in it, at a real directory boundary (`/a/proj2/x` is not below `/a/proj`).
    #[must_use]
    pub fn relative_to(&self, root: &Self) -> Option<&Utf8Path> {
        self.0.strip_prefix(&root.0).ok()
    }

    /// Relative to `root` when inside it, else the absolute path: how paths are shown to people.
    #[must_use]
    pub fn display_in(&self, root: &Self) -> String {
        self.relative_to(root).unwrap_or(&self.0).to_string()
    }

    /// The borrowed path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        self.0.as_std_path()
    }

    /// The borrowed path, as UTF-8.
    #[must_use]
    pub fn as_utf8_path(&self) -> &Utf8Path {
        &self.0
    }

    /// The path's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl AsRef<Path> for AbsPath {
    fn as_ref(&self) -> &Path {
        self.0.as_std_path()
    }
}

impl AsRef<Utf8Path> for AbsPath {
    fn as_ref(&self) -> &Utf8Path {
        &self.0
    }
}

impl AsRef<OsStr> for AbsPath {
    fn as_ref(&self) -> &OsStr {
        self.0.as_os_str()
    }
}

impl std::ops::Deref for AbsPath {
    type Target = Path;
    fn deref(&self) -> &Path {
        self.0.as_std_path()
    }
}

impl TryFrom<Utf8PathBuf> for AbsPath {
    type Error = PathError;
    fn try_from(path: Utf8PathBuf) -> Result<Self, PathError> {
        if path.is_absolute() { Ok(Self(path)) } else { Err(PathError::Relative(path)) }
    }
}

impl From<AbsPath> for Utf8PathBuf {
    fn from(path: AbsPath) -> Self {
        path.0
    }
}

impl From<AbsPath> for PathBuf {
    fn from(path: AbsPath) -> Self {
        path.0.into()
    }
}

impl fmt::Display for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn abs(s: &str) -> AbsPath {
        AbsPath::new(s).unwrap()
    }

    /// B1.
    #[test]
    fn b1_relative_paths_are_refused() {
        assert!(AbsPath::new("a/b").is_err());
        assert!(serde_json::from_str::<AbsPath>("\"a/b\"").is_err());
        assert_eq!(serde_json::from_str::<AbsPath>("\"/a/b\"").unwrap(), abs("/a/b"));
    }

    #[test]
    fn b1_paths_that_are_not_utf8_are_refused() {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(OsStr::from_bytes(b"/a/\xff"));
        let error = AbsPath::new(path).unwrap_err();
        assert!(matches!(error, PathError::NotUtf8(_)), "{error}");
    }

    #[test]
    fn relative_display_respects_directory_boundaries() {
        assert_eq!(abs("/a/proj2/x").display_in(&abs("/a/proj")), "/a/proj2/x");
        assert_eq!(abs("/a/proj/x/y.lean").display_in(&abs("/a/proj")), "x/y.lean");
    }

    #[test]
    fn resolve_removes_dots_by_text() {
        assert_eq!(AbsPath::resolve(&abs("/a/b"), "../c/./d"), abs("/a/c/d"));
        assert_eq!(AbsPath::resolve(&abs("/a"), "../../.."), abs("/"));
        assert_eq!(AbsPath::resolve(&abs("/a"), "/x/y"), abs("/x/y"));
    }
}
