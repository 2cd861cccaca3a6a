//! Absolute paths as a type, so that no function has to ask "relative to what?".

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// An absolute path (invariant B1). Not necessarily canonical: see [`AbsPath::canonical`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "PathBuf", into = "PathBuf")]
pub struct AbsPath(PathBuf);

/// The path handed to [`AbsPath::new`] was relative.
#[derive(Debug, thiserror::Error)]
#[error("`{}` is not an absolute path", .0.display())]
pub struct NotAbsolute(pub PathBuf);

impl AbsPath {
    /// Takes an absolute path as it is.
    pub fn new(path: impl Into<PathBuf>) -> Result<Self, NotAbsolute> {
        let path = path.into();
        if path.is_absolute() { Ok(Self(path)) } else { Err(NotAbsolute(path)) }
    }

    /// Resolves links and `..` on the file system; the path must exist.
    pub fn canonical(path: impl AsRef<Path>) -> io::Result<Self> {
        // `canonicalize` of an existing path is absolute by its contract.
        std::fs::canonicalize(path).map(Self)
    }

    /// Makes a path absolute against `base` and removes `.` and `..` by text, without touching the file system.
    #[must_use]
    pub fn resolve(base: &Self, path: impl AsRef<Path>) -> Self {
        let mut out = PathBuf::new();
        for part in base.0.join(path).components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => {
                    // `/..` is `/`: popping the root is refused by `PathBuf` itself.
                    out.pop();
                }
                other => out.push(other),
            }
        }
        Self(out)
    }

    /// The process's current directory.
    pub fn current_dir() -> io::Result<Self> {
        std::env::current_dir().map(Self)
    }

    /// Appends a relative path. An absolute argument replaces the path, as [`Path::join`] does.
    #[must_use]
    pub fn join(&self, path: impl AsRef<Path>) -> Self {
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
    pub fn relative_to(&self, root: &Self) -> Option<&Path> {
        self.0.strip_prefix(&root.0).ok()
    }

    /// Relative to `root` when inside it, else the absolute path: how paths are shown to people.
    #[must_use]
    pub fn display_in(&self, root: &Self) -> String {
        self.relative_to(root).unwrap_or(&self.0).display().to_string()
    }

    /// The borrowed path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for AbsPath {
    fn as_ref(&self) -> &Path {
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
        &self.0
    }
}

impl TryFrom<PathBuf> for AbsPath {
    type Error = NotAbsolute;
    fn try_from(path: PathBuf) -> Result<Self, NotAbsolute> {
        Self::new(path)
    }
}

impl From<AbsPath> for PathBuf {
    fn from(path: AbsPath) -> Self {
        path.0
    }
}

impl fmt::Display for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
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
