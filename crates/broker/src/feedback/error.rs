//! Why a report was not made. Every message about the input names the field and says what would be accepted.

use std::io;
use std::path::PathBuf;

use beam_base::AbsPath;

use super::fields::{FIELDS, REQUIRED};

/// Why a report was not made.
#[derive(Debug, thiserror::Error)]
pub enum FeedbackError {
    /// The input is no JSON object.
    #[error("the feedback input must be a JSON object with the fields {}", required())]
    NotAnObject,
    /// A field that does not exist.
    #[error("unknown field `{field}`; the fields are {}", FIELDS.join(", "))]
    UnknownField {
        /// As given.
        field: String,
    },
    /// A required field is not there.
    #[error("`{field}` is missing; required are {}", required())]
    Missing {
        /// Which.
        field: String,
    },
    /// A required text is blank.
    #[error("`{field}` is empty; say it in a sentence")]
    Empty {
        /// Which.
        field: String,
    },
    /// Another JSON type.
    #[error("`{field}` must be {expected}")]
    WrongType {
        /// Which.
        field: String,
        /// What it must be.
        expected: &'static str,
    },
    /// A word that is not in the list.
    #[error("`{field}` must be one of {}, not `{given}`", allowed.join(", "))]
    NotOneOf {
        /// Which.
        field: String,
        /// The words.
        allowed: &'static [&'static str],
        /// What was given, cut.
        given: String,
    },
    /// More than is taken.
    #[error("`{field}` has {size} {unit}, the limit is {limit}; {advice}")]
    TooLarge {
        /// Which.
        field: String,
        /// As given.
        size: usize,
        /// Largest accepted.
        limit: usize,
        /// What is counted.
        unit: &'static str,
        /// What to do instead.
        advice: &'static str,
    },
    /// A name that is no simple file name, or used twice.
    #[error("`{field}` {why}; give a plain file name such as `session.log`")]
    EvidenceName {
        /// Which.
        field: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Both or none of `content` and `path`.
    #[error("`{field}` must have exactly one of `content` and `path`")]
    EvidenceSource {
        /// Which item.
        field: String,
    },
    /// The file lies elsewhere, after links were resolved.
    #[error(
        "`{field}`: {} is not inside {}; copy what matters into the project, or pass it as `content`",
        path.display(),
        allowed.join(" or ")
    )]
    EvidenceOutside {
        /// Which.
        field: String,
        /// As given.
        path: PathBuf,
        /// The folders it may lie in.
        allowed: Vec<String>,
    },
    /// The file cannot be read.
    #[error("`{field}`: cannot read {}: {source}", path.display())]
    EvidenceUnreadable {
        /// Which.
        field: String,
        /// As given.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory, a pipe, a device.
    #[error("`{field}`: {} is not a regular file; name a file", path.display())]
    EvidenceNotAFile {
        /// Which.
        field: String,
        /// As given.
        path: PathBuf,
    },
    /// Bytes that cannot be redacted.
    #[error("`{field}`: {} is not UTF-8 text and cannot be redacted; pass text, or set `redact` to false", path.display())]
    EvidenceNotText {
        /// Which.
        field: String,
        /// As given.
        path: PathBuf,
    },
    /// `confidential` together with switched-off redaction.
    #[error("`redact` must not be false when `confidential` is true; leave `redact` out")]
    ConfidentialUnredacted,
    /// A bundle is asked for and there is no place for it.
    #[error("`bundle` needs a project root or an output directory; name one, or set `bundle` to none")]
    NoBundleFolder,
    /// The bundle cannot be written.
    #[error("cannot write the bundle {path}: {source}; free some space, choose another place, or set `bundle` to none")]
    Bundle {
        /// Where.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
}

fn required() -> String {
    REQUIRED.join(", ")
}

impl FeedbackError {
    /// Whether the caller's input is at fault; otherwise it is the machine.
    #[must_use]
    pub fn is_input(&self) -> bool {
        !matches!(self, Self::Bundle { .. })
    }

    /// The field of the input that is at fault, as a path such as `evidence[1].path`.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::UnknownField { field }
            | Self::Missing { field }
            | Self::Empty { field }
            | Self::WrongType { field, .. }
            | Self::NotOneOf { field, .. }
            | Self::TooLarge { field, .. }
            | Self::EvidenceName { field, .. }
            | Self::EvidenceSource { field }
            | Self::EvidenceOutside { field, .. }
            | Self::EvidenceUnreadable { field, .. }
            | Self::EvidenceNotAFile { field, .. }
            | Self::EvidenceNotText { field, .. } => Some(field),
            Self::ConfidentialUnredacted => Some("redact"),
            Self::NoBundleFolder => Some("bundle"),
            Self::NotAnObject | Self::Bundle { .. } => None,
        }
    }
}
