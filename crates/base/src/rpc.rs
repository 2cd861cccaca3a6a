//! JSON-RPC 2.0 envelopes. Payloads stay raw until somebody who knows the method asks for them.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A request id exactly as it was spelled (invariant B4): `1`, `1.0` and `"1"` are three ids.
#[derive(Clone)]
pub struct RequestId(Box<RawValue>);

impl RequestId {
    /// A numeric id of our own.
    #[must_use]
    pub fn from_u64(n: u64) -> Self {
        // Decimal digits are always a JSON value.
        Self(RawValue::from_string(n.to_string()).unwrap_or_else(|_| unreachable!()))
    }

    /// The id if it is one of ours, as made by [`RequestId::from_u64`].
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        let text = self.0.get();
        let n: u64 = text.parse().ok()?;
        // `007` and `+7` parse but are not how we spell it.
        (n.to_string() == text).then_some(n)
    }

    /// The JSON text.
    #[must_use]
    pub fn as_json(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for RequestId {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}
impl Eq for RequestId {}
impl std::hash::Hash for RequestId {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.get().hash(state);
    }
}
impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.get())
    }
}
impl Serialize for RequestId {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(s)
    }
}
impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(d).map(Self)
    }
}

/// The error member of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RpcError {
    /// JSON-RPC or LSP error number.
    pub code: i64,
    /// For people.
    pub message: String,
    /// Whatever the peer attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

/// What arrived: one JSON-RPC message, its payload still raw.
#[derive(Debug)]
pub enum Incoming {
    /// The peer asks; it expects an answer under `id`.
    Request {
        /// The peer's id.
        id: RequestId,
        /// Method name.
        method: String,
        /// Parameters as sent.
        params: Option<Box<RawValue>>,
    },
    /// The peer tells.
    Notification {
        /// Method name.
        method: String,
        /// Parameters as sent.
        params: Option<Box<RawValue>>,
    },
    /// The peer answers us. A missing id (the peer could not read ours) is `None`.
    Response {
        /// Our id.
        id: Option<RequestId>,
        /// Result or error.
        outcome: Result<Box<RawValue>, RpcError>,
    },
}

/// A message that is JSON but not JSON-RPC, or not JSON at all.
#[derive(Debug, thiserror::Error)]
pub enum BadMessage {
    /// Not JSON, or fields of the wrong type.
    #[error("not a JSON-RPC message: {0}")]
    Json(#[from] serde_json::Error),
    /// Neither method nor result nor error, or several of them.
    #[error("not a JSON-RPC message: {0}")]
    Shape(&'static str),
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<RpcError>,
}

impl Incoming {
    /// Reads one message body.
    pub fn parse(body: &[u8]) -> Result<Self, BadMessage> {
        let env: Envelope<'_> = serde_json::from_slice(body)?;
        let id = env.id.filter(|id| id.get() != "null").map(|id| RequestId(id.to_owned()));
        let params = env.params.map(ToOwned::to_owned);
        // `"result": null` is a result, and the derive reads it as absent; the raw text decides.
        let has_null_result = env.method.is_none() && env.result.is_none() && env.error.is_none();
        match (env.method, id, env.result, env.error) {
            (Some(method), Some(id), None, None) => Ok(Self::Request { id, method, params }),
            (Some(method), None, None, None) => Ok(Self::Notification { method, params }),
            (None, id, Some(result), None) => Ok(Self::Response { id, outcome: Ok(result.to_owned()) }),
            (None, id, None, Some(error)) => Ok(Self::Response { id, outcome: Err(error) }),
            (None, Some(id), None, None) if has_null_result && has_key(body, "result") => {
                Ok(Self::Response { id: Some(id), outcome: Ok(RawValue::NULL.to_owned()) })
            }
            (None, _, None, None) => Err(BadMessage::Shape("neither method, result nor error")),
            _ => Err(BadMessage::Shape("method, result and error exclude each other")),
        }
    }
}

/// Whether the top-level object has the key, whatever its value.
fn has_key(body: &[u8], key: &str) -> bool {
    serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(body).is_ok_and(|m| m.contains_key(key))
}

/// What we send.
#[derive(Serialize)]
pub struct Outgoing<'a, P: Serialize> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RequestId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<P>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RpcError>,
}

/// The body of a request.
pub fn request(id: &RequestId, method: &str, params: impl Serialize) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Outgoing {
        jsonrpc: "2.0",
        id: Some(id),
        method: Some(method),
        params: Some(params),
        result: None,
        error: None,
    })
}

/// The body of a notification.
pub fn notification(method: &str, params: impl Serialize) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Outgoing {
        jsonrpc: "2.0",
        id: None,
        method: Some(method),
        params: Some(params),
        result: None,
        error: None,
    })
}

/// The body of an answer to a request of the peer's.
pub fn response(id: &RequestId, outcome: Result<&RawValue, &RpcError>) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Outgoing::<()> {
        jsonrpc: "2.0",
        id: Some(id),
        method: None,
        params: None,
        result: outcome.ok(),
        error: outcome.err(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(s: &str) -> Incoming {
        Incoming::parse(s.as_bytes()).unwrap()
    }

    /// B4.
    #[test]
    fn b4_ids_round_trip_as_spelled() {
        for id in ["1", "\"1\"", "1.0", "1e0", "\"\\u0031\"", "-0"] {
            let Incoming::Request { id: got, .. } = parse(&format!(r#"{{"id":{id},"method":"m"}}"#)) else { panic!() };
            assert_eq!(got.as_json(), id);
            let out = response(&got, Ok(RawValue::NULL)).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":null}}"#));
        }
        assert_ne!(RequestId::from_u64(1), serde_json::from_str("\"1\"").unwrap());
        assert_eq!(RequestId::from_u64(7).as_u64(), Some(7));
        assert_eq!(serde_json::from_str::<RequestId>("\"7\"").unwrap().as_u64(), None);
    }

    #[test]
    fn null_result_is_a_result() {
        let Incoming::Response { outcome, .. } = parse(r#"{"id":4,"result":null}"#) else { panic!() };
        assert_eq!(outcome.unwrap().get(), "null");
    }

    #[test]
    fn shapes_that_are_no_message() {
        for bad in
            ["", "[]", "{}", r#"{"id":1}"#, r#"{"id":1,"result":1,"error":{"code":1,"message":""}}"#, r#"{"method":3}"#]
        {
            assert!(Incoming::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
