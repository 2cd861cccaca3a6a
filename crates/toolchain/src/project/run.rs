//! Building what a plan says is stale: imports before importers, a few at a time.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::builder::{BuildError, Outcome};
use super::compile::{Compiled, Compiler};
use super::plan::{Plan, State};
use super::report::Reporter;
use crate::store::FsError;
use beam_lean::ModuleName;

/// One build.
pub(crate) struct Run<'a> {
    plan: &'a Plan,
    compiler: &'a Compiler<'a>,
    reporter: &'a Reporter<'a>,
    cancelled: &'a (dyn Fn() -> bool + Sync),
    board: Mutex<Board>,
    changed: Condvar,
}

/// How it ended.
pub(crate) enum Ran {
    Ended(Outcome),
    /// This module was edited while it was being compiled: plan again.
    Moved(ModuleName),
}

#[derive(Default)]
struct Board {
    begun: BTreeSet<usize>,
    /// Good, from the beginning or by now.
    good: BTreeSet<usize>,
    /// Failed, or importing something that did.
    bad: BTreeSet<usize>,
    built: Vec<usize>,
    /// Why nothing new is begun.
    stop: Option<Stop>,
}

enum Stop {
    Cancelled,
    Moved(ModuleName),
    Fs(FsError),
}

/// A thread that panics (the caller's callbacks may) takes the others with it; they would wait for its module for ever.
struct Fuse<'a, 'b>(&'a Run<'b>);

impl Drop for Fuse<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().stop.get_or_insert(Stop::Cancelled);
            self.0.changed.notify_all();
        }
    }
}

impl<'a> Run<'a> {
    pub fn new(
        plan: &'a Plan,
        compiler: &'a Compiler<'a>,
        reporter: &'a Reporter<'a>,
        cancelled: &'a (dyn Fn() -> bool + Sync),
    ) -> Self {
        let mut board = Board::default();
        for (n, node) in plan.nodes.iter().enumerate() {
            match node.state {
                State::Fresh(_) | State::Kept => drop(board.good.insert(n)),
                State::Alien(_) | State::Gone => drop(board.bad.insert(n)),
                State::Stale(_) => {}
            }
        }
        Self { plan, compiler, reporter, cancelled, board: Mutex::new(board), changed: Condvar::new() }
    }

    pub fn go(self, jobs: usize) -> Result<Ran, BuildError> {
        let reused = self.lock().good.len();
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| self.work());
            }
        });
        let board = self.board.into_inner().unwrap_or_else(PoisonError::into_inner);
        match board.stop {
            Some(Stop::Fs(e)) => return Err(e.into()),
            Some(Stop::Moved(module)) => return Ok(Ran::Moved(module)),
            Some(Stop::Cancelled) => return Ok(Ran::Ended(Outcome::Cancelled)),
            None => {}
        }
        let outcome = self.reporter.failures().unwrap_or_else(|| {
            let modules = board.built.iter().map(|&n| self.plan.nodes[n].module.name.clone()).collect();
            Outcome::Built { modules, reused }
        });
        Ok(Ran::Ended(outcome))
    }

    fn lock(&self) -> MutexGuard<'_, Board> {
        // A panic while the lock is held cannot leave the sets half changed.
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let _fuse = Fuse(self);
        while let Some(n) = self.take() {
            let node = &self.plan.nodes[n];
            let begun = Instant::now();
            // One that cannot end well ends the others too; what they have done is lost, and done again by the next attempt.
            let stop = || (self.cancelled)() || self.lock().stop.is_some();
            let compiled = self.compiler.compile(node, &stop);
            let took = begun.elapsed();
            // Told before the board knows, so that an importer is never told of before what it imports, and not under the board's lock: the
            // callback is the caller's.
            match &compiled {
                Ok(Compiled::Done(messages)) => self.reporter.built(&node.module.name, took, messages),
                Ok(Compiled::Failed(messages)) => {
                    self.reporter.failed_with(&node.module, "Building", Some(took), messages);
                }
                _ => {}
            }
            let mut board = self.lock();
            match compiled {
                Ok(Compiled::Done(_)) => {
                    board.good.insert(n);
                    board.built.push(n);
                }
                Ok(Compiled::Failed(_)) => drop(board.bad.insert(n)),
                Ok(Compiled::Moved) => drop(board.stop.get_or_insert(Stop::Moved(node.module.name.clone()))),
                Ok(Compiled::Stopped) => drop(board.stop.get_or_insert(Stop::Cancelled)),
                Err(e) => drop(board.stop.get_or_insert(Stop::Fs(e))),
            }
            drop(board);
            self.changed.notify_all();
        }
    }

    /// The next module whose imports are good; waits while there may be one. Importers of what failed are passed over in silence.
    fn take(&self) -> Option<usize> {
        let mut board = self.lock();
        loop {
            if board.stop.is_none() && (self.cancelled)() {
                board.stop = Some(Stop::Cancelled);
            }
            if board.stop.is_some() {
                return None;
            }
            let mut waiting = false;
            for (n, node) in self.plan.nodes.iter().enumerate() {
                if board.good.contains(&n) || board.bad.contains(&n) {
                    continue;
                }
                if node.deps.iter().any(|d| board.bad.contains(d)) {
                    board.bad.insert(n);
                } else if !board.begun.contains(&n) && node.deps.iter().all(|d| board.good.contains(d)) {
                    board.begun.insert(n);
                    return Some(n);
                } else {
                    waiting = true;
                }
            }
            if !waiting {
                // The other may be asleep, waiting for what has just been passed over.
                self.changed.notify_all();
                return None;
            }
            // What is waited for is being compiled by another thread, whose end is announced.
            board = self.changed.wait(board).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
