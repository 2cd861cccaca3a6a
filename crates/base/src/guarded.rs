//! Opening files and folders that somebody else may have put in place: a cloned project, another user, another program.
//!
//! The check and the opening are one act: everything is asked of the open descriptor, so nothing can be exchanged in between.
//!
//! * Regular files only. Opening never waits: a FIFO in the place of a file is refused, it does not hang its reader.
//! * A cap on every read, kept by the reader itself: the size that the file system names is only a hint.
//! * Below a [`Folder`] no link is followed, and the folder belongs to its owner and is not writable by others.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::AbsPath;

/// Why a file or folder is not used.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The system refuses, or it is not there.
    #[error("cannot open {path}: {source}")]
    Io {
        /// What was to be opened.
        path: AbsPath,
        /// Why not.
        source: io::Error,
    },
    /// A link stands in its place.
    #[error("refusing {path}: it is a symbolic link; remove it: rm '{path}'")]
    Link {
        /// The link.
        path: AbsPath,
    },
    /// Something else stands in its place.
    #[error("refusing {path}: it is {found}, not {wanted}; remove it")]
    WrongType {
        /// What was to be opened.
        path: AbsPath,
        /// What it is.
        found: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// It is larger than anything that is read from there.
    #[error("refusing {path}: it has more than {cap} bytes{}", .size.map(|s| format!(" ({s})")).unwrap_or_default())]
    TooLarge {
        /// The file.
        path: AbsPath,
        /// Bytes it says to have; `None` if it grew while it was read.
        size: Option<u64>,
        /// Bytes that are accepted.
        cap: u64,
    },
    /// It belongs to somebody else.
    #[error("refusing {path}: it belongs to user {owner}, not to user {wanted}; use a place of your own")]
    Owner {
        /// The file or folder.
        path: AbsPath,
        /// Whose it is.
        owner: u32,
        /// Whose it must be.
        wanted: u32,
    },
    /// Others could exchange what lies in it.
    #[error("refusing {path}: others can write to it (mode {mode:o}); run: chmod go-w '{path}'")]
    Writable {
        /// The folder.
        path: AbsPath,
        /// Its permission bits.
        mode: u32,
    },
}

impl GuardError {
    /// Whether there simply is nothing of that name.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// As an error of input and output, for callers that have no other.
    #[must_use]
    pub fn into_io(self) -> io::Error {
        match self {
            Self::Io { source, .. } => source,
            other => io::Error::new(io::ErrorKind::PermissionDenied, other.to_string()),
        }
    }
}

/// What a file must be to be read with [`open`] and [`read`].
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Largest size, bytes.
    pub cap: u64,
    /// Whether the path may end in a symbolic link. Folders on the way are not looked at: see [`Folder`] for that.
    pub links: bool,
    /// The user it must belong to, if that matters.
    pub owner: Option<u32>,
}

/// Our effective user.
#[must_use]
pub fn our_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Opens a file for reading: regular, of its owner, not larger than the cap.
pub fn open(path: &AbsPath, rules: &Rules) -> Result<File, GuardError> {
    let links = if rules.links { OFlags::empty() } else { OFlags::NOFOLLOW };
    let fd = rustix::fs::open(path.as_path(), READ | links, Mode::empty())
        .map_err(|e| refused(path, e, "a regular file"))?;
    let stat = regular(path, &fd, rules.owner)?;
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if size > rules.cap {
        return Err(GuardError::TooLarge { path: path.clone(), size: Some(size), cap: rules.cap });
    }
    Ok(File::from(fd))
}

/// The content of such a file. A file that grows while it is read is cut off by the cap, as an error.
pub fn read(path: &AbsPath, rules: &Rules) -> Result<Vec<u8>, GuardError> {
    read_capped(path, open(path, rules)?, rules.cap)
}

/// Makes sure that a folder (reached by whatever links) belongs to `owner` and cannot be written by others.
pub fn check_folder(path: &AbsPath, owner: u32) -> Result<(), GuardError> {
    Folder::open(path, owner).map(drop)
}

/// How a file of a [`Folder`] is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// For reading.
    Read,
    /// For writing, from its start; made if it is not there. What it held stays until it is overwritten.
    Write,
}

/// An open folder of one's own. Names in it are single components; no link is followed.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: AbsPath,
    owner: u32,
}

const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Folder {
    /// Opens a folder that the user named. Links on the way to it are the user's own; the folder itself is checked.
    pub fn open(path: &AbsPath, owner: u32) -> Result<Self, GuardError> {
        let fd = rustix::fs::open(path.as_path(), FOLDER, Mode::empty()).map_err(|e| refused(path, e, "a folder"))?;
        Self::checked(fd, path.clone(), owner)
    }

    /// Opens the folder `name` in `base`, which is not itself checked. `name` is not followed if it is a link.
    pub fn within(base: &AbsPath, name: &str, owner: u32, create: bool) -> Result<Self, GuardError> {
        let at = rustix::fs::open(base.as_path(), FOLDER, Mode::empty()).map_err(|e| refused(base, e, "a folder"))?;
        Self::child(&at, base, name, owner, create)
    }

    /// Opens a folder in this one; made, for its owner only, if it is not there and `create` says so.
    pub fn folder(&self, name: &str, create: bool) -> Result<Self, GuardError> {
        Self::child(&self.fd, &self.path, name, self.owner, create)
    }

    fn child(at: &OwnedFd, base: &AbsPath, name: &str, owner: u32, create: bool) -> Result<Self, GuardError> {
        let path = base.join(name);
        if create {
            match rustix::fs::mkdirat(at, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(e) => return Err(GuardError::Io { path, source: e.into() }),
            }
        }
        let fd = rustix::fs::openat(at, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())
            .map_err(|e| refused_at(at, name, &path, e, "a folder"))?;
        Self::checked(fd, path, owner)
    }

    fn checked(fd: OwnedFd, path: AbsPath, owner: u32) -> Result<Self, GuardError> {
        let stat = rustix::fs::fstat(&fd).map_err(|e| GuardError::Io { path: path.clone(), source: e.into() })?;
        owned(&path, &stat, Some(owner))?;
        // With the sticky bit others cannot exchange what is ours, but they can put things there that we would read.
        let mode = stat.st_mode & 0o7777;
        if mode & 0o022 != 0 {
            return Err(GuardError::Writable { path, mode });
        }
        Ok(Self { fd, path, owner })
    }

    /// Where it is, for messages.
    #[must_use]
    pub fn path(&self) -> &AbsPath {
        &self.path
    }

    /// Opens a file of the folder. Never waits and never follows a link.
    pub fn file(&self, name: impl AsRef<str>, access: Access) -> Result<File, GuardError> {
        let name = name.as_ref();
        let path = self.path.join(name);
        let flags = match access {
            Access::Read => READ,
            Access::Write => OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC,
        };
        let fd = rustix::fs::openat(&self.fd, name, flags | OFlags::NOFOLLOW, Mode::RUSR | Mode::WUSR)
            .map_err(|e| refused_at(&self.fd, name, &path, e, "a regular file"))?;
        regular(&path, &fd, Some(self.owner))?;
        Ok(File::from(fd))
    }

    /// A new file for its owner only; an error if the name is taken by anything.
    pub fn create(&self, name: impl AsRef<str>) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(File::from(rustix::fs::openat(&self.fd, name.as_ref(), flags, Mode::RUSR | Mode::WUSR)?))
    }

    /// The content of a file of the folder, at most `cap` bytes.
    pub fn read(&self, name: impl AsRef<str>, cap: u64) -> Result<Vec<u8>, GuardError> {
        let file = self.file(name.as_ref(), Access::Read)?;
        read_capped(&self.path.join(name.as_ref()), file, cap)
    }

    /// Writes a file so that readers see the old content or the new. A link of that name is replaced, not followed.
    pub fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        let tmp = format!(".{name}.{}.{nanos}", std::process::id());
        let written = self.create(&tmp).and_then(|mut f| f.write_all(content)).and_then(|()| self.rename(&tmp, name));
        if written.is_err() {
            let _nothing_left = self.remove(&tmp);
        }
        written
    }

    /// Gives a file of the folder another name in it.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Takes a file (or a link, not what it leads to) away.
    pub fn remove(&self, name: impl AsRef<str>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name.as_ref(), AtFlags::empty())?)
    }

    /// Status of a name, of the link itself if it is one.
    pub fn stat(&self, name: impl AsRef<str>) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.fd, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Whether there is a socket (no link to one) of that name.
    #[must_use]
    pub fn has_socket(&self, name: impl AsRef<str>) -> bool {
        self.stat(name).is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::Socket)
    }

    /// All names in it but `.` and `..`, in no order. What is not UTF-8 is none of ours and left out.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut out = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().to_str()
                && name != "."
                && name != ".."
            {
                out.push(name.to_owned());
            }
        }
        Ok(out)
    }
}

fn read_capped(path: &AbsPath, file: File, cap: u64) -> Result<Vec<u8>, GuardError> {
    let io = |source| GuardError::Io { path: path.clone(), source };
    let size = file.metadata().map_err(io)?.len();
    let too_large = |size| Err(GuardError::TooLarge { path: path.clone(), size, cap });
    if size > cap {
        return too_large(Some(size));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(cap.saturating_add(1)).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > cap { too_large(None) } else { Ok(bytes) }
}

fn regular(path: &AbsPath, fd: &OwnedFd, owner: Option<u32>) -> Result<Stat, GuardError> {
    let stat = rustix::fs::fstat(fd).map_err(|e| GuardError::Io { path: path.clone(), source: e.into() })?;
    let found = FileType::from_raw_mode(stat.st_mode);
    if found != FileType::RegularFile {
        return Err(GuardError::WrongType { path: path.clone(), found: word(found), wanted: "a regular file" });
    }
    owned(path, &stat, owner)?;
    Ok(stat)
}

fn owned(path: &AbsPath, stat: &Stat, wanted: Option<u32>) -> Result<(), GuardError> {
    match wanted {
        Some(wanted) if wanted != stat.st_uid => {
            Err(GuardError::Owner { path: path.clone(), owner: stat.st_uid, wanted })
        }
        _ => Ok(()),
    }
}

/// The system's words for a link or a folder where none may be differ; the name is looked at once more, for the message only.
fn refused_at(at: &OwnedFd, name: &str, path: &AbsPath, errno: Errno, wanted: &'static str) -> GuardError {
    let stat = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW);
    explain(path, errno, stat, wanted)
}

fn refused(path: &AbsPath, errno: Errno, wanted: &'static str) -> GuardError {
    match errno {
        Errno::LOOP => explain(path, errno, rustix::fs::lstat(path.as_path()), wanted),
        _ => explain(path, errno, rustix::fs::stat(path.as_path()), wanted),
    }
}

fn explain(path: &AbsPath, errno: Errno, stat: Result<Stat, Errno>, wanted: &'static str) -> GuardError {
    let path = path.clone();
    let by_type = matches!(errno, Errno::LOOP | Errno::NOTDIR | Errno::ISDIR | Errno::NXIO);
    match stat.map(|s| FileType::from_raw_mode(s.st_mode)) {
        Ok(FileType::Symlink) if by_type => GuardError::Link { path },
        Ok(found) if by_type => GuardError::WrongType { path, found: word(found), wanted },
        _ => GuardError::Io { path, source: errno.into() },
    }
}

fn word(found: FileType) -> &'static str {
    match found {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn temp() -> (tempfile::TempDir, AbsPath) {
        let dir = tempfile::tempdir().unwrap();
        let path = AbsPath::canonical(dir.path()).unwrap();
        (dir, path)
    }

    fn fifo(path: &AbsPath) {
        rustix::fs::mknodat(rustix::fs::CWD, path.as_path(), FileType::Fifo, Mode::RWXU, 0).unwrap();
    }

    const PROJECT: Rules = Rules { cap: 10, links: true, owner: None };

    /// B5.
    #[test]
    fn only_regular_files_within_the_cap_are_read_and_nothing_hangs() {
        let (_keep, dir) = temp();
        let file = dir.join("f");
        fs::write(&file, "0123456789").unwrap();
        assert_eq!(read(&file, &PROJECT).unwrap(), b"0123456789");
        fs::write(&file, "0123456789+").unwrap();
        assert!(matches!(read(&file, &PROJECT), Err(GuardError::TooLarge { size: Some(11), cap: 10, .. })));
        fifo(&dir.join("fifo"));
        assert!(matches!(read(&dir.join("fifo"), &PROJECT), Err(GuardError::WrongType { found: "a FIFO", .. })));
        assert!(matches!(read(&dir, &PROJECT), Err(GuardError::WrongType { found: "a folder", .. })));
        let zero = AbsPath::new("/dev/zero").unwrap();
        assert!(matches!(read(&zero, &PROJECT), Err(GuardError::WrongType { found: "a device", .. })));
        symlink(&zero, dir.join("zero")).unwrap();
        assert!(matches!(read(&dir.join("zero"), &PROJECT), Err(GuardError::WrongType { found: "a device", .. })));
        assert!(read(&dir.join("none"), &PROJECT).unwrap_err().is_missing());
        // A file of /proc says that it is empty and is not.
        let endless = AbsPath::new("/proc/self/status").unwrap();
        assert!(matches!(read(&endless, &PROJECT), Err(GuardError::TooLarge { size: None, .. })));
    }

    #[test]
    fn links_and_owners_are_refused_where_the_rules_say_so() {
        let (_keep, dir) = temp();
        fs::write(dir.join("f"), "x").unwrap();
        symlink(dir.join("f"), dir.join("l")).unwrap();
        assert_eq!(read(&dir.join("l"), &PROJECT).unwrap(), b"x");
        let strict = Rules { links: false, ..PROJECT };
        assert!(matches!(read(&dir.join("l"), &strict), Err(GuardError::Link { .. })));
        let another = Rules { owner: Some(our_uid() + 1), ..PROJECT };
        assert!(matches!(read(&dir.join("f"), &another), Err(GuardError::Owner { .. })));
        assert!(matches!(check_folder(&dir, our_uid() + 1), Err(GuardError::Owner { .. })));
        check_folder(&dir, our_uid()).unwrap();
    }

    /// B5.
    #[test]
    fn in_a_folder_no_link_is_followed_by_any_operation() {
        let (_keep, dir) = temp();
        let secret = dir.join("secret");
        fs::write(&secret, "keep").unwrap();
        fs::create_dir(dir.join("elsewhere")).unwrap();
        let folder = Folder::within(&dir, "ctl", our_uid(), true).unwrap();
        let ctl = dir.join("ctl");
        symlink(&secret, ctl.join("file")).unwrap();
        symlink(dir.join("dangling"), ctl.join("lock")).unwrap();
        symlink(dir.join("elsewhere"), ctl.join("sub")).unwrap();
        for name in ["file", "lock"] {
            for access in [Access::Read, Access::Write] {
                assert!(matches!(folder.file(name, access), Err(GuardError::Link { .. })), "{name} {access:?}");
            }
            assert!(folder.create(name).is_err());
        }
        for create in [false, true] {
            assert!(matches!(folder.folder("sub", create), Err(GuardError::Link { .. })));
        }
        folder.replace("file", b"new").unwrap();
        folder.remove("lock").unwrap();
        assert_eq!(fs::read_to_string(&secret).unwrap(), "keep");
        assert!(!dir.join("dangling").exists() && dir.join("elsewhere").exists());
        assert_eq!(folder.read("file", 10).unwrap(), b"new");
        fifo(&ctl.join("fifo"));
        for access in [Access::Read, Access::Write] {
            assert!(matches!(folder.file("fifo", access), Err(GuardError::WrongType { .. })), "{access:?}");
        }
        symlink(&ctl, dir.join("alias")).unwrap();
        let alias = Folder::within(&dir, "alias", our_uid(), true);
        assert!(matches!(alias, Err(GuardError::Link { .. })));
    }

    #[test]
    fn a_folder_that_others_can_write_names_the_command() {
        let (_keep, dir) = temp();
        for mode in [0o770, 0o702] {
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
            let text = Folder::open(&dir, our_uid()).unwrap_err().to_string();
            assert!(text.contains(&format!("run: chmod go-w '{dir}'")), "{text}");
        }
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Folder::open(&dir, our_uid()).is_ok());
    }
}
