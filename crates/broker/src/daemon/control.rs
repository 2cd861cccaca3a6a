//! The control directory of a project and the folders in which sockets may lie (D4).
//!
//! Owns where things lie and whether a folder is safe to put a socket in. Must never follow a symbolic link to a folder
//! that is to be private, and never weaken the mode of one.

#![allow(
    clippy::disallowed_methods,
    reason = "small files of the control directory: called by commands before they ask, and by the daemon on blocking threads"
)]

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;

use beam_base::AbsPath;
use beam_base::guarded::{Access, Folder, GuardError, our_uid};

/// `sun_path` holds 108 bytes on Linux and 104 on other systems, with a final zero; a margin remains.
const MAX_SOCKET_PATH: usize = 100;

/// Names in the control directory.
pub(super) const REGISTRY: &str = "beam-daemon.json";
pub(super) const LOCK: &str = "lock";
pub(super) const LOCK_NOTE: &str = "lock.owner";
pub(super) const LEASES: &str = "wrapper-leases";
pub(super) const LOG: &str = "beam-daemon-startup.log";
pub(super) const INCIDENTS: &str = "daemon-failures";

/// Most that is read of a registry, a lease or a note, in bytes: ours have some hundreds.
pub(super) const SMALL: u64 = 64 * 1024;

/// Why the control directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// It cannot be made or written.
    #[error("cannot write the control directory {dir}: {source}; set BEAM_CONTROL_DIR to a directory you can write to")]
    NotWritable {
        /// The directory.
        dir: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// It, or what lies in it, is not to be trusted.
    #[error("{0}, or set BEAM_CONTROL_DIR to a directory of your own")]
    Refused(#[source] GuardError),
    /// A private folder is not private.
    #[error("refusing to use {dir}: {why}; remove it, or set BEAM_CONTROL_DIR to a directory of your own")]
    Unsafe {
        /// The folder.
        dir: AbsPath,
        /// What is wrong with it.
        why: String,
    },
    /// No folder gives a socket path that is short enough.
    #[error("no folder for the daemon's socket: {0}; set XDG_RUNTIME_DIR or TMPDIR to a short path")]
    NoSocketFolder(String),
}

/// What the environment says about places.
#[derive(Debug, Clone, Default)]
pub struct HostPaths {
    /// `BEAM_CONTROL_DIR`, made absolute.
    pub control_dir: Option<AbsPath>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<AbsPath>,
    /// `TMPDIR`.
    pub tmp_dir: Option<AbsPath>,
}

/// Where a project's daemon keeps its files.
#[derive(Debug, Clone)]
pub struct Control {
    root: AbsPath,
    dir: AbsPath,
    own_base: bool,
    host: HostPaths,
}

impl Control {
    /// The control directory of a canonical root; touches nothing.
    #[must_use]
    pub fn locate(root: &AbsPath, host: &HostPaths) -> Self {
        let dir = match &host.control_dir {
            None => root.join(".beam"),
            Some(base) => base.join(format!("{}-{}", display_name(root), root_hash(root))),
        };
        Self { root: root.clone(), dir, own_base: host.control_dir.is_some(), host: host.clone() }
    }

    /// Makes the directory if need be, and keeps it out of the project's version control.
    pub fn create(&self) -> Result<(), ControlError> {
        let failed = |source| ControlError::NotWritable { dir: self.dir.clone(), source };
        if let (true, Some(base)) = (self.own_base, self.dir.parent()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(base).map_err(failed)?;
        }
        let folder = self.open(true).map_err(|e| self.refused(e))?;
        if !self.own_base {
            // A write that failed half way (a full disk) left a file that ignores nothing: whole or written again.
            match folder.read(".gitignore", SMALL) {
                Ok(text) if !text.is_empty() => {}
                _ => folder.replace(".gitignore", b"*\n").map_err(failed)?,
            }
        }
        Ok(())
    }

    /// The directory, open: a folder of our own that others cannot write to, and no link. What lies in it decides which daemon is
    /// asked, and a cloned project may have brought it along: everything in it is opened from here.
    pub fn folder(&self) -> Result<Folder, GuardError> {
        self.open(false)
    }

    fn open(&self, create: bool) -> Result<Folder, GuardError> {
        let (Some(base), Some(name)) = (self.dir.parent(), self.dir.as_utf8_path().file_name()) else {
            return Folder::open(&self.dir, our_uid());
        };
        Folder::within(&base, name, our_uid(), create)
    }

    fn refused(&self, error: GuardError) -> ControlError {
        match error {
            GuardError::Io { source, .. } => ControlError::NotWritable { dir: self.dir.clone(), source },
            // The root is no folder: another place for the control directory is the way out.
            GuardError::WrongType { path, .. } if path != self.dir => {
                ControlError::NotWritable { dir: self.dir.clone(), source: io::ErrorKind::NotADirectory.into() }
            }
            refused => ControlError::Refused(refused),
        }
    }

    /// The project.
    #[must_use]
    pub fn root(&self) -> &AbsPath {
        &self.root
    }

    /// The directory itself.
    #[must_use]
    pub fn dir(&self) -> &AbsPath {
        &self.dir
    }

    /// `beam-daemon.json`
    #[must_use]
    pub fn registry_path(&self) -> AbsPath {
        self.dir.join(REGISTRY)
    }

    /// The file whose lock orders starting, stopping and replacing.
    #[must_use]
    pub fn lock_path(&self) -> AbsPath {
        self.dir.join(LOCK)
    }

    /// Says who holds the lock, for people.
    #[must_use]
    pub fn lock_note_path(&self) -> AbsPath {
        self.dir.join(LOCK_NOTE)
    }

    /// Leases of running commands.
    #[must_use]
    pub fn lease_dir(&self) -> AbsPath {
        self.dir.join(LEASES)
    }

    /// The daemon's standard error since its start.
    #[must_use]
    pub fn log_path(&self) -> AbsPath {
        self.dir.join(LOG)
    }

    /// Incidents.
    #[must_use]
    pub fn incident_dir(&self) -> AbsPath {
        self.dir.join(INCIDENTS)
    }

    /// Opens the start-up log, empty.
    pub fn open_log(&self) -> Result<fs::File, ControlError> {
        let file = self.folder().and_then(|f| f.file(LOG, Access::Write)).map_err(|e| self.refused(e))?;
        // Emptied only now that it is known to be a file of ours.
        file.set_len(0).map_err(|source| ControlError::NotWritable { dir: self.dir.clone(), source })?;
        Ok(file)
    }

    /// Whether a socket lies, itself and not as a link, where daemons of this control directory put theirs. Only then may whoever
    /// listens on it be ended without having said that it serves this root: an entry of the registry alone could name any socket.
    #[must_use]
    pub fn owns_socket(&self, socket: &AbsPath) -> bool {
        let (Some(folder), Some(name)) = (socket.parent(), socket.as_utf8_path().file_name()) else {
            return false;
        };
        self.socket_folders().iter().any(|known| {
            known.path == folder
                && match &known.parent {
                    None => self.folder().and_then(|dir| dir.folder("run", false)),
                    Some(parent) => {
                        Folder::open(parent, our_uid()).and_then(|dir| dir.folder(&root_hash(&self.dir), false))
                    }
                }
                .is_ok_and(|open| open.has_socket(name))
        })
    }

    /// Folders for the socket, best first: the control directory's own, then per-user folders for when that path is too
    /// long for a socket address or lies on a file system without sockets.
    #[must_use]
    pub fn socket_folders(&self) -> Vec<SocketFolder> {
        let own = SocketFolder { path: self.dir.join("run"), parent: None };
        let name = format!("lean-beam-{}", our_uid());
        let shared = [self.host.runtime_dir.clone(), self.host.tmp_dir.clone()]
            .into_iter()
            .flatten()
            .chain(AbsPath::new("/tmp").ok())
            .filter(|base| base.is_dir())
            .map(|base| {
                let parent = base.join(&name);
                SocketFolder {
                    // The control directory, not the root: two control directories of one root are two daemons.
                    path: parent.join(root_hash(&self.dir)),
                    parent: Some(parent),
                }
            });
        std::iter::once(own).chain(shared).collect()
    }
}

/// A folder that only its owner can enter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketFolder {
    /// Where the socket goes.
    pub path: AbsPath,
    /// The per-user folder above, which must be private, too.
    pub parent: Option<AbsPath>,
}

impl SocketFolder {
    /// The path of a socket in it, if it fits into a socket address.
    #[must_use]
    pub fn socket(&self, name: &str) -> Option<AbsPath> {
        let path = self.path.join(name);
        (path.as_os_str().len() <= MAX_SOCKET_PATH).then_some(path)
    }

    /// Makes the folder, or makes sure that it is ours and private.
    pub fn secure(&self) -> Result<(), ControlError> {
        if let Some(parent) = &self.parent {
            secure(parent, our_uid())?;
        }
        secure(&self.path, our_uid())
    }
}

/// A directory (no link) of mode 0700 that belongs to `uid`. One that belongs to us but is open to others is closed:
/// nothing of value can be in it yet, since sockets are made anew by each daemon.
fn secure(dir: &AbsPath, uid: u32) -> Result<(), ControlError> {
    let unwritable = |source| ControlError::NotWritable { dir: dir.clone(), source };
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(unwritable(e)),
    }
    let meta = fs::symlink_metadata(dir).map_err(unwritable)?;
    let refuse = |why: String| Err(ControlError::Unsafe { dir: dir.clone(), why });
    if !meta.is_dir() {
        return refuse("it is not a directory".into());
    }
    if meta.uid() != uid {
        return refuse(format!("it belongs to user {}, not to {uid}", meta.uid()));
    }
    if meta.mode() & 0o777 != 0o700 {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(unwritable)?;
    }
    Ok(())
}

/// First 16 characters of the hash of a path.
fn root_hash(path: &AbsPath) -> String {
    use std::os::unix::ffi::OsStrExt;
    let hex = blake3::hash(path.as_path().as_os_str().as_bytes()).to_hex();
    hex[..16].to_owned()
}

/// The last component, cut to what is harmless in a file name.
fn display_name(root: &AbsPath) -> String {
    let name = root.as_path().file_name().map(|n| PathBuf::from(n).display().to_string()).unwrap_or_default();
    let safe: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')).take(40).collect();
    if safe.trim_matches('.').is_empty() { "root".to_owned() } else { safe }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn temp() -> (tempfile::TempDir, AbsPath) {
        let dir = tempfile::tempdir().unwrap();
        let path = AbsPath::canonical(dir.path()).unwrap();
        (dir, path)
    }

    fn mode(path: &AbsPath) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn the_default_directory_hides_itself_from_version_control() {
        let (_keep, root) = temp();
        let control = Control::locate(&root, &HostPaths::default());
        control.create().unwrap();
        control.create().unwrap();
        assert_eq!(fs::read_to_string(root.join(".beam/.gitignore")).unwrap(), "*\n");
    }

    /// The variable's directory is shared by roots, so each gets its own below it, always the same.
    #[test]
    fn a_control_base_has_one_stable_folder_per_root() {
        let (_keep, base) = temp();
        let host = HostPaths { control_dir: Some(base.join("ctl")), ..HostPaths::default() };
        let at = |p: &str| Control::locate(&AbsPath::new(p).unwrap(), &host);
        assert_eq!(at("/a/proj").dir(), at("/a/proj").dir());
        assert_ne!(at("/a/proj").dir(), at("/b/proj").dir());
        let name = at("/a/proj").dir().file_name().unwrap().to_owned();
        assert!(name.to_str().unwrap().starts_with("proj-"), "{name:?}");
        at("/a/proj").create().unwrap();
        assert!(!at("/a/proj").dir().join(".gitignore").exists());
        assert_eq!(display_name(&AbsPath::new("/").unwrap()), "root");
        assert_eq!(display_name(&AbsPath::new("/a/ö ..x/").unwrap()), "..x");
    }

    /// D4: private, ours, and no link.
    #[test]
    fn d4_socket_folders_are_private_or_refused() {
        let (_keep, base) = temp();
        let dir = base.join("run");
        secure(&dir, our_uid()).unwrap();
        assert_eq!(mode(&dir), 0o700);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        secure(&dir, our_uid()).unwrap();
        assert_eq!(mode(&dir), 0o700);

        let foreign = secure(&dir, our_uid() + 1).unwrap_err();
        assert!(foreign.to_string().contains("belongs to user"), "{foreign}");

        let link = base.join("link");
        symlink(&dir, &link).unwrap();
        let refused = secure(&link, our_uid()).unwrap_err();
        assert!(refused.to_string().contains("not a directory"), "{refused}");
    }

    #[test]
    fn long_paths_have_no_socket_address() {
        let short = SocketFolder { path: AbsPath::new("/tmp/x").unwrap(), parent: None };
        assert!(short.socket("d.sock").is_some());
        let long = SocketFolder { path: AbsPath::new(format!("/tmp/{}", "x".repeat(100))).unwrap(), parent: None };
        assert_eq!(long.socket("d.sock"), None);
    }

    #[test]
    fn a_planted_log_link_is_not_followed() {
        let (_keep, root) = temp();
        let control = Control::locate(&root, &HostPaths::default());
        control.create().unwrap();
        let victim = root.join("victim");
        fs::write(&victim, "keep").unwrap();
        symlink(&victim, control.log_path()).unwrap();
        assert!(control.open_log().is_err());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "keep");
    }

    #[test]
    fn a_root_that_is_not_a_directory_names_the_variable() {
        let (_keep, base) = temp();
        fs::write(base.join("file"), "").unwrap();
        let control = Control::locate(&base.join("file"), &HostPaths::default());
        let text = control.create().unwrap_err().to_string();
        assert!(text.contains("BEAM_CONTROL_DIR"), "{text}");
    }

    /// What a cloned project can bring along: links in the place of everything. None is followed, nothing behind them changes.
    #[test]
    fn a_planted_control_directory_is_refused_with_its_remedy() {
        let (_keep, root) = temp();
        let control = Control::locate(&root, &HostPaths::default());
        fs::create_dir(root.join("elsewhere")).unwrap();
        symlink(root.join("elsewhere"), root.join(".beam")).unwrap();
        let text = control.create().unwrap_err().to_string();
        assert!(text.contains("symbolic link; remove it: rm"), "{text}");
        assert_eq!(fs::read_dir(root.join("elsewhere")).unwrap().count(), 0);

        fs::remove_file(root.join(".beam")).unwrap();
        fs::create_dir(root.join(".beam")).unwrap();
        fs::set_permissions(root.join(".beam"), fs::Permissions::from_mode(0o777)).unwrap();
        let text = control.create().unwrap_err().to_string();
        assert!(text.contains(&format!("chmod go-w '{}'", control.dir())), "{text}");
    }

    #[test]
    fn the_ignore_file_is_whole_or_written_again() {
        let (_keep, root) = temp();
        let control = Control::locate(&root, &HostPaths::default());
        control.create().unwrap();
        let ignore = root.join(".beam/.gitignore");
        fs::write(&ignore, "").unwrap();
        control.create().unwrap();
        assert_eq!(fs::read_to_string(&ignore).unwrap(), "*\n");
        // What somebody wrote there on purpose stays.
        fs::write(&ignore, "run\n").unwrap();
        control.create().unwrap();
        assert_eq!(fs::read_to_string(&ignore).unwrap(), "run\n");
        let victim = root.join("victim");
        fs::write(&victim, "").unwrap();
        fs::remove_file(&ignore).unwrap();
        symlink(&victim, &ignore).unwrap();
        control.create().unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "");
        assert_eq!(fs::read_to_string(&ignore).unwrap(), "*\n");
    }

    #[test]
    fn only_sockets_of_the_control_directory_are_its_own() {
        let (_keep, root) = temp();
        let control = Control::locate(&root, &HostPaths::default());
        control.create().unwrap();
        fs::create_dir(root.join(".beam/run")).unwrap();
        let listen = |p: &AbsPath| std::os::unix::net::UnixListener::bind(p).unwrap();
        let (own, stranger) = (root.join(".beam/run/a.sock"), root.join("s.sock"));
        let _both = (listen(&own), listen(&stranger));
        symlink(&stranger, root.join(".beam/run/b.sock")).unwrap();
        assert!(control.owns_socket(&own));
        assert!(!control.owns_socket(&stranger));
        assert!(!control.owns_socket(&root.join(".beam/run/b.sock")));
    }
}
