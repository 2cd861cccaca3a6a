//! Unpacking the npm package in one pass: nothing of it is ever held as a whole.
//!
//! The package is a gzip-ed tar of four files, one of which (the library) is a gzip-ed tar itself. Both are inflated as they are read;
//! the inner one on a thread of its own, so that two cores are busy.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use beam_base::AbsPath;
use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use flate2::read::GzDecoder;

use crate::snippets::{SnippetError, Snippets};
use beam_toolchain::fs::FsError;
use beam_toolchain::progress::Progress;

/// Top-level names of the library.
const ROOTS: [&str; 6] = ["Init", "Std", "Lean", "Lake", "Leanc", "LakeMain"];
/// Largest single file that is taken from the library, in bytes. The largest there is has 3 MB.
const MAX_MODULE: u64 = 64 << 20;

/// Why the package was not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The archive is damaged or cut off.
    #[error("the package is damaged: {0}")]
    Damaged(io::Error),
    /// Something is missing or out of place.
    #[error("the package is not what it should be: {0}")]
    Shape(String),
    /// `lean.js` is another one.
    #[error(transparent)]
    Snippets(#[from] SnippetError),
    /// A file operation failed.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// What came out.
#[derive(Debug)]
pub(crate) struct Unpacked {
    pub snippets: Snippets,
    /// Number of library modules.
    pub modules: usize,
}

/// Unpacks `package`: the module goes to `wasm`, the library below `library`. Progress counts bytes of `package`.
pub(crate) fn unpack(
    package: &AbsPath,
    wasm: &AbsPath,
    library: &AbsPath,
    progress: &dyn Progress,
) -> Result<Unpacked, UnpackError> {
    let file = File::open(package).map_err(FsError::at("read", package))?;
    let counted = Counted { from: file, progress };
    let mut archive = tar::Archive::new(GzDecoder::new(BufReader::with_capacity(1 << 18, counted)));
    let (mut snippets, mut modules, mut have_wasm) = (None, None, false);
    for entry in archive.entries().map_err(UnpackError::Damaged)? {
        let mut entry = entry.map_err(UnpackError::Damaged)?;
        let name = entry.path().map_err(UnpackError::Damaged)?.into_owned();
        let name = beam_base::path::utf8(name).map_err(|e| UnpackError::Shape(e.to_string()))?;
        match name.file_name() {
            Some("lean.wasm") => {
                save(&mut entry, wasm)?;
                have_wasm = true;
            }
            Some("lean.js") => snippets = Some(Snippets::read(&mut entry)?),
            Some("lean-lib.tar.gz") => modules = Some(unpack_library(&mut entry, library)?),
            _ => {}
        }
    }
    drain(archive.into_inner())?;
    match (snippets, modules, have_wasm) {
        (Some(snippets), Some(modules), true) if modules > 0 => Ok(Unpacked { snippets, modules }),
        (None, ..) => Err(UnpackError::Shape("it has no lean.js".into())),
        (_, _, false) => Err(UnpackError::Shape("it has no lean.wasm".into())),
        _ => Err(UnpackError::Shape("it has no library".into())),
    }
}

/// Inflates and unpacks on a second thread what is read here.
fn unpack_library(from: &mut impl Read, library: &AbsPath) -> Result<usize, UnpackError> {
    // A dozen chunks in flight: enough to even out, little to hold.
    let (tx, rx) = sync_channel::<Vec<u8>>(12);
    std::thread::scope(|scope| {
        let inner = scope.spawn(move || {
            let stream = Chunks { rx, chunk: Vec::new(), at: 0 };
            save_modules(GzDecoder::new(stream), library)
        });
        let fed = feed(from, &tx);
        // The end of the inner stream.
        drop(tx);
        let made = inner.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // The inner error comes first: when the inner side gives up, feeding it fails as a consequence, silently.
        let made = made?;
        fed.map_err(UnpackError::Damaged)?;
        Ok(made)
    })
}

fn feed(from: &mut impl Read, tx: &SyncSender<Vec<u8>>) -> io::Result<()> {
    loop {
        let mut chunk = Vec::with_capacity(1 << 17);
        if from.by_ref().take(1 << 17).read_to_end(&mut chunk)? == 0 {
            return Ok(());
        }
        if tx.send(chunk).is_err() {
            return Ok(());
        }
    }
}

fn save_modules(stream: impl Read, library: &AbsPath) -> Result<usize, UnpackError> {
    let mut archive = tar::Archive::new(BufReader::with_capacity(1 << 17, stream));
    let mut modules = 0;
    for entry in archive.entries().map_err(UnpackError::Damaged)? {
        let mut entry = entry.map_err(UnpackError::Damaged)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path().map_err(UnpackError::Damaged)?.into_owned();
        let name = beam_base::path::utf8(name).map_err(|e| UnpackError::Shape(e.to_string()))?;
        let Some(rel) = module_path(&name)? else {
            continue;
        };
        if entry.size() > MAX_MODULE {
            return Err(UnpackError::Shape(format!("{name} is too large")));
        }
        let to = library.join(rel);
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(&parent).map_err(FsError::at("make the folder", &parent))?;
        }
        save(&mut entry, &to)?;
        modules += 1;
    }
    drain(archive.into_inner())?;
    Ok(modules)
}

/// Reads on to the end behind an archive: only there the checksum is compared.
fn drain(mut stream: impl Read) -> Result<(), UnpackError> {
    io::copy(&mut stream, &mut io::sink()).map(drop).map_err(UnpackError::Damaged)
}

/// Where a file of the archive goes in the library; `None` if it is no module of it (the archive was made on a Mac, so every file
/// has a `._` shadow).
fn module_path(name: &Utf8Path) -> Result<Option<Utf8PathBuf>, UnpackError> {
    let is_shadow = name.file_name().is_none_or(|n| n.starts_with("._"));
    if is_shadow || name.extension().is_none_or(|e| e != "olean") {
        return Ok(None);
    }
    let parts: Vec<Utf8Component<'_>> = name.components().collect();
    let root = parts.iter().position(|part| {
        let part = part.as_str();
        ROOTS.iter().any(|r| part == *r || part == format!("{r}.olean"))
    });
    let Some(root) = root else {
        return Ok(None);
    };
    let rel = &parts[root..];
    if rel.iter().all(|p| matches!(p, Utf8Component::Normal(_))) {
        Ok(Some(rel.iter().collect()))
    } else {
        Err(UnpackError::Shape(format!("a file is named {name}")))
    }
}

/// Copies a file out of an archive; tells a damaged archive from a failing disk.
fn save(from: &mut impl Read, to: &AbsPath) -> Result<(), UnpackError> {
    let write = |e| FsError::at("write", to)(e);
    let mut out = BufWriter::with_capacity(1 << 18, File::create(to).map_err(write)?);
    let mut chunk = vec![0; 1 << 17];
    loop {
        let n = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(UnpackError::Damaged(e)),
        };
        out.write_all(&chunk[..n]).map_err(write)?;
    }
    out.into_inner().map_err(io::IntoInnerError::into_error).map_err(write)?;
    Ok(())
}

struct Counted<'a> {
    from: File,
    progress: &'a dyn Progress,
}

impl Read for Counted<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(buf)?;
        self.progress.advance(n as u64);
        Ok(n)
    }
}

/// A reader over chunks that another thread sends; its end is the sender's.
struct Chunks {
    rx: Receiver<Vec<u8>>,
    chunk: Vec<u8>,
    at: usize,
}

impl Read for Chunks {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.at == self.chunk.len() {
            match self.rx.recv() {
                Ok(chunk) => (self.chunk, self.at) = (chunk, 0),
                Err(_) => return Ok(0),
            }
        }
        let n = buf.len().min(self.chunk.len() - self.at);
        buf[..n].copy_from_slice(&self.chunk[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_files_are_modules() {
        let rel = |name: &str| module_path(Utf8Path::new(name)).map(|o| o.map(|p| p.to_string()));
        assert_eq!(rel("./Init/Data/List.olean").unwrap().unwrap(), "Init/Data/List.olean");
        assert_eq!(rel("lib/lean/Lake.olean").unwrap().unwrap(), "Lake.olean");
        assert_eq!(rel("Lean/Elab/Init.olean").unwrap().unwrap(), "Lean/Elab/Init.olean");
        for other in ["./._Init.olean", "Init/._X.olean", "Mathlib/X.olean", "Init/X.ilean", "Initial.olean"] {
            assert_eq!(rel(other).unwrap(), None, "{other}");
        }
        assert!(rel("Init/../../x.olean").is_err());
    }
}
