//! Getting the package with the user's own npm, and making sure that it is the right one.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use beam_base::AbsPath;
use sha2::{Digest, Sha512};

use crate::package::Package;
use beam_process::{HostEnv, Run, RunError};
use beam_toolchain::fs::FsError;
use beam_toolchain::node::{NodeMissing, OLDEST_NODE, find_node};
use beam_toolchain::progress::Progress;

/// Longest download.
const DOWNLOAD: Duration = Duration::from_secs(3600);

/// Why there is no package.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No Node.
    #[error(transparent)]
    NoNode(#[from] NodeMissing),
    /// `LEAN_NODE` or `node` does not work.
    #[error("{node} does not work as Node: {detail}")]
    BadNode {
        /// The program.
        node: AbsPath,
        /// For people.
        detail: String,
    },
    /// Node is too old.
    #[error(
        "{node} is Node {version}: the embedded toolchain needs Node {OLDEST_NODE} or newer; upgrade it, or set LEAN_NODE to a newer one"
    )]
    OldNode {
        /// The program.
        node: AbsPath,
        /// What it says.
        version: String,
    },
    /// No npm.
    #[error("there is no `npm` on PATH; it comes with Node {OLDEST_NODE} or newer (some systems package it as `npm`)")]
    NoNpm,
    /// npm failed: no network, no such package in the user's registry, its own disk full.
    #[error(
        "`npm pack {spec}` failed ({status}); check the connection with `npm ping` and try again. npm said:\n{stderr}"
    )]
    Npm {
        /// What was asked for.
        spec: String,
        /// How it ended.
        status: String,
        /// What it printed.
        stderr: String,
    },
    /// npm ended well but there is no package.
    #[error("`npm pack {0}` left no package behind")]
    NoPackage(String),
    /// The package is another one than the one we know.
    #[error(
        "the package {spec} has the wrong content: its hash is {found}, expected {expected}. Nothing was installed. If npm's cache is damaged, `npm cache clean --force` helps; else the registry serves something else"
    )]
    WrongHash {
        /// What was asked for.
        spec: String,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A program could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A file operation failed.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// Finds Node and looks at its version.
pub(crate) fn check_node(env: &HostEnv, cwd: &AbsPath) -> Result<AbsPath, FetchError> {
    let node = find_node(env)?;
    let bad = |detail: String| FetchError::BadNode { node: node.clone(), detail };
    let done = Run::new(&node, cwd)
        .args(["--version"])
        .limit(Duration::from_secs(30))
        .capture(env)
        .map_err(|e| bad(e.to_string()))?;
    let version = done.stdout.trim().to_owned();
    let major = version.strip_prefix('v').and_then(|v| v.split('.').next()).and_then(|m| m.parse::<u32>().ok());
    match major {
        Some(major) if done.ok() && major >= OLDEST_NODE => Ok(node),
        Some(_) if done.ok() => Err(FetchError::OldNode { node, version }),
        _ => Err(bad(format!("`--version` gives: {}", done.both().trim()))),
    }
}

/// Finds npm.
pub(crate) fn find_npm(env: &HostEnv) -> Result<AbsPath, FetchError> {
    env.find_in_path("npm").ok_or(FetchError::NoNpm)
}

/// Has npm put the package into `dir`, an empty folder, where no project's settings are in effect; the user's own are.
pub(crate) fn download(package: &Package, npm: &AbsPath, dir: &AbsPath, env: &HostEnv) -> Result<AbsPath, FetchError> {
    let spec = package.spec();
    let done = Run::new(npm, dir)
        // The hash is checked in any case, so what npm has in its cache is as good as what it would get.
        .args(["pack", spec.as_str(), "--json", "--ignore-scripts", "--prefer-offline"])
        .limit(DOWNLOAD)
        .capture(env)?;
    if !done.ok() {
        return Err(FetchError::Npm {
            spec,
            status: done.status.to_string(),
            stderr: done.both().trim_end().to_owned(),
        });
    }
    let mut found = std::fs::read_dir(dir)
        .map_err(FsError::at("read the folder", dir))?
        .filter_map(|e| AbsPath::new(e.ok()?.path()).ok())
        .filter(|p| p.extension().is_some_and(|e| e == "tgz"));
    match (found.next(), found.next()) {
        (Some(file), None) => Ok(file),
        _ => Err(FetchError::NoPackage(spec)),
    }
}

/// Compares the package's hash with the one we know. Progress counts bytes.
pub(crate) fn verify(package: &Package, file: &AbsPath, progress: &dyn Progress) -> Result<(), FetchError> {
    let read = |e| FsError::at("read", file)(e);
    let mut from = File::open(file).map_err(read)?;
    let mut hash = Sha512::new();
    let mut chunk = vec![0; 1 << 20];
    loop {
        let n = from.read(&mut chunk).map_err(read)?;
        if n == 0 {
            break;
        }
        hash.update(&chunk[..n]);
        progress.advance(n as u64);
    }
    let found = format!("sha512-{}", STANDARD.encode(hash.finalize()));
    if found == package.integrity {
        Ok(())
    } else {
        Err(FetchError::WrongHash { spec: package.spec(), expected: package.integrity.to_string(), found })
    }
}
