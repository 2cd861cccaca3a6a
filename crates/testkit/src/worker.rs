//! A fake process over in-memory pipes: what a client would hold of a real one, and what a test holds in its stead.
//!
//! Time is tokio's, so tests run with a paused clock. The fake behaves like a process whose pipes may outlive it: ending
//! it resolves [`Process::wait`] but does not close its stdout; dropping the [`FakeWorker`] does.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::watch;

use crate::peer::Peer;

/// Bytes a pipe holds before its writer blocks; as on Linux.
const PIPE: usize = 64 * 1024;

/// How a fake process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With a code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// Signals as a fake process receives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Recorded; the process goes on, unless it was made with [`pair_obedient`].
    Terminate,
    /// Ends the process at once.
    Kill,
}

/// The test's side.
pub struct FakeWorker {
    /// The conversation.
    pub peer: Peer,
    stderr: Option<DuplexStream>,
    state: Arc<State>,
    /// Which process this is, counted by [`Process::pid`].
    pub pid: u32,
}

/// The client's side: three pipes and the process.
pub struct Client {
    /// To the worker.
    pub stdin: DuplexStream,
    /// From the worker.
    pub stdout: DuplexStream,
    /// From the worker.
    pub stderr: DuplexStream,
    /// Its life.
    pub process: Process,
}

/// The life of a fake process, for the client to wait for and to signal.
pub struct Process {
    state: Arc<State>,
    exit: watch::Receiver<Option<Exit>>,
    pid: u32,
}

struct State {
    exit: watch::Sender<Option<Exit>>,
    signals: Mutex<Vec<Signal>>,
    obeys_terminate: bool,
}

impl State {
    fn end(&self, exit: Exit) {
        // A process ends once.
        self.exit.send_if_modified(|now| {
            let first = now.is_none();
            now.get_or_insert(exit);
            first
        });
    }
}

/// Makes a process that ignores [`Signal::Terminate`].
#[must_use]
pub fn pair(pid: u32) -> (Client, FakeWorker) {
    make(pid, false)
}

/// Makes a process that ends on [`Signal::Terminate`].
#[must_use]
pub fn pair_obedient(pid: u32) -> (Client, FakeWorker) {
    make(pid, true)
}

fn make(pid: u32, obeys_terminate: bool) -> (Client, FakeWorker) {
    let (stdin, peer_in) = tokio::io::duplex(PIPE);
    let (peer_out, stdout) = tokio::io::duplex(PIPE);
    let (peer_err, stderr) = tokio::io::duplex(PIPE);
    let (exit_tx, exit) = watch::channel(None);
    let state = Arc::new(State { exit: exit_tx, signals: Mutex::default(), obeys_terminate });
    let process = Process { state: state.clone(), exit, pid };
    let peer = Peer::new(peer_in, peer_out);
    (Client { stdin, stdout, stderr, process }, FakeWorker { peer, stderr: Some(peer_err), state, pid })
}

impl FakeWorker {
    /// Writes a line to stderr.
    pub async fn complain(&mut self, line: &str) {
        if let Some(stderr) = &mut self.stderr {
            stderr.write_all(line.as_bytes()).await.ok();
            stderr.write_all(b"\n").await.ok();
        }
    }

    /// Ends the process and closes its pipes.
    pub fn die(self, exit: Exit) {
        self.state.end(exit);
    }

    /// Ends the process; its pipes stay open, as if a grandchild held them.
    pub fn die_with_open_pipes(&mut self, exit: Exit) {
        self.state.end(exit);
    }

    /// Signals received so far.
    #[must_use]
    pub fn signals(&self) -> Vec<Signal> {
        self.state.signals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Resolves when the process has ended, with how.
    pub async fn ended(&self) -> Exit {
        let mut exit = self.state.exit.subscribe();
        match exit.wait_for(Option::is_some).await.map(|seen| *seen) {
            Ok(Some(exit)) => exit,
            // The sender is in `self.state`, and the predicate asks for some.
            Ok(None) | Err(_) => unreachable!("a process we hold cannot lose its state"),
        }
    }
}

impl Process {
    /// Its number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Resolves when it has ended.
    pub async fn wait(&mut self) -> Exit {
        loop {
            if let Some(exit) = *self.exit.borrow_and_update() {
                return exit;
            }
            if self.exit.changed().await.is_err() {
                return Exit::Signal(9);
            }
        }
    }

    /// Signals it.
    pub fn signal(&self, signal: Signal) {
        self.state.signals.lock().unwrap_or_else(PoisonError::into_inner).push(signal);
        match signal {
            Signal::Kill => self.state.end(Exit::Signal(9)),
            Signal::Terminate if self.state.obeys_terminate => self.state.end(Exit::Signal(15)),
            Signal::Terminate => {}
        }
    }
}
