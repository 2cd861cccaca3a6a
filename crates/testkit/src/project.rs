//! Project folders that exist for one test.

use std::fs;
use std::io;

use beam_base::AbsPath;
use camino::Utf8Path;
use tempfile::TempDir;

use crate::fixture::Fixture;

/// A folder with files, gone when dropped. Its path is canonical, so paths in it compare equal to what tools report.
#[derive(Debug)]
pub struct TempProject {
    root: AbsPath,
    // Removes the folder on drop.
    _dir: TempDir,
}

impl TempProject {
    /// An empty folder.
    pub fn empty() -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("beam-test-").tempdir()?;
        Ok(Self { root: AbsPath::canonical(dir.path())?, _dir: dir })
    }

    /// A folder with the fixture's files.
    pub fn with(fixture: &Fixture) -> io::Result<Self> {
        let project = Self::empty()?;
        for (name, text) in fixture.files() {
            project.write(name, text)?;
        }
        Ok(project)
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &AbsPath {
        &self.root
    }

    /// A path in it.
    #[must_use]
    pub fn path(&self, name: impl AsRef<Utf8Path>) -> AbsPath {
        self.root.join(name)
    }

    /// Writes a file, making the folders it needs.
    pub fn write(&self, name: impl AsRef<Utf8Path>, text: impl AsRef<[u8]>) -> io::Result<AbsPath> {
        let path = self.path(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, text)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_holds_its_files_and_goes_away() {
        let project = TempProject::with(&Fixture::parse("-- file: A/B.lean\nx\n")).unwrap();
        let path = project.path("A/B.lean");
        assert_eq!(fs::read_to_string(&path).unwrap(), "x\n");
        drop(project);
        assert!(!path.exists());
    }
}
