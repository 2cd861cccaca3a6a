//! The client's end of a server.

use std::time::Duration;

use beam_base::CancelToken;
use beam_mcp::{ExitReason, Options, Service, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longest wait for anything that must come. Virtual where the clock is paused.
const LIMIT: Duration = Duration::from_secs(600);

/// A client. Reads only when told to.
pub struct Client {
    to: Option<DuplexStream>,
    from: Lines<BufReader<DuplexStream>>,
    pub stop: CancelToken,
    server: JoinHandle<ExitReason>,
}

impl Client {
    /// A server with pipes like those of an operating system.
    pub fn start<S: Service>(service: S, options: Options) -> Self {
        let (to, stdin) = tokio::io::duplex(64 * 1024);
        let (stdout, from) = tokio::io::duplex(64 * 1024);
        let stop = options.stop.clone();
        let server = tokio::spawn(serve(stdin, stdout, service, options));
        Self { to: Some(to), from: BufReader::new(from).lines(), stop, server }
    }

    /// Sends bytes as they are.
    pub async fn bytes(&mut self, bytes: &[u8]) {
        self.to.as_mut().expect("stdin is open").write_all(bytes).await.expect("the server reads");
    }

    /// Sends a line as it is.
    pub async fn raw(&mut self, line: &str) {
        self.bytes(format!("{line}\n").as_bytes()).await;
    }

    /// Sends a message.
    pub async fn send(&mut self, message: &Value) {
        self.raw(&message.to_string()).await;
    }

    /// The next line, as it is. `None`: the server has closed stdout.
    pub async fn line(&mut self) -> Option<String> {
        timeout(LIMIT, self.from.next_line()).await.expect("something comes").expect("readable")
    }

    /// The next message.
    pub async fn recv(&mut self) -> Value {
        let line = self.line().await.expect("the server lives");
        serde_json::from_str(&line).expect("every line is JSON")
    }

    /// Sends a request and gives the next message, which must be its answer.
    pub async fn ask(&mut self, request: &Value) -> Value {
        self.send(request).await;
        let answer = self.recv().await;
        assert_eq!(answer.get("id"), request.get("id"), "{request} -> {answer}");
        answer
    }

    /// Sends a line and gives the answer's error code, or 0.
    pub async fn code(&mut self, line: &str) -> i64 {
        self.raw(line).await;
        let answer = self.recv().await;
        answer["error"]["code"].as_i64().unwrap_or(0)
    }

    /// Asserts that nothing comes for so long.
    pub async fn quiet(&mut self, span: Duration) {
        if let Ok(line) = timeout(span, self.from.next_line()).await {
            panic!("expected silence, got {line:?}");
        }
    }

    /// Messages up to and with the answer to this id.
    pub async fn until(&mut self, id: &Value) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            let message = self.recv().await;
            let last = message.get("id") == Some(id);
            seen.push(message);
            if last {
                return seen;
            }
        }
    }

    /// Makes the stream a legacy one.
    pub async fn initialize(&mut self) {
        let answer = self
            .ask(&json!({ "jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
            }}))
            .await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }

    /// Closes stdin.
    pub fn close_stdin(&mut self) {
        drop(self.to.take());
    }

    /// Closes stdin, reads what still comes, and waits for the server's end.
    pub async fn end(mut self) -> ExitReason {
        self.close_stdin();
        self.finish().await.1
    }

    /// Closes stdout and waits for the server's end, with stdin still open.
    pub async fn hang_up(self) -> ExitReason {
        let Self { to, mut from, server, .. } = self;
        // Something has to be written for a closed pipe to be noticed; an error does.
        let mut to = to.expect("stdin is open");
        drop(std::mem::replace(&mut from, BufReader::new(tokio::io::duplex(1).0).lines()));
        to.write_all(b"nonsense\n").await.expect("the server reads");
        timeout(LIMIT, server).await.expect("it ends").expect("it does not panic")
    }

    /// Waits for the server's end without reading anything.
    pub async fn ended(self) -> ExitReason {
        let Self { server, from: _unread, .. } = self;
        timeout(LIMIT, server).await.expect("it ends").expect("it does not panic")
    }

    /// Reads to the end of stdout and waits for the server's end; the rest of the lines, and why it ended.
    pub async fn finish(mut self) -> (Vec<Value>, ExitReason) {
        let mut rest = Vec::new();
        while let Some(line) = self.line().await {
            rest.push(serde_json::from_str(&line).expect("every line is JSON"));
        }
        (rest, timeout(LIMIT, self.server).await.expect("it ends").expect("it does not panic"))
    }
}

/// A modern request. `extra` goes into `_meta`.
pub fn modern(id: impl Into<Value>, method: &str, mut params: Value, extra: Value) -> Value {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    meta.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    params["_meta"] = meta;
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

/// A modern tool call.
pub fn modern_call(id: impl Into<Value>, tool: &str, arguments: Value, extra: Value) -> Value {
    modern(id, "tools/call", json!({ "name": tool, "arguments": arguments }), extra)
}

/// A legacy tool call. `meta` is the whole `_meta`.
pub fn call(id: impl Into<Value>, tool: &str, arguments: Value, meta: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params })
}
