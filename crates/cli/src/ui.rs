//! Everything people see on stderr, and the one writer of stdout (C1).
//!
//! Lines are built by functions from data, so that tests compare them; only [`Ui`] writes.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use beam_toolchain::HostEnv;
use beam_wire::{ErrorBody, FailureCode, Op, Progress, Response, StreamDiagnostic};
use serde_json::Value;

use crate::error::CliError;

/// The two streams, and what the environment says about them.
#[derive(Debug, Clone)]
pub struct Ui {
    prefix: Arc<str>,
    progress: bool,
    terminal: bool,
}

impl Ui {
    /// `BEAM_PROGRESS` decides, else whether stderr is a terminal. A request id of the user's own stands in the prefix.
    #[must_use]
    pub fn new(env: &HostEnv, request_id: Option<&str>) -> Self {
        let terminal = io::stderr().is_terminal();
        let prefix = request_id.map_or_else(|| "beam: ".to_owned(), |id| format!("beam[{id}]: "));
        Self { prefix: prefix.into(), progress: switch(env, "BEAM_PROGRESS").unwrap_or(terminal), terminal }
    }

    /// Whether progress is wanted.
    #[must_use]
    pub fn progress(&self) -> bool {
        self.progress
    }

    /// Whether stderr is a terminal.
    #[must_use]
    pub fn terminal(&self) -> bool {
        self.terminal
    }

    /// A line for people; several lines get a prefix each.
    pub fn say(&self, text: &str) {
        let mut out = String::new();
        for line in text.lines() {
            out.push_str(&self.prefix);
            out.push_str(line);
            out.push('\n');
        }
        self.raw(&out);
    }

    /// A line that is wanted only with progress.
    pub fn say_progress(&self, text: impl FnOnce() -> String) {
        if self.progress {
            self.say(&text());
        }
    }

    /// Text as it is, in one write: lines of two processes on one terminal do not mix.
    pub fn raw(&self, text: &str) {
        // Nobody to tell that nobody listens.
        let _unheard = io::stderr().lock().write_all(text.as_bytes());
    }
}

/// A switch variable: empty, `0`, `false` and `no` are off; `None` when unset.
#[must_use]
pub fn switch(env: &HostEnv, name: &str) -> Option<bool> {
    let set = env.vars().find(|(k, _)| *k == name)?.1;
    Some(!matches!(set.to_str().map(|v| v.trim().to_ascii_lowercase()).as_deref(), Some("" | "0" | "false" | "no")))
}

/// Writes the answer: the only thing that ever goes to stdout (C1). Flushed, since the process may stay.
pub fn answer(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush())
        .map_err(CliError::Stdout)
}

/// `diagnostic error A.lean:3:1: first line / second line`, positions from 1.
#[must_use]
pub fn diagnostic_line(d: &StreamDiagnostic) -> String {
    let severity = match d.severity {
        Some(1) => "error",
        Some(2) => "warning",
        Some(3) => "info",
        Some(4) => "hint",
        _ => "diagnostic",
    };
    let blocking = if d.completion_blocking { " completionBlocking=true" } else { "" };
    let lines: Vec<_> = d.message.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let (line, column) = (u64::from(d.range.start.line) + 1, u64::from(d.range.start.character) + 1);
    format!("diagnostic {severity}{blocking} {}:{line}:{column}: {}", d.path, lines.join(" / "))
}

/// Progress as the CLI shows it: `done=true` goes without saying.
#[must_use]
pub fn progress_text(p: &Progress) -> String {
    let text = p.to_string();
    text.strip_suffix(" done=true").unwrap_or(&text).to_owned()
}

/// The line at the end of a request that succeeded.
#[must_use]
pub fn completion_line(what: &str, op: Op, response: &Response) -> String {
    let mut out = format!("{what}: done");
    let result = response.outcome.as_ref().unwrap_or(&Value::Null);
    if matches!(op, Op::SyncFile | Op::RefreshFile) {
        if let Some(version) = result.get("version") {
            out.push_str(&format!(", version {version}"));
        }
        if let Some(p) = &response.file_progress {
            out.push_str(", ");
            out.push_str(&progress_text(p));
        }
        let readiness = &result["readiness"];
        if readiness["saveReady"] == Value::Bool(false) {
            let reason = readiness["reason"].as_str().unwrap_or("unknown");
            let count = &readiness["blockingErrorCount"];
            out.push_str(&format!(", saveReady=false ({reason}, blockingErrorCount={count})"));
        }
    }
    out
}

/// The line after a failed progress command: which command, how far it did not get, and why.
#[must_use]
pub fn failure_line(typed: &str, op: Op, error: &ErrorBody) -> String {
    let boundary = match op {
        Op::SyncFile | Op::RefreshFile => "before the diagnostics barrier was complete",
        Op::RunAt | Op::RunWith => "before the text was run",
        _ => "before there was a result",
    };
    format!("{typed} failed {boundary}: {}: {}", error.code, error.message)
}

/// What to do about an incomplete barrier, from the plan that came with it.
#[must_use]
pub fn recovery_line(error: &ErrorBody) -> Option<String> {
    if !error.is(FailureCode::SyncBarrierIncomplete) {
        return None;
    }
    let data = error.data.as_ref()?;
    let plan: Vec<String> = match data["recoveryPlan"].as_array() {
        Some(steps) if !steps.is_empty() => steps.iter().filter_map(|s| s.as_str().map(str::to_owned)).collect(),
        _ => {
            let target = data["targetPath"].as_str()?;
            vec![format!("lean-beam refresh \"{target}\""), "lake build".to_owned()]
        }
    };
    Some(format!("to recover: {}", plan.join(", then ")))
}

/// Notes on a text that Lean rejected.
#[must_use]
pub fn rejected_notes(op: Op, response: &Response, text: Option<&str>) -> Vec<String> {
    let rejected = matches!(op, Op::RunAt | Op::RunWith)
        && response.outcome.as_ref().is_ok_and(|r| r["success"] == Value::Bool(false));
    if !rejected {
        return Vec::new();
    }
    let mut notes = vec!["note: the request completed, but Lean rejected the text; see result.messages".to_owned()];
    if text.is_some_and(|t| t.contains("\\n") && !t.contains('\n')) {
        notes.push(
            "hint: the text holds a backslash and an n, not a line break; use --stdin, --text-file, or $'...' in the shell"
                .to_owned(),
        );
    }
    notes
}

/// The three lines of `BEAM_DEBUG_TEXT`.
#[must_use]
pub fn debug_text(source: &str, text: &str) -> [String; 3] {
    let hex: String = text.bytes().map(|b| format!("{b:02x}")).collect();
    [
        format!(
            "text source={source} utf8Bytes={} containsNewline={} containsLiteralBackslashN={}",
            text.len(),
            text.contains('\n'),
            text.contains("\\n")
        ),
        format!("text json={}", Value::from(text)),
        format!("text hex={hex}"),
    ]
}

#[cfg(test)]
#[path = "ui_tests.rs"]
mod tests;
