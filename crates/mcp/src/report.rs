//! What a call tells its client while it runs: progress, status, diagnostics; and what it does not.
//!
//! One [`Reporter`] belongs to one call and is used by one task, so everything it sends precedes the call's answer and its counter
//! only rises. What may occur is the tool's policy; what does occur depends on the token, the log gate and the throttle:
//!
//! | event | with a token | without |
//! | --- | --- | --- |
//! | preparation | once | - |
//! | Lake setup line | the first, then every tenth | the first: `beam.status` |
//! | file progress | the first, then 25 updates apart, and the first done, which is the last | - |
//! | two seconds | - | `beam.status` |
//! | diagnostic | log, if the tool shows diagnostics and the gate admits its level | the same |
//!
//! Progress that finds no room in the outbox is dropped, since the next one supersedes it; everything else waits for room.

use std::sync::Arc;
use std::time::Duration;

use beam_wire::stream::Event;
use beam_wire::{Progress, StreamDiagnostic};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::active::CallState;
use crate::id::Id;
use crate::level::{LogGate, LogLevel};
use crate::outbox::{Outbox, Posted};
use crate::reply::{self, OutputLine, STATUS_LEVEL, StatusLog};
use crate::tools::{Tool, is_setup_line};

/// Updates between two file progress messages.
const FILE_STEP: u64 = 25;
/// Lake lines per message.
const SETUP_STEP: u64 = 10;
/// Longest Lake line that is shown, in characters.
const SETUP_LINE: usize = 300;

/// The reporter of one call.
#[derive(Debug)]
pub(crate) struct Reporter {
    pub(crate) id: Id,
    pub(crate) tool: &'static Tool,
    /// The file the call is about, as the client named it.
    pub(crate) path: Option<String>,
    pub(crate) token: Option<Box<RawValue>>,
    pub(crate) log: LogGate,
    pub(crate) call: Arc<CallState>,
    pub(crate) outbox: Outbox,
    reported: Reported,
}

/// What has been said so far.
#[derive(Debug, Default)]
struct Reported {
    /// Progress messages that went out.
    count: u64,
    setup_lines: u64,
    /// `updates` of the last file progress that went out.
    file: Option<u64>,
    /// A done has gone out.
    done: bool,
    /// When the status is due; `None` once it has been used up, or where there is none.
    status_due: Option<Instant>,
}

/// What the reporter of a call is made of.
#[derive(Debug)]
pub(crate) struct CallSubject {
    pub(crate) id: Id,
    pub(crate) tool: &'static Tool,
    pub(crate) path: Option<String>,
    pub(crate) token: Option<Box<RawValue>>,
    pub(crate) log: LogGate,
}

impl Reporter {
    /// For a call that begins now.
    pub(crate) fn new(about: CallSubject, call: Arc<CallState>, outbox: Outbox, status_delay: Duration) -> Self {
        let CallSubject { id, tool, path, token, log } = about;
        let status_due = (token.is_none() && tool.progress.status).then(|| Instant::now() + status_delay);
        let reported = Reported { status_due, ..Reported::default() };
        Self { id, tool, path, token, log, call, outbox, reported }
    }

    /// Waits for something while the status may fall due.
    pub(crate) async fn watch<F: Future>(&mut self, work: F) -> F::Output {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                out = &mut work => return out,
                () = until(self.reported.status_due) => self.status("running", &self.still_working()).await,
            }
        }
    }

    /// Waits for a request's response and passes on what comes before it.
    pub(crate) async fn drive<R>(&mut self, work: impl Future<Output = R>, mut events: mpsc::Receiver<Event>) -> R {
        tokio::pin!(work);
        let response = loop {
            tokio::select! {
                biased;
                Some(event) = events.recv() => self.event(event).await,
                response = &mut work => break response,
                () = until(self.reported.status_due) => self.status("running", &self.still_working()).await,
            }
        };
        // Events were sent before the response was made, so what there is of them is here.
        while let Ok(event) = events.try_recv() {
            self.event(event).await;
        }
        response
    }

    /// The call's one preparation update.
    pub(crate) async fn preparing(&mut self, what: &str) {
        if self.tool.progress.preparation {
            let text = format!("{}: {what}", self.subject());
            self.progress(&text).await;
        }
    }

    /// Something that was observed while the call's request ran.
    pub(crate) async fn event(&mut self, event: Event) {
        match event {
            Event::FileProgress(p) => self.file(&p).await,
            Event::Diagnostic(d) if is_setup_line(&d) => self.setup_line(&d).await,
            Event::Diagnostic(d) => self.diagnostic(&d).await,
            // The answer is what `run` returns; as an event it does not occur.
            Event::Response(_) => {}
        }
    }

    async fn file(&mut self, p: &Progress) {
        let Some(token) = self.token.as_deref().filter(|_| self.tool.progress.file_progress) else { return };
        let far_enough = self.reported.file.is_none_or(|sent| p.updates >= sent.saturating_add(FILE_STEP));
        if self.reported.done || !(p.done || far_enough) {
            return;
        }
        let doing = if p.done { "processed" } else { "processing" };
        let text = format!("{}: {doing} {p}", self.subject());
        let line = reply::progress(token, self.reported.count + 1, &text);
        let sent = if p.done {
            // At most once in a call, and what the client waits for.
            self.outbox.notify(line, &self.call).await.map(|()| Posted::Yes)
        } else {
            self.outbox.try_notify(line, &self.call)
        };
        if sent == Ok(Posted::Yes) {
            self.reported.count += 1;
            self.reported.file = Some(p.updates);
            self.reported.done = p.done;
        }
    }

    async fn setup_line(&mut self, d: &StreamDiagnostic) {
        if !self.tool.progress.setup_lines {
            return;
        }
        let lake: String = d.message.trim().chars().take(SETUP_LINE).collect();
        let text = format!("{}: preparing Lean dependencies: {lake}", self.subject());
        if self.token.is_none() {
            self.status("preparing_dependencies", &text).await;
        } else if !self.reported.done {
            let first_of_step = self.reported.setup_lines.is_multiple_of(SETUP_STEP);
            self.reported.setup_lines += 1;
            if first_of_step {
                self.progress(&text).await;
            }
        }
    }

    async fn diagnostic(&mut self, d: &StreamDiagnostic) {
        if self.tool.progress.diagnostics && self.log.admits(LogLevel::of(d)) {
            self.send(reply::diagnostic(d)).await;
        }
    }

    async fn progress(&mut self, text: &str) {
        if let Some(token) = &self.token {
            self.reported.count += 1;
            let line = reply::progress(token, self.reported.count, text);
            self.send(line).await;
        }
    }

    /// The call's one status. The gate is asked now; a status that it holds back is used up all the same.
    async fn status(&mut self, state: &'static str, text: &str) {
        if self.reported.status_due.take().is_none() || !self.log.admits(STATUS_LEVEL) {
            return;
        }
        let status = StatusLog {
            request_id: &self.id,
            tool: self.tool.name,
            state,
            message: text.to_owned(),
            path: self.path.as_deref(),
        };
        let line = reply::status(&status);
        self.send(line).await;
    }

    async fn send(&self, line: OutputLine) {
        // A client that is gone ends the whole server; nobody has to be told here.
        let _gone = self.outbox.notify(line, &self.call).await;
    }

    fn subject(&self) -> String {
        match &self.path {
            Some(path) => format!("{} on {path}", self.tool.name),
            None => self.tool.name.to_owned(),
        }
    }

    fn still_working(&self) -> String {
        format!("{} is still working.", self.subject())
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
