//! What a build tells, in the shape of Lake's own lines: clients know them, and the barrier knows the text of a failure.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::layout::Module;
use crate::outcome::{BuildOutcome, FailedModule};
use crate::trace::{Message, Severity};
use beam_lean::ModuleName;

/// The first line of a failure, by which it is known.
pub(crate) const FAILED: &str = "Failed to build module dependencies.";

/// Counts and tells.
pub(crate) struct Reporter<'a> {
    total: usize,
    progress: &'a (dyn Fn(&str) + Sync),
    state: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    done: usize,
    failed: Vec<FailedModule>,
    /// What was said of them.
    log: String,
}

impl<'a> Reporter<'a> {
    pub fn new(total: usize, progress: &'a (dyn Fn(&str) + Sync)) -> Self {
        Self { total, progress, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A module that was fresh; nothing is said unless it had messages.
    pub fn replayed(&self, module: &ModuleName, messages: &[Message]) {
        let mut told = self.lock();
        told.done += 1;
        if let Some(icon) = icon(messages) {
            self.say(&format!("{icon} [{}/{}] Replayed {module}", told.done, self.total), messages);
        }
    }

    pub fn built(&self, module: &ModuleName, took: Duration, messages: &[Message]) {
        let mut told = self.lock();
        told.done += 1;
        let icon = icon(messages).unwrap_or('✔');
        self.say(&format!("{icon} [{}/{}] Built {module} ({})", told.done, self.total, time(took)), messages);
    }

    pub fn failed(&self, module: &Module, verb: &str, took: Option<Duration>, error: &str) {
        let message = Message { severity: Severity::Error, text: error.to_owned() };
        self.failed_with(module, verb, took, &[message]);
    }

    pub fn failed_with(&self, module: &Module, verb: &str, took: Option<Duration>, messages: &[Message]) {
        let mut told = self.lock();
        told.done += 1;
        let took = took.map(|t| format!(" ({})", time(t))).unwrap_or_default();
        let line = format!("✖ [{}/{}] {verb} {}{took}", told.done, self.total, module.name);
        self.say(&line, messages);
        let log: String = messages.iter().map(|m| format!("{}\n", show(m))).collect();
        told.log.push_str(&format!("{line}\n{log}"));
        told.failed.push(FailedModule { module: module.name.clone(), path: module.source.clone(), log });
    }

    fn say(&self, line: &str, messages: &[Message]) {
        (self.progress)(line);
        for message in messages {
            for line in show(message).lines() {
                (self.progress)(line);
            }
        }
    }

    /// The outcome, if there were failures.
    pub fn failures(&self) -> Option<BuildOutcome> {
        let told = self.lock();
        if told.failed.is_empty() {
            return None;
        }
        let names: String = told.failed.iter().map(|f| format!("- {}\n", f.module)).collect();
        let text = format!("{FAILED}\n{}Some required targets logged failures:\n{names}", told.log);
        Some(BuildOutcome::Failed { modules: told.failed.clone(), text })
    }
}

/// Lake's sign for the worst of the messages.
fn icon(messages: &[Message]) -> Option<char> {
    messages.iter().map(|m| m.severity).max().map(|worst| match worst {
        Severity::Information => 'ℹ',
        Severity::Warning => '⚠',
        Severity::Error => '✖',
    })
}

fn show(message: &Message) -> String {
    let level = match message.severity {
        Severity::Information => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    format!("{level}: {}", message.text)
}

/// As Lake writes times.
fn time(took: Duration) -> String {
    let ms = took.as_millis();
    match ms {
        0..=1000 => format!("{ms}ms"),
        1001..=10000 => format!("{}.{}s", ms / 1000, ms / 100 % 10),
        _ => format!("{}s", ms / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_lake_writes_them() {
        for (ms, want) in [(0, "0ms"), (999, "999ms"), (1234, "1.2s"), (9999, "9.9s"), (65_000, "65s")] {
            assert_eq!(time(Duration::from_millis(ms)), want);
        }
    }
}
