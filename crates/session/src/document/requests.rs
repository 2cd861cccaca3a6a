//! What callers ask of a document, and how that ends (S2, S3).

use std::time::Duration;

use beam_base::rpc::{RequestId, RpcError};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::abandoned::{AbandonedWork, NewText};
use crate::document::state::Document;
use crate::error::{ExitReason, Modified, RequestFailure};
use crate::lifecycle::Transition;
use crate::lsp;
use crate::message::ToRouter;
use crate::mirror::{Applied, MirrorChange, Snapshot};
use crate::pending::{Answered, Patience, Place, Stopped};
use crate::process::Usage;
use crate::request::{Composed, Queued, WireId};
use crate::shared::Tally;

/// How many times the grace a worker is given that is kept from running.
const STARVED: u32 = 10;

impl Document {
    pub(super) fn apply(&mut self, snap: Snapshot) -> Applied {
        let step = self.mirror.apply(snap, || self.shared.config.versions.next(&self.path));
        if step == MirrorChange::Changed {
            self.on_edit();
        }
        self.mirror.applied(step)
    }

    pub(super) fn on_edit(&mut self) {
        let version = self.mirror.version;
        self.note_abandoned_work();
        self.progress = None;
        // Before the new text, so that the worker sees the cancellations while it still has the requests.
        for (key, expected) in self.pending.version_bound() {
            let failure = RequestFailure::ContentModified {
                how: Modified::Edited { version },
                expected: Some(expected),
                uri: self.uri.clone(),
            };
            self.stop(key, failure);
        }
        if let Some(live) = self.lifecycle.live() {
            live.edits += 1;
            self.send(lsp::did_change(&self.uri, version, &self.mirror.text));
        } else if self.preparing.is_none() {
            self.begin();
        }
        let module = self.module();
        if let Some(router) = self.links.router.upgrade() {
            drop(router.send(ToRouter::Changed { uri: self.uri.clone(), module }));
        }
    }

    /// Sends what stands in line, as far as the worker has room. Every step may have made some, so this follows each of them.
    pub(super) fn advance_line(&mut self) {
        for must_stop in [true, false] {
            // Asked each time: the first of them may be the one that finds no worker and begins to prepare one, and goes back into the line.
            while self.preparing.is_none()
                && self.pending.in_flight(must_stop) < self.shared.config.max_in_flight
                && let Some(request) = self.pending.take_next(must_stop)
            {
                self.request(request);
            }
        }
    }

    pub(super) fn request(&mut self, request: Queued) {
        if let Some(expected) = request.version
            && expected != self.mirror.version
        {
            let accepted = self.mirror.version;
            request.end(Err(RequestFailure::StaleVersion { expected, accepted, uri: self.uri.clone() }));
            return;
        }
        if request.deadline.is_some_and(|at| at <= Instant::now()) {
            request.end(Err(RequestFailure::TimedOut));
            return;
        }
        if let Some(observer) = &request.observer {
            let tracked = self.mirror.version;
            observer.registered(self.published.as_ref().filter(|it| it.version() == tracked));
        }
        let no_worker = self.lifecycle.live().is_none() && self.preparing.is_none();
        if no_worker && !self.begin() {
            request.end(Err(self.no_worker()));
            return;
        }
        // Behind whatever stands there already: first come, first served.
        let busy = self.pending.in_flight(request.must_stop) >= self.shared.config.max_in_flight;
        if self.preparing.is_some() || busy {
            self.pending.insert(request, Place::Line);
            return;
        }
        if let Some(Composed::References { .. }) = request.composed {
            self.pending.insert(request, Place::Index);
            self.answer_from_index();
            return;
        }
        let _ = Tally::add(&self.shared.tally.requests);
        let body = lsp::encode_request(&request.id, &request.method, &request.params);
        // Registered before it is sent, so that whatever sending leads to finds it.
        self.pending.insert(request, Place::Worker);
        self.send(body);
    }

    /// Ends a waiting request for its caller and cancels it at the worker (S3).
    pub(super) fn stop(&mut self, key: u64, failure: RequestFailure) {
        let (now, grace, pid) = (Instant::now(), self.shared.config.cancel_grace, self.lifecycle.pid());
        let patience =
            || Patience { until: now + grace, at_most: now + grace * STARVED, usage: pid.and_then(Usage::of) };
        if let Stopped::TellWorker(id) = self.pending.stop(key, failure, patience) {
            self.send(lsp::cancel(&id));
        }
    }

    /// Ends every request and lets the worker go.
    pub(super) fn finish(&mut self, grace: Duration, failure: impl Fn(&Queued) -> RequestFailure) {
        for request in self.pending.take_all() {
            let failure = failure(&request);
            request.end(Err(failure));
        }
        if let Some((live, _)) = self.lifecycle.advance(Transition::Ended) {
            live.worker.retire(grace);
        }
        if let Some(spare) = self.spare.take() {
            spare.retire(grace);
        }
    }

    /// Before an edit: if the worker is at the text that is about to be replaced, what it does now is to stop.
    fn note_abandoned_work(&mut self) {
        let (now, grace) = (Instant::now(), self.shared.config.cancel_grace);
        self.heard_at = now;
        if self.progress.is_some_and(|progress| !progress.done)
            && let Some(threads) = self.lifecycle.pid().and_then(Usage::of_threads)
        {
            self.abandoned.note(now, &threads, grace);
        }
    }

    /// Looks whether the worker still elaborates a text that was replaced; such a worker is replaced, too.
    fn check_abandoned_work(&mut self, now: Instant) {
        if self.abandoned.look_at().is_none_or(|at| at > now) {
            return;
        }
        let Some(threads) = self.lifecycle.pid().and_then(Usage::of_threads) else {
            self.abandoned = AbandonedWork::default();
            return;
        };
        let text = if self.progress.is_some_and(|progress| progress.done) {
            NewText::Done(self.heard_at)
        } else {
            NewText::Unfinished(self.heard_at)
        };
        let grace = self.shared.config.cancel_grace;
        if self.abandoned.is_stubborn(now, &threads, text, grace) {
            let reason = ExitReason::AbandonedElaboration;
            tracing::warn!(uri = %self.uri, "a file worker {reason}");
            let _ = Tally::add(&self.shared.tally.abandoned_elaborations);
            self.replaced = Some(reason.cause());
            self.replace_worker(reason, None);
        }
    }

    /// When [`Document::on_timer`] has something to do.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.pending.next_wake().into_iter().chain(self.abandoned.look_at()).min()
    }

    pub(super) fn on_timer(&mut self) {
        let now = Instant::now();
        for key in self.pending.timed_out(now) {
            self.stop(key, RequestFailure::TimedOut);
        }
        let grace = self.shared.config.cancel_grace;
        let pid = self.lifecycle.pid();
        // A worker that did not get to run cannot have refused: on a busy machine it is late, not stubborn.
        let had_its_chance = |patience: Patience| match (pid.and_then(Usage::of), patience.usage) {
            (Some(now), Some(then)) => !now.starved_since(then, grace / 2),
            _ => true,
        };
        if self.pending.is_refusing(now, now + grace / 4, had_its_chance) {
            let _ = Tally::add(&self.shared.tally.refused_cancels);
            self.lose(ExitReason::RefusedCancel, None);
        }
        self.check_abandoned_work(now);
    }

    pub(super) fn on_answer(&mut self, id: Option<&RequestId>, outcome: Result<Box<RawValue>, RpcError>) {
        let known = id.and_then(|id| WireId::from_json(id.as_json()));
        let answered = known.map_or(Answered::Unknown, |id| self.pending.answer(&id));
        match answered {
            Answered::Ends(request) => {
                if let (Some(Composed::Definition { at }), Ok(links)) = (request.composed, &outcome) {
                    self.correct_definition(*request, at, links.clone());
                    return;
                }
                request.end(outcome.map(|value| self.reply(value)).map_err(RequestFailure::Server));
            }
            Answered::Cancelled if outcome.as_ref().is_err_and(|error| error.code == lsp::REQUEST_CANCELLED) => {}
            Answered::Cancelled => {
                let _ = Tally::add(&self.shared.tally.late_replies);
            }
            Answered::Unknown => {
                let before = Tally::add(&self.shared.tally.unknown_answers);
                // Whoever wrote it can write any number of them; the log gets the first, the second, the fourth, and so on.
                if (before + 1).is_power_of_two() {
                    let id: String = id.map_or("null", RequestId::as_json).chars().take(80).collect();
                    tracing::warn!(uri = %self.uri, id, "an answer nobody asked for was dropped; code in the file may have written it");
                }
            }
        }
    }
}
