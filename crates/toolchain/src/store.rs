//! The content-addressed store: installed embedded toolchains and extension builds.
//!
//! Owns the folder `$LEAN_BEAM_HOME` (default: `lean-beam` in the XDG data folder):
//!
//! ```text
//! toolchains/<id>/   an installed embedded toolchain, with entry.json
//! extensions/<id>/   a build of the Lean extension for one toolchain, with extension.json
//! locks/             lock files and owner notes
//! tmp/               work in progress and what is being deleted; anything here may vanish when nobody holds its lock
//! ```
//!
//! Must never: change a published entry, or list one that is not whole.
//!
//! * **K1** keys derive from package, sources and installer, never from a client's choice.
//! * **K3** an entry is made in `tmp/` and appears by one rename; it disappears by one rename. It counts only if its manifest,
//!   written last, agrees with what is on disk.

use std::io;
use std::path::{Component, Path};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use beam_base::AbsPath;
use serde::{Deserialize, Serialize};

use crate::env::HostEnv;
use crate::lock::{self, Lock, LockError, Owner};
use crate::toolchain::Fingerprint;

/// Name of an embedded toolchain's manifest.
pub(crate) const ENTRY_MANIFEST: &str = "entry.json";
/// Name of an extension build's manifest.
pub(crate) const EXTENSION_MANIFEST: &str = "extension.json";
/// The manifest format that is written and read.
const SCHEMA: u32 = 1;

/// Why the store could not do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing says where the store is.
    #[error("no place for the store: set LEAN_BEAM_HOME, XDG_DATA_HOME or HOME to an absolute path")]
    NoHome,
    /// `LEAN_BEAM_HOME` is relative, or not UTF-8.
    #[error("LEAN_BEAM_HOME cannot be used: {0}")]
    BadHome(String),
    /// The id names nothing.
    #[error("the store has no entry `{0}`; `lean-beam toolchain list` shows what it has")]
    Unknown(String),
    /// A file operation failed.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// The lock was not got.
    #[error(transparent)]
    Lock(#[from] LockError),
}

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
    pub(crate) fn at(action: &'static str, path: &AbsPath) -> impl FnOnce(io::Error) -> Self {
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

/// What a finished folder looks like: enough to notice a missing, added, cut or half deleted file without reading contents.
/// A file whose data did not reach the disk before a power loss has a shorter length, so this notices that too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Shape {
    /// Number of files, the manifest not counted.
    pub files: u64,
    /// Their lengths added up.
    pub bytes: u64,
    /// blake3 over sorted relative paths and lengths.
    pub digest: String,
}

impl Shape {
    /// Walks a folder.
    pub(crate) fn of(dir: &AbsPath, manifest: &str) -> Result<Self, FsError> {
        let mut files = Vec::new();
        walk(dir, &mut |path, len| {
            let rel = path.relative_to(dir).unwrap_or(path.as_utf8_path()).to_path_buf();
            if rel != manifest {
                files.push((rel, len));
            }
        })?;
        files.sort();
        let mut hash = blake3::Hasher::new();
        let mut bytes = 0;
        for (rel, len) in &files {
            hash.update(rel.as_str().as_bytes());
            hash.update(&[0]);
            hash.update(&len.to_le_bytes());
            bytes += len;
        }
        Ok(Self { files: files.len() as u64, bytes, digest: hash.finalize().to_hex().to_string() })
    }
}

/// Calls `f` for every file below `dir`, in no order. Links are reported, never followed.
pub(crate) fn walk(dir: &AbsPath, f: &mut dyn FnMut(&AbsPath, u64)) -> Result<(), FsError> {
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

/// Manifest of an installed embedded toolchain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EntryManifest {
    /// Format of this file.
    pub schema: u32,
    /// The store key.
    pub id: String,
    /// npm package it was made from, `name@version`.
    pub package: String,
    /// The package's integrity, as npm spells it.
    pub integrity: String,
    /// Version of the installer's own steps.
    pub installer: u32,
    /// Lean's version, e.g. `4.28.0-pre`.
    pub lean_version: String,
    /// What extension builds are keyed by.
    pub fingerprint: Fingerprint,
    /// Hash of the sources of the extension compiled into the entry.
    pub extension_source_hash: String,
    /// Seconds since 1970.
    pub installed_at: u64,
    /// What the folder looks like.
    pub shape: Shape,
}

/// Manifest of an extension build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExtensionManifest {
    /// Format of this file.
    pub schema: u32,
    /// The store key.
    pub id: String,
    /// Hash of the compiled sources.
    pub source_hash: String,
    /// The toolchain it was built by.
    pub fingerprint: Fingerprint,
    /// Whether it passed, and if not, why (invariant K4).
    pub verdict: StoredVerdict,
    /// Seconds since 1970.
    pub built_at: u64,
    /// What the folder looks like.
    pub shape: Shape,
}

/// A verdict as it is stored; the log lies beside the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoredVerdict {
    /// Whether the build passed its probes on this toolchain.
    pub qualified: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What an id names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// An embedded toolchain.
    Toolchain,
    /// An extension build for a toolchain outside the store, or for an entry made with other extension sources.
    Extension,
}

/// A whole, usable embedded toolchain in the store.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The store key.
    pub id: String,
    /// Its folder.
    pub dir: AbsPath,
    /// Its manifest, which agrees with the folder.
    pub manifest: EntryManifest,
}

impl Entry {
    /// The `lean` to run.
    #[must_use]
    pub fn lean(&self) -> AbsPath {
        self.dir.join("bin/lean")
    }
}

/// An extension build, whatever its verdict.
#[derive(Debug, Clone)]
pub struct ExtensionEntry {
    /// The store key.
    pub id: String,
    /// Its folder.
    pub dir: AbsPath,
    /// Its manifest, which agrees with the folder.
    pub manifest: ExtensionManifest,
}

/// Something in the store that is not usable, and why. Never used; removed by its id.
#[derive(Debug, Clone)]
pub struct Broken {
    /// Folder name.
    pub id: String,
    /// Where.
    pub kind: EntryKind,
    /// For people.
    pub why: String,
}

/// The store. Opening it reads and writes nothing.
#[derive(Debug, Clone)]
pub struct Store {
    home: AbsPath,
}

impl Store {
    /// Finds the store's folder in the environment; it need not exist yet.
    pub fn open(env: &HostEnv) -> Result<Self, StoreError> {
        if let Some(home) = env.var_os("LEAN_BEAM_HOME") {
            let home = AbsPath::new(home).map_err(|e| StoreError::BadHome(e.to_string()))?;
            return Ok(Self { home });
        }
        // A relative XDG_DATA_HOME is to be ignored, says its specification.
        let data = env
            .var_os("XDG_DATA_HOME")
            .and_then(|d| AbsPath::new(d).ok())
            .or_else(|| env.home().map(|h| h.join(".local/share")))
            .ok_or(StoreError::NoHome)?;
        Ok(Self { home: data.join("lean-beam") })
    }

    /// The store's folder.
    #[must_use]
    pub fn home(&self) -> &AbsPath {
        &self.home
    }

    /// The whole embedded toolchains, newest first.
    #[must_use]
    pub fn list(&self) -> Vec<Entry> {
        let mut out: Vec<Entry> =
            names(&self.dir_of(EntryKind::Toolchain)).into_iter().filter_map(|id| self.entry(&id).ok()).collect();
        out.sort_by(|a, b| (b.manifest.installed_at, &b.id).cmp(&(a.manifest.installed_at, &a.id)));
        out
    }

    /// The extension builds outside of toolchain entries, qualified or not.
    #[must_use]
    pub fn extensions(&self) -> Vec<ExtensionEntry> {
        names(&self.dir_of(EntryKind::Extension)).into_iter().filter_map(|id| self.extension(&id).ok()).collect()
    }

    /// What is in the store but not usable.
    #[must_use]
    pub fn broken(&self) -> Vec<Broken> {
        let mut out = Vec::new();
        for kind in [EntryKind::Toolchain, EntryKind::Extension] {
            for id in names(&self.dir_of(kind)) {
                let why = match kind {
                    EntryKind::Toolchain => self.entry(&id).err(),
                    EntryKind::Extension => self.extension(&id).err(),
                };
                out.extend(why.map(|why| Broken { id, kind, why }));
            }
        }
        out
    }

    /// The embedded toolchain of that id, if it is whole; else why not.
    pub(crate) fn entry(&self, id: &str) -> Result<Entry, String> {
        let dir = self.dir_of(EntryKind::Toolchain).join(id);
        let manifest: EntryManifest = read_manifest(&dir, ENTRY_MANIFEST)?;
        check(&dir, ENTRY_MANIFEST, manifest.schema, &manifest.id, &manifest.shape)?;
        Ok(Entry { id: id.to_owned(), dir, manifest })
    }

    /// The extension build of that id, if it is whole; else why not.
    pub(crate) fn extension(&self, id: &str) -> Result<ExtensionEntry, String> {
        let dir = self.dir_of(EntryKind::Extension).join(id);
        let manifest: ExtensionManifest = read_manifest(&dir, EXTENSION_MANIFEST)?;
        check(&dir, EXTENSION_MANIFEST, manifest.schema, &manifest.id, &manifest.shape)?;
        Ok(ExtensionEntry { id: id.to_owned(), dir, manifest })
    }

    /// The folder of a whole embedded toolchain.
    pub fn path(&self, id: &str) -> Result<AbsPath, StoreError> {
        check_id(id)?;
        self.entry(id).map(|e| e.dir).map_err(|_| StoreError::Unknown(id.to_owned()))
    }

    /// Removes a toolchain or an extension build, whole or broken. It is gone from the store by one rename; a process killed while
    /// deleting leaves files in `tmp/` only. Workers that run from the entry may fail later.
    pub fn remove(&self, id: &str) -> Result<EntryKind, StoreError> {
        check_id(id)?;
        self.sweep("removed")?;
        for kind in [EntryKind::Toolchain, EntryKind::Extension] {
            let dir = self.dir_of(kind).join(id);
            if std::fs::symlink_metadata(&dir).is_ok() {
                self.discard(&dir)?;
                return Ok(kind);
            }
        }
        Err(StoreError::Unknown(id.to_owned()))
    }

    /// Where entries of a kind live.
    pub(crate) fn dir_of(&self, kind: EntryKind) -> AbsPath {
        self.home.join(match kind {
            EntryKind::Toolchain => "toolchains",
            EntryKind::Extension => "extensions",
        })
    }

    /// Takes a lock of the store and removes what dead owners of that lock have left in `tmp/`.
    pub(crate) fn lock(
        &self,
        key: &str,
        doing: &str,
        limit: Duration,
        waiting: impl FnOnce(Option<&Owner>),
    ) -> Result<Lock, StoreError> {
        let held = lock::acquire(&self.home.join("locks"), key, doing, limit, waiting)?;
        self.sweep(key)?;
        self.sweep("removed")?;
        Ok(held)
    }

    /// A new empty folder in `tmp/` for the holder of the lock `key`.
    pub(crate) fn work_dir(&self, key: &str) -> Result<WorkDir, FsError> {
        let dir = self.tmp_name(key);
        std::fs::create_dir_all(&dir).map_err(FsError::at("make the folder", &dir))?;
        Ok(WorkDir { dir })
    }

    fn tmp_name(&self, key: &str) -> AbsPath {
        // Unique among the threads of this process by the counter, among processes of this host by pid and time.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        self.home.join("tmp").join(format!("{key}.{}-{n}-{nanos:x}", std::process::id()))
    }

    /// Makes a finished folder an entry by one rename (K3). The caller holds the lock of that id and has written the manifest.
    /// What is in the way is not whole (else the caller would have used it) and is moved out first.
    pub(crate) fn publish(&self, work: &AbsPath, kind: EntryKind, id: &str) -> Result<AbsPath, FsError> {
        let parent = self.dir_of(kind);
        let dir = parent.join(id);
        std::fs::create_dir_all(&parent).map_err(FsError::at("make the folder", &parent))?;
        if std::fs::symlink_metadata(&dir).is_ok() {
            self.discard(&dir)?;
        }
        std::fs::rename(work, &dir).map_err(FsError::at("publish", &dir))?;
        Ok(dir)
    }

    /// Renames into `tmp/`, then deletes. A failed deletion is left for a later sweep: the entry is gone in any case.
    fn discard(&self, dir: &AbsPath) -> Result<(), FsError> {
        let gone = self.tmp_name("removed");
        if let Some(tmp) = gone.parent() {
            std::fs::create_dir_all(&tmp).map_err(FsError::at("make the folder", &tmp))?;
        }
        match std::fs::rename(dir, &gone) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(FsError::at("remove", dir))?,
        }
        if let Err(e) = remove_tree(&gone) {
            tracing::warn!(path = %gone, error = %e, "left behind for a later sweep");
        }
        Ok(())
    }

    /// Deletes leftovers of one key in `tmp/`. For every key but `removed` the caller must hold that lock.
    fn sweep(&self, key: &str) -> Result<(), FsError> {
        let tmp = self.home.join("tmp");
        let prefix = format!("{key}.");
        for name in names(&tmp) {
            let path = tmp.join(&name);
            if name.starts_with(&prefix) {
                remove_tree(&path).map_err(FsError::at("remove", &path))?;
            }
        }
        Ok(())
    }
}

/// A folder in `tmp/` that is deleted on every way out, unless it was renamed away.
#[derive(Debug)]
pub(crate) struct WorkDir {
    pub dir: AbsPath,
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // Gone after a publish. What cannot be deleted now is swept under the lock next time.
        let _ignored = remove_tree(&self.dir);
    }
}

/// Removes a folder or file; one that is not there is removed.
fn remove_tree(path: &AbsPath) -> io::Result<()> {
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

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Writes a manifest: the last file of a finished folder.
pub(crate) fn write_manifest(dir: &AbsPath, name: &str, manifest: &impl Serialize) -> Result<(), FsError> {
    let path = dir.join(name);
    let text = serde_json::to_vec_pretty(manifest).map_err(io::Error::other).map_err(FsError::at("write", &path))?;
    std::fs::write(&path, text).map_err(FsError::at("write", &path))
}

/// The schema number for new manifests.
pub(crate) fn schema() -> u32 {
    SCHEMA
}

fn read_manifest<M: for<'de> Deserialize<'de>>(dir: &AbsPath, name: &str) -> Result<M, String> {
    let text = std::fs::read(dir.join(name)).map_err(|e| format!("no {name}: {e}"))?;
    serde_json::from_slice(&text).map_err(|e| format!("{name} cannot be read: {e}"))
}

fn check(dir: &AbsPath, manifest: &str, schema: u32, id: &str, shape: &Shape) -> Result<(), String> {
    if schema != SCHEMA {
        return Err(format!("{manifest} has format {schema}, this program knows {SCHEMA}"));
    }
    if dir.file_name().and_then(|n| n.to_str()) != Some(id) {
        return Err(format!("{manifest} belongs to `{id}`"));
    }
    let found = Shape::of(dir, manifest).map_err(|e| e.to_string())?;
    if found != *shape {
        return Err(format!(
            "files are missing or changed: {} files of {} bytes expected, {} of {} found",
            shape.files, shape.bytes, found.files, found.bytes
        ));
    }
    Ok(())
}

/// Names in a folder that may be absent, sorted.
fn names(dir: &AbsPath) -> Vec<String> {
    let mut out: Vec<String> =
        std::fs::read_dir(dir).into_iter().flatten().filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
    out.sort();
    out
}

/// An id is one plain path component; anything else could lead out of the store.
fn check_id(id: &str) -> Result<(), StoreError> {
    let mut parts = Path::new(id).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) if name == id => Ok(()),
        _ => Err(StoreError::Unknown(id.to_owned())),
    }
}
