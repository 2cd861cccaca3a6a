//! Replacing what tells who somebody is, and what nobody may have.
//!
//! Four kinds of words: the home directory becomes `~` wherever it stands; other homes and account names become `[user]`; what looks
//! like a credential becomes `[redacted]`. Square brackets, because Markdown swallows `<words>` as HTML. Redacting twice changes nothing.
//!
//! Must never make a text unreadable for the sake of a guess: a rule that could hit Lean source asks for more than a keyword.

#![allow(clippy::disallowed_methods, reason = "a report is made on a blocking thread")]

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

use super::context::Person;

const USER: &str = "[user]";
const SECRET: &str = "[redacted]";

/// Account names that many machines have; as parts of paths they tell nothing and often mean something else.
const COMMON_NAMES: &[&str] = &[
    "root",
    "user",
    "users",
    "admin",
    "runner",
    "ubuntu",
    "debian",
    "guest",
    "node",
    "nobody",
    "vscode",
    "codespace",
    "test",
    "tests",
    "dev",
    "build",
    "builder",
    "ci",
    "home",
    "lean",
    "lake",
    "main",
    "src",
    "lib",
    "tmp",
    "work",
    "workspace",
    "project",
    "projects",
];

/// Replaces private words, or nothing at all.
#[derive(Debug)]
pub struct Redactor {
    on: bool,
    /// Home directory in every spelling, longest first, with what is put in its place.
    paths: Vec<(String, &'static str)>,
    names: Option<Regex>,
}

impl Redactor {
    /// Changes nothing.
    #[must_use]
    pub fn off() -> Self {
        Self { on: false, paths: Vec::new(), names: None }
    }

    /// For this person. `project` is a folder whose very name is confidential.
    #[must_use]
    pub fn new(person: &Person, project: Option<&std::path::Path>) -> Self {
        let mut paths = Vec::new();
        let places = [(person.home.as_deref(), "~"), (project, "[project]")];
        for (path, word) in places.into_iter().filter_map(|(p, w)| Some((p?, w))) {
            // What the variable says and what it leads to: Lean and Lake print resolved paths.
            for form in [Some(path.to_path_buf()), path.canonicalize().ok()].into_iter().flatten() {
                let Some(text) = form.to_str().map(|t| t.trim_end_matches('/')) else { continue };
                // A home of `/` (or none, or a relative one) would eat every path.
                if text.len() > 1 && form.is_absolute() {
                    paths.push((text.to_owned(), word));
                    let encoded = percent_encoded(text);
                    paths.push((encoded, word));
                }
            }
        }
        paths.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
        paths.dedup();
        Self { on: true, paths, names: names_pattern(person) }
    }

    /// A text.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        if !self.on {
            return text.to_owned();
        }
        let mut out = text.to_owned();
        for (path, word) in &self.paths {
            out = replace_path(&out, path, word);
        }
        out = OTHER_HOMES.replace_all(&out, |c: &Captures<'_>| format!("{}{}{USER}", &c[1], &c[2])).into_owned();
        if let Some(names) = &self.names {
            out = names
                .replace_all(&out, |c: &Captures<'_>| match c.get(2) {
                    Some(_) => format!("{}{USER}", &c[1]),
                    None => format!("{USER}@"),
                })
                .into_owned();
        }
        secrets(&out)
    }

    /// Every string in a value, keys included: the statistics are keyed by paths.
    #[must_use]
    pub fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(s) => Value::String(self.text(s)),
            Value::Array(items) => Value::Array(items.iter().map(|v| self.value(v)).collect()),
            Value::Object(object) => Value::Object(self.object(object)),
            other => other.clone(),
        }
    }

    /// Likewise; a string under a key that names a credential goes whole.
    #[must_use]
    pub fn object(&self, object: &Map<String, Value>) -> Map<String, Value> {
        let mut out = Map::new();
        for (key, value) in object {
            let mut name = self.text(key);
            // Two keys may become one; both values are still of interest.
            while out.contains_key(&name) {
                name.push('\'');
            }
            let hidden = self.on && names_a_secret(key) && value.as_str().is_some_and(|s| !s.is_empty());
            out.insert(name, if hidden { SECRET.into() } else { self.value(value) });
        }
        out
    }
}

/// The path where it ends a component: `/home/al` is no part of `/home/alice`. Its beginning is not looked at, since whatever stands
/// before (`file://`, `-L`, `=`) is no reason to keep it.
fn replace_path(text: &str, path: &str, word: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(path) {
        let after = &rest[at + path.len()..];
        out.push_str(&rest[..at]);
        let mut next = after.chars();
        let whole = match next.next() {
            Some('.') => !next.next().is_some_and(char::is_alphanumeric),
            Some(c) => !(c.is_alphanumeric() || matches!(c, '_' | '-')),
            None => true,
        };
        out.push_str(if whole { word } else { path });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// As `file:` addresses spell it.
fn percent_encoded(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn pattern(text: &str) -> Regex {
    // The patterns are constants (names are escaped), so a failure is ours, and the first test would see it.
    Regex::new(text).unwrap_or_else(|e| unreachable!("a redaction pattern does not compile: {e}"))
}

/// Account names as a part of a path, or before `@`. Nowhere else: a name may be a word.
fn names_pattern(person: &Person) -> Option<Regex> {
    let of_home = person.home.as_deref().and_then(|h| h.file_name()).and_then(|n| n.to_str()).map(str::to_owned);
    let mut names: Vec<_> = person
        .names
        .iter()
        .cloned()
        .chain(of_home)
        .filter(|n| n.len() > 2 && !COMMON_NAMES.contains(&n.to_lowercase().as_str()))
        .map(|n| regex::escape(&n))
        .collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return None;
    }
    let any = names.join("|");
    Some(pattern(&format!(r"([/\\])({any})\b|\b(?:{any})@")))
}

static OTHER_HOMES: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"(^|[^A-Za-z0-9_.~\]-])((?:/home|/Users)/|[A-Za-z]:\\+Users\\+)[^/\\\s"'`<>:;,()\[\]{}|]+"#)
});

/// Credentials by their own shape.
static SHAPES: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
        r"|(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}",
        r"|sk-[A-Za-z0-9_-]{20,}|xox[abeprs]-[A-Za-z0-9-]{10,}|A(?:KIA|SIA)[0-9A-Z]{16}",
        r"|AIza[0-9A-Za-z_-]{30,}|npm_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{20,}|pypi-[A-Za-z0-9_-]{40,}",
        r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)",
    ))
});

/// User and password in an address.
static USERINFO: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?-u:\b)([A-Za-z][A-Za-z0-9+.-]*://)[^/\s:@]*:[^/\s@]+@"));

/// `Authorization: Bearer …`, `token = …`. The value must look like one: letters *and* digits; `(token : String)` is Lean.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r#"(?i-u)(\bbearer\s+|\bauthorization["']?\s*[:=]\s*["']?(?:[a-z]+\s+)?|"#,
        r#"\b[a-z0-9_-]*(?:token|secret|passwo?r?d|api[_-]?key|access[_-]?key)["']?\s*[:=]\s*["']?)"#,
        r#"([A-Za-z0-9._~+/=!@$%^&*-]{6,})"#,
    ))
});

fn secrets(text: &str) -> String {
    let out = SHAPES.replace_all(text, SECRET);
    let out = USERINFO.replace_all(&out, |c: &Captures<'_>| format!("{}{SECRET}@", &c[1]));
    NAMED
        .replace_all(&out, |c: &Captures<'_>| {
            let (name, value) = (&c[1], &c[2]);
            let progress = name.to_lowercase().contains("progress");
            let mixed = value.bytes().any(|b| b.is_ascii_digit()) && value.bytes().any(|b| b.is_ascii_alphabetic());
            if mixed && !progress { format!("{name}{SECRET}") } else { c[0].to_owned() }
        })
        .into_owned()
}

/// Keys whose value is a credential whatever it looks like.
fn names_a_secret(key: &str) -> bool {
    let plain: String = key.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    // A progress token is a counter of the protocol.
    let ends =
        ["token", "secret", "password", "passwd", "apikey", "accesskey", "privatekey", "authorization", "cookie"];
    plain != "progresstoken" && ends.iter().any(|e| plain.ends_with(e))
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
