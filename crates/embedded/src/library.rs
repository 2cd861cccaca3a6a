//! The library of an installed toolchain: repairing its modules, and adding the files it lacks.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use beam_base::AbsPath;

use crate::olean::{self, BadModule};
use beam_toolchain::fs::{FsError, walk};
use beam_toolchain::progress::Progress;

/// Why the library was not completed.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// A module is not in the expected format.
    #[error("{path}: {source}")]
    Module {
        /// Which.
        path: AbsPath,
        /// Why.
        source: BadModule,
    },
    /// A file operation failed.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// All modules below `dir`, in the order in which names are given away: folder by folder, each folder's files by name.
pub(crate) fn modules(dir: &AbsPath) -> Result<Vec<AbsPath>, FsError> {
    let mut out = Vec::new();
    walk(dir, &mut |path, _| {
        if path.extension().is_some_and(|e| e == "olean") {
            out.push(path.clone());
        }
    })?;
    out.sort_by_cached_key(|path| {
        let folder = path.parent().map(|p| p.as_os_str().to_owned());
        (folder, path.as_os_str().to_owned())
    });
    Ok(out)
}

/// Repairs all modules in place: they lie in a work folder, nobody reads them yet. Returns the number of names added. Progress
/// counts modules.
pub(crate) fn repair(modules: &[AbsPath], progress: &dyn Progress) -> Result<usize, LibraryError> {
    let mut seen = HashSet::new();
    let mut added = 0;
    for path in modules {
        let data = std::fs::read(path).map_err(FsError::at("read", path))?;
        let patch =
            olean::repair(&data, &mut seen).map_err(|source| LibraryError::Module { path: path.clone(), source })?;
        if let Some(patch) = patch {
            apply(path, &patch).map_err(FsError::at("write", path))?;
            added += patch.added;
        }
        progress.advance(1);
    }
    Ok(added)
}

fn apply(path: &AbsPath, patch: &olean::Patch) -> io::Result<()> {
    let mut file = File::options().write(true).open(path)?;
    file.seek(SeekFrom::End(0))?;
    file.write_all(&patch.tail)?;
    file.seek(SeekFrom::Start(olean::ROOT as u64))?;
    file.write_all(&patch.root.to_le_bytes())
}

/// Gives every module an `.ir` file of this content. A file without a `module` header imports at a level that wants one for each
/// library module; the package has none, and an empty one will do.
pub(crate) fn write_ir(modules: &[AbsPath], content: &[u8]) -> Result<(), FsError> {
    for path in modules {
        let ir = path.with_extension("ir");
        std::fs::write(&ir, content).map_err(|source| FsError { action: "write", path: path.clone(), source })?;
    }
    Ok(())
}
