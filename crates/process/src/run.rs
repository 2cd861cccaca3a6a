//! Children that run to their end, their output captured. Never a server.
//!
//! Everything is done on the caller's thread, with pipes that do not block: when the child has ended, all that it wrote is in the pipes
//! and is read without waiting, whether or not a grandchild keeps them open.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use beam_base::AbsPath;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::env::HostEnv;
use crate::group::ProcessGroup;

/// Most bytes kept of each output stream; the beginning is kept, for errors come first.
const CAP: usize = 8 << 20;
/// Most bytes read of each stream after the child's end: what a pipe can hold. More than that comes from a grandchild.
const LEFT: usize = 1 << 20;
/// How long a child that is not wanted any more may take to end by itself: npm removes its unfinished files.
const GRACE: Duration = Duration::from_millis(300);
/// How often the child, the stop flag and the clock are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What to run.
#[derive(Debug, Clone)]
pub struct Run {
    program: AbsPath,
    args: Vec<OsString>,
    cwd: AbsPath,
    set: Vec<(OsString, OsString)>,
    unset: Vec<OsString>,
    limit: Duration,
}

/// What came out.
#[derive(Debug, Clone)]
pub struct Done {
    /// How the child ended.
    pub status: ExitStatus,
    /// The beginning of its standard output, what is not UTF-8 replaced.
    pub stdout: String,
    /// The beginning of its standard error, likewise.
    pub stderr: String,
}

impl Done {
    /// Whether it ended with 0.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.status.success()
    }

    /// Both streams, for a log or an error message.
    #[must_use]
    pub fn both(&self) -> String {
        let mut out = String::new();
        for part in [self.stdout.trim_end(), self.stderr.trim_end()] {
            if !part.is_empty() {
                out.push_str(part);
                out.push('\n');
            }
        }
        out
    }
}

/// Why nothing came out.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// It ran too long and was killed.
    #[error("{program} did not end within {} s", .limit.as_secs())]
    TimedOut {
        /// The program.
        program: AbsPath,
        /// What it was given.
        limit: Duration,
    },
    /// The caller wanted it no more, and it was killed.
    #[error("{program} was stopped")]
    Stopped {
        /// The program.
        program: AbsPath,
    },
    /// Its output or its end could not be read.
    #[error("lost track of {program}: {source}")]
    Lost {
        /// The program.
        program: AbsPath,
        /// Why.
        source: io::Error,
    },
}

impl Run {
    /// The program without arguments, in this folder, for a minute at most.
    #[must_use]
    pub fn new(program: &AbsPath, cwd: &AbsPath) -> Self {
        Self {
            program: program.clone(),
            args: Vec::new(),
            cwd: cwd.clone(),
            set: Vec::new(),
            unset: Vec::new(),
            limit: Duration::from_secs(60),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable, whatever the environment says.
    #[must_use]
    pub fn set(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.set.push((key.into(), value.into()));
        self
    }

    /// Removes variables of the environment.
    #[must_use]
    pub fn unset<K: Into<OsString>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.unset.extend(keys.into_iter().map(Into::into));
        self
    }

    /// The longest time for the whole run.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs to the end with stdin closed, in a process group of its own. What the child has left running in that group is killed when
    /// it has ended.
    ///
    /// # Errors
    /// It cannot be started, takes too long, or the environment's children must end.
    pub fn capture(&self, env: &HostEnv) -> Result<Done, RunError> {
        self.capture_with(env, &mut |_| {})
    }

    /// The same; `watch` sees what comes out of stdout as it comes, in pieces that need not be lines.
    ///
    /// # Errors
    /// As [`Run::capture`].
    pub fn capture_with(&self, env: &HostEnv, watch: &mut dyn FnMut(&[u8])) -> Result<Done, RunError> {
        self.run(env, watch, &|| false)
    }

    /// Runs to the end, or until `stop` says so; it is asked some dozens of times a second.
    ///
    /// # Errors
    /// As [`Run::capture`]; [`RunError::Stopped`] when `stop` said so.
    pub fn capture_until(&self, env: &HostEnv, stop: &dyn Fn() -> bool) -> Result<Done, RunError> {
        self.run(env, &mut |_| {}, stop)
    }

    fn run(&self, env: &HostEnv, watch: &mut dyn FnMut(&[u8]), stop: &dyn Fn() -> bool) -> Result<Done, RunError> {
        let end = Instant::now() + self.limit;
        if stop() || env.is_ending() {
            return Err(RunError::Stopped { program: self.program.clone() });
        }
        let lost = |source| RunError::Lost { program: self.program.clone(), source };
        let mut running = self.spawn(env)?;
        let mut nap = Duration::from_millis(1);
        while !running.has_ended().map_err(lost)? {
            if stop() || env.is_ending() {
                running.end(GRACE);
                return Err(RunError::Stopped { program: self.program.clone() });
            }
            let now = Instant::now();
            if now >= end {
                running.end(GRACE);
                return Err(RunError::TimedOut { program: self.program.clone(), limit: self.limit });
            }
            running.read(nap.min(end - now), watch).map_err(lost)?;
            nap = (nap * 2).min(LOOK);
        }
        running.read_left(watch).map_err(lost)?;
        let status = running.reap().map_err(lost)?;
        let (stdout, stderr) = running.texts();
        Ok(Done { status, stdout, stderr })
    }

    fn spawn(&self, env: &HostEnv) -> Result<Running, RunError> {
        let mut command = Command::new(self.program.as_path());
        command
            .args(&self.args)
            .current_dir(self.cwd.as_path())
            .env_clear()
            .envs(env.vars())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        for key in &self.unset {
            command.env_remove(key);
        }
        command.envs(self.set.iter().map(|(k, v)| (k, v)));
        let start = |source| RunError::Start { program: self.program.clone(), source };
        let mut child = command.spawn().map_err(start)?;
        let out = child.stdout.take().map(Pipe::new);
        let err = child.stderr.take().map(Pipe::new);
        let group = ProcessGroup::led_by(child.id())
            .ok_or_else(|| start(io::Error::other("the system gave it no process id")))?;
        group.enlist();
        // From here on its drop ends the group, whatever fails.
        let running = Running { child, group, reaped: false, out, err };
        for fd in running.out.iter().map(|p| p.from.as_fd()).chain(running.err.iter().map(|p| p.from.as_fd())) {
            rustix::io::ioctl_fionbio(fd, true).map_err(|e| start(e.into()))?;
        }
        Ok(running)
    }
}

/// A child and its group, which do not outlive this.
struct Running {
    child: Child,
    group: ProcessGroup,
    reaped: bool,
    out: Option<Pipe<ChildStdout>>,
    err: Option<Pipe<ChildStderr>>,
}

impl Running {
    /// Whether the child has ended. It is not waited for, so that its group's number stays its own.
    fn has_ended(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(self.group.leader()), options)?.is_some())
    }

    /// Reads what there is, after waiting for it for at most `nap`.
    fn read(&mut self, nap: Duration, watch: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let (out_open, err_open) = (is_open(self.out.as_ref()), is_open(self.err.as_ref()));
        let mut fds = Vec::with_capacity(2);
        if let Some(pipe) = self.out.as_ref().filter(|_| out_open) {
            fds.push(PollFd::new(&pipe.from, PollFlags::IN));
        }
        if let Some(pipe) = self.err.as_ref().filter(|_| err_open) {
            fds.push(PollFd::new(&pipe.from, PollFlags::IN));
        }
        let nap = Timespec::try_from(nap).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&nap)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        // One piece of each, so that the clock is looked at again however much there is.
        if let Some(pipe) = &mut self.out {
            pipe.take(watch)?;
        }
        if let Some(pipe) = &mut self.err {
            pipe.take(&mut |_| {})?;
        }
        Ok(())
    }

    /// Reads what the child has left in its pipes when it ended.
    fn read_left(&mut self, watch: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        if let Some(pipe) = &mut self.out {
            pipe.take_left(watch)?;
        }
        if let Some(pipe) = &mut self.err {
            pipe.take_left(&mut |_| {})?;
        }
        Ok(())
    }

    /// Kills what is left of the group, then waits for the child, which has ended or ends by that.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        self.group.kill();
        let status = self.child.wait();
        self.reaped = true;
        self.group.delist();
        status
    }

    /// Asks the group to end, and kills what has not after `grace`.
    fn end(&mut self, grace: Duration) {
        self.group.terminate();
        let end = Instant::now() + grace;
        while Instant::now() < end && !self.has_ended().unwrap_or(true) {
            // Nobody wants the output, but a child that ends properly must not be stuck over it.
            let _ignored = self.read(Duration::from_millis(5), &mut |_| {});
        }
        let _ignored = self.reap();
    }

    fn texts(&self) -> (String, String) {
        let text = |kept: Option<&Vec<u8>>| kept.map_or_else(String::new, |k| String::from_utf8_lossy(k).into_owned());
        (text(self.out.as_ref().map(|p| &p.kept)), text(self.err.as_ref().map(|p| &p.kept)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            let _ignored = self.reap();
        }
    }
}

/// Our end of a pipe, and what is kept of what came through it. Bytes over the cap are read too: a talkative child would wait on a
/// full pipe.
struct Pipe<R> {
    from: R,
    kept: Vec<u8>,
    open: bool,
}

fn is_open<R>(pipe: Option<&Pipe<R>>) -> bool {
    pipe.is_some_and(|p| p.open)
}

impl<R: Read> Pipe<R> {
    fn new(from: R) -> Self {
        Self { from, kept: Vec::new(), open: true }
    }

    /// Reads one piece if there is one; returns its length.
    fn take(&mut self, watch: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let mut buffer = [0; 1 << 15];
        while self.open {
            match self.from.read(&mut buffer) {
                Ok(0) => self.open = false,
                Ok(n) => {
                    watch(&buffer[..n]);
                    self.kept.extend_from_slice(&buffer[..n.min(CAP - self.kept.len())]);
                    return Ok(n);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(0)
    }

    fn take_left(&mut self, watch: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut left = LEFT;
        while left > 0 {
            match self.take(watch)? {
                0 => break,
                n => left = left.saturating_sub(n),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
