//! What is collected around a report. Looks only at the project's control directory and at what the front handed over.
//!
//! Must never ask a daemon or start anything; a file that cannot be read is a warning or a null, never an error.

#![allow(clippy::disallowed_methods, reason = "a report is made on a blocking thread")]

use beam_base::AbsPath;
use serde_json::{Map, Value, json};

use super::context::Context;
use crate::daemon::process::{PidStatus, pid_status};
use crate::daemon::{Control, Registry, incident};

/// Largest statistics or list of open files that is taken, in bytes of JSON.
const MAX_PART: usize = 64 * 1024;
/// Largest incident that is taken, in bytes.
const MAX_INCIDENT: u64 = 64 * 1024;
/// Incidents that are taken, newest first.
const INCIDENTS: usize = 5;
/// Warnings that a front may add.
const MAX_WARNINGS: usize = 50;

/// What is said of the program in a confidential report.
const PUBLIC_IDENTITY: &[&str] = &["name", "version", "mcp_protocol", "runtime_active"];

/// What a confidential report holds: nothing of the project.
pub(super) fn confidential(context: &Context) -> Value {
    let mut identity = Map::new();
    for key in PUBLIC_IDENTITY {
        identity.insert((*key).into(), context.identity.get(*key).cloned().unwrap_or_default());
    }
    json!({ "identity": identity })
}

/// Everything, and what could not be had.
pub(super) fn everything(context: &Context) -> (Value, Vec<String>) {
    let mut warnings: Vec<_> = context.warnings.iter().take(MAX_WARNINGS).cloned().collect();
    if context.root.is_none() {
        warnings.push("no project root: nothing of a project was collected".into());
    }
    let daemon = context.control.as_ref().map(|control| daemon(control, &mut warnings));
    let collected = json!({
        "identity": context.identity,
        "stats": part("statistics", context.stats.as_ref(), &mut warnings),
        "openFiles": part("open files", context.open_files.as_ref(), &mut warnings),
        "daemon": daemon,
    });
    (collected, warnings)
}

fn part(what: &str, value: Option<&Value>, warnings: &mut Vec<String>) -> Value {
    let Some(value) = value else {
        return Value::Null;
    };
    let size = value.to_string().len();
    if size > MAX_PART {
        warnings.push(format!("{what} left out: {size} bytes, the limit is {MAX_PART}"));
        return Value::Null;
    }
    value.clone()
}

fn daemon(control: &Control, warnings: &mut Vec<String>) -> Value {
    let looked = Registry::look(control);
    let refused = looked.as_ref().err().map(ToString::to_string);
    let registry = looked.ok().flatten();
    let status = registry.as_ref().map(|r| pid_status(r.pid, r.pid_namespace.as_deref()));
    match (&registry, status) {
        (None, _) if refused.is_some() => warnings.extend(refused),
        (None, _) if control.registry_path().as_path().exists() => {
            warnings.push(format!("the daemon's registry {} cannot be read", control.registry_path()));
        }
        (Some(r), Some(status)) if status != PidStatus::Alive => warnings.push(format!(
            "the daemon's registry names pid {} ({}); if it does not answer, run `lean-beam shutdown`, then `lean-beam ensure`",
            r.pid,
            status.as_str()
        )),
        _ => {}
    }
    let incidents: Vec<_> =
        incident::read_newest(control, INCIDENTS, MAX_INCIDENT).into_iter().filter_map(incident).collect();
    let mut out = Map::new();
    out.insert("registryPath".into(), control.registry_path().to_string().into());
    out.insert("registry".into(), registry.as_ref().map(Registry::redacted).into());
    out.insert("registryPidStatus".into(), status.map(PidStatus::as_str).into());
    out.insert("registryEndpoint".into(), registry.as_ref().map(Registry::endpoint_text).into());
    out.insert("recentDaemonIncidents".into(), incidents.into());
    if let Some(tail) = incident::log_tail(control) {
        out.insert("startupLogPath".into(), control.log_path().to_string().into());
        out.insert("startupLogTail".into(), tail.into());
    }
    Value::Object(out)
}

/// The incident with its path; `None` for one that is broken (it is a report about something else that matters).
fn incident((path, bytes): (AbsPath, Vec<u8>)) -> Option<Value> {
    let mut value: Value = serde_json::from_slice(&bytes).ok()?;
    value.as_object_mut()?.insert("path".into(), path.to_string().into());
    Some(value)
}
