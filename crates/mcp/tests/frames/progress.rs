//! The display-control matrix, row by row: what a call says while it runs.

use std::time::Duration;

use beam_mcp::Options;
use serde_json::{Value, json};

use crate::support::{Client, Fake, call, modern_call, project};

/// One row of the matrix.
struct Row {
    tool: &'static str,
    /// With a token: the preparation update.
    prepares: bool,
    /// With a token: Lake setup updates; without one: the first setup line is a reason for the status.
    setup: bool,
    /// With a token: file progress.
    file: bool,
    /// Without a token: a status after two seconds.
    status: bool,
    /// The status names the path.
    path: bool,
    /// `lean.diagnostic` logs.
    diagnostics: bool,
    /// The final result has `document_progress`.
    document: bool,
}

const ROW: Row = Row {
    tool: "",
    prepares: true,
    setup: false,
    file: false,
    status: true,
    path: true,
    diagnostics: false,
    document: false,
};
const BARRIER: Row = Row { setup: true, file: true, diagnostics: true, document: true, ..ROW };
const PROBE: Row = Row { setup: true, file: true, ..ROW };
const READ: Row = Row { file: true, ..ROW };
const QUIET: Row = Row { prepares: false, status: false, path: false, ..ROW };

const MATRIX: [Row; 28] = [
    Row { tool: "lean_sync", ..BARRIER },
    Row { tool: "lean_refresh", ..BARRIER },
    Row { tool: "lean_save", ..BARRIER },
    Row { tool: "lean_close_save", ..BARRIER },
    Row { tool: "lean_run_at", ..PROBE },
    Row { tool: "lean_run_at_handle", ..PROBE },
    Row { tool: "lean_run_with", ..READ },
    Row { tool: "lean_run_with_linear", ..READ },
    Row { tool: "lean_update", ..ROW },
    Row { tool: "lean_hover", ..READ },
    Row { tool: "lean_signature_help", ..READ },
    Row { tool: "lean_definition", ..READ },
    Row { tool: "lean_references", ..READ },
    Row { tool: "lean_document_symbols", ..READ },
    Row { tool: "lean_goals", ..READ },
    Row { tool: "lean_todo", ..READ },
    Row { tool: "lean_code_action_resolve", ..READ },
    Row { tool: "lean_try", ..PROBE },
    Row { tool: "lean_snippet", ..PROBE },
    // The diagnostics are its result, so they are no logs.
    Row { tool: "lean_diagnostics", document: true, ..PROBE },
    Row { tool: "lean_search", ..READ },
    Row { tool: "lean_check", ..READ },
    Row { tool: "lean_code_actions", ..READ },
    Row { tool: "lean_workspace_symbols", path: false, ..ROW },
    Row { tool: "lean_release", ..READ },
    Row { tool: "lean_close", ..ROW },
    Row { tool: "beam_stats", ..QUIET },
    Row { tool: "beam_version", ..QUIET },
];

/// Arguments that make the broker do what the script says.
fn arguments(tool: &str, root: &str, script: &str) -> Value {
    let workspace = json!({ "root": root });
    let handle =
        json!({ "workspaceId": format!("local:{root}"), "backend": "lean", "epoch": 1, "session": "s", "raw": {} });
    let mut args = json!({ "workspace": workspace, "path": format!("{script}.lean") });
    let mut add = |more: Value| args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let at = json!({ "version": 1, "line": 0, "character": 0 });
    match tool {
        "beam_stats" | "beam_version" => return json!({}),
        "lean_workspace_symbols" => return json!({ "workspace": workspace, "query": script }),
        "lean_run_at" | "lean_run_at_handle" => {
            add(at);
            add(json!({ "text": script, "path": "A.lean" }));
        }
        "lean_try" => {
            add(at);
            add(json!({ "texts": ["skip"] }));
        }
        "lean_snippet" => add(json!({ "version": 1, "text": script, "path": "A.lean" })),
        "lean_document_symbols" | "lean_diagnostics" | "lean_check" => add(json!({ "version": 1 })),
        "lean_search" => add(json!({ "version": 1, "name": "add" })),
        "lean_code_actions" => add(json!({ "version": 1, "start_line": 0 })),
        "lean_run_with" | "lean_run_with_linear" => add(json!({ "text": script, "path": "A.lean", "handle": handle })),
        "lean_release" => add(json!({ "handle": handle })),
        "lean_hover" | "lean_signature_help" | "lean_definition" | "lean_references" => add(at),
        "lean_goals" => {
            add(at);
            add(json!({ "mode": "after" }));
        }
        "lean_todo" => {
            add(json!({ "version": 1, "start_line": 0, "start_character": 0, "end_line": 1, "end_character": 0 }));
        }
        "lean_code_action_resolve" => add(json!({ "version": 1, "code_action": { "title": "x" } })),
        "lean_sync" | "lean_refresh" | "lean_save" | "lean_close_save" => add(json!({ "diagnostic_scope": "all" })),
        _ => {}
    }
    args
}

/// What came before an answer.
#[derive(Debug, Default)]
struct Seen {
    progress: Vec<String>,
    statuses: Vec<Value>,
    diagnostics: Vec<Value>,
    answer: Value,
}

async fn collect(c: &mut Client, request: &Value) -> Seen {
    c.send(request).await;
    let mut seen = Seen::default();
    for m in c.until(&request["id"]).await {
        match (m["method"].as_str(), m["params"]["logger"].as_str()) {
            (Some("notifications/progress"), _) => {
                assert_eq!(m["params"]["progressToken"], request["params"]["_meta"]["progressToken"]);
                seen.progress.push(m["params"]["message"].as_str().unwrap().to_owned());
                assert_eq!(m["params"]["progress"], seen.progress.len(), "it starts at one and rises by one");
                assert!(m["params"].get("total").is_none());
            }
            (Some("notifications/message"), Some("beam.status")) => seen.statuses.push(m["params"].clone()),
            (Some("notifications/message"), Some("lean.diagnostic")) => seen.diagnostics.push(m["params"].clone()),
            (None, _) => seen.answer = m,
            other => panic!("{other:?}: {m}"),
        }
    }
    seen
}

const EVENTS: &str = "lake 21; diag 1; diag 2; diag 3; diag 4; diag 0; file 1 false; file 10 false; file 26 false; file 30 false; \
    file 60 true; file 70 false; file 99 true; lake 5";

fn sort_of(text: &str) -> &'static str {
    if text.contains("done=true") {
        "processed"
    } else if text.contains("done=false") {
        "processing"
    } else if text.contains("preparing Lean dependencies") {
        "lake"
    } else if text.contains("preparing the Lean workspace") {
        "preparation"
    } else {
        "other"
    }
}

#[tokio::test(start_paused = true)]
async fn the_matrix_with_a_token() {
    for row in MATRIX {
        let (_dir, root) = project();
        let mut c = Client::start(Fake::default(), Options::default());
        let extra = json!({ "progressToken": "t-1", "io.modelcontextprotocol/logLevel": "debug" });
        let seen = collect(&mut c, &modern_call(1, row.tool, arguments(row.tool, &root, EVENTS), extra)).await;
        let tool = row.tool;
        let mut expected = Vec::new();
        if row.prepares {
            expected.push("preparation");
        }
        if row.setup {
            expected.extend(["lake"; 3]);
        }
        if row.file {
            // 1, 26 (25 later), and the first done at 60; nothing after it, no Lake line either.
            expected.extend(["processing", "processing", "processed"]);
        }
        assert_eq!(
            seen.progress.iter().map(|t| sort_of(t)).collect::<Vec<_>>(),
            expected,
            "{tool}: {:?}",
            seen.progress
        );
        assert!(seen.progress.iter().all(|t| t.contains(tool)), "{tool}: {:?}", seen.progress);
        let named = if tool.starts_with("lean_run") { "A.lean" } else { ".lean" };
        assert!(!row.path || seen.progress.iter().all(|t| t.contains(named)), "{tool}: {:?}", seen.progress);
        assert_eq!(seen.statuses.len(), 0, "{tool}: progress and status exclude each other");
        let levels: Vec<_> = seen.diagnostics.iter().map(|d| d["level"].as_str().unwrap()).collect();
        assert_eq!(
            levels,
            if row.diagnostics { vec!["error", "warning", "info", "debug", "info"] } else { vec![] },
            "{tool}"
        );
        let result = &seen.answer["result"];
        assert_eq!(result["isError"], false, "{tool}: {}", seen.answer);
        assert_eq!(result["structuredContent"].get("document_progress").is_some(), row.document, "{tool}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_matrix_without_a_token() {
    for row in MATRIX {
        let tool = row.tool;
        let (_dir, root) = project();
        let mut c = Client::start(Fake::default(), Options::default());
        let level = json!({ "io.modelcontextprotocol/logLevel": "notice" });
        // Fast calls are quiet.
        let fast = collect(&mut c, &modern_call(1, tool, arguments(tool, &root, "sleep 1900"), level.clone())).await;
        assert_eq!((fast.progress.len(), fast.statuses.len()), (0, 0), "{tool}");
        // Slow ones give one sign of life.
        let slow =
            collect(&mut c, &modern_call("two", tool, arguments(tool, &root, "sleep 9000; lake 3"), level.clone()))
                .await;
        assert_eq!((slow.progress.len(), slow.statuses.len()), (0, usize::from(row.status)), "{tool}");
        if let Some(status) = slow.statuses.first() {
            assert_status(status, &row, "running");
        }
        // The first setup line is a reason where setup can be observed; elsewhere only time is.
        let setup =
            collect(&mut c, &modern_call("two", tool, arguments(tool, &root, "lake 3; sleep 100"), level)).await;
        assert_eq!(setup.statuses.len(), usize::from(row.setup), "{tool}");
        if let Some(status) = setup.statuses.first() {
            assert_status(status, &row, "preparing_dependencies");
        }
    }
}

fn assert_status(status: &Value, row: &Row, state: &str) {
    assert_eq!((&status["level"], &status["logger"]), (&json!("notice"), &json!("beam.status")));
    let data = &status["data"];
    assert_eq!((&data["requestId"], &data["tool"], &data["state"]), (&json!("two"), &json!(row.tool), &json!(state)));
    assert!(data["message"].as_str().unwrap().contains(row.tool), "{data}");
    assert_eq!(data.get("path").is_some(), row.path, "{data}");
    assert!(data["progressHint"].as_str().unwrap().contains("_meta.progressToken"));
    let keys = data.as_object().unwrap().len();
    assert_eq!(keys, if row.path { 6 } else { 5 }, "{data}");
}

/// `lean_drop_workspace`: preparation before it waits; a pathless status while it waits for earlier calls or for the eviction.
#[tokio::test(start_paused = true)]
async fn the_matrix_row_of_the_eviction() {
    let (fake, (_dir, root)) = (Fake::default(), project());
    let mut c = Client::start(fake.clone(), Options::default());
    let args = json!({ "workspace": { "root": root } });
    let run = |id: i64| modern_call(id, "lean_run_at", arguments("lean_run_at", &root, "gate a"), json!({}));
    c.send(&run(1)).await;
    fake.until(|f| f.active() == 1).await;
    c.send(&modern_call(2, "lean_drop_workspace", args.clone(), json!({ "progressToken": 5 }))).await;
    let first = c.recv().await;
    assert_eq!((&first["params"]["progressToken"], &first["params"]["progress"]), (&json!(5), &json!(1)));
    let text = first["params"]["message"].as_str().unwrap();
    assert!(text.contains("lean_drop_workspace") && text.contains("eviction"), "{text}");
    c.quiet(Duration::from_secs(30)).await;
    fake.open("a");
    assert_eq!(c.recv().await["id"], 1);
    assert_eq!(c.recv().await["id"], 2);

    for waits_for_calls in [true, false] {
        let (fake, (_dir, root)) = (Fake::default(), project());
        let mut c = Client::start(fake.clone(), Options::default());
        let args = json!({ "workspace": { "root": root } });
        if waits_for_calls {
            c.send(&modern_call(1, "lean_run_at", arguments("lean_run_at", &root, "gate a"), json!({}))).await;
            fake.until(|f| f.active() == 1).await;
        } else {
            fake.gate_drops();
        }
        c.send(&modern_call(2, "lean_drop_workspace", args, json!({ "io.modelcontextprotocol/logLevel": "notice" })))
            .await;
        let status = c.recv().await;
        assert_eq!(status["params"]["data"]["state"], "running");
        assert!(status["params"]["data"].get("path").is_none());
        assert_eq!(status["params"]["data"]["requestId"], 2);
        c.quiet(Duration::from_secs(30)).await;
        fake.open("a");
        fake.open("drop");
    }
}

/// Log levels: which diagnostics and whether the status is seen, in both families.
#[tokio::test(start_paused = true)]
async fn the_log_level_table_in_both_families() {
    let rows: [(&str, bool, &[&str]); 9] = [
        ("omitted", false, &[]),
        ("debug", true, &["error", "warning", "info", "debug"]),
        ("info", true, &["error", "warning", "info"]),
        ("notice", true, &["error", "warning"]),
        ("warning", false, &["error", "warning"]),
        ("error", false, &["error"]),
        ("critical", false, &[]),
        ("alert", false, &[]),
        ("emergency", false, &[]),
    ];
    for (level, status, visible) in rows {
        let (_dir, root) = project();
        let args = arguments("lean_sync", &root, "diag 1; diag 2; diag 3; diag 4; sleep 5000; file 9 true");
        let mut modern = Client::start(Fake::default(), Options::default());
        let extra = if level == "omitted" { json!({}) } else { json!({ "io.modelcontextprotocol/logLevel": level }) };
        let mut legacy = Client::start(Fake::default(), Options::default());
        legacy.initialize().await;
        let mut runs = vec![collect(&mut modern, &modern_call(1, "lean_sync", args.clone(), extra.clone())).await];
        // The level affects neither progress nor the result.
        let mut with_token = extra;
        with_token["progressToken"] = json!(0);
        let loud = collect(&mut modern, &modern_call(2, "lean_sync", args.clone(), with_token)).await;
        assert_eq!(loud.progress.len(), 2, "{level}");
        if level != "omitted" {
            let set = json!({ "jsonrpc": "2.0", "id": 0, "method": "logging/setLevel", "params": { "level": level } });
            assert_eq!(legacy.ask(&set).await["result"], json!({}));
            runs.push(collect(&mut legacy, &call(1, "lean_sync", args, json!({}))).await);
        } else {
            // Legacy streams begin at debug.
            let seen = collect(&mut legacy, &call(1, "lean_sync", args, json!({}))).await;
            assert_eq!((seen.diagnostics.len(), seen.statuses.len()), (4, 1));
        }
        for seen in runs {
            let levels: Vec<_> = seen.diagnostics.iter().map(|d| d["level"].as_str().unwrap()).collect();
            assert_eq!(levels, visible, "{level}");
            assert_eq!(seen.statuses.len(), usize::from(status), "{level}");
            assert_eq!(
                seen.answer["result"]["structuredContent"]["readiness"],
                loud.answer["result"]["structuredContent"]["readiness"]
            );
        }
    }
}

/// A legacy level is asked at emission; a status held back then is not made up for.
#[tokio::test(start_paused = true)]
async fn a_legacy_level_counts_at_the_moment_of_emission() {
    let (fake, (_dir, root)) = (Fake::default(), project());
    let mut c = Client::start(fake.clone(), Options::default());
    c.initialize().await;
    let set =
        |level: &str| json!({ "jsonrpc": "2.0", "id": 0, "method": "logging/setLevel", "params": { "level": level } });
    c.send(&call(1, "lean_sync", arguments("lean_sync", &root, "gate a; lake 1; diag 2"), json!({}))).await;
    fake.until(|f| f.active() == 1).await;
    c.ask(&set("error")).await;
    c.quiet(Duration::from_secs(3)).await;
    c.ask(&set("debug")).await;
    fake.open("a");
    let seen = c.until(&json!(1)).await;
    let loggers: Vec<_> = seen.iter().filter_map(|m| m["params"]["logger"].as_str()).collect();
    assert_eq!(loggers, ["lean.diagnostic"]);
}

/// Diagnostic items as log data.
#[tokio::test(start_paused = true)]
async fn a_diagnostic_log_has_the_items_shape() {
    let (_dir, root) = project();
    let mut c = Client::start(Fake::default(), Options::default());
    let extra = json!({ "io.modelcontextprotocol/logLevel": "debug" });
    let seen = collect(&mut c, &modern_call(1, "lean_save", arguments("lean_save", &root, "diag 2"), extra)).await;
    let at = json!({ "line": 0, "character": 0 });
    assert_eq!(
        seen.diagnostics,
        [json!({ "level": "warning", "logger": "lean.diagnostic", "data": {
            "path": "A.lean", "uri": "file:///A.lean", "severity": "warning", "range": { "start": at, "end": at }, "message": "m2",
            "completion_blocking": false, "version": 1,
        }})]
    );
}

/// Tokens are opaque and come back as they were spelled; the delay can be set.
#[tokio::test(start_paused = true)]
async fn tokens_come_back_as_they_were_spelled() {
    let (_dir, root) = project();
    let mut c = Client::start(Fake::default(), Options::default());
    let line =
        modern_call(1, "lean_update", arguments("lean_update", &root, "ok"), json!({ "progressToken": "TOKEN" }))
            .to_string();
    for token in ["0", "-1", "1.50", "1e3", "\"\"", "\"\\u0041\"", "123456789012345678901234567890"] {
        c.raw(&line.replace("\"TOKEN\"", token)).await;
        let note = c.line().await.unwrap();
        assert!(note.contains(&format!(r#""progressToken":{token},"#)), "{note}");
        c.recv().await;
    }
    let vars = |name: &str| (name == Options::STATUS_DELAY).then(|| "10".to_owned());
    assert_eq!(Options::from_vars(vars).unwrap().status_delay, Duration::from_millis(10));
    assert!(Options::from_vars(|_| Some("soon".to_owned())).is_err());
}

/// A call in line behind an eviction shows life too.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_its_turn_gives_its_status() {
    let (fake, (_dir, root)) = (Fake::default(), project());
    let mut c = Client::start(fake.clone(), Options::default());
    fake.gate_drops();
    c.send(&modern_call(1, "lean_drop_workspace", json!({ "workspace": { "root": root } }), json!({}))).await;
    c.send(&modern_call(
        2,
        "lean_update",
        arguments("lean_update", &root, "x"),
        json!({ "io.modelcontextprotocol/logLevel": "info" }),
    ))
    .await;
    let status = c.recv().await;
    assert_eq!(
        (&status["params"]["data"]["requestId"], &status["params"]["data"]["path"]),
        (&json!(2), &json!("x.lean"))
    );
    fake.open("drop");
    assert_eq!(c.recv().await["id"], 1);
    assert_eq!(c.recv().await["id"], 2);
}

/// `beam_feedback_report`: its collection phase; a status while collection is pending.
#[tokio::test(start_paused = true)]
async fn the_matrix_row_of_the_feedback_report() {
    let (fake, (_dir, root)) = (Fake::default(), project());
    let mut c = Client::start(fake.clone(), Options::default());
    let report = |confidential: bool| {
        json!({
            "workspace": { "root": root }, "title": "t", "summary": "s", "reproduction": "r", "expected": "e", "actual": "a",
            "confidential": confidential,
        })
    };
    for (confidential, text) in [(false, "collecting context"), (true, "confidential")] {
        let loud = json!({ "progressToken": 1, "io.modelcontextprotocol/logLevel": "debug" });
        let seen = collect(&mut c, &modern_call(1, "beam_feedback_report", report(confidential), loud)).await;
        assert_eq!((seen.progress.len(), seen.statuses.len()), (1, 0), "{seen:?}");
        assert!(seen.progress[0].contains("beam_feedback_report") && seen.progress[0].contains(text), "{seen:?}");
        let result = &seen.answer["result"];
        assert_eq!(result["isError"], false, "{result}");
        assert!(result["structuredContent"]["markdown"].is_string());
        assert_eq!(result["structuredContent"].get("workspace").is_some(), !confidential, "{result}");
        let fast = collect(&mut c, &modern_call(2, "beam_feedback_report", report(confidential), json!({}))).await;
        assert_eq!((fast.progress.len(), fast.statuses.len()), (0, 0));
    }
    assert_eq!(fake.made(), [""; 0], "a report starts no runtime");
    // Bad input is told before anything is said.
    let mut bad = report(false);
    bad["title"] = json!(1);
    let seen = collect(&mut c, &modern_call(3, "beam_feedback_report", bad, json!({ "progressToken": 1 }))).await;
    assert_eq!((seen.progress.len(), &seen.answer["result"]["structuredContent"]["code"]), (0, &json!("invalidInput")));

    fake.gate_stats();
    c.send(&modern_call(
        4,
        "beam_feedback_report",
        report(false),
        json!({ "io.modelcontextprotocol/logLevel": "notice" }),
    ))
    .await;
    let status = c.recv().await;
    assert_eq!(
        (&status["params"]["logger"], &status["params"]["data"]["state"]),
        (&json!("beam.status"), &json!("running"))
    );
    assert!(status["params"]["data"].get("path").is_none());
    fake.open("stats");
    assert_eq!(c.recv().await["id"], 4);
}
