//! A peer's behaviour as data. Steps are done in order; rules answer whatever else comes, at any time.
//!
//! ```json
//! { "ignore": ["initialize"],
//!   "rules": { "textDocument/hover": [ {"reply": {"contents": {"$from": "/params/position/line"}}} ] },
//!   "steps": [ {"expect": "textDocument/didOpen"},
//!              {"notify": ["$/lean/fileProgress", {"processing": []}]},
//!              {"expect": "m"}, {"reply": 1}, {"reply": 1},
//!              {"exit": 2} ] }
//! ```
//!
//! `{"$from": pointer}` anywhere in an answer is replaced by that part of the message being answered. After the last step the rules
//! go on until the connection is closed or `exit` comes. A message that no step waits for and no rule or `ignore` names
//! ends the script with an error: a script that is out of step with its client must not pass.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::peer::{Message, Peer, PeerError};

/// One thing the peer does.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Waits for this method; rules and `ignore` apply to what comes before it.
    Expect(String),
    /// Answers the last request expected or being handled. Doing it twice answers twice.
    Reply(Value),
    /// Answers it with `[code, message]`.
    ReplyError(i64, String),
    /// Sends a notification `[method, params]`.
    Notify(String, Value),
    /// Sends a request `[id, method, params]`; its answer is ignored.
    Ask(Value, String, Value),
    /// Lets time pass, in milliseconds.
    Delay(u64),
    /// Writes this text as it is, outside any frame.
    Garbage(String),
    /// Announces a frame of so many bytes and writes none of them.
    HugeFrame(u64),
    /// Writes the first so many bytes of a frame holding the value.
    HalfFrame(usize, Value),
    /// Writes a line to stderr.
    Stderr(String),
    /// Starts a thread that is busy for ever, and goes on.
    Burn,
    /// Reads everything and does nothing, until the connection is closed.
    Never,
    /// Stops reading, for ever.
    Stall,
    /// Ends with this exit code.
    Exit(i32),
}

/// A peer's behaviour.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Done in order.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Done whenever a message of this method comes that no step waits for.
    #[serde(default)]
    pub rules: BTreeMap<String, Vec<Step>>,
    /// Methods that are dropped silently; answers to the peer's requests always are.
    #[serde(default)]
    pub ignore: Vec<String>,
}

/// What a step led to.
enum Next {
    Go,
    Exit(i32),
}

/// Follows the script; the result is the exit code. At the end of the connection it is 1, after `exit` 0.
pub async fn run(
    script: &Script,
    peer: &mut Peer,
    stderr: &mut (impl AsyncWrite + Send + Unpin),
) -> Result<i32, PeerError> {
    let mut last = None;
    for step in &script.steps {
        if let Step::Expect(method) = step {
            loop {
                let Some(message) = peer.next().await? else { return Err(PeerError::Closed(format!("`{method}`"))) };
                if message.method() == Some(method) {
                    last = Some(message);
                    break;
                }
                if let Next::Exit(code) = react(script, peer, stderr, &message).await? {
                    return Ok(code);
                }
            }
        } else if let Next::Exit(code) = act(step, peer, stderr, last.as_ref()).await? {
            return Ok(code);
        }
    }
    while let Some(message) = peer.next().await? {
        if let Next::Exit(code) = react(script, peer, stderr, &message).await? {
            return Ok(code);
        }
    }
    Ok(1)
}

async fn react(
    script: &Script,
    peer: &mut Peer,
    stderr: &mut (impl AsyncWrite + Send + Unpin),
    message: &Message,
) -> Result<Next, PeerError> {
    let Some(method) = message.method() else { return Ok(Next::Go) };
    if let Some(steps) = script.rules.get(method) {
        for step in steps {
            if let Step::Expect(_) = step {
                return Err(PeerError::Script(format!("the rule for `{method}` waits for a message")));
            }
            if let Next::Exit(code) = act(step, peer, stderr, Some(message)).await? {
                return Ok(Next::Exit(code));
            }
        }
        return Ok(Next::Go);
    }
    if method == "exit" {
        return Ok(Next::Exit(0));
    }
    if script.ignore.iter().any(|it| it == method) {
        return Ok(Next::Go);
    }
    Err(PeerError::Unexpected { expected: "a message the script knows".into(), got: message.to_json().to_string() })
}

async fn act(
    step: &Step,
    peer: &mut Peer,
    stderr: &mut (impl AsyncWrite + Send + Unpin),
    about: Option<&Message>,
) -> Result<Next, PeerError> {
    let request = || about.ok_or_else(|| PeerError::Script("there is no request to answer".into()));
    match step {
        Step::Expect(_) => {}
        Step::Reply(result) => peer.reply(request()?, fill(result, request()?)).await?,
        Step::ReplyError(code, text) => peer.reply_error(request()?, *code, text).await?,
        Step::Notify(method, params) => {
            let params = about.map_or_else(|| params.clone(), |about| fill(params, about));
            peer.notify(method, params).await?;
        }
        Step::Ask(id, method, params) => peer.ask(id, method, params).await?,
        Step::Delay(ms) => tokio::time::sleep(Duration::from_millis(*ms)).await,
        Step::Garbage(text) => peer.raw(text.as_bytes()).await?,
        Step::HugeFrame(size) => peer.raw(format!("Content-Length: {size}\r\n\r\n").as_bytes()).await?,
        Step::HalfFrame(keep, value) => peer.half_frame(value, *keep).await?,
        Step::Stderr(line) => {
            stderr.write_all(format!("{line}\n").as_bytes()).await?;
            stderr.flush().await?;
        }
        Step::Burn => drop(std::thread::spawn(|| {
            loop {
                std::hint::spin_loop();
            }
        })),
        Step::Never => {
            peer.until_closed().await?;
            return Ok(Next::Exit(1));
        }
        Step::Stall => std::future::pending().await,
        Step::Exit(code) => return Ok(Next::Exit(*code)),
    }
    Ok(Next::Go)
}

/// Replaces every `{"$from": pointer}` by that part of the message; a pointer to nothing becomes `null`.
fn fill(template: &Value, message: &Message) -> Value {
    match template {
        Value::Object(map) => match map.get("$from").and_then(Value::as_str) {
            Some(pointer) if map.len() == 1 => message.to_json().pointer(pointer).cloned().unwrap_or(Value::Null),
            _ => Value::Object(map.iter().map(|(key, value)| (key.clone(), fill(value, message))).collect()),
        },
        Value::Array(items) => Value::Array(items.iter().map(|item| fill(item, message)).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Runs a script against messages given as JSON; returns the exit code or error, and what the peer wrote.
    async fn play(script: Value, input: &[Value]) -> (Result<i32, String>, Vec<Value>) {
        let script: Script = serde_json::from_value(script).unwrap();
        let mut bytes = Vec::new();
        for message in input {
            beam_base::frame::write_lsp(&mut bytes, message.to_string().as_bytes()).await.unwrap();
        }
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let mut peer = Peer::new(std::io::Cursor::new(bytes), theirs);
        let outcome = run(&script, &mut peer, &mut Vec::new()).await.map_err(|error| error.to_string());
        drop(peer);
        let mut ours = tokio::io::BufReader::new(ours);
        let mut wrote = Vec::new();
        while let Some(body) = beam_base::frame::read_lsp(&mut ours, 1 << 20).await.unwrap() {
            wrote.push(serde_json::from_slice(&body).unwrap());
        }
        (outcome, wrote)
    }

    #[tokio::test]
    async fn steps_and_rules_interleave() {
        let script = json!({
            "ignore": ["note"],
            "rules": {"echo": [{"reply": {"got": {"$from": "/params/x"}, "missing": {"$from": "/no"}}}]},
            "steps": [{"expect": "first"}, {"reply": 1}, {"reply": 2}, {"expect": "second"}, {"exit": 7}]
        });
        let input = [
            json!({"method": "note", "params": {}}),
            json!({"id": 1, "method": "echo", "params": {"x": [3]}}),
            json!({"id": 2, "method": "first", "params": {}}),
            json!({"id": 3, "method": "second", "params": {}}),
        ];
        let (outcome, wrote) = play(script, &input).await;
        assert_eq!(outcome, Ok(7));
        assert_eq!(
            wrote,
            [
                json!({"jsonrpc": "2.0", "id": 1, "result": {"got": [3], "missing": null}}),
                json!({"jsonrpc": "2.0", "id": 2, "result": 1}),
                json!({"jsonrpc": "2.0", "id": 2, "result": 2}),
            ]
        );
    }

    #[tokio::test]
    async fn a_message_the_script_does_not_know_fails_it() {
        let (outcome, _) = play(json!({"steps": [{"expect": "a"}]}), &[json!({"method": "b", "params": {}})]).await;
        assert!(outcome.unwrap_err().contains("\"b\""));
        let (outcome, _) = play(json!({"steps": [{"expect": "a"}]}), &[]).await;
        assert!(outcome.unwrap_err().contains("`a`"));
        assert!(serde_json::from_value::<Script>(json!({"step": []})).is_err());
    }

    #[tokio::test]
    async fn exit_and_end_of_input_end_it() {
        assert_eq!(play(json!({}), &[json!({"method": "exit"})]).await.0, Ok(0));
        assert_eq!(play(json!({}), &[]).await.0, Ok(1));
    }
}
