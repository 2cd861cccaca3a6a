//! The card for people. Pure: everything in it was redacted before.

use serde_json::{Map, Value};

use super::evidence::Loaded;
use super::input::Input;

/// Evidence up to this size is shown in the card itself, in bytes.
const EXCERPT: usize = 4 * 1024;
/// All excerpts together, in bytes.
const EXCERPTS: usize = 32 * 1024;
/// JSON up to this size is set in lines; larger is set compactly, so that the card does not double it.
const PRETTY: usize = 32 * 1024;

const NOT_SUPPLIED: &str = "_Not supplied._";
const UNKNOWN: &str = "unknown";

/// What the card says.
pub(super) struct Card<'a> {
    pub(super) input: &'a Input,
    pub(super) generated_at: &'a str,
    pub(super) identity: &'a Map<String, Value>,
    pub(super) active_root: Option<&'a str>,
    /// The `daemon` object of what was collected.
    pub(super) daemon: Option<&'a Map<String, Value>>,
    pub(super) warnings: &'a [String],
    /// What the answer shows of it.
    pub(super) collected: Option<&'a Value>,
    pub(super) evidence: &'a [Loaded],
    /// Whether the evidence is on disk, too.
    pub(super) bundled: bool,
}

impl Card<'_> {
    /// The whole card, with a final newline.
    pub(super) fn render(&self) -> String {
        let input = self.input;
        let title = input.title.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut out = format!("# {title}\n\n{}\n", self.notice());
        section(&mut out, "Summary", &format!("{}\n\n{}", text(&input.summary), self.classification()));
        section(&mut out, "Beam Runtime", &self.runtime());
        section(&mut out, "Reproduction", text(&input.reproduction));
        section(&mut out, "Expected Behavior", text(&input.expected));
        section(&mut out, "Actual Behavior", text(&input.actual));
        if let Some(impact) = &input.impact {
            section(&mut out, "Impact", text(impact));
        }
        if let Some(collected) = self.collected {
            section(&mut out, "Beam Debug Context", &json_block(collected));
        }
        if let Some(exchange) = self.exchange() {
            section(&mut out, "Request And Response", &exchange);
        }
        if !self.evidence.is_empty() {
            section(&mut out, "Evidence", &self.evidence_list());
        }
        if let Some(workaround) = &input.workaround {
            section(&mut out, "Workaround", text(workaround));
        }
        out
    }

    fn notice(&self) -> &'static str {
        if self.input.confidential {
            "> [!IMPORTANT]\n> Confidential report: project context, requests, responses and evidence were left out. The text below is the \
             reporter's own and may still tell more than it should. Nothing has been submitted or uploaded; where it goes is yours to decide."
        } else {
            "> [!WARNING]\n> Read this before posting it in public: it holds paths, settings and output of a project, and what looks private \
             was replaced by pattern only. Nothing has been submitted or uploaded; posting it is up to you."
        }
    }

    fn classification(&self) -> String {
        let tags = self.input.tags.join(", ");
        let or_none = |word: Option<&str>| word.filter(|w| !w.is_empty()).unwrap_or(NOT_SUPPLIED).to_owned();
        format!(
            "- Kind: {}\n- Severity: {}\n- Tags: {}",
            or_none(self.input.kind),
            or_none(self.input.severity),
            or_none(Some(&tags))
        )
    }

    fn runtime(&self) -> String {
        let known = |key: &str| self.identity.get(key).filter(|v| !v.is_null()).map(plain);
        let or_unknown = |value: Option<String>| value.unwrap_or_else(|| UNKNOWN.into());
        let mut lines = vec![
            format!("- Generated at: {}", self.generated_at),
            format!("- Server: {} {}", or_unknown(known("name")), or_unknown(known("version"))),
            format!("- MCP protocol: {}", or_unknown(known("mcp_protocol"))),
        ];
        if self.input.confidential {
            lines.push(format!("- Runtime active: {}", or_unknown(known("runtime_active"))));
            return lines.join("\n");
        }
        lines.push(format!("- Active root: {}", self.active_root.unwrap_or("none")));
        lines.push(format!("- Runtime active: {}", or_unknown(known("runtime_active"))));
        for (key, label) in [("runtime_current", "Runtime current"), ("runtime_error", "Runtime error")] {
            if let Some(value) = known(key) {
                lines.push(format!("- {label}: {value}"));
            }
        }
        if let Some(commit) = known("source_commit") {
            let short: String = commit.chars().take(12).collect();
            let branch = known("source_branch").map(|b| format!(" on {b}")).unwrap_or_default();
            let dirty =
                if self.identity.get("source_dirty") == Some(&Value::Bool(true)) { ", with changes" } else { "" };
            lines.push(format!("- Source: {short}{branch}{dirty}"));
        }
        if let Some(daemon) = self.daemon {
            let of = |key: &str| daemon.get(key).filter(|v| !v.is_null()).map(plain);
            let pid = daemon.get("registry").and_then(|r| r.get("pid")).map(plain);
            let status = of("registryPidStatus").map(|s| format!(" ({s})")).unwrap_or_default();
            lines.push(format!("- Daemon registry pid: {}{status}", pid.unwrap_or_else(|| "none".into())));
            lines.push(format!("- Daemon endpoint: {}", of("registryEndpoint").unwrap_or_else(|| "none".into())));
        }
        match self.warnings {
            [] => lines.push("- Warnings: none".into()),
            warnings => {
                lines.push("- Warnings:".into());
                lines.extend(
                    warnings.iter().map(|w| format!("  - {}", w.split_whitespace().collect::<Vec<_>>().join(" "))),
                );
            }
        }
        lines.join("\n")
    }

    fn exchange(&self) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(id) = &self.input.client_request_id {
            parts.push(format!("Client request id: {}", code(id)));
        }
        for (label, object) in [("Request", &self.input.request), ("Response", &self.input.response)] {
            if let Some(object) = object {
                parts.push(format!("{label}:\n\n{}", json_block(&Value::Object(object.clone()))));
            }
        }
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    fn evidence_list(&self) -> String {
        let mut out = Vec::new();
        let mut shown = 0;
        for piece in self.evidence {
            let from = piece.path.as_ref().map(|p| format!(", from {}", code(p))).unwrap_or_default();
            let mut line = format!("- {} ({} bytes{from})", code(&piece.name), piece.bytes.len());
            match std::str::from_utf8(&piece.bytes) {
                Ok(body) if shown < EXCERPTS => {
                    let part = beginning(body, EXCERPT);
                    shown += part.len();
                    if part.len() < body.len() {
                        line.push_str(&format!(", the first {} bytes", part.len()));
                    }
                    line.push_str(&format!(":\n\n{}", block(part, "text")));
                }
                Ok(_) => line.push_str(", not shown here"),
                Err(_) => line.push_str(", not text"),
            }
            out.push(line);
        }
        let whole = if self.bundled { "Whole files are in the bundle's `evidence` folder.\n\n" } else { "" };
        format!("{whole}{}", out.join("\n\n"))
    }
}

fn section(out: &mut String, heading: &str, body: &str) {
    out.push_str(&format!("\n## {heading}\n\n{}\n", body.trim_end()));
}

fn text(text: &str) -> &str {
    if text.trim().is_empty() { NOT_SUPPLIED } else { text }
}

/// A scalar as people read it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(s) => s.split_whitespace().collect::<Vec<_>>().join(" "),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        other => other.to_string(),
    }
}

/// The longest beginning of at most `limit` bytes that ends between characters.
fn beginning(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|n| text.is_char_boundary(*n)).unwrap_or(0);
    &text[..end]
}

fn json_block(value: &Value) -> String {
    let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
    let text = if pretty.len() > PRETTY { value.to_string() } else { pretty };
    block(&text, "json")
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// A fenced block whose fence is longer than any in the text, so that nothing in it can end it.
fn block(text: &str, language: &str) -> String {
    let fence = "`".repeat((longest_run(text) + 1).max(3));
    let newline = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    format!("{fence}{language}\n{text}{newline}{fence}")
}

fn code(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let fence = "`".repeat(longest_run(&text) + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}
