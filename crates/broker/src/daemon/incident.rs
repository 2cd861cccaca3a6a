//! Incidents: what was known when a daemon was lost or not to be found, kept for whoever asks why.
//!
//! Recording must never hide the failure that is recorded: it returns nothing to fail on.

use std::path::PathBuf;
use std::time::SystemTime;

use beam_base::AbsPath;
use beam_base::guarded::{Access, Folder};
use serde_json::{Value, json};

use super::clock;
use super::control::{Control, INCIDENTS, LOG};
use super::process::pid_status;
use super::registry::Registry;

/// How many are kept.
const KEPT: usize = 50;
/// Lines of the log that an incident and the message to the user hold.
const TAIL_LINES: usize = 20;
/// Bytes of the log that are looked at for them.
const TAIL_BYTES: u64 = 16 * 1024;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncidentKind {
    /// The connection ended before the response.
    ConnectionClosed,
    /// A command that needs a running daemon found none.
    NoLiveDaemon,
}

impl IncidentKind {
    /// As in the file's name and content.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConnectionClosed => "connectionClosed",
            Self::NoLiveDaemon => "noLiveDaemon",
        }
    }
}

/// Records an incident and returns the lines that are added to the user's error: registry facts, the log's end, where the
/// record is.
#[must_use]
pub fn record(control: &Control, kind: IncidentKind, detail: &str, registry: Option<&Registry>) -> Vec<String> {
    let log = log_tail(control);
    let status = registry.map(|r| pid_status(r.pid, r.pid_namespace.as_deref()).as_str());
    let now = SystemTime::now();
    let body = json!({
        "schemaVersion": 1,
        "kind": kind.as_str(),
        "detail": detail,
        "observedAt": clock::timestamp(now),
        "root": control.root().to_string(),
        "controlDir": control.dir().to_string(),
        "registryPath": control.registry_path().to_string(),
        "registry": registry.map(Registry::redacted),
        "registryPidStatus": status,
        "registryEndpoint": registry.map(Registry::endpoint_text),
        "startupLogPath": log.as_ref().map(|_| control.log_path().to_string()),
        "startupLogTail": log,
    });
    let mut lines = facts(control, registry);
    if let Some(log) = log.filter(|l| !l.is_empty()) {
        lines.push(format!("end of {}:", control.log_path()));
        lines.extend(log.lines().map(|l| format!("  {l}")));
    }
    if let Some(path) = save(control, kind, now, &body) {
        lines.push(format!("incident: {path}"));
    }
    lines
}

fn facts(control: &Control, registry: Option<&Registry>) -> Vec<String> {
    let mut lines = vec![format!("registry: {}", control.registry_path())];
    let Some(r) = registry else {
        lines[0].push_str(" (none)");
        return lines;
    };
    let status = pid_status(r.pid, r.pid_namespace.as_deref()).as_str();
    lines.push(format!("daemon: {} pid {} ({status}), started {}", r.daemon_id, r.pid, r.started_at));
    lines.push(format!("endpoint: {}", r.endpoint_text()));
    lines.push(format!("root: {}", r.root));
    lines.push(format!("config hash: {}", r.config_hash));
    if let Some(toolchain) = &r.toolchain {
        lines.push(format!("toolchain: {toolchain}"));
    }
    if let Some(ns) = &r.pid_namespace {
        lines.push(format!("pid namespace: {ns}"));
    }
    lines
}

fn save(control: &Control, kind: IncidentKind, now: SystemTime, body: &Value) -> Option<AbsPath> {
    let folder = control.folder().and_then(|f| f.folder(INCIDENTS, true)).ok()?;
    let name =
        format!("incident-{}-{}-{}-{}.json", clock::compact(now), std::process::id(), clock::nanos(), kind.as_str());
    let mut text = serde_json::to_vec_pretty(body).ok()?;
    text.push(b'\n');
    folder.replace(&name, &text).ok()?;
    for old in names(&folder).into_iter().skip(KEPT) {
        let _kept_one_more = folder.remove(old);
    }
    Some(folder.path().join(name))
}

/// Newest first: names begin with the time.
fn names(folder: &Folder) -> Vec<String> {
    let mut names: Vec<String> = folder
        .names()
        .unwrap_or_default()
        .into_iter()
        .filter(|n| n.starts_with("incident-") && n.ends_with(".json"))
        .collect();
    names.sort_unstable_by(|a, b| b.cmp(a));
    names
}

/// Paths of the recorded incidents, newest first.
#[must_use]
pub fn newest_first(control: &Control) -> Vec<PathBuf> {
    let Ok(folder) = control.folder().and_then(|f| f.folder(INCIDENTS, false)) else {
        return Vec::new();
    };
    names(&folder).into_iter().map(|n| folder.path().join(n).as_path().to_owned()).collect()
}

/// The content of the newest incidents with their paths, of those that are files of ours of at most `cap` bytes.
#[must_use]
pub fn read_newest(control: &Control, count: usize, cap: u64) -> Vec<(AbsPath, Vec<u8>)> {
    let Ok(folder) = control.folder().and_then(|f| f.folder(INCIDENTS, false)) else {
        return Vec::new();
    };
    let newest = names(&folder).into_iter().take(count);
    newest.filter_map(|n| Some((folder.path().join(&n), folder.read(&n, cap).ok()?))).collect()
}

/// The last lines of the start-up log; `None` if there is none that can be read.
#[must_use]
pub fn log_tail(control: &Control) -> Option<String> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = control.folder().and_then(|f| f.file(LOG, Access::Read)).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    Some(lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::super::registry::{Token, sample};
    use super::super::testing::project;
    use super::*;
    use std::fs;

    #[test]
    fn an_incident_holds_the_facts_but_no_secret() {
        let (_keep, control) = project();
        let many: String = (0..40).map(|n| format!("line {n}\n")).collect();
        fs::write(control.log_path(), many).unwrap();
        let mut registry = sample(control.root());
        registry.port = Some(4000);
        registry.token = Some(Token::from_text("hush"));
        let lines = record(&control, IncidentKind::ConnectionClosed, "it went away", Some(&registry));
        let text = lines.join("\n");
        assert!(
            text.contains("pid 7 (unavailable)") && text.contains("line 39") && !text.contains("line 19\n"),
            "{text}"
        );
        let path = newest_first(&control).remove(0);
        assert!(path.to_str().unwrap().ends_with("-connectionClosed.json"));
        let body = fs::read_to_string(&path).unwrap();
        assert!(!body.contains("hush"), "{body}");
        let value: Value = serde_json::from_str(&body).unwrap();
        let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        expect_test::expect![[r#"
            schemaVersion kind detail observedAt root controlDir registryPath registry registryPidStatus registryEndpoint startupLogPath startupLogTail"#]]
        .assert_eq(&keys.join(" "));
        assert_eq!(value["registryPidStatus"], "unavailable");
        assert_eq!(value["startupLogTail"].as_str().unwrap().lines().count(), TAIL_LINES);
    }

    #[test]
    fn without_registry_and_log_they_are_null() {
        let (_keep, control) = project();
        let lines = record(&control, IncidentKind::NoLiveDaemon, "none", None);
        assert!(lines[0].ends_with("(none)"), "{lines:?}");
        let value: Value = serde_json::from_slice(&fs::read(&newest_first(&control)[0]).unwrap()).unwrap();
        for key in ["registry", "registryPidStatus", "registryEndpoint", "startupLogPath", "startupLogTail"] {
            assert!(value[key].is_null(), "{key}");
        }
    }

    #[test]
    fn only_the_newest_are_kept() {
        let (_keep, control) = project();
        fs::create_dir_all(control.incident_dir()).unwrap();
        for n in 0..60 {
            let name = format!("incident-20260101T0000{n:02}Z-1-1-noLiveDaemon.json");
            fs::write(control.incident_dir().join(name), "{}").unwrap();
        }
        let _lines = record(&control, IncidentKind::NoLiveDaemon, "none", None);
        let left = newest_first(&control);
        assert_eq!(left.len(), KEPT);
        assert!(left.last().unwrap().to_str().unwrap().contains("T000011Z"), "{left:?}");
    }

    #[test]
    fn a_record_that_cannot_be_written_costs_only_its_own_line() {
        let (_keep, control) = project();
        fs::write(control.incident_dir(), "in the way").unwrap();
        let lines = record(&control, IncidentKind::NoLiveDaemon, "none", None);
        assert!(!lines.iter().any(|l| l.starts_with("incident:")) && !lines.is_empty(), "{lines:?}");
    }

    /// `beam-daemon-startup.log -> ~/secret` must not reach an incident or a report, `daemon-failures -> dir` must not cost its files.
    #[test]
    fn planted_links_are_neither_read_nor_written_through() {
        let (_keep, control) = project();
        let secret = control.root().join("secret");
        fs::write(&secret, "xyzzy").unwrap();
        std::os::unix::fs::symlink(&secret, control.log_path()).unwrap();
        assert_eq!(log_tail(&control), None);
        let elsewhere = control.root().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        for n in 0..60 {
            fs::write(elsewhere.join(format!("incident-2026-{n:02}.json")), "{}").unwrap();
        }
        std::os::unix::fs::symlink(&elsewhere, control.incident_dir()).unwrap();
        let lines = record(&control, IncidentKind::NoLiveDaemon, "none", None).join("\n");
        assert!(!lines.contains("xyzzy") && !lines.contains("incident:"), "{lines}");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 60);
        assert!(newest_first(&control).is_empty());
    }
}
