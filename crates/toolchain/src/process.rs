//! Short-lived child processes: started, awaited to a deadline, their output captured. Never a server.

use std::ffi::OsString;
use std::io::{self, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use beam_base::AbsPath;

use crate::env::HostEnv;

/// Most bytes kept of each output stream; the beginning is kept, for errors come first.
const CAP: u64 = 8 << 20;

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
        let lost = |source| RunError::Lost { program: self.program.clone(), source };
        let mut child = command.spawn().map_err(|source| RunError::Start { program: self.program.clone(), source })?;
        let out = child.stdout.take().map(drain);
        let err = child.stderr.take().map(drain);
        let end = Instant::now() + self.limit;
        let mut nap = Duration::from_millis(2);
        let status = loop {
            if let Some(status) = child.try_wait().map_err(lost)? {
                break status;
            }
            if Instant::now() >= end {
                // Both may fail when it has ended in this very moment; the time is over all the same.
                let _ignored = child.kill();
                let _ignored = child.wait();
                return Err(RunError::TimedOut { program: self.program.clone(), limit: self.limit });
            }
            std::thread::sleep(nap);
            nap = (nap * 2).min(Duration::from_millis(40));
        };
        Ok(Done { status, stdout: collect(out), stderr: collect(err) })
    }
}

fn drain(mut from: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        // An error in the middle ends the stream like its end does: what was read so far is what there is.
        if from.by_ref().take(CAP).read_to_end(&mut kept).is_ok() {
            // Keep reading, or a talkative child would wait on a full pipe until its deadline.
            let _ignored = io::copy(&mut from, &mut io::sink());
        }
        let _ignored = tx.send(kept);
    });
    rx
}

/// A grandchild may hold the pipe open after the child's end; it is not waited for.
fn collect(rx: Option<mpsc::Receiver<Vec<u8>>>) -> String {
    rx.and_then(|rx| rx.recv_timeout(Duration::from_secs(2)).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
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
        assert_eq!(done.stdout.len() as u64, CAP);
        assert_eq!(done.stderr, "end\n");
    }

    #[test]
    fn a_deadline_kills() {
        let begun = Instant::now();
        let e = sh("exec sleep 60", Duration::from_millis(100)).unwrap_err();
        assert!(matches!(e, RunError::TimedOut { .. }), "{e}");
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
