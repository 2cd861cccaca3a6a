//! A probe of a worker, for tests and examples: opens a document and waits until it is elaborated.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use beam_toolchain::WorkerLaunch;
use serde_json::{Value, json};

/// A worker with one open document.
pub struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    errors: Receiver<String>,
}

const URI: &str = "file:///Probe.lean";

impl Worker {
    /// Starts it and opens the text.
    pub fn open(launch: &WorkerLaunch, text: &str) -> io::Result<Self> {
        let mut command = Command::new(launch.program.as_path());
        for key in &launch.env_remove {
            command.env_remove(key);
        }
        let mut child = command
            .args(&launch.args)
            .envs(launch.env.iter().map(|(k, v)| (k, v)))
            .current_dir(launch.cwd.as_path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut stderr = child.stderr.take().expect("piped");
        let (tx, messages) = channel();
        std::thread::spawn(move || {
            while let Ok(Some(message)) = read(&mut stdout) {
                if tx.send(message).is_err() {
                    break;
                }
            }
        });
        let (tx, errors) = channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ignored = stderr.read_to_string(&mut text);
            let _ignored = tx.send(text);
        });
        let mut worker = Self { child, stdin, messages, errors };
        worker.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "processId": null, "rootUri": null, "capabilities": {}, "initializationOptions": {"hasWidgets": false}}}))?;
        worker.send(&json!({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {
            "textDocument": {"uri": URI, "languageId": "lean4", "version": 1, "text": text},
            "dependencyBuildMode": "never"}}))?;
        Ok(worker)
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Value) -> io::Result<()> {
        let body = message.to_string();
        let stdin = self.stdin.as_mut().expect("open until `close`");
        write!(stdin, "Content-Length: {}\r\n\r\n{body}", body.len())?;
        stdin.flush()
    }

    /// Waits for a message that satisfies `wanted`.
    pub fn wait(&mut self, limit: Duration, mut wanted: impl FnMut(&Value) -> bool) -> Result<Value, String> {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.messages.recv_timeout(left) {
                Ok(message) if wanted(&message) => return Ok(message),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Err(self.fail("did not answer in time")),
                Err(RecvTimeoutError::Disconnected) => return Err(self.fail("ended")),
            }
        }
    }

    /// Waits until the document is elaborated, and returns its diagnostics' messages.
    pub fn elaborated(&mut self) -> Result<Vec<String>, String> {
        let mut texts = Vec::new();
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "textDocument/waitForDiagnostics",
            "params": {"uri": URI, "version": 1}}))
            .map_err(|e| e.to_string())?;
        let answer = self.wait(Duration::from_secs(180), |m| {
            if m["method"] == "textDocument/publishDiagnostics" {
                texts = m["params"]["diagnostics"]
                    .as_array()
                    .map(|list| list.iter().map(|d| d["message"].as_str().unwrap_or_default().to_owned()).collect())
                    .unwrap_or_default();
            }
            m["id"] == 1 && m.get("method").is_none()
        })?;
        if answer.get("error").is_some() {
            return Err(answer.to_string());
        }
        Ok(texts)
    }

    /// Closes its stdin and waits for its end; `None` if it lives on.
    pub fn close(mut self) -> Option<std::process::ExitStatus> {
        let end = Instant::now() + Duration::from_secs(20);
        // Dropping the handle is what closes it.
        drop(self.stdin.take());
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().expect("our child") {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    fn fail(&mut self, what: &str) -> String {
        let _ignored = self.child.kill();
        let errors = self.errors.recv_timeout(Duration::from_secs(2)).unwrap_or_default();
        format!("the worker {what}; stderr:\n{errors}")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ignored = self.child.kill();
        let _ignored = self.child.wait();
    }
}

fn read(from: &mut impl BufRead) -> io::Result<Option<Value>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some(n) = line.strip_prefix("Content-Length: ") {
            length = n.parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(Some(serde_json::from_slice(&body)?))
}

/// Passes a worker that evaluates and proves.
pub fn probe(launch: &WorkerLaunch) -> Result<(), String> {
    let text = "#eval 6 * 7\ntheorem t (a b : Nat) (h : a < b) : a + 1 ≤ b := by omega\n";
    let mut worker = Worker::open(launch, text).map_err(|e| e.to_string())?;
    let got = worker.elaborated()?;
    if got == ["42"] { Ok(()) } else { Err(format!("expected the diagnostic 42, got {got:?}")) }
}
