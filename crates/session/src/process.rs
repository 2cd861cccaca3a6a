//! Worker processes: how one is started, waited for and ended, as a trait so that tests bring their own. Knows no protocol.
//!
//! S7: each worker leads its own process group (a native worker runs `lake`, which runs compilers), and the whole group is killed
//! when its [`WorkerControl`] is dropped, whatever the reason: a panic, a runtime that shuts down, or an ordinary end.

#![allow(clippy::disallowed_methods, reason = "reads /proc, which is no disk")]

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::future::Future;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use beam_base::AbsPath;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::process::{Child, Command};

/// How a worker is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCommand {
    /// Executable; searched in `PATH` when it has no slash.
    pub program: OsString,
    /// Arguments.
    pub args: Vec<OsString>,
    /// Variables set on top of our own environment.
    pub env: Vec<(OsString, OsString)>,
    /// Variables removed from it.
    pub env_remove: Vec<OsString>,
    /// Working directory: for Lean, the workspace root.
    pub cwd: AbsPath,
}

/// Starts worker processes.
pub trait Spawn: Send + Sync + 'static {
    /// Starts one, with these arguments behind its usual ones; called within the session's runtime. Must not wait for the process to do
    /// anything.
    fn spawn(&self, more_args: &[OsString]) -> io::Result<WorkerProcess>;
}

/// A started process.
pub struct WorkerProcess {
    /// Where it reads.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Where it answers.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Where it complains.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// Its life.
    pub control: Box<dyn WorkerControl>,
}

/// A future that a boxed control returns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The life of one process. Dropping it kills the process's whole group.
pub trait WorkerControl: Send {
    /// Process id, while it is known.
    fn pid(&self) -> Option<u32>;
    /// Resolves when the process has ended. May be dropped and called again.
    fn wait(&mut self) -> BoxFuture<'_, io::Result<EndStatus>>;
    /// Signals the whole group; a group that is gone already is no error.
    fn signal_group(&mut self, signal: GroupSignal);
}

/// What can be sent to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupSignal {
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndStatus {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Its status could not be had.
    Unknown,
}

impl From<ExitStatus> for EndStatus {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }
}

impl fmt::Display for EndStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("unknown exit status"),
        }
    }
}

/// Starts real processes.
#[derive(Debug, Clone)]
pub struct CommandSpawn(pub WorkerCommand);

impl Spawn for CommandSpawn {
    fn spawn(&self, more_args: &[OsString]) -> io::Result<WorkerProcess> {
        let spec = &self.0;
        let mut command = Command::new(&spec.program);
        command
            .args(&spec.args)
            .args(more_args)
            .current_dir(&spec.cwd)
            .envs(spec.env.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            // Also lets tokio reap the child after the drop that kills it.
            .kill_on_drop(true);
        for name in &spec.env_remove {
            command.env_remove(name);
        }
        let mut child = command.spawn()?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("a pipe of the new process is missing"));
        };
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(WorkerProcess {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            control: Box::new(ChildControl { child, group }),
        })
    }
}

/// What a process got of the machine, summed over the threads it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Time it ran.
    pub(crate) ran: Duration,
    /// Time it was ready to run and had no processor.
    pub(crate) waited: Duration,
}

impl Usage {
    /// Of a whole process. `None` where the system does not tell.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let mut usage = Self { ran: Duration::ZERO, waited: Duration::ZERO };
        for (_, thread) in Self::of_threads(pid)? {
            usage.ran += thread.ran;
            usage.waited += thread.waited;
        }
        Some(usage)
    }

    /// Of each thread of a process, by its number. `None` where the system does not tell.
    pub(crate) fn of_threads(pid: u32) -> Option<HashMap<u32, Self>> {
        let mut threads = HashMap::new();
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
            let path = task.ok()?.path();
            // A thread that has just ended is no loss.
            let Ok(text) = std::fs::read_to_string(path.join("schedstat")) else { continue };
            let mut fields = text.split_ascii_whitespace().map(str::parse::<u64>);
            let (Some(Ok(ran)), Some(Ok(waited))) = (fields.next(), fields.next()) else { return None };
            let id = path.file_name()?.to_str()?.parse().ok()?;
            threads.insert(id, Self { ran: Duration::from_nanos(ran), waited: Duration::from_nanos(waited) });
        }
        Some(threads)
    }

    /// Since `then`, was it kept from running more than it ran, for at least `long`?
    pub(crate) fn starved_since(self, then: Self, long: Duration) -> bool {
        let (ran, waited) = (self.ran.saturating_sub(then.ran), self.waited.saturating_sub(then.waited));
        waited >= long && waited >= ran
    }
}

struct ChildControl {
    child: Child,
    /// The group to kill; `None` once that was done after the leader had been reaped.
    group: Option<Pid>,
}

impl ChildControl {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group
            && let Err(error) = kill_process_group(group, signal)
        {
            // Nobody left in the group is the ordinary case at the end.
            tracing::trace!(%error, ?group, "cannot signal a worker's process group");
        }
    }
}

impl WorkerControl for ChildControl {
    fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    fn wait(&mut self) -> BoxFuture<'_, io::Result<EndStatus>> {
        Box::pin(async move {
            let status = self.child.wait().await?;
            // The leader is reaped, its descendants need not be gone. Their group keeps the number from being reused; if
            // there are none the number is free, which is why it is signalled now, once, and forgotten.
            self.signal(Signal::KILL);
            self.group = None;
            Ok(status.into())
        })
    }

    fn signal_group(&mut self, signal: GroupSignal) {
        self.signal(match signal {
            GroupSignal::Terminate => Signal::TERM,
            GroupSignal::Kill => Signal::KILL,
        });
    }
}

impl Drop for ChildControl {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(ran: u64, waited: u64) -> Usage {
        Usage { ran: Duration::from_millis(ran), waited: Duration::from_millis(waited) }
    }

    #[test]
    fn starving_is_waiting_more_than_running() {
        let then = usage(1000, 500);
        let starved = |now: Usage| now.starved_since(then, Duration::from_secs(1));
        assert!(!starved(usage(3000, 600)), "it ran and ran");
        assert!(!starved(usage(1001, 501)), "it slept");
        assert!(starved(usage(1300, 2000)), "it wanted to run and could not");
        assert!(!starved(usage(3000, 2000)), "it was slowed down, and ran for seconds all the same");
    }

    /// Where the system tells at all, a busy loop shows. Of a process of its own: ours has threads that end meanwhile.
    #[test]
    fn a_process_has_a_usage() {
        let mut busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        if let Some(then) = Usage::of(busy.id()) {
            let begun = std::time::Instant::now();
            let grew = |now: Usage| now.ran + now.waited > then.ran + then.waited;
            while !Usage::of(busy.id()).is_some_and(grew) {
                assert!(begun.elapsed() < Duration::from_secs(20));
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert_eq!(Usage::of(u32::MAX), None);
    }
}
