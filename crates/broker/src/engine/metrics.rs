//! Counters of tracked operations, per backend and operation (broker protocol section 12).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use beam_wire::stats::{BackendStats, OpStats};
use beam_wire::{ErrorBody, FailureCode, Op};

/// One backend's counters in one workspace.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<OpCounts>);

#[derive(Debug, Default)]
struct OpCounts {
    session_starts: u64,
    /// Replaced workers that the running session counted before the last reset: its own count never goes back.
    restarts_before: u64,
    total: Tally,
    ops: BTreeMap<&'static str, Tally>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    stats: OpStats,
    sum_ms: u64,
}

impl Tally {
    fn add(&mut self, outcome: Result<(), &ErrorBody>, took: Duration) {
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let s = &mut self.stats;
        s.count += 1;
        match outcome {
            Ok(()) => s.success_count += 1,
            Err(e) => {
                s.error_count += 1;
                // Counted by code: a backend's own `workerExited` is as lost to the caller as ours.
                if e.is(FailureCode::RequestCancelled) {
                    s.cancelled_count += 1;
                } else if e.is(FailureCode::WorkerExited) {
                    s.worker_exited_count += 1;
                } else if e.is(FailureCode::InvalidParams) {
                    s.invalid_params_count += 1;
                }
            }
        }
        self.sum_ms = self.sum_ms.saturating_add(ms);
        s.avg_latency_ms = self.sum_ms / s.count;
        s.max_latency_ms = s.max_latency_ms.max(ms);
        s.last_latency_ms = ms;
    }
}

impl Metrics {
    fn counts(&self) -> std::sync::MutexGuard<'_, OpCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tracked request ended.
    pub(crate) fn record(&self, op: Op, outcome: Result<(), &ErrorBody>, took: Duration) {
        let mut counts = self.counts();
        counts.total.add(outcome, took);
        counts.ops.entry(op.name()).or_default().add(outcome, took);
    }

    /// A session started.
    pub(crate) fn session_started(&self) {
        self.counts().session_starts += 1;
    }

    /// Everything to zero; the running session has had to replace `restarts` workers so far.
    pub(crate) fn reset(&self, restarts: u64) {
        *self.counts() = OpCounts { restarts_before: restarts, ..OpCounts::default() };
    }

    /// The counters; the session itself knows how often a worker had to be replaced since it began.
    pub(crate) fn report(&self, restarts: u64) -> BackendStats {
        let counts = self.counts();
        let t = counts.total.stats;
        BackendStats {
            session_starts: counts.session_starts,
            session_restarts: restarts.saturating_sub(counts.restarts_before),
            request_count: t.count,
            success_count: t.success_count,
            error_count: t.error_count,
            cancelled_count: t.cancelled_count,
            worker_exited_count: t.worker_exited_count,
            invalid_params_count: t.invalid_params_count,
            ops: counts.ops.iter().map(|(name, tally)| ((*name).to_owned(), tally.stats)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_by_code() {
        let m = Metrics::default();
        m.record(Op::RunAt, Ok(()), Duration::from_millis(10));
        for code in [FailureCode::RequestCancelled, FailureCode::WorkerExited, FailureCode::InvalidParams] {
            m.record(Op::RunAt, Err(&ErrorBody::new(code, "")), Duration::from_millis(5));
        }
        m.record(Op::SyncFile, Ok(()), Duration::from_millis(1));
        let r = m.report(2);
        assert_eq!((r.request_count, r.success_count, r.error_count, r.session_restarts), (5, 2, 3, 2));
        let op = r.ops["run_at"];
        assert_eq!((op.count, op.cancelled_count, op.worker_exited_count, op.invalid_params_count), (4, 1, 1, 1));
        assert_eq!((op.avg_latency_ms, op.max_latency_ms, op.last_latency_ms), (6, 10, 5));
        m.reset(2);
        assert_eq!((m.report(2).request_count, m.report(2).session_restarts, m.report(5).session_restarts), (0, 0, 3));
    }
}
