//! `--self-check FILE`: the server started as a client would start it, asked for its identity and for one `lean_sync`, and ended.
//!
//! Owns the child process from its start to its end: whatever happens, it is gone when this returns. Must never print, and never speak
//! to anything but that child.

#![allow(clippy::disallowed_methods, reason = "runs in a command's own process, which has no async code")]

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use beam_base::AbsPath;
use serde_json::{Value, json};

use crate::tools::{PREFERRED_REVISION, SERVER_NAME, VERSION};

/// The variable that changes how long each phase may take, in milliseconds.
pub const LIMIT_VARIABLE: &str = "LEAN_BEAM_MCP_SELF_CHECK_TIMEOUT_MS";
/// As much of the child's stderr as a failure quotes, in bytes.
const STDERR_CAP: u64 = 8 * 1024;

/// How to start the server, and what to ask it.
#[derive(Debug, Clone)]
pub struct SelfCheck {
    /// The executable; it is told the name `lean-beam-mcp`.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Canonical project root: the child's directory and the descriptor.
    pub root: AbsPath,
    /// The file to sync, relative to the root.
    pub file: String,
    /// How long each phase may take.
    pub limit: Duration,
}

/// Where it stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckPhase {
    /// Starting the process.
    Start,
    /// `server/discover`
    Discover,
    /// `lean_sync`
    Sync,
    /// Closing its input and waiting for its end.
    Shutdown,
}

impl std::fmt::Display for CheckPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Discover => "server/discover",
            Self::Sync => "tools/call lean_sync",
            Self::Shutdown => "shutdown",
        })
    }
}

/// Why the check failed.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The file is not there.
    #[error("{file} does not exist in {root}; name a Lean file of the project in the current directory")]
    NoFile {
        /// As given.
        file: String,
        /// The project.
        root: AbsPath,
    },
    /// The system refuses.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Nothing came.
    #[error("no answer within {} ms; {LIMIT_VARIABLE} changes the limit", .0.as_millis())]
    TimedOut(Duration),
    /// The server went away.
    #[error("the server closed its output")]
    Closed,
    /// What came is not what must come.
    #[error("{0}")]
    Unexpected(String),
    /// It did not end as it should.
    #[error("the server ended with {0}, not with exit code 0")]
    Exit(ExitStatus),
    /// It said something.
    #[error("the server wrote to stderr")]
    Stderr,
}

/// A failed check.
#[derive(Debug, thiserror::Error)]
#[error("{SERVER_NAME} self-check failed in phase {phase}: {why}{}", quote(.stderr))]
pub struct Failed {
    /// Where.
    pub phase: CheckPhase,
    /// Why.
    pub why: CheckError,
    /// What the server said on stderr.
    pub stderr: String,
}

fn quote(stderr: &str) -> String {
    if stderr.trim().is_empty() { String::new() } else { format!("\nthe server's stderr:\n{}", stderr.trim_end()) }
}

/// How long each phase may take: the value of [`LIMIT_VARIABLE`], two minutes by default.
pub fn limit(text: Option<&str>) -> Result<Duration, String> {
    let Some(text) = text else { return Ok(Duration::from_secs(120)) };
    match text.trim().parse::<u64>() {
        Ok(ms) if ms > 0 => Ok(Duration::from_millis(ms)),
        _ => Err(format!("{LIMIT_VARIABLE} must be a whole number of milliseconds above 0, not {text:?}")),
    }
}

impl SelfCheck {
    /// Runs it. The text says what was checked.
    pub fn run(&self) -> Result<String, Failed> {
        if !self.root.join(&self.file).is_file() {
            let why = CheckError::NoFile { file: self.file.clone(), root: self.root.clone() };
            return Err(Failed { phase: CheckPhase::Start, why, stderr: String::new() });
        }
        let mut server = ChildServer::start(self).map_err(|e| Failed {
            phase: CheckPhase::Start,
            why: e.into(),
            stderr: String::new(),
        })?;
        match self.phases(&mut server) {
            Ok(()) => {
                let workspace = json!({ "root": self.root });
                Ok(format!(
                    "{SERVER_NAME} self-check passed\nroot: {}\nfile: {}\nworkspace: {workspace}\nprotocol: \
                     {PREFERRED_REVISION}\nlean_sync: ok",
                    self.root, self.file
                ))
            }
            Err((phase, why)) => Err(Failed { phase, why, stderr: server.kill() }),
        }
    }

    fn phases(&self, server: &mut ChildServer) -> Result<(), (CheckPhase, CheckError)> {
        let answer =
            server.ask(1, "server/discover", json!({}), self.limit).map_err(|why| (CheckPhase::Discover, why))?;
        discovered(&answer).map_err(|why| (CheckPhase::Discover, CheckError::Unexpected(why)))?;
        let call = json!({
            "name": "lean_sync",
            "arguments": { "workspace": { "root": self.root }, "path": self.file },
        });
        let answer = server.ask(2, "tools/call", call, self.limit).map_err(|why| (CheckPhase::Sync, why))?;
        synced(&answer).map_err(|why| (CheckPhase::Sync, CheckError::Unexpected(why)))?;
        server.end(self.limit).map_err(|why| (CheckPhase::Shutdown, why))
    }
}

fn discovered(answer: &Value) -> Result<(), String> {
    let result = result(answer)?;
    if result["resultType"] != "complete" {
        return Err(format!("the result is not complete: {}", brief(result)));
    }
    let versions = &result["supportedVersions"];
    if versions.as_array().is_some_and(|v| v.iter().any(|v| v == PREFERRED_REVISION)) {
        Ok(())
    } else {
        Err(format!("the server does not speak {PREFERRED_REVISION} but {versions}"))
    }
}

fn synced(answer: &Value) -> Result<(), String> {
    let result = result(answer)?;
    let content = &result["structuredContent"];
    if result["isError"] != false {
        return Err(format!("lean_sync failed: {}: {}", word(&content["code"]), word(&content["message"])));
    }
    if content["document_progress"].is_object() {
        Ok(())
    } else {
        Err(format!("the result has no document_progress: {}", brief(content)))
    }
}

fn result(answer: &Value) -> Result<&Value, String> {
    match (answer.get("result"), answer.get("error")) {
        (Some(result), None) => Ok(result),
        (_, Some(error)) => Err(format!("error {}: {}", error["code"], word(&error["message"]))),
        (None, None) => Err(format!("neither result nor error: {}", brief(answer))),
    }
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn brief(value: &Value) -> String {
    value.to_string().chars().take(300).collect()
}

/// The child and its streams.
struct ChildServer {
    child: Child,
    stdin: Option<ChildStdin>,
    frames: Receiver<std::io::Result<String>>,
    stderr: Option<JoinHandle<String>>,
    said: String,
}

impl ChildServer {
    fn start(check: &SelfCheck) -> std::io::Result<Self> {
        let mut child = Command::new(&check.program)
            .arg0(SERVER_NAME)
            .args(&check.args)
            .current_dir(&check.root)
            // Traces that were asked for are no defect.
            .env_remove("LEAN_BEAM_MCP_TRACE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (tx, frames) = mpsc::channel();
        let stdin = child.stdin.take();
        if let Some(stdout) = child.stdout.take() {
            // Ends with the child's output, or with us.
            std::thread::spawn(move || BufReader::new(stdout).lines().try_for_each(|line| tx.send(line)));
        }
        let stderr = child.stderr.take().map(|mut pipe| {
            std::thread::spawn(move || {
                let mut said = Vec::new();
                let _read = pipe.by_ref().take(STDERR_CAP).read_to_end(&mut said);
                // The rest is read as well: a full pipe would hold the server up.
                let _drained = std::io::copy(&mut pipe, &mut std::io::sink());
                String::from_utf8_lossy(&said).into_owned()
            })
        });
        Ok(Self { child, stdin, frames, stderr, said: String::new() })
    }

    /// Sends a request of the modern family and waits for its answer; notifications pass by.
    fn ask(&mut self, id: u64, method: &str, mut params: Value, limit: Duration) -> Result<Value, CheckError> {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": PREFERRED_REVISION,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": format!("{SERVER_NAME}-self-check"), "version": VERSION },
        });
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let stdin = self.stdin.as_mut().ok_or(CheckError::Closed)?;
        stdin
            .write_all(format!("{request}\n").as_bytes())
            .and_then(|()| stdin.flush())
            .map_err(|_| CheckError::Closed)?;
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = match self.frames.recv_timeout(left) {
                Ok(line) => line?,
                Err(RecvTimeoutError::Timeout) => return Err(CheckError::TimedOut(limit)),
                Err(RecvTimeoutError::Disconnected) => return Err(CheckError::Closed),
            };
            let frame: Value = serde_json::from_str(&line).map_err(|e| {
                CheckError::Unexpected(format!("a line that is no JSON ({e}): {}", brief(&line.into())))
            })?;
            match (frame.get("method"), frame.get("id")) {
                (Some(_), None) => {}
                (Some(method), Some(_)) => {
                    return Err(CheckError::Unexpected(format!("the server sent a request of its own: {method}")));
                }
                (None, Some(answered)) if *answered == id => return Ok(frame),
                (None, _) => {
                    return Err(CheckError::Unexpected(format!("an answer to something else: {}", brief(&frame))));
                }
            }
        }
    }

    /// Closes its input; it must end by itself, cleanly and silently.
    fn end(&mut self, limit: Duration) -> Result<(), CheckError> {
        self.stdin = None;
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() >= deadline {
                return Err(CheckError::TimedOut(limit));
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        if !status.success() {
            return Err(CheckError::Exit(status));
        }
        self.listen();
        if self.said.is_empty() { Ok(()) } else { Err(CheckError::Stderr) }
    }

    /// Ends it for good, and gives back what it said on stderr.
    fn kill(mut self) -> String {
        let _gone_already = self.child.kill();
        let _reaped = self.child.wait();
        self.listen();
        std::mem::take(&mut self.said)
    }

    /// Takes what it said on stderr, once it has ended.
    fn listen(&mut self) {
        if let Some(reader) = self.stderr.take() {
            self.said = reader.join().unwrap_or_default();
        }
    }
}

impl Drop for ChildServer {
    fn drop(&mut self) {
        // Ended already, unless something above went wrong.
        let _gone_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[cfg(test)]
#[path = "self_check_tests.rs"]
mod tests;
