//! Framing, closed envelopes, ids.

use std::time::Duration;

use beam_mcp::{ExitReason, Options};
use serde_json::{Value, json};

use crate::support::{Client, Fake, modern, modern_call, project};

async fn start() -> Client {
    Client::start(Fake::default(), Options::default())
}

fn error(answer: &Value) -> (Option<&Value>, i64) {
    assert_eq!(answer["jsonrpc"], "2.0");
    let object = answer.as_object().unwrap();
    assert!(object.keys().all(|k| ["jsonrpc", "id", "error"].contains(&k.as_str())), "{answer}");
    (object.get("id"), answer["error"]["code"].as_i64().expect("an error"))
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_not_json_is_answered_without_id_and_reading_goes_on() {
    let mut c = start().await;
    for line in [&b"\n"[..], b"\r\n", b"{\n", b"nonsense\n", b"{} {}\n", b"\xff\n", b"{\"jsonrpc\":\"2.0\"\r\n"] {
        c.bytes(line).await;
        assert_eq!(error(&c.recv().await), (None, -32700), "{line:?}");
    }
    // CRLF is as good as LF, and blanks around a message are JSON.
    let discover = modern(1, "server/discover", json!({}), json!({}));
    c.bytes(format!("  {discover} \r\n").as_bytes()).await;
    assert_eq!(c.recv().await["id"], 1);
}

#[tokio::test(start_paused = true)]
async fn envelopes_reject_mixed_and_undeclared_members() {
    let mut c = start().await;
    for (line, id) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","extra":1}"#, Some(json!(1))),
        (r#"{"jsonrpc":"2.0","id":"1","method":"ping","result":{}}"#, Some(json!("1"))),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","error":{"code":1,"message":""}}"#, Some(json!(1))),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","id":2}"#, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}"#, Some(json!(1))),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, Some(json!(1))),
        (r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, Some(json!(1))),
        (r#"{"id":1,"method":"ping"}"#, Some(json!(1))),
        (r#"{"jsonrpc":"2.0","id":1}"#, Some(json!(1))),
        (r#"{"jsonrpc":"2.0","id":1,"method":null}"#, Some(json!(1))),
        (r#"{"jsonrpc":"2.0","method":"notifications/initialized","x":1}"#, None),
        (r#"{"jsonrpc":"2.0"}"#, None),
        ("[]", None),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, None),
        ("1", None),
        ("null", None),
        ("\"x\"", None),
    ] {
        c.raw(line).await;
        assert_eq!(error(&c.recv().await), (id.as_ref(), -32600), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn unsolicited_responses_are_rejected() {
    let mut c = start().await;
    for (line, id) in [
        (r#"{"jsonrpc":"2.0","id":9,"result":{}}"#, Some(json!(9))),
        (r#"{"jsonrpc":"2.0","id":9,"error":{"code":-1,"message":"m"}}"#, Some(json!(9))),
        (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}"#, None),
        (r#"{"jsonrpc":"2.0","result":null}"#, None),
    ] {
        c.raw(line).await;
        assert_eq!(error(&c.recv().await), (id.as_ref(), -32600), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn ids_that_are_none_are_refused_without_one() {
    let mut c = start().await;
    for id in ["null", "true", "1.5", "1e-3", "[]", "{}", r#""\ud800""#] {
        c.raw(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)).await;
        assert_eq!(error(&c.recv().await), (None, -32600), "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn ids_come_back_as_they_were_spelled() {
    let mut c = start().await;
    let discover = modern(0, "server/discover", json!({}), json!({}))["params"].to_string();
    for id in [
        "0",
        "-0",
        "1",
        "1.0",
        "10e-1",
        "1e400",
        "1E999999999",
        "-7",
        "123456789012345678901234567890",
        r#""""#,
        r#""1""#,
        r#""\u0031""#,
        r#""a\/b""#,
        r#""ü""#,
    ] {
        c.raw(&format!(r#"{{"id":{id},"jsonrpc":"2.0","method":"server/discover","params":{discover}}}"#)).await;
        let line = c.line().await.unwrap();
        assert!(line.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#)), "{id}: {line}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_active_id_is_ignored_whatever_comes_under_it() {
    let (fake, (_dir, root)) = (Fake::default(), project());
    let mut c = Client::start(fake.clone(), Options::default());
    let args = |text: &str| json!({ "workspace": { "root": root }, "path": "A.lean", "version": 1, "line": 0, "character": 0, "text": text });
    c.send(&modern_call(1, "lean_run_at", args("gate a"), json!({ "progressToken": 0 }))).await;
    assert_eq!(c.recv().await["method"], "notifications/progress");
    fake.until(|f| f.active() == 1).await;
    for line in [
        modern_call(1, "lean_run_at", args("ok"), json!({})).to_string(),
        r#"{"jsonrpc":"2.0","id":1.0,"method":"tools/list"}"#.into(),
        r#"{"jsonrpc":"2.0","id":10e-1,"method":"server/discover","params":{}}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"extra":1}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.into(),
        r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#.into(),
    ] {
        c.raw(&line).await;
    }
    // The string is another id.
    let other = c.ask(&modern("1", "tools/list", json!({}), json!({}))).await;
    assert!(other["result"]["tools"].is_array());
    assert_eq!(fake.started(), 1);
    fake.open("a");
    let answer = c.recv().await;
    assert_eq!((&answer["id"], &answer["result"]["structuredContent"]["success"]), (&json!(1), &json!(true)));
    // Reuse is valid after the terminal point.
    let again = c.ask(&modern_call(1, "lean_run_at", args("ok"), json!({}))).await;
    assert_eq!(again["result"]["isError"], false);
}

#[tokio::test(start_paused = true)]
async fn a_line_beyond_the_cap_is_skipped() {
    let mut c = start().await;
    let chunk = vec![b' '; 1024 * 1024];
    for _ in 0..33 {
        c.bytes(&chunk).await;
    }
    c.bytes(b"\n").await;
    assert_eq!(error(&c.recv().await), (None, -32700));
    assert_eq!(c.code(&modern(1, "server/discover", json!({}), json!({})).to_string()).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_last_line_without_its_end_is_a_line() {
    let mut c = start().await;
    c.bytes(modern(1, "server/discover", json!({}), json!({})).to_string().as_bytes()).await;
    c.quiet(Duration::from_secs(1)).await;
    c.close_stdin();
    let (rest, reason) = c.finish().await;
    assert_eq!((rest.len(), &rest[0]["id"], reason), (1, &json!(1), ExitReason::InputClosed));
}
