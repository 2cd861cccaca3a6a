//! Reading evidence files, and only from where they may lie.
//!
//! The path is resolved first, links and all; what it leads to must lie in an allowed folder, and is then opened part by part without
//! following any link. Whoever swaps a folder for a link in between makes the opening fail; there is no moment in which a check and an
//! opening can be about different files.

#![allow(clippy::disallowed_methods, reason = "a report is made on a blocking thread")]

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use beam_base::AbsPath;
use rustix::fs::{Mode, OFlags, open, openat};

use super::context::Context;
use super::error::FeedbackError;
use super::input::{Evidence, MAX_EVIDENCE_BYTES, MAX_EVIDENCE_TOTAL, Source};
use super::redact::Redactor;

/// A piece as it goes into the bundle.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) name: String,
    /// Redacted, if anything is.
    pub(super) bytes: Vec<u8>,
    /// The path as given, redacted; `None` for text that was handed over.
    pub(super) path: Option<String>,
}

/// Folders that evidence files may lie in: the project, its control directory, the bundle's directory.
fn allowed(context: &Context) -> Vec<AbsPath> {
    let control = context.control.as_ref().map(|c| c.dir().clone());
    let places = [context.root.clone(), control, context.output_dir.clone()];
    places.into_iter().flatten().filter_map(|p| AbsPath::canonical(p.as_path()).ok()).collect()
}

/// Reads every piece.
pub(super) fn load(
    list: &[Evidence],
    context: &Context,
    redactor: &Redactor,
    redact: bool,
) -> Result<Vec<Loaded>, FeedbackError> {
    let allowed = allowed(context);
    let mut out = Vec::new();
    let mut total = 0;
    for (n, piece) in list.iter().enumerate() {
        let (bytes, path) = match &piece.source {
            Source::Content(text) => (redactor.text(text).into_bytes(), None),
            Source::Path(path) => {
                let field = format!("evidence[{n}].path");
                let bytes = read(path, &field, context.root.as_ref(), &allowed)?;
                let shown = Some(redactor.text(&path.to_string_lossy()));
                if !redact {
                    (bytes, shown)
                } else if let Ok(text) = String::from_utf8(bytes) {
                    (redactor.text(&text).into_bytes(), shown)
                } else {
                    return Err(FeedbackError::EvidenceNotText { field, path: path.clone() });
                }
            }
        };
        total += bytes.len();
        if total > MAX_EVIDENCE_TOTAL {
            return Err(FeedbackError::TooLarge {
                field: "evidence".into(),
                size: total,
                limit: MAX_EVIDENCE_TOTAL,
                unit: "bytes so far",
                advice: "cut the pieces to the parts that show the problem",
            });
        }
        out.push(Loaded { name: piece.name.clone(), bytes, path });
    }
    Ok(out)
}

fn read(path: &Path, field: &str, root: Option<&AbsPath>, allowed: &[AbsPath]) -> Result<Vec<u8>, FeedbackError> {
    let given = || path.to_path_buf();
    let unreadable = |source| FeedbackError::EvidenceUnreadable { field: field.into(), path: given(), source };
    let outside = || FeedbackError::EvidenceOutside {
        field: field.into(),
        path: given(),
        allowed: match allowed {
            [] => vec!["a project (there is none here)".into()],
            folders => folders.iter().map(ToString::to_string).collect(),
        },
    };
    let absolute = match root {
        Some(root) => root.as_path().join(path),
        None if path.is_absolute() => given(),
        None => return Err(outside()),
    };
    // Outside and missing are told apart only for what would be inside: the answer must not say which files exist elsewhere.
    let lexically = AbsPath::new(absolute.clone()).ok();
    let may_tell = lexically.is_some_and(|p| {
        !p.as_path().components().any(|c| c == std::path::Component::ParentDir)
            && allowed.iter().any(|a| p.relative_to(a).is_some())
    });
    let resolved = match AbsPath::canonical(&absolute) {
        Ok(resolved) => resolved,
        Err(e) if may_tell => return Err(unreadable(e)),
        Err(_) => return Err(outside()),
    };
    let Some((folder, inner)) = allowed.iter().find_map(|a| Some((a, resolved.relative_to(a)?.to_path_buf()))) else {
        return Err(outside());
    };
    let not_a_file = || FeedbackError::EvidenceNotAFile { field: field.into(), path: given() };
    // Opening a device can do things; the look before costs nothing, the look after is the one that counts.
    if !std::fs::symlink_metadata(resolved.as_path()).map_err(unreadable)?.is_file() {
        return Err(not_a_file());
    }
    let file = open_inside(folder, inner.as_std_path()).map_err(unreadable)?;
    let meta = file.metadata().map_err(unreadable)?;
    if !meta.is_file() {
        return Err(not_a_file());
    }
    let too_large = |size| FeedbackError::TooLarge {
        field: field.into(),
        size,
        limit: MAX_EVIDENCE_BYTES,
        unit: "bytes",
        advice: "cut it to the part that shows the problem",
    };
    // The size is a hint (a log grows while it is read); the bound is kept by the reader.
    let size = usize::try_from(meta.len()).unwrap_or(usize::MAX);
    if size > MAX_EVIDENCE_BYTES {
        return Err(too_large(size));
    }
    let mut bytes = Vec::with_capacity(size);
    file.take(MAX_EVIDENCE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > MAX_EVIDENCE_BYTES { Err(too_large(bytes.len())) } else { Ok(bytes) }
}

/// Opens a file below a folder without following a link anywhere on the way.
fn open_inside(folder: &AbsPath, inner: &Path) -> io::Result<File> {
    let step = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Without NONBLOCK a pipe that took the file's place would hold us for ever.
    let last = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mut at = open(folder.as_path(), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let parts: Vec<PathBuf> = inner.components().map(|c| PathBuf::from(c.as_os_str())).collect();
    let Some((name, folders)) = parts.split_last() else {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    };
    for part in folders {
        at = openat(&at, part, step, Mode::empty())?;
    }
    Ok(File::from(openat(&at, name, last, Mode::empty())?))
}

#[cfg(test)]
#[path = "evidence_tests.rs"]
mod tests;
