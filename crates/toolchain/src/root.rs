//! Which folder is the project: the marker rules of both provers.

use std::path::{Path, PathBuf};

use beam_base::AbsPath;

/// The provers we serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Lean 4.
    Lean,
    /// Rocq, through `coq-lsp`.
    Rocq,
}

impl Backend {
    /// Files that make a folder a project.
    #[must_use]
    pub fn markers(self) -> &'static [&'static str] {
        match self {
            Self::Lean => &["lean-toolchain", "lakefile.toml", "lakefile.lean"],
            Self::Rocq => &["_RocqProject", "_CoqProject"],
        }
    }
}

/// Why there is no project root.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// No folder from `start` upwards holds a marker.
    #[error("no project root could be inferred from {start}: neither it nor a folder above it has {}; name one with --root PATH", or_list(.backend.markers()))]
    NotInferred {
        /// Where the search began.
        start: AbsPath,
        /// For which prover.
        backend: Backend,
    },
    /// The path does not exist or cannot be entered.
    #[error("the project root `{}` cannot be used: {source}", .path.display())]
    Unusable {
        /// As given.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The path is not a folder.
    #[error("the project root {0} is not a folder")]
    NotAFolder(AbsPath),
    /// An explicit Lean root without a marker.
    #[error("{0} is not a Lean project: it has no {markers}", markers = or_list(Backend::Lean.markers()))]
    NoMarker(AbsPath),
}

/// The nearest folder from `start` upwards that holds a marker of `backend`, canonical.
pub fn find(start: &AbsPath, backend: Backend) -> Result<AbsPath, RootError> {
    let start = canonical(start)?;
    start
        .ancestors()
        .find(|dir| has_marker(dir, backend))
        .ok_or_else(|| RootError::NotInferred { start: start.clone(), backend })
}

/// An explicitly given root, canonical. Lean demands a marker in it, Rocq takes any folder.
pub fn check(explicit: &Path, backend: Backend) -> Result<AbsPath, RootError> {
    let root = canonical(explicit)?;
    if !root.is_dir() {
        return Err(RootError::NotAFolder(root));
    }
    if backend == Backend::Lean && !has_marker(&root, backend) {
        return Err(RootError::NoMarker(root));
    }
    Ok(root)
}

/// Whether the folder itself holds a marker.
#[must_use]
pub fn has_marker(dir: &AbsPath, backend: Backend) -> bool {
    backend.markers().iter().any(|m| dir.join(m).is_file())
}

fn canonical(path: &Path) -> Result<AbsPath, RootError> {
    AbsPath::canonical(path).map_err(|source| RootError::Unusable { path: path.to_path_buf(), source })
}

fn or_list(items: &[&str]) -> String {
    match items {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [init @ .., last] => format!("{} or {last}", init.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_marker_wins_and_links_are_resolved() {
        let tmp = tempfile::tempdir().unwrap();
        let top = AbsPath::canonical(tmp.path()).unwrap();
        let inner = top.join("a/b");
        std::fs::create_dir_all(inner.join("src")).unwrap();
        std::fs::write(top.join("lean-toolchain"), "").unwrap();
        std::fs::write(inner.join("lakefile.toml"), "").unwrap();
        std::os::unix::fs::symlink(inner.join("src"), top.join("link")).unwrap();
        assert_eq!(find(&inner.join("src"), Backend::Lean).unwrap(), inner);
        assert_eq!(find(&top.join("link"), Backend::Lean).unwrap(), inner);
        assert_eq!(find(&top.join("a"), Backend::Lean).unwrap(), top);
        let e = find(&inner, Backend::Rocq).unwrap_err().to_string();
        assert!(e.contains("--root PATH") && e.contains("_RocqProject or _CoqProject"), "{e}");
    }

    #[test]
    fn an_explicit_root_needs_a_lean_marker_but_no_rocq_marker() {
        let tmp = tempfile::tempdir().unwrap();
        assert!(matches!(check(tmp.path(), Backend::Lean), Err(RootError::NoMarker(_))));
        assert!(check(tmp.path(), Backend::Rocq).is_ok());
        let file = tmp.path().join("f");
        std::fs::write(&file, "").unwrap();
        assert!(matches!(check(&file, Backend::Rocq), Err(RootError::NotAFolder(_))));
        assert!(matches!(check(&tmp.path().join("no"), Backend::Lean), Err(RootError::Unusable { .. })));
        // A folder of a marker's name is no marker.
        std::fs::create_dir(tmp.path().join("lean-toolchain")).unwrap();
        assert!(check(tmp.path(), Backend::Lean).is_err());
        std::fs::write(tmp.path().join("lakefile.lean"), "").unwrap();
        assert!(check(tmp.path(), Backend::Lean).is_ok());
    }
}
