//! What a session's environment depends on, so that it can tell that what it was started with is no longer the project's.
//!
//! Must never restart anything, nor run Lake: a worker's environment is taken once, when its session starts, and a change is for the
//! user to hear about.

use beam_base::AbsPath;

/// The content of a project's configuration, as hashes. Equal stamps: nothing that a session depends on has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigStamp {
    /// `None` for a file that is not there, or cannot be read: Lake could not read it either.
    files: Vec<(AbsPath, Option<blake3::Hash>)>,
}

impl ConfigStamp {
    /// Reads these files; some tens of microseconds for the handful that a project has.
    pub(crate) fn of(files: impl IntoIterator<Item = AbsPath>) -> Self {
        let hash = |path: &AbsPath| std::fs::read(path).ok().map(|content| blake3::hash(&content));
        Self { files: files.into_iter().map(|path| (path.clone(), hash(&path))).collect() }
    }

    /// The same files as they are now.
    #[must_use]
    pub fn now(&self) -> Self {
        Self::of(self.files.iter().map(|(path, _)| path.clone()))
    }

    /// The files that are not what they were; empty when nothing has changed. A file that appears or goes counts.
    #[must_use]
    pub fn changed(&self) -> Vec<AbsPath> {
        let now = self.now();
        let pairs = self.files.iter().zip(&now.files);
        pairs.filter(|(then, now)| then != now).map(|(then, _)| then.0.clone()).collect()
    }
}
