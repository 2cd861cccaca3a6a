//! One writer at a time in a package: saves of modules that import each other must see each other whole.
//!
//! Held only while artifacts are looked at and replaced, never while Lean elaborates: a file that is never done must not keep the others from
//! being saved.

#![allow(clippy::disallowed_methods, reason = "runs on the blocking threads of `Disk`")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use beam_base::AbsPath;
use tokio::sync::OwnedMutexGuard;

type PackageLock = Arc<tokio::sync::Mutex<()>>;

/// The locks of a process, by the folder of the package. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct SaveLocks(Arc<Mutex<HashMap<AbsPath, PackageLock>>>);

impl SaveLocks {
    /// Waits for the package's artifacts; they are the caller's until the guard is dropped.
    pub(super) async fn of(&self, package: &AbsPath) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // A lock that only the table holds is nobody's.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(package.clone()).or_default())
        };
        lock.lock_owned().await
    }
}

/// The package that a file belongs to: the innermost folder above it with a lakefile, else the root. Blocking.
pub(super) fn package_of(path: &AbsPath, root: &AbsPath) -> AbsPath {
    let is_package = |dir: &AbsPath| ["lakefile.toml", "lakefile.lean"].iter().any(|file| dir.join(file).is_file());
    path.ancestors().skip(1).find(is_package).unwrap_or_else(|| root.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_package_is_saved_by_one_at_a_time_and_others_are_not_held_up() {
        let locks = SaveLocks::default();
        let [a, b] = ["/a", "/b"].map(|path| AbsPath::new(path).unwrap());
        let held = locks.of(&a).await;
        drop(locks.of(&b).await);
        let again = tokio::time::timeout(Duration::from_millis(20), locks.of(&a)).await;
        assert!(again.is_err());
        drop(held);
        drop(locks.of(&a).await);
        drop(locks.of(&b).await);
        assert_eq!(locks.0.lock().unwrap().len(), 1, "only the lock that was asked for last is kept");
    }

    #[test]
    fn the_package_is_the_innermost_folder_with_a_lakefile() {
        let dir = tempfile::tempdir().unwrap();
        let root = AbsPath::canonical(dir.path()).unwrap();
        std::fs::create_dir_all(root.join("dep/src")).unwrap();
        assert_eq!(package_of(&root.join("dep/src/A.lean"), &root), root);
        std::fs::write(root.join("dep/lakefile.lean"), "").unwrap();
        assert_eq!(package_of(&root.join("dep/src/A.lean"), &root), root.join("dep"));
        assert_eq!(package_of(&root.join("A.lean"), &root), root);
    }
}
