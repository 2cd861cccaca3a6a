//! Feedback: a report card about the product itself, for a person to read and to post if they choose.
//!
//! Owns the shape of the input, what is collected around it, what is left out or replaced, the rendering, and the bundle on disk. It lies
//! below the fronts, so that an MCP tool and a command make the same report. Blocking code: call it where blocking is allowed.
//!
//! Must never send anything anywhere, start a daemon or a Lean process, change a project's file, or follow a link out of the folders
//! that evidence may come from. Nothing of a confidential report comes from the project.

mod bundle;
mod collect;
mod context;
mod error;
mod evidence;
mod fields;
mod input;
mod markdown;
mod redact;

use serde_json::{Map, Value, json};

use bundle::Entry;
use evidence::Loaded;
use redact::Redactor;

pub use context::{Context, Person};
pub use error::FeedbackError;
pub use fields::{FIELDS, REQUIRED};
pub use input::{BUNDLES, Bundle, Evidence, Input, KINDS, SEVERITIES, Source};

use crate::daemon::clock;

/// Version of the report card's shape.
pub const SCHEMA: &str = "beam.feedback.report-card.v1";

/// A finished report.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// For people.
    pub markdown: String,
    /// For programs; see [`SCHEMA`].
    pub metadata: Value,
    /// What was collected, if asked for.
    pub collected: Option<Value>,
    /// What could not be collected, and why.
    pub collection_warnings: Vec<String>,
    /// The bundle, redacted like every other text.
    pub bundle_dir: Option<String>,
    /// The zip file beside it.
    pub zip_path: Option<String>,
}

impl Report {
    /// The answer's JSON object; what is not there has no key.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut out = Map::new();
        out.insert("markdown".into(), self.markdown.clone().into());
        out.insert("metadata".into(), self.metadata.clone());
        if let Some(collected) = &self.collected {
            out.insert("collected".into(), collected.clone());
        }
        out.insert("collection_warnings".into(), self.collection_warnings.clone().into());
        for (key, path) in [("bundle_dir", &self.bundle_dir), ("zip_path", &self.zip_path)] {
            if let Some(path) = path {
                out.insert(key.into(), path.clone().into());
            }
        }
        Value::Object(out)
    }
}

/// Makes a report, and writes its bundle if the input asks for one. Blocks on the file system.
///
/// # Errors
/// Input that does not fit together, evidence that may not or cannot be read, a bundle that cannot be written. Nothing is left on disk then.
pub fn report(input: &Input, context: &Context) -> Result<Report, FeedbackError> {
    input.check_redaction()?;
    let redact = input.redact || input.confidential;
    let redactor = match (redact, input.confidential) {
        (false, _) => Redactor::off(),
        (true, false) => Redactor::new(&context.person, None),
        // Its root is project context, too.
        (true, true) => Redactor::new(&context.person, context.root.as_deref()),
    };
    let evidence = match input.confidential {
        true => Vec::new(),
        false => evidence::load(&input.evidence, context, &redactor, redact)?,
    };
    let draft = Draft::new(input, context, &redactor);
    let mut report = draft.report(&evidence, context.include_collected);
    if input.bundle != Bundle::None {
        write_bundle(draft, &mut report, &evidence, context)?;
    }
    Ok(report)
}

/// Everything that is said, redacted.
struct Draft {
    input: Input,
    metadata: Value,
    collected: Value,
    warnings: Vec<String>,
    /// For paths of the bundle. They must lead somewhere, so only what is personal is replaced in them.
    paths: Redactor,
}

impl Draft {
    fn new(input: &Input, context: &Context, redactor: &Redactor) -> Self {
        let input = redacted_input(input, redactor);
        let (collected, warnings) = match input.confidential {
            true => (collect::confidential(context), Vec::new()),
            false => collect::everything(context),
        };
        let root = context.root.as_ref().filter(|_| !input.confidential).map(|r| redactor.text(&r.to_string()));
        let metadata = json!({
            "schema": SCHEMA,
            "title": input.title,
            "kind": input.kind,
            "severity": input.severity,
            "generated_at": clock::timestamp(context.at),
            "active_root": root,
            "tags": input.tags,
            "bundle": input.bundle.as_str(),
            "redacted": input.redact,
            "confidential": input.confidential,
            "client_request_id": input.client_request_id,
        });
        let paths = if input.redact { Redactor::new(&context.person, None) } else { Redactor::off() };
        Self {
            metadata,
            collected: redactor.value(&collected),
            warnings: warnings.iter().map(|w| redactor.text(w)).collect(),
            paths,
            input,
        }
    }

    fn report(&self, evidence: &[Loaded], include_collected: bool) -> Report {
        let collected = include_collected.then(|| self.collected.clone());
        let nothing = Map::new();
        let card = markdown::Card {
            input: &self.input,
            generated_at: self.metadata["generated_at"].as_str().unwrap_or_default(),
            identity: self.collected["identity"].as_object().unwrap_or(&nothing),
            active_root: self.metadata["active_root"].as_str(),
            daemon: self.collected.get("daemon").and_then(Value::as_object),
            warnings: &self.warnings,
            collected: collected.as_ref(),
            evidence,
            bundled: self.input.bundle != Bundle::None,
        };
        Report {
            markdown: card.render(),
            metadata: self.metadata.clone(),
            collected,
            collection_warnings: self.warnings.clone(),
            bundle_dir: None,
            zip_path: None,
        }
    }

    fn entries(&self, report: &Report, evidence: &[Loaded]) -> Vec<Entry> {
        let json = |value: &Value| {
            let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
            text.push('\n');
            text.into_bytes()
        };
        let mut whole = report.to_value();
        if self.input.confidential {
            for key in ["bundle_dir", "zip_path"] {
                let _path = whole.as_object_mut().and_then(|o| o.remove(key));
            }
        }
        let fixed = [
            ("card.md", report.markdown.clone().into_bytes()),
            ("metadata.json", json(&self.metadata)),
            ("collected.json", json(&self.collected)),
            ("report.json", json(&whole)),
        ];
        let pieces = evidence.iter().map(|e| (format!("evidence/{}", e.name), e.bytes.clone()));
        fixed
            .into_iter()
            .map(|(n, b)| (n.to_owned(), b))
            .chain(pieces)
            .map(|(name, bytes)| Entry { name, bytes })
            .collect()
    }
}

fn redacted_input(input: &Input, redactor: &Redactor) -> Input {
    let text = |t: &String| redactor.text(t);
    let dropped = input.confidential;
    Input {
        title: text(&input.title),
        summary: text(&input.summary),
        reproduction: text(&input.reproduction),
        expected: text(&input.expected),
        actual: text(&input.actual),
        kind: input.kind,
        severity: input.severity,
        impact: input.impact.as_ref().map(text),
        workaround: input.workaround.as_ref().map(text),
        tags: input.tags.iter().map(text).collect(),
        client_request_id: input.client_request_id.as_ref().filter(|_| !dropped).map(text),
        request: input.request.as_ref().filter(|_| !dropped).map(|r| redactor.object(r)),
        response: input.response.as_ref().filter(|_| !dropped).map(|r| redactor.object(r)),
        // Loaded apart; the pieces themselves are not needed any more.
        evidence: Vec::new(),
        bundle: input.bundle,
        redact: input.redact || input.confidential,
        confidential: input.confidential,
    }
}

/// Writes the zip first: whether that worked is part of the report that lies in the directory.
fn write_bundle(
    mut draft: Draft,
    report: &mut Report,
    evidence: &[Loaded],
    context: &Context,
) -> Result<(), FeedbackError> {
    let zip = draft.input.bundle == Bundle::Zip;
    let mut place = bundle::claim(context, &draft.input.title, zip)?;
    report.bundle_dir = Some(draft.paths.text(&place.dir.to_string()));
    report.zip_path = place.zip.as_ref().map(|p| draft.paths.text(&p.to_string()));
    let mut entries = draft.entries(report, evidence);
    if let Err(error) = place.publish_zip(&entries) {
        place.forget_zip();
        let warning = format!("the zip file was not written: {error}; the directory is whole");
        draft.warnings.push(draft.paths.text(&warning));
        let bundle_dir = report.bundle_dir.take();
        *report = Report { bundle_dir, ..draft.report(evidence, context.include_collected) };
        entries = draft.entries(report, evidence);
    }
    place.publish_dir(&entries)
}

#[cfg(test)]
#[path = "mod_tests.rs"]
mod tests;
