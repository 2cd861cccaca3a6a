//! The bundle: a directory with the card, the data and the evidence, and the same as a zip file.
//!
//! Written beside its place under a hidden name and moved there in one step: what carries the bundle's name is whole. A name is claimed by
//! making an empty directory (or file) there, which only one writer can, and the move replaces the claim. Must never replace what it
//! did not claim. The zip holds no times and no owners: the same report gives the same bytes.

#![allow(clippy::disallowed_methods, reason = "a report is made on a blocking thread")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use beam_base::AbsPath;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::context::Context;
use super::error::FeedbackError;
use crate::daemon::{Control, HostPaths, clock};

/// Names that are tried when the first is taken.
const TRIES: u32 = 1000;
/// Longest title in a directory's name, in characters.
const MAX_SLUG: usize = 60;

/// A file of the bundle.
pub(super) struct Entry {
    /// Relative, with forward slashes.
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// A claimed place. Gives the claim back when dropped unpublished.
pub(super) struct Place {
    /// Where the directory will be.
    pub(super) dir: AbsPath,
    /// Where the zip file will be.
    pub(super) zip: Option<AbsPath>,
    stage: AbsPath,
    dir_is_ours: bool,
    zip_is_ours: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.dir_is_ours {
            let _published = fs::remove_dir(self.dir.as_path());
        }
        if let Some(zip) = self.zip.as_ref().filter(|_| self.zip_is_ours) {
            let _gone = fs::remove_file(zip.as_path());
        }
        let _moved = fs::remove_dir_all(self.stage.as_path());
    }
}

fn failed(path: &AbsPath) -> impl Fn(io::Error) -> FeedbackError + '_ {
    move |source| FeedbackError::Bundle { path: path.clone(), source }
}

/// The directory that is asked for, without the suffix that makes it unique.
fn wanted(context: &Context, title: &str) -> Result<AbsPath, FeedbackError> {
    if let Some(dir) = &context.output_dir {
        let parent = dir.parent().unwrap_or_else(|| dir.clone());
        fs::create_dir_all(parent.as_path()).map_err(failed(dir))?;
        return Ok(dir.clone());
    }
    let root = context.root.as_ref().ok_or(FeedbackError::NoBundleFolder)?;
    let control = context.control.clone().unwrap_or_else(|| Control::locate(root, &HostPaths::default()));
    let base = control.dir().join("feedback");
    control.create().map_err(|e| FeedbackError::Bundle { path: base.clone(), source: io::Error::other(e) })?;
    let made = fs::DirBuilder::new().mode(0o700).create(base.as_path());
    made.or_else(|e| if e.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(e) }).map_err(failed(&base))?;
    // A project is other people's: a link planted here would let it choose where we write.
    if !fs::symlink_metadata(base.as_path()).map_err(failed(&base))?.is_dir() {
        return Err(failed(&base)(io::Error::other("it is not a directory; remove it")));
    }
    let stamp = clock::compact(context.at).replace('T', "-").replace('Z', "");
    Ok(base.join(format!("{stamp}-{}", slug(title))))
}

/// Lower-case letters and digits with single dashes between.
fn slug(title: &str) -> String {
    let mut out = String::new();
    for c in title.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
        if out.len() == MAX_SLUG {
            break;
        }
    }
    let out = out.trim_end_matches('-');
    if out.is_empty() { "report".into() } else { out.into() }
}

/// Finds a free name and claims it, for the zip file as well.
pub(super) fn claim(context: &Context, title: &str, zip: bool) -> Result<Place, FeedbackError> {
    let wanted = wanted(context, title)?;
    let name = wanted.file_name().and_then(|n| n.to_str()).unwrap_or("report").to_owned();
    let sibling = |n: String| wanted.parent().unwrap_or_else(|| wanted.clone()).join(n);
    let stage = sibling(unique());
    for n in 0..TRIES {
        let suffix = if n == 0 { String::new() } else { format!("-{n}") };
        let dir = sibling(format!("{name}{suffix}"));
        let taken = |e: &io::Error| e.kind() == io::ErrorKind::AlreadyExists;
        match fs::DirBuilder::new().mode(0o700).create(dir.as_path()) {
            Ok(()) => {}
            Err(e) if taken(&e) => continue,
            Err(e) => return Err(failed(&dir)(e)),
        }
        let mut place = Place { dir, zip: None, stage: stage.clone(), dir_is_ours: true, zip_is_ours: false };
        if zip {
            let path = sibling(format!("{name}{suffix}.zip"));
            match new_file(path.as_path()) {
                Ok(_claim) => place.zip_is_ours = true,
                Err(e) if taken(&e) => continue,
                // Whether a zip can be written is found out, and warned of, when it is.
                Err(_) => {}
            }
            place.zip = Some(path);
        }
        return Ok(place);
    }
    Err(failed(&wanted)(io::Error::other("too many bundles of this name; remove old ones")))
}

/// A name that no other writer has, of this process or another one on this machine. Short: the bundle's own name may be long.
fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!(".feedback-{}-{}-{}", std::process::id(), clock::nanos(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

impl Place {
    /// Writes the zip file and puts it in its place.
    pub(super) fn publish_zip(&mut self, entries: &[Entry]) -> io::Result<()> {
        let Some(target) = self.zip.clone() else {
            return Ok(());
        };
        if !self.zip_is_ours {
            return Err(io::Error::other("its name cannot be written"));
        }
        let top = self.dir.file_name().and_then(|n| n.to_str()).unwrap_or("report").to_owned();
        let staged = AbsPath::resolve(&target, format!("../{}", unique()));
        let written = new_file(staged.as_path())
            .and_then(|file| write_zip(file, &top, entries))
            .and_then(|()| fs::rename(staged.as_path(), target.as_path()));
        if written.is_err() {
            let _not_there = fs::remove_file(staged.as_path());
        }
        // Still ours: a zip without its directory would be half a bundle.
        written
    }

    /// Gives the zip's name back.
    pub(super) fn forget_zip(&mut self) {
        if let Some(zip) = self.zip.take().filter(|_| self.zip_is_ours) {
            let _gone = fs::remove_file(zip.as_path());
        }
        self.zip_is_ours = false;
    }

    /// Writes the directory and puts it in its place.
    pub(super) fn publish_dir(&mut self, entries: &[Entry]) -> Result<(), FeedbackError> {
        self.write_dir(entries).map_err(failed(&self.dir))?;
        self.dir_is_ours = false;
        self.zip_is_ours = false;
        Ok(())
    }

    fn write_dir(&self, entries: &[Entry]) -> io::Result<()> {
        let folder = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        folder(self.stage.as_path())?;
        for entry in entries {
            let path = self.stage.join(&entry.name);
            if let Some(parent) = path.parent() {
                folder(parent.as_path())?;
            }
            new_file(path.as_path())?.write_all(&entry.bytes)?;
        }
        // Replaces an empty directory, our claim, and nothing else.
        fs::rename(self.stage.as_path(), self.dir.as_path())
    }
}

fn write_zip(file: File, top: &str, entries: &[Entry]) -> io::Result<()> {
    let mut zip = ZipWriter::new(io::BufWriter::new(file));
    // The default time is the format's first; nothing here depends on when or where.
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated).unix_permissions(0o600);
    for entry in entries {
        zip.start_file(format!("{top}/{}", entry.name), options).map_err(io::Error::other)?;
        zip.write_all(&entry.bytes)?;
    }
    let mut out = zip.finish().map_err(io::Error::other)?;
    out.flush()?;
    out.get_ref().sync_all()
}
