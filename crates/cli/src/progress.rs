//! Progress of long work (installing, compiling) on stderr: a bar that is redrawn on a terminal, plain lines elsewhere.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use beam_toolchain::Progress;
use beam_toolchain::progress::phase;

use crate::ui::Ui;

/// Width of the bar, in characters.
const WIDTH: u64 = 30;
/// Redrawn at most this often.
const REDRAW: Duration = Duration::from_millis(100);

/// Draws for people.
#[derive(Debug)]
pub struct Drawn {
    ui: Ui,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: Option<Phase>,
    drawn: Option<Instant>,
}

#[derive(Debug)]
struct Phase {
    name: String,
    total: Option<u64>,
    done: u64,
    began: Instant,
}

impl Drawn {
    /// Draws on these streams.
    #[must_use]
    pub fn new(ui: &Ui) -> Self {
        Self { ui: ui.clone(), state: Mutex::new(State { phase: None, drawn: None }) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The running phase is over: its line becomes final.
    fn close(&self, state: &mut State) {
        if let Some(phase) = state.phase.take() {
            let line = finished(&phase.name, phase.began.elapsed());
            if self.ui.terminal() {
                self.ui.raw(&format!("\r\x1b[K{line}\n"));
            } else {
                self.ui.say(&line);
            }
        }
    }

    fn draw(&self, state: &mut State) {
        if !self.ui.terminal() || state.drawn.is_some_and(|at| at.elapsed() < REDRAW) {
            return;
        }
        state.drawn = Some(Instant::now());
        if let Some(p) = &state.phase {
            self.ui.raw(&format!("\r\x1b[K{}", bar(&p.name, p.done, p.total, p.began.elapsed())));
        }
    }
}

impl Drop for Drawn {
    fn drop(&mut self) {
        let mut state = self.state();
        self.close(&mut state);
    }
}

impl Progress for Drawn {
    fn phase(&self, name: &str, total: Option<u64>) {
        let mut state = self.state();
        self.close(&mut state);
        // Off a terminal a phase that takes long would otherwise be silent until it is over.
        if !self.ui.terminal() {
            self.ui.say(&format!("{} ...", words(name)));
        }
        state.phase = Some(Phase { name: name.to_owned(), total, done: 0, began: Instant::now() });
        state.drawn = None;
        self.draw(&mut state);
    }

    fn advance(&self, n: u64) {
        let mut state = self.state();
        if let Some(phase) = &mut state.phase {
            phase.done += n;
        }
        self.draw(&mut state);
    }

    fn note(&self, line: &str) {
        let mut state = self.state();
        if self.ui.terminal() && state.phase.is_some() {
            self.ui.raw("\r\x1b[K");
        }
        self.ui.say(line);
        state.drawn = None;
        self.draw(&mut state);
    }
}

/// What a phase does, in words.
fn words(name: &str) -> &str {
    match name {
        phase::WAIT => "waiting for another process",
        phase::DOWNLOAD => "downloading the Lean package",
        phase::VERIFY => "checking the package",
        phase::UNPACK => "unpacking",
        phase::MODULE => "preparing the Lean program",
        phase::LIBRARY => "completing the library",
        phase::TRIAL => "running Lean for the first time",
        phase::EXTENSION => "compiling the Lean extension",
        phase::SELF_TEST => "testing a Lean worker",
        phase::PUBLISH => "finishing",
        other => other,
    }
}

fn finished(name: &str, took: Duration) -> String {
    format!("{}: {:.1} s", words(name), took.as_secs_f64())
}

fn bar(name: &str, done: u64, total: Option<u64>, took: Duration) -> String {
    let secs = took.as_secs();
    match total.filter(|t| *t > 0) {
        None => format!("{} ({secs} s)", words(name)),
        Some(total) => {
            let done = done.min(total);
            let full = (done * WIDTH / total) as usize;
            let blanks = WIDTH as usize - full;
            let percent = done * 100 / total;
            format!("{} [{}{}] {percent}% ({secs} s)", words(name), "#".repeat(full), " ".repeat(blanks))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars() {
        let s = Duration::from_secs;
        assert_eq!(bar(phase::UNPACK, 0, Some(10), s(0)), format!("unpacking [{}] 0% (0 s)", " ".repeat(30)));
        assert_eq!(
            bar(phase::UNPACK, 5, Some(10), s(2)),
            format!("unpacking [{}{}] 50% (2 s)", "#".repeat(15), " ".repeat(15))
        );
        assert_eq!(bar(phase::UNPACK, 99, Some(10), s(2)), format!("unpacking [{}] 100% (2 s)", "#".repeat(30)));
        assert_eq!(bar(phase::DOWNLOAD, 5, None, s(7)), "downloading the Lean package (7 s)");
        assert_eq!(bar("new", 0, Some(0), s(1)), "new (1 s)");
        assert_eq!(finished(phase::TRIAL, Duration::from_millis(1234)), "running Lean for the first time: 1.2 s");
    }
}
