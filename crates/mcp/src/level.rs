//! Log levels of MCP, and who decides which of them a client sees.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use beam_wire::StreamDiagnostic;
use serde::{Deserialize, Serialize};

/// Severity of a log message, mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub(crate) enum LogLevel {
    /// Details.
    Debug,
    /// News.
    Info,
    /// Normal but worth knowing.
    Notice,
    /// Something may be wrong.
    Warning,
    /// Something is wrong.
    Error,
    /// Worse.
    Critical,
    /// Act now.
    Alert,
    /// Unusable.
    Emergency,
}

impl LogLevel {
    const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The level at which a diagnostic is logged: hints are details, a diagnostic without severity is news.
    pub(crate) fn of(diagnostic: &StreamDiagnostic) -> Self {
        match diagnostic.severity {
            Some(1) => Self::Error,
            Some(2) => Self::Warning,
            Some(4) => Self::Debug,
            _ => Self::Info,
        }
    }
}

/// The legacy family's threshold, shared by all calls and changed by `logging/setLevel`. Starts at `debug`.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedLevel(Arc<AtomicU8>);

impl SharedLevel {
    /// Changes it for every log message from now on.
    pub(crate) fn set(&self, level: LogLevel) {
        self.0.store(level as u8, Ordering::Relaxed);
    }

    fn get(&self) -> LogLevel {
        LogLevel::ALL.get(usize::from(self.0.load(Ordering::Relaxed))).copied().unwrap_or(LogLevel::Emergency)
    }
}

/// Which log messages one call may emit.
#[derive(Debug, Clone)]
pub(crate) enum LogGate {
    /// The stream's threshold at the moment of emission.
    Legacy(SharedLevel),
    /// What the request itself asked for; nothing if it did not.
    Request(Option<LogLevel>),
}

impl LogGate {
    /// Whether a message at this level goes out now.
    pub(crate) fn admits(&self, level: LogLevel) -> bool {
        match self {
            Self::Legacy(shared) => level >= shared.get(),
            Self::Request(wanted) => wanted.is_some_and(|wanted| level >= wanted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seed's table of active minimum log levels, row by row; columns: status notice, error, warning, information, hint.
    #[test]
    fn the_log_level_table() {
        let candidates = [LogLevel::Notice, LogLevel::Error, LogLevel::Warning, LogLevel::Info, LogLevel::Debug];
        let rows = [
            (None, [false; 5]),
            (Some(LogLevel::Debug), [true; 5]),
            (Some(LogLevel::Info), [true, true, true, true, false]),
            (Some(LogLevel::Notice), [true, true, true, false, false]),
            (Some(LogLevel::Warning), [false, true, true, false, false]),
            (Some(LogLevel::Error), [false, true, false, false, false]),
            (Some(LogLevel::Critical), [false; 5]),
            (Some(LogLevel::Alert), [false; 5]),
            (Some(LogLevel::Emergency), [false; 5]),
        ];
        for (minimum, visible) in rows {
            assert_eq!(candidates.map(|level| LogGate::Request(minimum).admits(level)), visible, "{minimum:?}");
            if let Some(minimum) = minimum {
                let shared = SharedLevel::default();
                let gate = LogGate::Legacy(shared.clone());
                assert!(gate.admits(LogLevel::Debug), "the legacy default is debug");
                shared.set(minimum);
                assert_eq!(candidates.map(|level| gate.admits(level)), visible, "legacy {minimum:?}");
            }
        }
    }
}
