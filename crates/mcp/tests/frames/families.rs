//! The two protocol families, and which of them a stream speaks (M2, M3).

use beam_mcp::Options;
use serde_json::{Value, json};

use crate::support::{Client, Fake, modern, modern_call, project};

/// Where a stream stands.
#[derive(Debug, Clone, Copy)]
enum Stand {
    Undecided,
    Discovered,
    Awaiting,
    Legacy,
    Modern,
}

const STANDS: [Stand; 5] = [Stand::Undecided, Stand::Discovered, Stand::Awaiting, Stand::Legacy, Stand::Modern];

fn initialize() -> String {
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2031-01-01","capabilities":{"roots":{}},"clientInfo":{"name":"n","version":"1","title":"T"}}}"#
        .to_owned()
}

async fn at(stand: Stand) -> Client {
    let mut c = Client::start(Fake::default(), Options::default());
    match stand {
        Stand::Undecided => {}
        Stand::Discovered => assert_eq!(c.code(&marked("server/discover", json!({}))).await, 0),
        Stand::Awaiting => assert_eq!(c.code(&initialize()).await, 0),
        Stand::Legacy => c.initialize().await,
        Stand::Modern => assert_eq!(c.code(&marked("tools/list", json!({}))).await, 0),
    }
    c
}

fn bare(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

fn marked(method: &str, params: Value) -> String {
    modern(1, method, params, json!({})).to_string()
}

/// The table of the specification: codes in the order of [`STANDS`]; 0 is a result.
#[tokio::test(start_paused = true)]
async fn m2_the_family_table() {
    let version = json!({ "name": "beam_version" });
    let level = json!({ "level": "error" });
    let rows: Vec<(&str, String, [i64; 5])> = vec![
        ("discover", marked("server/discover", json!({})), [0, 0, -32600, -32600, 0]),
        ("discover without metadata", bare("server/discover", &json!({})), [-32602; 5]),
        ("initialize", initialize(), [0, 0, -32600, -32600, -32600]),
        ("modern initialize", marked("initialize", json!({})), [-32601, -32601, -32600, -32600, -32601]),
        ("ping", bare("ping", &json!({})), [-32600, -32600, 0, 0, -32602]),
        ("modern ping", marked("ping", json!({})), [-32601, -32601, -32600, -32600, -32601]),
        ("setLevel", bare("logging/setLevel", &level), [-32600, -32600, 0, 0, -32602]),
        ("modern setLevel", marked("logging/setLevel", level.clone()), [-32601, -32601, -32600, -32600, -32601]),
        ("tools/list", bare("tools/list", &json!({})), [-32600, -32600, -32600, 0, -32602]),
        ("modern tools/list", marked("tools/list", json!({})), [0, 0, -32600, -32600, 0]),
        ("tools/call", bare("tools/call", &version), [-32600, -32600, -32600, 0, -32602]),
        ("modern tools/call", marked("tools/call", version.clone()), [0, 0, -32600, -32600, 0]),
        ("unknown", bare("prompts/list", &json!({})), [-32600, -32600, -32600, -32601, -32602]),
        ("modern unknown", marked("prompts/list", json!({})), [-32601, -32601, -32600, -32600, -32601]),
        ("roots/list", bare("roots/list", &json!({})), [-32600, -32600, -32600, -32601, -32602]),
    ];
    for (name, line, codes) in rows {
        for (stand, code) in STANDS.into_iter().zip(codes) {
            assert_eq!(at(stand).await.code(&line).await, code, "{name} at {stand:?}");
        }
    }
}

/// Discovery is neutral, in any number; after it either family may be chosen, and the other one is refused from then on.
#[tokio::test(start_paused = true)]
async fn m2_discovery_is_neutral() {
    for round in 0..2 {
        let mut c = at(Stand::Discovered).await;
        assert_eq!(c.code(&marked("server/discover", json!({}))).await, 0);
        if round == 0 {
            c.initialize().await;
            assert_eq!(c.code(&bare("tools/list", &json!({}))).await, 0);
            assert_eq!(c.code(&marked("tools/list", json!({}))).await, -32600);
        } else {
            assert_eq!(c.code(&marked("tools/list", json!({}))).await, 0);
            assert_eq!(c.code(&initialize()).await, -32600);
            assert_eq!(c.code(&marked("server/discover", json!({}))).await, 0);
        }
    }
}

/// What fails in its metadata, or is no operation, selects nothing.
#[tokio::test(start_paused = true)]
async fn m2_only_a_supported_operation_with_valid_metadata_selects_the_modern_family() {
    let mut c = at(Stand::Undecided).await;
    let mut old = modern(1, "tools/list", json!({}), json!({}));
    old["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2025-11-25");
    assert_eq!(c.code(&old.to_string()).await, -32022);
    assert_eq!(c.code(&marked("prompts/list", json!({}))).await, -32601);
    assert_eq!(c.code(&marked("ping", json!({}))).await, -32601);
    assert_eq!(c.code(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/logLevel":"debug"}}}"#).await, -32602);
    c.initialize().await;
    assert_eq!(c.code(&bare("tools/list", &json!({}))).await, 0);
}

#[tokio::test(start_paused = true)]
async fn modern_metadata_is_checked_in_every_request() {
    const P: &str = "io.modelcontextprotocol/";
    let rows: Vec<(&str, Value, i64)> = vec![
        ("protocolVersion", Value::Null, -32602),
        ("protocolVersion", json!(20260728), -32602),
        ("protocolVersion", json!("2031-01-01"), -32022),
        ("protocolVersion", json!("2025-11-25"), -32022),
        ("clientCapabilities", Value::Null, -32602),
        ("clientCapabilities", json!([]), -32602),
        ("clientCapabilities", json!({ "roots": {}, "x": 1 }), 0),
        ("clientInfo", json!({ "name": "n", "version": "1", "title": "t" }), 0),
        ("clientInfo", json!({ "name": "n" }), -32602),
        ("clientInfo", json!({ "name": "n", "version": 1 }), -32602),
        ("clientInfo", json!("n"), -32602),
        ("logLevel", json!("notice"), 0),
        ("logLevel", json!("loud"), -32602),
        ("logLevel", json!(3), -32602),
    ];
    let mut c = at(Stand::Modern).await;
    for (key, value, code) in rows {
        for method in ["server/discover", "tools/list"] {
            let mut request = modern(1, method, json!({}), json!({}));
            request["params"]["_meta"][format!("{P}{key}")] = value.clone();
            assert_eq!(c.code(&request.to_string()).await, code, "{method} {key} {value}");
        }
    }
    for missing in ["protocolVersion", "clientCapabilities"] {
        let mut request = modern(1, "tools/list", json!({}), json!({}));
        request["params"]["_meta"].as_object_mut().unwrap().remove(&format!("{P}{missing}"));
        assert_eq!(c.code(&request.to_string()).await, -32602, "{missing}");
    }
    // Incomplete metadata is told before a wrong version, a wrong version before an unknown method.
    c.raw(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"nope","params":{{"_meta":{{"{P}protocolVersion":"1999-01-01"}}}}}}"#
    ))
    .await;
    assert_eq!(c.recv().await["error"]["code"], -32602);
    let mut request = modern(1, "nope", json!({}), json!({}));
    request["params"]["_meta"][format!("{P}protocolVersion")] = json!("1999-01-01");
    let answer = c.ask(&request).await;
    assert_eq!(answer["error"]["code"], -32022);
    assert_eq!(answer["error"]["data"], json!({ "supported": ["2026-07-28"], "requested": "1999-01-01" }));
    // A bare request names both keys that are missing.
    c.raw(&bare("tools/list", &json!({}))).await;
    let text = c.recv().await["error"]["message"].as_str().unwrap().to_owned();
    assert!(text.contains("protocolVersion") && text.contains("clientCapabilities"), "{text}");
}

/// Metadata is request-local: a request says nothing about the next one.
#[tokio::test(start_paused = true)]
async fn m3_metadata_is_not_kept() {
    let (_dir, root) = project();
    let mut c = at(Stand::Undecided).await;
    let sync = |id: i64, extra| {
        let args = json!({ "workspace": { "root": root }, "path": "diag 1.lean", "diagnostic_scope": "all" });
        modern_call(id, "lean_sync", args, extra)
    };
    c.send(&sync(1, json!({ "io.modelcontextprotocol/logLevel": "debug", "progressToken": 7 }))).await;
    assert_eq!(c.until(&json!(1)).await.len(), 3, "preparation, diagnostic, answer");
    c.send(&sync(2, json!({}))).await;
    assert_eq!(c.until(&json!(2)).await.len(), 1, "neither level nor token are left");
    assert_eq!(c.code(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{}}"#).await, -32602);
}

#[tokio::test(start_paused = true)]
async fn modern_results_are_stamped_and_cacheable_where_nothing_depends_on_anybody() {
    let mut c = at(Stand::Undecided).await;
    let info = json!({ "name": "lean-beam-mcp", "version": env!("CARGO_PKG_VERSION") });
    let discover = c.ask(&modern(1, "server/discover", json!({}), json!({}))).await;
    let result = &discover["result"];
    assert!(result["instructions"].as_str().unwrap().contains("workspace"));
    let mut rest = result.clone();
    rest.as_object_mut().unwrap().remove("instructions");
    assert_eq!(
        rest,
        json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": { "logging": {}, "tools": { "listChanged": false } },
            "ttlMs": 3_600_000, "cacheScope": "public", "_meta": { "io.modelcontextprotocol/serverInfo": info },
        })
    );
    let list = c.ask(&modern(2, "tools/list", json!({}), json!({}))).await;
    let result = &list["result"];
    assert_eq!(
        (&result["resultType"], &result["ttlMs"], &result["cacheScope"]),
        (&json!("complete"), &json!(3_600_000), &json!("public"))
    );
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"], info);
    assert!(result["tools"].as_array().unwrap().len() > 20);
    let call = c.ask(&modern_call(3, "beam_version", json!({}), json!({}))).await;
    let result = call["result"].as_object().unwrap();
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["_meta"], json!({ "io.modelcontextprotocol/serverInfo": info }));
    assert!(!result.contains_key("ttlMs") && !result.contains_key("cacheScope"));
}

#[tokio::test(start_paused = true)]
async fn legacy_results_carry_nothing_of_the_modern_ones() {
    let mut c = at(Stand::Undecided).await;
    c.raw(&initialize()).await;
    let answer = c.recv().await;
    assert_eq!(
        answer["result"],
        json!({
            "protocolVersion": "2025-11-25", "capabilities": { "logging": {}, "tools": { "listChanged": false } },
            "serverInfo": { "name": "lean-beam-mcp", "version": env!("CARGO_PKG_VERSION") },
            "instructions": answer["result"]["instructions"],
        })
    );
    // Both revisions tell the same.
    let mut modern_client = at(Stand::Undecided).await;
    let discovered = modern_client.ask(&modern(1, "server/discover", json!({}), json!({}))).await;
    assert!(answer["result"]["instructions"].is_string());
    assert_eq!(answer["result"]["instructions"], discovered["result"]["instructions"]);
    c.raw(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    assert_eq!(
        c.ask(&json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" })).await,
        json!({ "jsonrpc": "2.0", "id": 2, "result": {} })
    );
    // Parameters may be left out.
    let list = c.ask(&json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/list" })).await;
    assert_eq!(list["result"].as_object().unwrap().keys().collect::<Vec<_>>(), ["tools"]);
    let call = c
        .ask(&json!({ "jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": { "name": "beam_version" } }))
        .await;
    assert_eq!(
        call["result"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["content", "structuredContent", "isError"]
    );
}

/// A malformed `initialize` or `notifications/initialized` changes nothing.
#[tokio::test(start_paused = true)]
async fn a_malformed_beginning_changes_nothing() {
    let good = json!({ "protocolVersion": "x", "capabilities": {}, "clientInfo": { "name": "n", "version": "1" } });
    let without = |key: &str| {
        let mut p = good.clone();
        p.as_object_mut().unwrap().remove(key);
        p
    };
    let with = |key: &str, value: Value| {
        let mut p = good.clone();
        p[key] = value;
        p
    };
    let mut c = at(Stand::Undecided).await;
    for params in [
        without("protocolVersion"),
        without("capabilities"),
        without("clientInfo"),
        with("protocolVersion", json!(1)),
        with("capabilities", json!([])),
        with("clientInfo", json!("n")),
        with("clientInfo", json!({ "name": "n" })),
        with("clientInfo", json!({ "name": "n", "version": null })),
        with("extra", json!(1)),
        with("_meta", json!(1)),
        json!([]),
        json!({}),
    ] {
        assert_eq!(c.code(&bare("initialize", &params)).await, -32602, "{params}");
        assert_eq!(c.code(&bare("ping", &json!({}))).await, -32600, "still undecided after {params}");
    }
    assert_eq!(c.code(r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#).await, -32602);
    assert_eq!(c.code(&initialize()).await, 0);
    for params in [json!({ "x": 1 }), json!([]), json!({ "_meta": 1 })] {
        c.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized", "params": params })).await;
        assert_eq!(c.code(&bare("tools/list", &json!({}))).await, -32600, "{params}");
    }
    c.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized", "params": { "_meta": {} } })).await;
    assert_eq!(c.code(&bare("tools/list", &json!({}))).await, 0);
    // As a request it is an unknown method.
    assert_eq!(c.code(&bare("notifications/initialized", &json!({}))).await, -32601);
}

#[tokio::test(start_paused = true)]
async fn parameter_objects_are_closed() {
    let mut c = at(Stand::Legacy).await;
    for (method, params) in [
        ("ping", json!({ "x": 1 })),
        ("ping", json!([])),
        ("ping", json!({ "_meta": [] })),
        ("tools/list", json!({ "cursor": "x" })),
        ("tools/list", json!({ "cursor": null })),
        ("tools/list", json!({ "x": 1 })),
        ("logging/setLevel", json!({})),
        ("logging/setLevel", json!({ "level": "loud" })),
        ("logging/setLevel", json!({ "level": "debug", "x": 1 })),
        ("tools/call", json!({})),
        ("tools/call", json!({ "name": 1 })),
        ("tools/call", json!({ "name": "nope" })),
        ("tools/call", json!({ "name": "beam_version", "arguments": [] })),
        ("tools/call", json!({ "name": "beam_version", "arguments": null })),
        ("tools/call", json!({ "name": "beam_version", "task": {} })),
        ("tools/call", json!({ "name": "beam_version", "inputResponses": {} })),
        ("tools/call", json!({ "name": "beam_version", "requestState": "s" })),
        ("tools/call", json!({ "name": "beam_version", "_meta": { "progressToken": null } })),
        ("tools/call", json!({ "name": "beam_version", "_meta": { "progressToken": true } })),
        ("tools/call", json!({ "name": "beam_version", "_meta": { "progressToken": {} } })),
    ] {
        assert_eq!(c.code(&bare(method, &params)).await, -32602, "{method} {params}");
    }
    assert_eq!(
        c.code(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"beam_version","name":"beam_stats"}}"#
        )
        .await,
        -32602
    );
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"beam_version","arguments":{{"a":{}{}}}}}}}"#,
        "[".repeat(5000),
        "]".repeat(5000)
    );
    assert_eq!(c.code(&deep).await, -32602);

    let mut c = at(Stand::Modern).await;
    for (method, params) in [
        ("server/discover", json!({ "x": 1 })),
        ("tools/list", json!({ "cursor": "" })),
        ("tools/call", json!({ "name": "nope" })),
        ("tools/call", json!({ "name": "beam_version", "inputResponses": {} })),
        ("tools/call", json!({ "name": "beam_version", "requestState": "s" })),
        ("tools/call", json!({ "name": "beam_version", "x": 1 })),
    ] {
        assert_eq!(c.code(&marked(method, params.clone())).await, -32602, "{method} {params}");
    }
}

/// Unknown and malformed notifications get no reply in any state.
#[tokio::test(start_paused = true)]
async fn notifications_are_never_answered() {
    for stand in STANDS {
        let mut c = at(stand).await;
        for (method, params) in [
            ("notifications/unknown", json!({})),
            ("notifications/cancelled", json!({})),
            ("notifications/cancelled", json!({ "requestId": 1.5 })),
            ("notifications/cancelled", json!({ "requestId": null })),
            ("notifications/cancelled", json!({ "requestId": 77 })),
            ("notifications/cancelled", json!([])),
            ("notifications/roots/list_changed", json!({})),
            ("ping", json!({})),
            ("tools/call", json!({ "name": "beam_version" })),
        ] {
            c.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
        }
        c.quiet(std::time::Duration::from_secs(5)).await;
    }
}
