//! Short-lived child processes: started, awaited to a deadline, their output captured. Never a server.

use std::ffi::OsString;
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use beam_base::AbsPath;

use crate::env::HostEnv;

/// Most bytes kept of each output stream; the beginning is kept, for errors come first.
const CAP: usize = 8 << 20;

/// What to run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub program: AbsPath,
    pub args: Vec<OsString>,
    pub cwd: AbsPath,
    pub set: Vec<(OsString, OsString)>,
    pub unset: Vec<OsString>,
    pub limit: Duration,
}

/// What came out.
#[derive(Debug, Clone)]
pub(crate) struct Done {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    pub fn ok(&self) -> bool {
        self.status.success()
    }

    /// Both streams, for a log or an error message.
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

    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub fn set(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.set.push((key.into(), value.into()));
        self
    }

    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs to the end with stdin closed. The child stays in our process group: an interrupt typed at the terminal reaches it too.
    pub fn capture(&self, env: &HostEnv) -> Result<Done, RunError> {
        self.capture_with(env, &mut |_| {})
    }

    /// The same; `watch` sees what comes out of stdout as it comes, in pieces that need not be lines.
    pub fn capture_with(&self, env: &HostEnv, watch: &mut dyn FnMut(&[u8])) -> Result<Done, RunError> {
        self.run(env, watch, &|| false)
    }

    /// Runs to the end, or until `stop` says so; it is asked some dozens of times a second.
    pub fn capture_until(&self, env: &HostEnv, stop: &dyn Fn() -> bool) -> Result<Done, RunError> {
        self.run(env, &mut |_| {}, stop)
    }

    fn run(&self, env: &HostEnv, watch: &mut dyn FnMut(&[u8]), stop: &dyn Fn() -> bool) -> Result<Done, RunError> {
        let mut child = self.spawn(env)?;
        let (tx, rx) = mpsc::channel();
        pump(child.stdout.take(), tx.clone(), Stream::Out);
        pump(child.stderr.take(), tx, Stream::Err);
        let mut output = Output::default();
        let end = Instant::now() + self.limit;
        let mut nap = Duration::from_millis(2);
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|e| self.lost(e))? {
                break status;
            }
            let stopped = stop() || env.is_ending();
            if stopped || Instant::now() >= end {
                // Both may fail when it has ended in this very moment; the time is over all the same.
                let _ignored = child.kill();
                let _ignored = child.wait();
                if stopped {
                    return Err(RunError::Stopped { program: self.program.clone() });
                }
                return Err(RunError::TimedOut { program: self.program.clone(), limit: self.limit });
            }
            match rx.recv_timeout(nap) {
                Ok(piece) => output.take(piece, watch),
                Err(RecvTimeoutError::Timeout) => {}
                // Its streams are closed, so it is about to end.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(nap),
            }
            nap = (nap * 2).min(Duration::from_millis(40));
        };
        // What is still in the pipes. A grandchild may hold them open after the child's end; it is not waited for.
        while let Ok(piece) = rx.recv_timeout(Duration::from_secs(2)) {
            output.take(piece, watch);
        }
        Ok(Done {
            status,
            stdout: String::from_utf8_lossy(&output.out).into_owned(),
            stderr: String::from_utf8_lossy(&output.err).into_owned(),
        })
    }

    fn spawn(&self, env: &HostEnv) -> Result<Child, RunError> {
        let mut command = Command::new(self.program.as_path());
        command
            .args(&self.args)
            .current_dir(self.cwd.as_path())
            .env_clear()
            .envs(env.vars())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for key in &self.unset {
            command.env_remove(key);
        }
        command.envs(self.set.iter().map(|(k, v)| (k, v)));
        command.spawn().map_err(|source| RunError::Start { program: self.program.clone(), source })
    }

    fn lost(&self, source: io::Error) -> RunError {
        RunError::Lost { program: self.program.clone(), source }
    }
}

#[derive(Clone, Copy)]
enum Stream {
    Out,
    Err,
}

#[derive(Default)]
struct Output {
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Output {
    fn take(&mut self, (stream, piece): (Stream, Vec<u8>), watch: &mut dyn FnMut(&[u8])) {
        let kept = match stream {
            Stream::Out => {
                watch(&piece);
                &mut self.out
            }
            Stream::Err => &mut self.err,
        };
        kept.extend_from_slice(&piece[..piece.len().min(CAP - kept.len())]);
    }
}

/// Reads a stream to its end on a thread of its own. What is over the cap is read too: a talkative child would wait on a full pipe.
fn pump(from: Option<impl Read + Send + 'static>, to: mpsc::Sender<(Stream, Vec<u8>)>, stream: Stream) {
    let Some(mut from) = from else {
        return;
    };
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        loop {
            match from.read(&mut buffer) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // An error ends the stream like its end does: what was read so far is what there is.
                Ok(0) | Err(_) => break,
                Ok(n) => {
                    if to.send((stream, buffer[..n].to_vec())).is_err() {
                        break;
                    }
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> Result<Done, RunError> {
        let root = AbsPath::new("/").unwrap();
        let env = HostEnv::capture();
        Run::new(&env.find_in_path("sh").unwrap(), &root)
            .args(["-c", script])
            .set("SET", "yes")
            .limit(limit)
            .capture(&env)
    }

    #[test]
    fn output_status_and_environment() {
        let done = sh("echo $SET; echo err >&2; exit 3", Duration::from_secs(20)).unwrap();
        assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("yes\n", "err\n"));
        assert_eq!(done.status.code(), Some(3));
        assert_eq!(done.both(), "yes\nerr\n");
    }

    #[test]
    fn a_talkative_child_is_not_blocked() {
        let done = sh("head -c 9000000 /dev/zero; echo end >&2", Duration::from_secs(60)).unwrap();
        assert_eq!(done.stdout.len(), CAP);
        assert_eq!(done.stderr, "end\n");
    }

    #[test]
    fn an_environment_that_ends_takes_its_children_with_it() {
        let root = AbsPath::new("/").unwrap();
        let env = HostEnv::capture();
        let derived = env.clone().with("X", "1");
        let sh = env.find_in_path("sh").unwrap();
        let waiting = std::thread::spawn(move || Run::new(&sh, &root).args(["-c", "sleep 600"]).capture(&derived));
        env.end_children();
        assert!(matches!(waiting.join().unwrap(), Err(RunError::Stopped { .. })));
    }

    #[test]
    fn whoever_wants_it_no_more_gets_it_killed() {
        let root = AbsPath::new("/").unwrap();
        let env = HostEnv::capture();
        let run = Run::new(&env.find_in_path("sh").unwrap(), &root).args(["-c", "exec sleep 60"]);
        let begun = Instant::now();
        let e = run.capture_until(&env, &|| begun.elapsed() > Duration::from_millis(50)).unwrap_err();
        assert!(matches!(e, RunError::Stopped { .. }), "{e}");
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_deadline_kills() {
        let begun = Instant::now();
        let e = sh("exec sleep 60", Duration::from_millis(100)).unwrap_err();
        assert!(matches!(e, RunError::TimedOut { .. }), "{e}");
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
