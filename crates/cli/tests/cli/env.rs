//! A hermetic place for one test: a project, a home, an environment, and a `lean-beam` that has never heard of this machine.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use beam_base::AbsPath;
use serde_json::Value;

/// Set in every process of the fake product.
pub const FAKE: &str = "LEAN_BEAM_TEST_FAKE";

/// The place. Its daemon ends with it.
pub struct Env {
    top: AbsPath,
    /// The project.
    pub root: AbsPath,
    vars: Vec<(String, String)>,
    // Removes everything on drop.
    _dir: tempfile::TempDir,
}

/// What a command said.
#[must_use = "compare it, or assert on it"]
#[derive(Debug)]
pub struct Done {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
    redact: Vec<(String, &'static str)>,
}

impl Env {
    /// A Lean project with two files and a folder.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("beam-cli-").tempdir().unwrap();
        let top = AbsPath::canonical(dir.path()).unwrap();
        let root = top.join("proj");
        std::fs::create_dir_all(root.join("Sub")).unwrap();
        std::fs::create_dir_all(top.join("home")).unwrap();
        for (file, text) in [("lean-toolchain", "leanprover/lean4:v4.28.0\n"), ("A.lean", ""), ("Sub/B.lean", "")] {
            std::fs::write(root.join(file), text).unwrap();
        }
        Self { top, root, vars: Vec::new(), _dir: dir }
    }

    /// The same with a variable more.
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        self.vars.push((key.to_owned(), value.into()));
        self
    }

    /// A path beside the project.
    pub fn path(&self, name: &str) -> AbsPath {
        self.top.join(name)
    }

    /// A command in the project's folder, with nothing of this process's environment.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(args)
            .current_dir(&self.root)
            .env_clear()
            .env(FAKE, "1")
            .env("HOME", self.path("home"))
            .env("PATH", "/usr/bin:/bin")
            .envs(self.vars.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, args: &[&str]) -> Done {
        self.finish(self.command(args).output().unwrap())
    }

    /// The same from another folder.
    pub fn run_in(&self, dir: &Path, args: &[&str]) -> Done {
        self.finish(self.command(args).current_dir(dir).output().unwrap())
    }

    /// The same with a variable.
    pub fn run_with(&self, vars: &[(&str, &str)], args: &[&str]) -> Done {
        self.finish(self.command(args).envs(vars.iter().copied()).output().unwrap())
    }

    /// The same with something on standard input.
    pub fn run_input(&self, input: &str, args: &[&str]) -> Done {
        let mut child =
            self.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        self.finish(child.wait_with_output().unwrap())
    }

    /// The same under another name.
    pub fn run_as(&self, name: &str, args: &[&str]) -> Done {
        self.finish(self.command(args).arg0(name).output().unwrap())
    }

    /// Starts a command and leaves it running.
    pub fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// What a finished process said.
    pub fn finish(&self, output: Output) -> Done {
        Done {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code(),
            redact: vec![(self.root.to_string(), "$ROOT"), (self.top.to_string(), "$TOP")],
        }
    }

    /// The registry, if there is one.
    pub fn registry(&self) -> Option<Value> {
        serde_json::from_slice(&std::fs::read(self.root.join(".beam/beam-daemon.json")).ok()?).ok()
    }

    /// The live daemon's own statistics.
    pub fn stats(&self) -> Value {
        let done = self.run(&["stats"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        done.json()["result"].clone()
    }

    /// The live daemon's pid, as it says itself.
    pub fn pid(&self) -> u64 {
        self.stats()["pid"].as_u64().unwrap()
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        // The last word of a failing test is its panic; this is only cleaning up.
        let _ended = self.command(&["shutdown"]).output();
    }
}

impl Done {
    /// Standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Both streams and the exit code in one text, without what differs from run to run.
    pub fn snapshot(&self) -> String {
        let mut out = String::new();
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                out.push_str(&format!("--- {name}\n{text}"));
            }
        }
        match self.code {
            Some(code) => out.push_str(&format!("--- exit {code}\n")),
            None => out.push_str("--- ended by a signal\n"),
        }
        for (text, shown) in &self.redact {
            out = out.replace(text, shown);
        }
        out
    }
}

/// Waits until something is so.
pub fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !so() {
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process of that number runs (one that ended and was not waited for does not).
pub fn runs(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Sends a signal by name.
pub fn signal(pid: impl std::fmt::Display, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status().unwrap();
    assert!(sent.success());
}
