//! Getting a qualified build of the extension: the stored one, or one that is compiled, qualified and stored now.

use std::time::Duration;

use beam_base::AbsPath;
use beam_process::{HostEnv, RunError};

use super::compile::compile;
use super::error::ExtensionError;
use super::model::{Extension, Verdict};
use super::sources::{SourceError, Sources};
use crate::fs::FsError;
use crate::killpoint::kill_point;
use crate::launch::{WorkerLaunch, worker_launch};
use crate::lock::describe;
use crate::model::Toolchain;
use crate::progress::{Progress, phase};
use crate::store::{
    EXTENSION_MANIFEST, EntryKind, ExtensionEntry, ExtensionManifest, FolderShape, Store, StoredVerdict, now, schema,
    write_manifest,
};

/// How long to wait for another process that builds the same extension.
const WAIT: Duration = Duration::from_secs(900);

/// Runs the conformance set in a worker started as `launch` says. This crate never speaks LSP (K4), so the caller brings it.
pub trait Qualify {
    /// `Err` holds the reason, for people and for the record.
    fn qualify(&self, launch: &WorkerLaunch) -> Result<(), String>;
}

impl<F: Fn(&WorkerLaunch) -> Result<(), String>> Qualify for F {
    fn qualify(&self, launch: &WorkerLaunch) -> Result<(), String> {
        self(launch)
    }
}

/// The state of the extension for a toolchain, without building anything. For `doctor`. `None`: not built yet.
pub fn find_extension(tc: &Toolchain, store: &Store) -> Result<Option<Extension>, SourceError> {
    Ok(find(tc, store, Sources::embedded()?))
}

/// Hash of the extension's sources in this program.
pub fn source_hash() -> Result<&'static str, SourceError> {
    Ok(&Sources::embedded()?.hash)
}

/// A qualified build of the extension for the toolchain: the stored one, or one that is compiled, qualified and stored now. Of
/// several callers that want the same, in one process or many, one builds and the others wait for it. When the environment's children
/// must end ([`HostEnv::stopped_by`]), so does this, compiling or waiting, and whoever waits for it takes over.
pub fn ensure_extension(
    tc: &Toolchain,
    store: &Store,
    env: &HostEnv,
    qualify: &dyn Qualify,
    progress: &dyn Progress,
) -> Result<Extension, ExtensionError> {
    ensure(tc, Sources::embedded()?, store, env, qualify, progress)
}

pub(crate) fn ensure(
    tc: &Toolchain,
    sources: &Sources,
    store: &Store,
    env: &HostEnv,
    qualify: &dyn Qualify,
    progress: &dyn Progress,
) -> Result<Extension, ExtensionError> {
    let id = key(tc, sources);
    if let Some(ext) = find(tc, store, sources) {
        return usable(ext, &id);
    }
    let lock_key = format!("extension-{id}");
    let doing = format!("compiling the extension for Lean {}", tc.version);
    let _lock = store.lock(&lock_key, &doing, WAIT, env, |owner| {
        progress.phase(phase::WAIT, None);
        progress.note(&format!("{} compiles the same extension; waiting for it", describe(owner)));
    })?;
    if let Some(ext) = find(tc, store, sources) {
        return usable(ext, &id);
    }
    let work = store.work_dir(&lock_key)?;
    kill_point(env, "extension-begun");
    let verdict = match compile(tc, sources, &work.dir, env, progress) {
        Ok(()) => {
            kill_point(env, "extension-compiled");
            try_out(tc, sources, &work.dir, &work.dir, env, qualify, progress)?
        }
        // Facts about these sources and this toolchain are worth keeping; accidents are not.
        Err(ExtensionError::Compile { module, .. }) => Verdict::Rejected(format!("{module} does not compile")),
        Err(other) => return Err(other),
    };
    progress.phase(phase::PUBLISH, None);
    let manifest = ExtensionManifest {
        schema: schema(),
        id: id.clone(),
        source_hash: sources.hash.clone(),
        fingerprint: tc.fingerprint.clone(),
        verdict: stored(&verdict),
        built_at: now(),
        shape: FolderShape::of(&work.dir, EXTENSION_MANIFEST)?,
    };
    write_manifest(&work.dir, EXTENSION_MANIFEST, &manifest)?;
    kill_point(env, "extension-unpublished");
    let dir = store.publish(&work.dir, EntryKind::Extension, &id)?;
    usable(Extension::new(&sources.hash, &dir, verdict), &id)
}

/// Has a fresh build qualified. `scratch` gets an empty project folder for the probes, removed afterwards.
///
/// # Errors
/// It could not be tried; that says nothing about it.
pub fn try_out(
    tc: &Toolchain,
    sources: &Sources,
    dir: &AbsPath,
    scratch: &AbsPath,
    env: &HostEnv,
    qualify: &dyn Qualify,
    progress: &dyn Progress,
) -> Result<Verdict, ExtensionError> {
    if env.is_ending() {
        // The probes would start a worker, of which the environment knows nothing.
        return Err(RunError::Stopped { program: tc.lean.clone() }.into());
    }
    progress.phase(phase::SELF_TEST, None);
    let project = scratch.join("probe-project");
    std::fs::create_dir_all(&project).map_err(FsError::at("make the folder", &project))?;
    let ext = Extension::new(&sources.hash, dir, Verdict::Pending);
    let launch = worker_launch(tc, &ext, &project, env)?;
    let verdict = match qualify.qualify(&launch) {
        Ok(()) => Verdict::Qualified,
        Err(reason) => Verdict::Rejected(reason),
    };
    std::fs::remove_dir_all(&project).map_err(FsError::at("remove", &project))?;
    Ok(verdict)
}

/// The store key: which toolchain, which sources.
fn key(tc: &Toolchain, sources: &Sources) -> String {
    format!("{}-{}", tc.fingerprint.short(), &sources.hash[..16])
}

fn find(tc: &Toolchain, store: &Store, sources: &Sources) -> Option<Extension> {
    // An embedded toolchain carries the extension it was installed with.
    if let Some(entry) = &tc.entry
        && entry.manifest.extension_source_hash == sources.hash
    {
        let dir = entry.dir.join("ext");
        return Some(Extension::new(&sources.hash, &dir, Verdict::Qualified));
    }
    let ExtensionEntry { dir, manifest, .. } = store.extension(&key(tc, sources)).ok()?;
    let same = manifest.source_hash == sources.hash && manifest.fingerprint == tc.fingerprint;
    let verdict = if manifest.verdict.qualified {
        Verdict::Qualified
    } else {
        Verdict::Rejected(manifest.verdict.reason.unwrap_or_default())
    };
    same.then(|| Extension::new(&sources.hash, &dir, verdict))
}

fn stored(verdict: &Verdict) -> StoredVerdict {
    StoredVerdict {
        qualified: *verdict == Verdict::Qualified,
        reason: match verdict {
            Verdict::Rejected(reason) => Some(reason.clone()),
            Verdict::Qualified | Verdict::Pending => None,
        },
    }
}

fn usable(ext: Extension, id: &str) -> Result<Extension, ExtensionError> {
    match ext.verdict {
        Verdict::Qualified => Ok(ext),
        Verdict::Rejected(reason) => Err(ExtensionError::Rejected { reason, log: ext.log, id: id.to_owned() }),
        Verdict::Pending => Err(ExtensionError::Rejected {
            reason: "it was never qualified".to_owned(),
            log: ext.log,
            id: id.to_owned(),
        }),
    }
}

#[cfg(test)]
#[path = "ensure_tests.rs"]
mod tests;
