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

use beam_process::HostEnv;

use crate::fingerprint::Fingerprint;
use crate::fs::{FsError, remove_tree, walk};
use crate::lock::{self, Lock, LockError, Owner};

/// Name of an embedded toolchain's manifest.
pub const ENTRY_MANIFEST: &str = "entry.json";
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

/// What a finished folder looks like: enough to notice a missing, added, cut or half deleted file without reading contents.
/// A file whose data did not reach the disk before a power loss has a shorter length, so this notices that too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FolderShape {
    /// Number of files, the manifest not counted.
    pub files: u64,
    /// Their lengths added up.
    pub bytes: u64,
    /// blake3 over sorted relative paths and lengths.
    pub digest: String,
}

impl FolderShape {
    /// Walks a folder, leaving out the manifest of that name.
    ///
    /// # Errors
    /// Something in it cannot be looked at.
    pub fn of(dir: &AbsPath, manifest: &str) -> Result<Self, FsError> {
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
    pub shape: FolderShape,
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
    pub shape: FolderShape,
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
    /// How a tree in `tmp/` is deleted: [`remove_tree`], but for tests of what a failure does.
    delete: fn(&AbsPath) -> io::Result<()>,
}

impl Store {
    /// Finds the store's folder in the environment; it need not exist yet.
    pub fn open(env: &HostEnv) -> Result<Self, StoreError> {
        if let Some(home) = env.var_os("LEAN_BEAM_HOME") {
            let home = AbsPath::new(home).map_err(|e| StoreError::BadHome(e.to_string()))?;
            return Ok(Self { home, delete: remove_tree });
        }
        // A relative XDG_DATA_HOME is to be ignored, says its specification.
        let data = env
            .var_os("XDG_DATA_HOME")
            .and_then(|d| AbsPath::new(d).ok())
            .or_else(|| env.home().map(|h| h.join(".local/share")))
            .ok_or(StoreError::NoHome)?;
        Ok(Self { home: data.join("lean-beam"), delete: remove_tree })
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
    ///
    /// # Errors
    /// For people: what is missing or changed.
    pub fn entry(&self, id: &str) -> Result<Entry, String> {
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
        self.sweep("removed");
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

    /// Takes a lock of the store and removes what dead owners of that lock have left in `tmp/`. Waits at most `limit`, and no longer
    /// than the environment's children may run; `waiting` is called once, if the lock is not free at first.
    ///
    /// # Errors
    /// [`StoreError::Lock`].
    pub fn lock(
        &self,
        key: &str,
        doing: &str,
        limit: Duration,
        env: &HostEnv,
        waiting: impl FnOnce(Option<&Owner>),
    ) -> Result<Lock, StoreError> {
        let held = lock::acquire(&self.home.join("locks"), key, doing, limit, &|| env.is_ending(), waiting)?;
        self.sweep(key);
        self.sweep("removed");
        Ok(held)
    }

    /// A new empty folder in `tmp/` for the holder of the lock `key`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn work_dir(&self, key: &str) -> Result<WorkDir, FsError> {
        let dir = self.tmp_name(key);
        std::fs::create_dir_all(&dir).map_err(FsError::at("make the folder", &dir))?;
        Ok(WorkDir { dir, delete: self.delete })
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
    ///
    /// # Errors
    /// Nothing was published.
    pub fn publish(&self, work: &AbsPath, kind: EntryKind, id: &str) -> Result<AbsPath, FsError> {
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
        if let Err(e) = (self.delete)(&gone) {
            tracing::warn!(path = %gone, error = %e, "left behind for a later sweep");
        }
        Ok(())
    }

    /// Deletes leftovers of one key in `tmp/`. For every key but `removed` the caller must hold that lock. What cannot be deleted stays
    /// for the next sweep: new work has a name of its own, so an old file that will not go is in nobody's way.
    fn sweep(&self, key: &str) {
        let tmp = self.home.join("tmp");
        let prefix = format!("{key}.");
        for name in names(&tmp) {
            let path = tmp.join(&name);
            if name.starts_with(&prefix)
                && let Err(error) = (self.delete)(&path)
            {
                tracing::warn!(%path, %error, "left behind for a later sweep");
            }
        }
    }
}

/// A folder in `tmp/` that is deleted on every way out, unless it was renamed away.
#[derive(Debug)]
pub struct WorkDir {
    /// The folder.
    pub dir: AbsPath,
    delete: fn(&AbsPath) -> io::Result<()>,
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // Gone after a publish. What cannot be deleted now is swept under the lock next time.
        let _ignored = (self.delete)(&self.dir);
    }
}

/// Seconds since 1970.
#[must_use]
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Writes a manifest: the last file of a finished folder.
///
/// # Errors
/// It cannot be written.
pub fn write_manifest(dir: &AbsPath, name: &str, manifest: &impl Serialize) -> Result<(), FsError> {
    let path = dir.join(name);
    let text = serde_json::to_vec_pretty(manifest).map_err(io::Error::other).map_err(FsError::at("write", &path))?;
    std::fs::write(&path, text).map_err(FsError::at("write", &path))
}

/// The schema number for new manifests.
#[must_use]
pub fn schema() -> u32 {
    SCHEMA
}

fn read_manifest<M: for<'de> Deserialize<'de>>(dir: &AbsPath, name: &str) -> Result<M, String> {
    let text = std::fs::read(dir.join(name)).map_err(|e| format!("no {name}: {e}"))?;
    serde_json::from_slice(&text).map_err(|e| format!("{name} cannot be read: {e}"))
}

fn check(dir: &AbsPath, manifest: &str, schema: u32, id: &str, shape: &FolderShape) -> Result<(), String> {
    if schema != SCHEMA {
        return Err(format!("{manifest} has format {schema}, this program knows {SCHEMA}"));
    }
    if dir.file_name().and_then(|n| n.to_str()) != Some(id) {
        return Err(format!("{manifest} belongs to `{id}`"));
    }
    let found = FolderShape::of(dir, manifest).map_err(|e| e.to_string())?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn store(home: &Path) -> Store {
        Store::open(&HostEnv::from_vars([("LEAN_BEAM_HOME", home)])).unwrap()
    }

    fn stuck(_: &AbsPath) -> io::Result<()> {
        Err(io::Error::other("planted"))
    }

    /// K3, and the whole kind: whatever of `tmp/` cannot be deleted, every operation of the store goes on.
    #[test]
    fn a_deletion_that_fails_blocks_nothing() {
        let tmp = tempfile::tempdir().unwrap();
        let store = Store { delete: stuck, ..store(tmp.path()) };
        let env = HostEnv::from_vars([("X", "1")]);
        let left = |name: &str| {
            let dir = store.home().join("tmp").join(name);
            std::fs::create_dir_all(&dir).unwrap();
            dir
        };
        let (mine, removed) = (left("k.1-0-0"), left("removed.1-0-0"));
        for _ in 0..2 {
            let lock = store.lock("k", "testing", Duration::ZERO, &env, |_| panic!("free")).unwrap();
            let work = store.work_dir("k").unwrap();
            std::fs::write(work.dir.join("file"), "x").unwrap();
            // What is in the way cannot be deleted either, only moved away.
            let dir = store.publish(&work.dir, EntryKind::Extension, "id").unwrap();
            assert!(dir.join("file").is_file());
            drop((work, lock));
        }
        assert_eq!(store.remove("id").unwrap(), EntryKind::Extension);
        assert!(matches!(store.remove("id"), Err(StoreError::Unknown(_))));
        assert!(mine.is_dir() && removed.is_dir(), "they could not be deleted");
        // The next one who can does.
        let able = self::store(tmp.path());
        drop(able.lock("k", "testing", Duration::ZERO, &env, |_| {}).unwrap());
        assert_eq!(names(&able.home().join("tmp")), [""; 0]);
    }
}
