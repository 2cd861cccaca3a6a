//! Tools on real Lean, through the whole server: every tool once, the documentation's tour as it is written there, what answers cost.

#![allow(clippy::print_stdout, reason = "figures, for who asks for them")]

#[path = "../support/client.rs"]
#[allow(
    dead_code,
    clippy::needless_pass_by_value,
    reason = "the raw-frame tests use the rest, with values written out"
)]
mod client;

mod every;
mod tokens;
mod tour;

use beam_base::AbsPath;
use beam_broker::qualify::Qualifier;
use beam_broker::{Choice, Engine, EngineSettings};
use beam_embedded::testing::{shared_embedded_for_tests, shared_env};
use beam_mcp::Options;
use client::{Client, modern_call};
use serde_json::{Value, json};

/// A project folder, and a server with the embedded Lean behind a client.
struct Beam {
    client: Client,
    root: AbsPath,
    calls: u64,
    _dir: tempfile::TempDir,
}

impl Beam {
    fn start() -> Self {
        Self::start_with(Options::default())
    }

    fn start_with(options: Options) -> Self {
        // The first use after a change of the extension installs it, with a runtime of its own.
        let installed = std::thread::spawn(|| shared_embedded_for_tests(&Qualifier)).join();
        assert!(installed.is_ok(), "the embedded toolchain is not there");
        let dir = tempfile::Builder::new().prefix("beam-mcp-").tempdir().unwrap();
        let root = AbsPath::canonical(dir.path()).unwrap();
        std::fs::write(root.join("lean-toolchain"), "leanprover/lean4:v4.28.0\n").unwrap();
        let mut settings = EngineSettings::new(shared_env());
        settings.choice = Choice::Embedded;
        Self { client: Client::start(Engine::empty(settings), options), root, calls: 0, _dir: dir }
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.root.join(file), text).unwrap();
    }

    /// Calls a tool. Checks what holds of every result; gives `structuredContent` and `isError`.
    async fn call(&mut self, tool: &str, arguments: Value) -> (Value, bool) {
        self.calls += 1;
        let id = json!(self.calls);
        self.client.send(&modern_call(id.clone(), tool, arguments, json!({}))).await;
        let all = self.client.until(&id).await;
        assert_eq!(all.len(), 1, "nobody asked for progress or logs: {all:?}");
        let result = &all[0]["result"];
        assert_eq!(result["resultType"], "complete", "{}", all[0]);
        let structured = result["structuredContent"].clone();
        // One result, told twice.
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, structured);
        (structured, result["isError"].as_bool().unwrap())
    }

    /// Calls a tool that is bound to the project, and succeeds.
    async fn lean(&mut self, tool: &str, mut arguments: Value) -> Value {
        arguments["workspace"] = json!({ "root": self.root });
        let (structured, is_error) = self.call(tool, arguments).await;
        assert!(!is_error, "{tool}: {structured}");
        assert_eq!(structured["workspace"], json!({ "root": self.root }), "{tool}");
        structured
    }

    async fn end(mut self) {
        self.client.close_stdin();
        let (rest, _why) = self.client.finish().await;
        assert!(rest.is_empty(), "{rest:?}");
    }
}
