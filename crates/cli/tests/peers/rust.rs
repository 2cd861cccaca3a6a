//! The official Rust client, in each way it can begin.
#![expect(deprecated, reason = "logging is deprecated in 2026-07-28, and both revisions still have it")]

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResult, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam,
    ProtocolVersion, SetLevelRequestParams,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, NotificationContext, Peer, RoleClient};
use rmcp::{ClientHandler, ServiceError};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::site::Site;
use crate::table::Test;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    ("rmcp_client_initialize", || run(ClientLifecycleMode::Initialize, false)),
    ("rmcp_client_discover", || run(ClientLifecycleMode::Discover { preferred_versions: modern() }, true)),
    ("rmcp_client_auto", || {
        run(ClientLifecycleMode::Auto { preferred_versions: modern(), legacy_version: None }, true);
    }),
];

/// Lean may be started cold on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

fn modern() -> Vec<ProtocolVersion> {
    vec![ProtocolVersion::V_2026_07_28]
}

/// What the server said beside its answers.
#[derive(Clone, Default)]
struct Heard {
    progress: Arc<Mutex<Vec<f64>>>,
    logs: Arc<Mutex<Vec<LoggingMessageNotificationParam>>>,
}

impl ClientHandler for Heard {
    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.lock().unwrap().push(params.progress);
    }

    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        self.logs.lock().unwrap().push(params);
    }
}

fn run(lifecycle: ClientLifecycleMode, modern: bool) {
    let site = Site::with_lean();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(PATIENCE, conversation(&site, lifecycle, modern)).await.expect("in time");
    });
}

async fn conversation(site: &Site, lifecycle: ClientLifecycleMode, modern: bool) {
    let mut server = tokio::process::Command::new(site.server())
        .args(Site::server_args())
        .env_clear()
        .envs(Site::vars())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let pipes = (server.stdout.take().unwrap(), server.stdin.take().unwrap());
    let mut stderr = server.stderr.take().unwrap();
    let heard = Heard::default();
    let mut client = heard.clone().serve_with_lifecycle(pipes, lifecycle).await.expect("a connection");

    let info = client.peer_info().expect("the server's identity");
    let expected = if modern { ProtocolVersion::V_2026_07_28 } else { ProtocolVersion::V_2025_11_25 };
    assert_eq!(info.protocol_version, expected);
    let tools = client.list_all_tools().await.expect("tools");
    assert!(tools.iter().any(|t| t.name == "lean_sync") && tools.len() > 20, "{}", tools.len());

    real_lean(site, &client, &heard, modern).await;

    let wrong = client.call_tool(CallToolRequestParams::new("no_such_tool")).await;
    assert!(matches!(&wrong, Err(ServiceError::McpError(e)) if e.code.0 == -32602), "{wrong:?}");

    let _reason = client.close().await.expect("a clean end");
    let status = server.wait().await.unwrap();
    let mut said = String::new();
    stderr.read_to_string(&mut said).await.unwrap();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
}

async fn real_lean(site: &Site, client: &Peer<RoleClient>, heard: &Heard, modern: bool) {
    let workspace = json!({ "root": site.root() });
    let synced = good(client, "lean_sync", &json!({ "workspace": workspace, "path": "Good.lean" })).await;
    assert_eq!(synced["readiness"]["save_ready"], true, "{synced}");
    let probe = |text: &str| json!({ "workspace": workspace, "path": "Good.lean", "version": synced["version"], "line": 1, "character": 2, "text": text });
    let right = good(client, "lean_run_at", &probe("exact ⟨hp, hq⟩")).await;
    let wrong = good(client, "lean_run_at", &probe("exact hp")).await;
    assert_eq!((&right["success"], &wrong["success"]), (&json!(true), &json!(false)), "{right}\n{wrong}");
    // This client asks for progress with every request, so each call's counter begins anew.
    let progress = heard.progress.lock().unwrap().clone();
    assert!(progress.contains(&1.0) && progress.contains(&2.0), "{progress:?}");

    if !modern {
        client.set_level(SetLevelRequestParams::new(LoggingLevel::Debug)).await.expect("the level");
    }
    let all = json!({ "workspace": workspace, "path": "Warn.lean", "diagnostic_scope": "all", "diagnostics_in_result": true });
    let warned = good(client, "lean_sync", &all).await;
    assert_eq!(warned["diagnostics"]["items"][0]["severity"], "warning", "{warned}");
    let logs = heard.logs.lock().unwrap().clone();
    let warnings = logs.iter().filter(|l| l.logger.as_deref() == Some("lean.diagnostic")).count();
    // A modern request that names no level gets none.
    assert_eq!(warnings > 0, !modern, "{logs:?}");
}

async fn good(client: &Peer<RoleClient>, name: &'static str, input: &Value) -> Value {
    let params = CallToolRequestParams::new(name).with_arguments(input.as_object().unwrap().clone());
    let result: CallToolResult = client.call_tool(params).await.unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(result.is_error, Some(false), "{name}: {result:?}");
    let structured = result.structured_content.expect("structured content");
    let text = &result.content[0].as_text().expect("text content").text;
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), structured, "{name}: text and structure differ");
    structured
}
