//! What the reporter says, typed and bounded. Pure: looks at no file.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::error::FeedbackError;
use super::fields::FIELDS;

/// Words for `kind`.
pub const KINDS: &[&str] = &["bug", "ux", "perf", "docs", "question"];
/// Words for `severity`.
pub const SEVERITIES: &[&str] = &["low", "medium", "high", "critical"];
/// Words for `bundle`.
pub const BUNDLES: &[&str] = &["none", "dir", "zip"];

/// Longest title, in bytes.
pub const MAX_TITLE: usize = 512;
/// Longest other text, in bytes.
pub const MAX_TEXT: usize = 32 * 1024;
/// Most tags.
pub const MAX_TAGS: usize = 32;
/// Longest tag or client request id, in bytes.
pub const MAX_WORD: usize = 256;
/// Largest `request` or `response`, in bytes of its JSON.
pub const MAX_JSON: usize = 128 * 1024;
/// Most pieces of evidence.
pub const MAX_EVIDENCE: usize = 32;
/// Largest piece of evidence, in bytes.
pub const MAX_EVIDENCE_BYTES: usize = 1024 * 1024;
/// Largest evidence of one report, in bytes.
pub const MAX_EVIDENCE_TOTAL: usize = 8 * 1024 * 1024;

/// What is written to disk besides the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bundle {
    /// Nothing.
    #[default]
    None,
    /// A directory.
    Dir,
    /// A directory and the same as a zip file.
    Zip,
}

impl Bundle {
    /// As in the input.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Dir => "dir",
            Self::Zip => "zip",
        }
    }
}

/// Where a piece of evidence comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Handed over as text.
    Content(String),
    /// A file; relative to the project root.
    Path(PathBuf),
}

/// A piece of evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The file's name in the bundle.
    pub name: String,
    /// Where it comes from.
    pub source: Source,
}

/// A report as the reporter states it.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// One line.
    pub title: String,
    /// What happened.
    pub summary: String,
    /// How to make it happen again.
    pub reproduction: String,
    /// What should have happened.
    pub expected: String,
    /// What did happen.
    pub actual: String,
    /// One of [`KINDS`].
    pub kind: Option<&'static str>,
    /// One of [`SEVERITIES`].
    pub severity: Option<&'static str>,
    /// Whom it hurts, and how.
    pub impact: Option<String>,
    /// What helps meanwhile.
    pub workaround: Option<String>,
    /// Blank ones are gone.
    pub tags: Vec<String>,
    /// The request that it is about, in the client's words.
    pub client_request_id: Option<String>,
    /// The request itself.
    pub request: Option<Map<String, Value>>,
    /// Its response.
    pub response: Option<Map<String, Value>>,
    /// Logs, files.
    pub evidence: Vec<Evidence>,
    /// What is written.
    pub bundle: Bundle,
    /// Whether private words are replaced. Always so when confidential.
    pub redact: bool,
    /// Whether everything that comes from the project is left out.
    pub confidential: bool,
}

impl Input {
    /// Reads any JSON value. Fields that a front adds for itself (a workspace, say) must be gone by now.
    pub fn from_value(value: &Value) -> Result<Self, FeedbackError> {
        value.as_object().ok_or(FeedbackError::NotAnObject).and_then(Self::from_object)
    }

    /// Reads an object; it is closed.
    pub fn from_object(object: &Map<String, Value>) -> Result<Self, FeedbackError> {
        known(object, FIELDS, "")?;
        let read = Reader { object };
        let input = Self {
            title: read.required("title", MAX_TITLE)?,
            summary: read.required("summary", MAX_TEXT)?,
            reproduction: read.required("reproduction", MAX_TEXT)?,
            expected: read.required("expected", MAX_TEXT)?,
            actual: read.required("actual", MAX_TEXT)?,
            kind: read.word("kind", KINDS)?,
            severity: read.word("severity", SEVERITIES)?,
            impact: read.text("impact", MAX_TEXT)?,
            workaround: read.text("workaround", MAX_TEXT)?,
            tags: read.tags()?,
            client_request_id: read.text("client_request_id", MAX_WORD)?,
            request: read.json("request")?,
            response: read.json("response")?,
            evidence: read.evidence()?,
            bundle: match read.word("bundle", BUNDLES)? {
                Some("dir") => Bundle::Dir,
                Some("zip") => Bundle::Zip,
                _ => Bundle::None,
            },
            redact: read.flag("redact")?.unwrap_or(true),
            confidential: read.flag("confidential")?.unwrap_or(false),
        };
        input.check_redaction()?;
        Ok(input)
    }

    /// What a front may have changed after reading must still fit together.
    pub(super) fn check_redaction(&self) -> Result<(), FeedbackError> {
        if self.confidential && !self.redact { Err(FeedbackError::ConfidentialUnredacted) } else { Ok(()) }
    }
}

/// Refuses fields that are not in the list. `prefix` is where the object lies, with a dot.
fn known(object: &Map<String, Value>, fields: &[&str], prefix: &str) -> Result<(), FeedbackError> {
    match object.keys().find(|k| !fields.contains(&k.as_str())) {
        // What somebody else chose as a key may be of any length.
        Some(key) => Err(FeedbackError::UnknownField { field: format!("{prefix}{}", cut(key)) }),
        None => Ok(()),
    }
}

/// The beginning of a text, for a message.
fn cut(text: &str) -> String {
    text.chars().take(64).collect()
}

fn bounded(field: &str, size: usize, limit: usize, unit: &'static str) -> Result<(), FeedbackError> {
    if size <= limit {
        return Ok(());
    }
    let advice = match field {
        "title" => "put the rest into `summary`",
        "tags" => "keep those that matter",
        f if f.starts_with("evidence") => "cut it to the part that shows the problem",
        _ => "shorten it, or hand the rest over as `evidence`",
    };
    Err(FeedbackError::TooLarge { field: field.into(), size, limit, unit, advice })
}

struct Reader<'a> {
    object: &'a Map<String, Value>,
}

impl Reader<'_> {
    /// A present field; null is not present only where nothing says otherwise, so it is an error like every other type.
    fn text(&self, field: &str, limit: usize) -> Result<Option<String>, FeedbackError> {
        let Some(value) = self.object.get(field) else {
            return Ok(None);
        };
        let text =
            value.as_str().ok_or_else(|| FeedbackError::WrongType { field: field.into(), expected: "a string" })?;
        bounded(field, text.len(), limit, "bytes")?;
        Ok(Some(text.to_owned()))
    }

    fn required(&self, field: &str, limit: usize) -> Result<String, FeedbackError> {
        let text = self.text(field, limit)?.ok_or_else(|| FeedbackError::Missing { field: field.into() })?;
        if text.trim().is_empty() { Err(FeedbackError::Empty { field: field.into() }) } else { Ok(text) }
    }

    fn word(&self, field: &str, allowed: &'static [&'static str]) -> Result<Option<&'static str>, FeedbackError> {
        let Some(text) = self.text(field, MAX_TEXT)? else {
            return Ok(None);
        };
        let found = allowed.iter().copied().find(|w| *w == text);
        found.map(Some).ok_or_else(|| FeedbackError::NotOneOf { field: field.into(), allowed, given: cut(&text) })
    }

    fn flag(&self, field: &str) -> Result<Option<bool>, FeedbackError> {
        let wrong = || FeedbackError::WrongType { field: field.into(), expected: "true or false" };
        self.object.get(field).map(|v| v.as_bool().ok_or_else(wrong)).transpose()
    }

    fn json(&self, field: &str) -> Result<Option<Map<String, Value>>, FeedbackError> {
        let Some(value) = self.object.get(field) else {
            return Ok(None);
        };
        let wrong = || FeedbackError::WrongType { field: field.into(), expected: "a JSON object" };
        let object = value.as_object().ok_or_else(wrong)?;
        bounded(field, value.to_string().len(), MAX_JSON, "bytes of JSON")?;
        Ok(Some(object.clone()))
    }

    fn array(&self, field: &str, expected: &'static str, limit: usize) -> Result<&[Value], FeedbackError> {
        let Some(value) = self.object.get(field) else {
            return Ok(&[]);
        };
        let items = value.as_array().ok_or_else(|| FeedbackError::WrongType { field: field.into(), expected })?;
        bounded(field, items.len(), limit, "items")?;
        Ok(items)
    }

    fn tags(&self) -> Result<Vec<String>, FeedbackError> {
        let mut tags = Vec::new();
        for (n, item) in self.array("tags", "an array of strings", MAX_TAGS)?.iter().enumerate() {
            let field = format!("tags[{n}]");
            let wrong = || FeedbackError::WrongType { field: field.clone(), expected: "a string" };
            let tag = item.as_str().ok_or_else(wrong)?.trim();
            bounded(&field, tag.len(), MAX_WORD, "bytes")?;
            if !tag.is_empty() {
                tags.push(tag.to_owned());
            }
        }
        Ok(tags)
    }

    fn evidence(&self) -> Result<Vec<Evidence>, FeedbackError> {
        const EXPECTED: &str = "an array of objects {name, content} or {name, path}";
        let mut list: Vec<Evidence> = Vec::new();
        for (n, item) in self.array("evidence", EXPECTED, MAX_EVIDENCE)?.iter().enumerate() {
            let field = format!("evidence[{n}]");
            let wrong =
                || FeedbackError::WrongType { field: field.clone(), expected: "an object {name, content | path}" };
            let piece = evidence_item(item.as_object().ok_or_else(wrong)?, &field)?;
            // Some file systems do not tell `A.log` from `a.log`: one would replace the other.
            if list.iter().any(|e| e.name.to_lowercase() == piece.name.to_lowercase()) {
                return Err(FeedbackError::EvidenceName { field: format!("{field}.name"), why: "is used twice" });
            }
            list.push(piece);
        }
        Ok(list)
    }
}

fn evidence_item(object: &Map<String, Value>, field: &str) -> Result<Evidence, FeedbackError> {
    if let Some(key) = object.keys().find(|k| !matches!(k.as_str(), "name" | "content" | "path")) {
        return Err(FeedbackError::WrongType {
            field: format!("{field}.{}", cut(key)),
            expected: "left out; an item has `name` and one of `content`, `path`",
        });
    }
    let string = |key: &str| {
        let wrong = || FeedbackError::WrongType { field: format!("{field}.{key}"), expected: "a string" };
        object.get(key).map(|v| v.as_str().ok_or_else(wrong)).transpose()
    };
    let name = string("name")?.ok_or_else(|| FeedbackError::Missing { field: format!("{field}.name") })?;
    if let Some(why) = bad_name(name) {
        return Err(FeedbackError::EvidenceName { field: format!("{field}.name"), why });
    }
    let source = match (string("content")?, string("path")?) {
        (Some(text), None) => {
            bounded(&format!("{field}.content"), text.len(), MAX_EVIDENCE_BYTES, "bytes")?;
            Source::Content(text.to_owned())
        }
        (None, Some("")) => return Err(FeedbackError::Empty { field: format!("{field}.path") }),
        (None, Some(path)) => Source::Path(PathBuf::from(path)),
        _ => return Err(FeedbackError::EvidenceSource { field: field.into() }),
    };
    Ok(Evidence { name: name.to_owned(), source })
}

/// The name becomes a file in the bundle and an entry of the zip, which people unpack elsewhere.
fn bad_name(name: &str) -> Option<&'static str> {
    if name.trim().is_empty() {
        Some("is empty")
    } else if name.len() > 120 {
        Some("is longer than 120 bytes")
    } else if name.contains(['/', '\\', ':']) {
        Some("has a separator")
    } else if name.contains("..") || name == "." {
        Some("has dots that could lead to another folder")
    } else if name.chars().any(char::is_control) {
        Some("has control characters")
    } else {
        None
    }
}

#[cfg(test)]
#[path = "input_tests.rs"]
mod tests;
