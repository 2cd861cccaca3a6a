//! `tools/call`: envelopes of results, kinds of errors, workspaces.

use beam_mcp::Options;
use serde_json::{Value, json};

use crate::support::{Client, Fake, call, modern_call, project};

fn run_at(root: &str, text: &str) -> Value {
    json!({ "workspace": { "root": root }, "path": "A.lean", "version": 1, "line": 0, "character": 0, "text": text })
}

async fn start() -> (Client, Fake) {
    let fake = Fake::default();
    (Client::start(fake.clone(), Options::default()), fake)
}

#[tokio::test(start_paused = true)]
async fn the_text_twin_is_the_structured_content() {
    let ((mut c, _), (_dir, root)) = (start().await, project());
    for (tool, args) in [
        ("beam_version", json!({})),
        ("beam_stats", json!({})),
        ("lean_run_at", run_at(&root, "say \"ü\" \u{1F600} \n")),
        ("lean_run_at", json!({})),
        ("lean_drop_workspace", json!({ "workspace": { "root": root } })),
    ] {
        let answer = c.ask(&modern_call(1, tool, args, json!({}))).await;
        let result = &answer["result"];
        assert!(result["structuredContent"].is_object() && result["isError"].is_boolean(), "{answer}");
        assert_eq!(result["content"].as_array().unwrap().len(), 1);
        assert_eq!(result["content"][0]["type"], "text");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(text, result["structuredContent"].to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn bad_arguments_of_a_known_tool_are_tool_errors_and_start_nothing() {
    let ((mut c, fake), (dir, root)) = (start().await, project());
    let bare = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let with = |workspace: Value| {
        let mut args = run_at(&root, "ok");
        args["workspace"] = workspace;
        args
    };
    for args in [
        json!({}),
        with(Value::Null),
        with(json!("/x")),
        with(json!({})),
        with(json!({ "root": 1 })),
        with(json!({ "root": "relative/path" })),
        with(json!({ "root": root, "id": "x" })),
        with(json!({ "root": format!("{root}/none") })),
        with(json!({ "root": file })),
        with(json!({ "root": bare.path() })),
        json!({ "workspace": { "root": root }, "path": "A.lean" }),
        json!({ "workspace": { "root": root }, "path": 1, "version": 1, "line": 0, "character": 0, "text": "" }),
        json!({ "workspace": { "root": root }, "root": root, "path": "A.lean", "version": 1, "line": 0, "character": 0, "text": "" }),
        json!({ "workspace": { "root": root }, "workspace_id": "w", "path": "A.lean", "version": 1, "line": 0, "character": 0, "text": "" }),
    ] {
        let answer = c.ask(&modern_call(1, "lean_run_at", args.clone(), json!({ "progressToken": 1 }))).await;
        let result = &answer["result"];
        assert_eq!((&result["isError"], &result["resultType"]), (&json!(true), &json!("complete")), "{args}: {answer}");
        assert_eq!(result["structuredContent"]["code"], "invalidInput", "{args}");
        assert!(result["structuredContent"].get("workspace").is_none());
    }
    assert_eq!((fake.made().len(), fake.started()), (0, 0), "nothing was made for any of them");
    let stats = c.ask(&modern_call(2, "beam_stats", json!({}), json!({}))).await;
    assert_eq!(stats["result"]["structuredContent"], json!({ "uptimeMs": 0, "workspaces": {} }));
}

#[tokio::test(start_paused = true)]
async fn a_set_up_that_fails_is_a_json_rpc_error_with_its_cause() {
    let ((mut c, fake), (_dir, root)) = (start().await, project());
    fake.fail_set_up("no Lean here");
    let answer = c.ask(&modern_call(1, "lean_run_at", run_at(&root, "ok"), json!({}))).await;
    assert_eq!(
        answer["error"],
        json!({ "code": -32600, "message": "could not set up the Lean Beam MCP runtime: no Lean here" })
    );
    let version = c.ask(&modern_call(2, "beam_version", json!({}), json!({}))).await;
    assert_eq!(version["result"]["structuredContent"]["runtime_active"], false);
}

#[tokio::test(start_paused = true)]
async fn a_broker_error_keeps_code_message_and_data() {
    let ((mut c, _), (_dir, root)) = (start().await, project());
    let answer = c.ask(&modern_call(2, "lean_run_at", run_at(&root, "fail"), json!({}))).await;
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(
        answer["result"]["structuredContent"],
        json!({ "code": "contentModified", "message": "on purpose", "data": { "currentVersion": 2 } })
    );
}

/// A panic is one request's, and an answer.
#[tokio::test(start_paused = true)]
async fn a_panic_ends_one_request() {
    let ((mut c, _), (_dir, root)) = (start().await, project());
    let answer = c.ask(&modern_call(1, "lean_run_at", run_at(&root, "panic"), json!({}))).await;
    assert_eq!(answer["error"]["code"], -32603);
    let answer = c.ask(&modern_call(1, "lean_run_at", run_at(&root, "ok"), json!({}))).await;
    assert_eq!(answer["result"]["isError"], false);
}

/// Aliases of a root share one runtime, and the canonical one is echoed.
#[tokio::test(start_paused = true)]
async fn canonical_aliases_share_a_runtime() {
    let ((mut c, fake), (dir, root)) = (start().await, project());
    let other = tempfile::tempdir().unwrap();
    let link = other.path().join("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    for alias in [
        root.clone(),
        link.to_str().unwrap().to_owned(),
        format!("{root}/./"),
        format!("{root}/../{}", root.rsplit('/').next().unwrap()),
    ] {
        let answer = c.ask(&modern_call(1, "lean_run_at", run_at(&alias, "ok"), json!({}))).await;
        assert_eq!(answer["result"]["structuredContent"]["workspace"], json!({ "root": root }), "{alias}");
    }
    assert_eq!(fake.made(), [format!("local:{root}")]);
}

/// Created lazily, dropped idempotently, made anew by the next call; also when the folder is gone.
#[tokio::test(start_paused = true)]
async fn workspaces_come_and_go() {
    let ((mut c, fake), (dir, root), (_dir2, root2)) = (start().await, project(), project());
    let drop_it =
        |root: &str| modern_call(9, "lean_drop_workspace", json!({ "workspace": { "root": root } }), json!({}));
    let never = c.ask(&drop_it(&root)).await;
    assert_eq!(
        never["result"]["structuredContent"],
        json!({ "workspace": { "root": root }, "dropped": false, "invalidated_handles": false, "reason": "notFound" })
    );
    for r in [&root, &root2] {
        c.ask(&modern_call(1, "lean_run_at", run_at(r, "ok"), json!({}))).await;
    }
    assert_eq!(fake.made().len(), 2, "two roots in one process");
    std::fs::remove_dir_all(dir.path()).unwrap();
    let gone = c.ask(&modern_call(1, "lean_run_at", run_at(&root, "ok"), json!({}))).await;
    assert_eq!(gone["result"]["structuredContent"]["code"], "invalidInput");
    let dropped = c.ask(&drop_it(&root)).await;
    assert_eq!(
        dropped["result"]["structuredContent"],
        json!({ "workspace": { "root": root }, "dropped": true, "invalidated_handles": true })
    );
    std::fs::create_dir(dir.path()).unwrap();
    std::fs::write(dir.path().join("lean-toolchain"), "x\n").unwrap();
    let again = c.ask(&modern_call(1, "lean_run_at", run_at(&root, "ok"), json!({}))).await;
    assert_eq!(again["result"]["isError"], false);
    assert_eq!(fake.made().len(), 3);
}

/// The same in the legacy family; a drop with bad arguments is a tool error and evicts nothing.
#[tokio::test(start_paused = true)]
async fn a_drop_with_bad_arguments_evicts_nothing() {
    let ((mut c, fake), (_dir, root)) = (start().await, project());
    c.initialize().await;
    c.ask(&call(1, "lean_run_at", run_at(&root, "ok"), json!({}))).await;
    for args in
        [json!({}), json!({ "workspace": { "root": "x" } }), json!({ "workspace": { "root": root }, "path": "A.lean" })]
    {
        let answer = c.ask(&call(2, "lean_drop_workspace", args, json!({ "progressToken": "t" }))).await;
        assert_eq!(answer["result"]["structuredContent"]["code"], "invalidInput");
    }
    assert!(!fake.log().iter().any(|l| l.starts_with("drop")), "{:?}", fake.log());
}

/// A result beyond the limit is cut and says so; no frame reaches 10 MiB.
#[tokio::test(start_paused = true)]
async fn outputs_are_bounded() {
    let (fake, (_dir, root)) = (Fake::default(), project());
    for max_output_bytes in [64 * 1024, 3 * 1024 * 1024] {
        let options = Options { max_output_bytes, ..Options::default() };
        let mut c = Client::start(fake.clone(), options);
        c.send(&modern_call(1, "lean_run_at", run_at(&root, "big 9000000"), json!({}))).await;
        let line = c.line().await.unwrap();
        assert!(line.len() < 10 * 1024 * 1024, "{}", line.len());
        let answer: Value = serde_json::from_str(&line).unwrap();
        let structured = &answer["result"]["structuredContent"];
        assert!(structured["truncated"].is_array() || structured["code"] == "outputTooLarge", "{max_output_bytes}");
    }
}
