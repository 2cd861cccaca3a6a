//! `docs/mcp.md`, executed: the tour says what really happens.

use super::*;

const DOC: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mcp.md"));

/// A fenced block of the tour: what stands behind the fence, and the text.
pub fn blocks() -> Vec<(&'static str, &'static str)> {
    let tour = DOC.split("## A tour in two minutes").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut out = Vec::new();
    let mut rest = tour;
    while let Some((_, opened)) = rest.split_once("\n```") {
        let (info, body) = opened.split_once('\n').unwrap();
        let (text, after) = body.split_once("\n```").unwrap();
        out.push((info, text));
        rest = after;
    }
    out
}

/// A written call: the tool and its arguments, with the last handle where the tour says `next_handle`.
pub fn next_call(text: &str, handle: &Value) -> (String, Value) {
    let mut call: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    if call["arguments"]["handle"] == "next_handle" {
        call["arguments"]["handle"] = handle.clone();
    }
    (call["name"].as_str().unwrap().to_owned(), call["arguments"].take())
}

/// Everything that is written is there; `…` stands for any text. Lists have the written length.
fn shows(written: &Value, real: &Value, at: &str) {
    match (written, real) {
        (Value::Object(w), Value::Object(r)) => {
            for (key, value) in w {
                let real = r.get(key).unwrap_or_else(|| panic!("{at}: no `{key}` in {}", Value::from(r.clone())));
                shows(value, real, &format!("{at}.{key}"));
            }
        }
        (Value::Array(w), Value::Array(r)) => {
            assert_eq!(w.len(), r.len(), "{at}: {real}");
            for (n, (w, r)) in w.iter().zip(r).enumerate() {
                shows(w, r, &format!("{at}[{n}]"));
            }
        }
        (Value::String(w), Value::String(_)) if w == "…" => {}
        _ => assert_eq!(written, real, "{at}"),
    }
}

#[tokio::test]
async fn the_tour_in_the_documentation_is_true() {
    let mut beam = Beam::start();
    let root = beam.root.to_string();
    let (mut answer, mut handle) = ((Value::Null, false), Value::Null);
    let (mut calls, mut results) = (0, 0);
    for (info, text) in blocks() {
        let text = text.replace("/work/demo", &root);
        match info {
            "lean" => beam.write("Tour.lean", &format!("{text}\n")),
            "json call" => {
                let (tool, arguments) = next_call(&text, &handle);
                answer = beam.call(&tool, arguments).await;
                if answer.0["next_handle"].is_object() {
                    handle = answer.0["next_handle"].clone();
                }
                calls += 1;
            }
            "json result" | "json error" => {
                let written: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
                assert_eq!(answer.1, info == "json error", "{}", answer.0);
                shows(&written, &answer.0, &format!("step {calls}"));
                results += 1;
            }
            other => panic!("the tour has a block of an unknown kind: {other}"),
        }
    }
    assert_eq!(calls, results);
    assert!(calls >= 10, "the tour is gone");
    beam.end().await;
}

/// The table of tools in the documentation names every argument that the schemas have, and no other.
#[tokio::test]
async fn the_table_of_tools_is_the_schemas() {
    let mut client = Client::start(Engine::empty(EngineSettings::new(shared_env())), Options::default());
    let listed = client.ask(&client::modern(1, "tools/list", json!({}), json!({}))).await;
    let table = DOC.split("\n## Tools").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<&str> = table.lines().filter(|l| l.starts_with("| `")).collect();
    for tool in listed["result"]["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let row = rows.iter().find(|r| r.contains(&format!("`{name}`"))).unwrap_or_else(|| panic!("no row for {name}"));
        let arguments = row.split('|').nth(2).unwrap();
        let (required, optional) = arguments.split_once('[').unwrap_or((arguments, ""));
        let words = |text: &str| -> Vec<String> {
            text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .filter(|w| !w.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let schema = &tool["inputSchema"];
        let needed: Vec<String> = schema["required"]
            .as_array()
            .map(|r| r.iter().map(|v| v.as_str().unwrap().to_owned()).filter(|v| v != "workspace").collect())
            .unwrap_or_default();
        if !needed.is_empty() {
            assert_eq!(words(required), needed, "{name}");
        }
        // Told once, above the table.
        let common = |key: &str| ["workspace", "full_messages", "max_output_bytes"].contains(&key);
        for key in schema["properties"].as_object().unwrap().keys().filter(|k| !common(k) && !needed.contains(k)) {
            assert!(words(optional).contains(key), "{name}: [{key}]");
        }
    }
}
