//! One line in: a request, a notification, or why it is neither. Envelopes are closed; nothing here depends on what came before.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::id::Id;
use crate::rpc_error::RpcError;

/// A well-formed message.
#[derive(Debug)]
pub(crate) enum Inbound {
    /// It wants an answer.
    Request {
        /// Under this id.
        id: Id,
        /// Its method.
        method: String,
        /// Its parameters.
        params: Params,
    },
    /// It wants none.
    Notification {
        /// Its method.
        method: String,
        /// Its parameters.
        params: Params,
    },
}

/// A message that is none, with the id to answer under where one could be read.
#[derive(Debug)]
pub(crate) struct RefusedMessage {
    /// The id.
    pub(crate) id: Option<Id>,
    /// Why.
    pub(crate) error: RpcError,
}

/// What a line holds.
pub(crate) type Message = Result<Inbound, RefusedMessage>;

/// The id that a message is answered under, where there is one.
pub(crate) fn id_of(message: &Message) -> Option<&Id> {
    match message {
        Ok(Inbound::Request { id, .. }) => Some(id),
        Ok(Inbound::Notification { .. }) => None,
        Err(RefusedMessage { id, .. }) => id.as_ref(),
    }
}

/// Parameters as sent.
#[derive(Debug)]
pub(crate) enum Params {
    /// There are none.
    Absent,
    /// Members in order, their values unread.
    Object(Vec<(String, Box<RawValue>)>),
    /// Something that parameters must not be, and why.
    Broken(&'static str),
}

/// Members of an object, in order, with duplicates.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        d.deserialize_map(Collect)
    }
}

/// The members of a JSON object; `None` if it is another value or has a member twice.
pub(crate) fn members(raw: &RawValue) -> Option<Vec<(String, Box<RawValue>)>> {
    let Members(members) = serde_json::from_str(raw.get()).ok()?;
    (!has_twins(&members)).then_some(members)
}

fn has_twins(members: &[(String, Box<RawValue>)]) -> bool {
    // Objects of the protocol have a handful of members; anything that opens many is refused by name afterwards.
    members.iter().enumerate().any(|(n, (name, _))| members[..n.min(64)].iter().any(|(other, _)| other == name))
}

/// Reads a line without its terminator.
pub(crate) fn parse(line: &[u8]) -> Message {
    let nameless = |error| RefusedMessage { id: None, error };
    let text = std::str::from_utf8(line).map_err(|e| nameless(RpcError::NotJson(e.to_string())))?;
    let raw: &RawValue = serde_json::from_str(text).map_err(|e| nameless(RpcError::NotJson(e.to_string())))?;
    let bad = |id: Option<Id>, why: String| RefusedMessage { id, error: RpcError::Envelope(why) };
    if !raw.get().starts_with('{') {
        return Err(bad(None, "the line must hold one JSON object; batches are not served".into()));
    }
    let Members(members) = serde_json::from_str(raw.get()).map_err(|e| bad(None, e.to_string()))?;

    let mut ids = members.iter().filter(|(name, _)| name == "id").map(|(_, value)| value);
    let id = match (ids.next(), ids.next()) {
        (None, _) => None,
        (Some(value), None) => {
            Some(Id::parse(value).ok_or_else(|| bad(None, "`id` must be a string or a whole number".into()))?)
        }
        (Some(_), Some(_)) => return Err(bad(None, "`id` occurs twice".into())),
    };
    if has_twins(&members) {
        return Err(bad(id, "a member occurs twice".into()));
    }
    let (mut version, mut method, mut params) = (None, None, Params::Absent);
    let mut strange = Vec::new();
    for (name, value) in members {
        match name.as_str() {
            "jsonrpc" => version = Some(value),
            "method" => method = Some(value),
            "params" => params = Params::new(&value),
            "id" => {}
            _ => strange.push(name),
        }
    }
    if method.is_none() && strange.iter().any(|name| name == "result" || name == "error") {
        return Err(bad(id, "this server sends no requests, so it takes no responses".into()));
    }
    if let Some(name) = strange.first() {
        let shown: String = name.chars().take(60).collect();
        return Err(bad(id, format!("undeclared member `{shown}`")));
    }
    let decoded = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).ok();
    if version.as_deref().and_then(decoded).as_deref() != Some("2.0") {
        return Err(bad(id, "`jsonrpc` must be \"2.0\"".into()));
    }
    let Some(method) = method.as_deref().and_then(decoded) else {
        return Err(bad(id, "`method` must be there and a string".into()));
    };
    Ok(match id {
        Some(id) => Inbound::Request { id, method, params },
        None => Inbound::Notification { method, params },
    })
}

impl Params {
    fn new(raw: &RawValue) -> Self {
        match serde_json::from_str::<Members>(raw.get()) {
            Ok(Members(members)) if has_twins(&members) => Self::Broken("a member of `params` occurs twice"),
            Ok(Members(members)) => Self::Object(members),
            Err(_) => Self::Broken("`params` must be an object"),
        }
    }

    /// A member's value.
    pub(crate) fn get(&self, name: &str) -> Option<&RawValue> {
        match self {
            Self::Object(members) => members.iter().find(|(n, _)| n == name).map(|(_, value)| &**value),
            Self::Absent | Self::Broken(_) => None,
        }
    }

    /// Checks that there are no other members than these, and that `_meta`, where it is one of them, is an object.
    pub(crate) fn only(&self, allowed: &[&str]) -> Result<(), RpcError> {
        match self {
            Self::Absent => Ok(()),
            Self::Broken(why) => Err(RpcError::Params((*why).to_owned())),
            Self::Object(members) => match members.iter().find(|(name, _)| !allowed.contains(&name.as_str())) {
                Some((name, _)) => {
                    let shown: String = name.chars().take(60).collect();
                    Err(RpcError::Params(format!(
                        "undeclared parameter `{shown}`; this method takes {}",
                        allowed.join(", ")
                    )))
                }
                None => Ok(()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(line: &str, expect: &Expect) {
        let text = match parse(line.as_bytes()) {
            Ok(Inbound::Request { id, method, .. }) => format!("request {id:?} {method}"),
            Ok(Inbound::Notification { method, .. }) => format!("notification {method}"),
            Err(RefusedMessage { id, error }) => format!("{id:?} {error}"),
        };
        expect.assert_eq(&text);
    }

    #[test]
    fn envelopes_are_closed() {
        check(r#"{"jsonrpc":"2.0","id":1.0,"method":"m"}"#, &expect!["request 1.0 m"]);
        check(r#" {"method":"m","jsonrpc":"2.0"} "#, &expect!["notification m"]);
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"m","x":1}"#,
            &expect!["Some(1) not a JSON-RPC request or notification: undeclared member `x`"],
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"m","result":{}}"#,
            &expect!["Some(1) not a JSON-RPC request or notification: undeclared member `result`"],
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            &expect![
                "Some(1) not a JSON-RPC request or notification: this server sends no requests, so it takes no responses"
            ],
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"error":{}}"#,
            &expect![
                "Some(1) not a JSON-RPC request or notification: this server sends no requests, so it takes no responses"
            ],
        );
        check(
            r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
            &expect!["None not a JSON-RPC request or notification: `id` must be a string or a whole number"],
        );
        check(
            r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#,
            &expect!["None not a JSON-RPC request or notification: `id` must be a string or a whole number"],
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#,
            &expect!["None not a JSON-RPC request or notification: `id` occurs twice"],
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"m","method":"m"}"#,
            &expect!["Some(1) not a JSON-RPC request or notification: a member occurs twice"],
        );
        check(
            r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
            &expect![[r#"Some(1) not a JSON-RPC request or notification: `jsonrpc` must be "2.0""#]],
        );
        check(
            r#"{"id":1,"method":"m"}"#,
            &expect![[r#"Some(1) not a JSON-RPC request or notification: `jsonrpc` must be "2.0""#]],
        );
        check(
            r#"{"jsonrpc":"2.0","id":1}"#,
            &expect!["Some(1) not a JSON-RPC request or notification: `method` must be there and a string"],
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
            &expect!["Some(1) not a JSON-RPC request or notification: `method` must be there and a string"],
        );
        check(
            "[]",
            &expect![
                "None not a JSON-RPC request or notification: the line must hold one JSON object; batches are not served"
            ],
        );
        check(
            "7",
            &expect![
                "None not a JSON-RPC request or notification: the line must hold one JSON object; batches are not served"
            ],
        );
        check("", &expect!["None the line is not JSON: EOF while parsing a value at line 1 column 0"]);
        check("{", &expect!["None the line is not JSON: EOF while parsing an object at line 1 column 1"]);
        check("{} {}", &expect!["None the line is not JSON: trailing characters at line 1 column 4"]);
    }

    #[test]
    fn any_bytes_are_an_answer() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":{}1{}}}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert!(parse(deep.as_bytes()).is_ok());
        assert!(parse(b"\xff{}").is_err());
    }
}
