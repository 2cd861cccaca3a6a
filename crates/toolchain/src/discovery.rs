//! Finding the toolchain of a project, and describing it.
//!
//! * **K2** discovery reads and reports where it found things; it never installs, and never starts a proxy that might.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use beam_base::AbsPath;
use beam_process::env::is_executable;
use beam_process::{HostEnv, Run, RunError};

use crate::elan::{Decider, Elan, Wanted};
use crate::extension::sources::Sources;
use crate::fingerprint::Fingerprint;
use crate::model::{EMBEDDED_NAME, Toolchain, ToolchainKind, ToolchainOrigin, parse_banner};
use crate::node::{NodeMissing, find_node};
use crate::release::Release;
use crate::store::{Entry, Store, StoreError};
use crate::support::{Registries, RegistryError, Support};

/// The oldest Lean we can serve: its worker protocol and our extension need it.
pub const OLDEST: (u32, u32) = (4, 28);
/// The command that ends every search without result.
const INSTALL: &str = "lean-beam toolchain install embedded";

/// Which toolchain the caller wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Choice {
    /// The project's own through elan, else `lean` on PATH, else an installed embedded one.
    #[default]
    Auto,
    /// The installed embedded one.
    Embedded,
    /// This `lean`.
    Lean(AbsPath),
}

/// Why there is no toolchain.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The project asks for a toolchain that no registry admits.
    #[error(
        "the toolchain `{name}` ({by}) is not supported: it is neither a validated toolchain (`lean-beam validated-toolchains`), nor of a compatible release line (`lean-beam compatible-release-lines`), nor in the custom registry {custom}"
    )]
    Unsupported {
        /// As written.
        name: String,
        /// Who named it.
        by: String,
        /// The custom registry.
        custom: AbsPath,
    },
    /// There is nothing to run Lean with.
    #[error("no Lean toolchain: {}; `{INSTALL}` gets one that needs nothing but Node", .looked.join("; "))]
    None {
        /// What was tried, for people.
        looked: Vec<String>,
    },
    /// The embedded toolchain was asked for and is not installed.
    #[error("the embedded toolchain is not installed; `{INSTALL}` installs it")]
    NotInstalled,
    /// A `lean` that cannot be run or does not answer as Lean does.
    #[error("{lean} cannot be used: {detail}")]
    Broken {
        /// The `lean`.
        lean: AbsPath,
        /// For people.
        detail: String,
    },
    /// A Lean older than [`OLDEST`].
    #[error("{lean} is Lean {version}; lean-beam needs {}.{} or newer", OLDEST.0, OLDEST.1)]
    TooOld {
        /// The `lean`.
        lean: AbsPath,
        /// Its version.
        version: String,
    },
    /// The embedded toolchain is installed, but there is no Node to run it with.
    #[error(transparent)]
    Node(#[from] NodeMissing),
    /// A registry is malformed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The store cannot be found.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ResolveError {
    /// The command that helps, if there is one.
    #[must_use]
    pub fn command(&self) -> Option<&'static str> {
        matches!(self, Self::None { .. } | Self::NotInstalled).then_some(INSTALL)
    }
}

/// Finds the toolchain for a project. Never installs (K2).
pub fn resolve(root: &AbsPath, env: &HostEnv, want: &Choice) -> Result<Toolchain, ResolveError> {
    let store = Store::open(env)?;
    match want {
        Choice::Lean(lean) => explicit(lean, &store, env),
        Choice::Embedded => installed(&store)
            .map(|e| Toolchain::of_entry(e, ToolchainOrigin::Explicit))
            .ok_or(ResolveError::NotInstalled),
        Choice::Auto => auto(root, &store, env),
    }
}

/// What a project's toolchain name is and whether it is admitted; `None` if nothing names one. For `doctor`.
pub fn wanted(root: &AbsPath, env: &HostEnv) -> Result<Option<(Wanted, Support)>, ResolveError> {
    let registries = Registries::load(&Store::open(env)?)?;
    let elan = Elan::open(env);
    Ok(elan.wanted(root, env).map(|w| {
        let admission = admit(&registries, &elan, &w.name);
        (w, admission)
    }))
}

fn auto(root: &AbsPath, store: &Store, env: &HostEnv) -> Result<Toolchain, ResolveError> {
    let elan = Elan::open(env);
    let mut looked = Vec::new();
    if let Some(wanted) = elan.wanted(root, env) {
        let registries = Registries::load(store)?;
        if admit(&registries, &elan, &wanted.name) == Support::Unsupported {
            return Err(ResolveError::Unsupported {
                by: describe(&wanted.by),
                name: wanted.name,
                custom: registries.custom_path().clone(),
            });
        }
        if let Some((channel, dir)) = elan.installed(&wanted.name) {
            return probe(&dir.join("bin/lean"), ToolchainOrigin::Elan { channel }, env);
        }
        looked.push(format!("elan does not have `{0}` (`elan toolchain install {0}` gets it)", wanted.name));
    }
    match env.find_in_path("lean") {
        Some(lean) if elan.is_proxy(&lean) => {
            looked.push(format!("{lean} is elan's proxy and has nothing to stand for"));
        }
        Some(lean) => return probe(&lean, ToolchainOrigin::Path, env),
        None => looked.push("there is no `lean` on PATH".to_owned()),
    }
    let Some(entry) = installed(store) else {
        return Err(ResolveError::None { looked });
    };
    find_node(env)?;
    let mut tc = Toolchain::of_entry(entry, ToolchainOrigin::EmbeddedFallback);
    tc.notice = Some(format!("using the embedded Lean {}: {}", tc.version, looked.join("; ")));
    Ok(tc)
}

/// A name is judged by what it stands for, so that `stable` is as good as the release that elan has for it.
fn admit(registries: &Registries, elan: &Elan, name: &str) -> Support {
    let literal = registries.classify(name);
    if literal != Support::Unsupported {
        return literal;
    }
    if name == EMBEDDED_NAME {
        return Support::Validated;
    }
    elan.installed(name).map_or(Support::Unsupported, |(full, _)| registries.classify(&full))
}

fn describe(by: &Decider) -> String {
    match by {
        Decider::Environment => "from ELAN_TOOLCHAIN".to_owned(),
        Decider::Override(dir) => format!("elan's override for {dir}"),
        Decider::File(file) => format!("from {file}"),
        Decider::Default => "elan's default".to_owned(),
    }
}

fn explicit(lean: &AbsPath, store: &Store, env: &HostEnv) -> Result<Toolchain, ResolveError> {
    let broken = |detail: String| ResolveError::Broken { lean: lean.clone(), detail };
    if !is_executable(lean) {
        return Err(broken("it is not an executable file".to_owned()));
    }
    let real = AbsPath::canonical(lean).map_err(|e| broken(e.to_string()))?;
    // Ours is known without running it: `toolchains/<id>/bin/lean`.
    let ours = real
        .relative_to(&AbsPath::canonical(store.home()).unwrap_or_else(|_| store.home().clone()))
        .and_then(|rel| rel.iter().nth(1))
        .and_then(|id| store.entry(id).ok())
        .filter(|e| AbsPath::canonical(e.lean()).is_ok_and(|l| l == real));
    match ours {
        Some(entry) => Ok(Toolchain::of_entry(entry, ToolchainOrigin::Explicit)),
        None => probe(lean, ToolchainOrigin::Explicit, env),
    }
}

/// The entry to use: the newest with this program's extension in it, else the newest. Which package it was made from is the
/// installer's business; here it is a Lean that was whole and had passed its self-test when it was published (K3, K4).
fn installed(store: &Store) -> Option<Entry> {
    let mut entries = store.list();
    let hash = Sources::embedded().map_or("", |s| s.hash.as_str());
    let ours = entries.iter().position(|e| e.manifest.extension_source_hash == hash).unwrap_or(0);
    (!entries.is_empty()).then(|| entries.swap_remove(ours))
}

/// Asks a `lean` outside the store what it is.
fn probe(lean: &AbsPath, found: ToolchainOrigin, env: &HostEnv) -> Result<Toolchain, ResolveError> {
    let cwd = lean.parent().unwrap_or_else(|| lean.clone());
    let ask = |program: &AbsPath, arg: &str| -> Result<String, String> {
        let done = Run::new(program, &cwd)
            .args([arg])
            .limit(Duration::from_secs(60))
            .capture(env)
            .map_err(|e: RunError| e.to_string())?;
        if !done.ok() {
            return Err(format!("`{arg}` failed ({}): {}", done.status, done.both().trim()));
        }
        Ok(done.stdout.trim().to_owned())
    };
    let broken = |detail: String| ResolveError::Broken { lean: lean.clone(), detail };
    let banner = ask(lean, "--version").map_err(broken)?;
    let version =
        parse_banner(&banner).ok_or_else(|| broken(format!("it says `{banner}`, which is no version of Lean 4")))?;
    if !new_enough(&version) {
        return Err(ResolveError::TooOld { lean: lean.clone(), version });
    }
    let folder = |arg| {
        let text = ask(lean, arg).map_err(broken)?;
        AbsPath::new(text).map_err(|e| broken(e.to_string()))
    };
    let prefix = folder("--print-prefix")?;
    let lib_dir = folder("--print-libdir")?;
    // WebAssembly builds cannot start Lake, and say so by their target.
    let kind = if banner.contains("wasm32") { ToolchainKind::Embedded } else { ToolchainKind::Native };
    let lake = Some(prefix.join("bin/lake")).filter(|l| kind == ToolchainKind::Native && is_executable(l));
    let lake_version = match &lake {
        Some(lake) => Some(ask(lake, "--version").map_err(broken)?),
        None => None,
    };
    let meta = lean.metadata().map_err(|e| broken(e.to_string()))?;
    let fingerprint = Fingerprint::Native {
        lean_version: banner,
        prefix: prefix.clone(),
        lib_dir: lib_dir.clone(),
        lake_version,
        size: meta.size(),
        modified: meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec()),
    };
    if let ToolchainOrigin::Elan { channel } = &found {
        check_name(channel, &version).map_err(broken)?;
    }
    Ok(Toolchain {
        kind,
        id: fingerprint.short(),
        lean: lean.clone(),
        lake,
        version,
        prefix,
        lib_dir,
        fingerprint,
        found,
        notice: None,
        entry: None,
    })
}

/// A canonical release must be what its name says.
fn check_name(channel: &str, version: &str) -> Result<(), String> {
    match Release::parse(channel) {
        Some(named) if Release::parse_version(version) != Some(named) => {
            Err(format!("elan calls it `{channel}`, but it is Lean {version}"))
        }
        _ => Ok(()),
    }
}

fn new_enough(version: &str) -> bool {
    let mut parts = version.split(['.', '-']).map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= OLDEST,
        _ => false,
    }
}

#[cfg(test)]
#[path = "discovery_tests.rs"]
mod tests;
