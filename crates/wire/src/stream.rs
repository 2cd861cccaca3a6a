//! Messages on a connection: any number of events, then exactly one response (broker protocol section 6).

use serde::{Deserialize, Serialize};

use crate::observed::{Progress, StreamDiagnostic};
use crate::response::Response;

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "payload", rename_all = "camelCase")]
pub enum Event {
    /// Lean moved on.
    FileProgress(Progress),
    /// Lean reported something.
    Diagnostic(StreamDiagnostic),
    /// The end of the request.
    Response(Response),
}

/// One message on the connection.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamMessage {
    /// What happened.
    pub event: Event,
    /// Echo of the request's id.
    pub client_request_id: Option<String>,
}

impl StreamMessage {
    /// The frame body: `kind`, `payload`, `clientRequestId`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Out<'a> {
            #[serde(flatten)]
            event: &'a Event,
            #[serde(skip_serializing_if = "Option::is_none")]
            client_request_id: Option<&'a str>,
        }
        let out = Out { event: &self.event, client_request_id: self.client_request_id.as_deref() };
        // Every type in here has string keys and finite numbers.
        serde_json::to_vec(&out).unwrap_or_else(|e| unreachable!("stream messages serialise: {e}"))
    }

    /// Reads a frame body; unknown keys and kinds are refused (W1).
    pub fn decode(body: &[u8]) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        struct In {
            kind: String,
            payload: serde_json::Value,
            #[serde(default)]
            client_request_id: Option<String>,
        }
        let In { kind, payload, client_request_id } = serde_json::from_slice(body)?;
        let event = match kind.as_str() {
            "fileProgress" => Event::FileProgress(serde_json::from_value(payload)?),
            "diagnostic" => Event::Diagnostic(serde_json::from_value(payload)?),
            "response" => Event::Response(serde_json::from_value(payload)?),
            other => {
                return Err(serde::de::Error::custom(format!("unknown kind \"{other}\"")));
            }
        };
        Ok(Self { event, client_request_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_round_trip_with_one_payload_key() {
        let text = r#"{"kind":"fileProgress","payload":{"updates":1,"done":false,"rangeStartLine":1,"rangeEndLine":9},"clientRequestId":"q7"}"#;
        let m = StreamMessage::decode(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(m.encode()).unwrap(), text);
    }

    #[test]
    fn w1_stream_messages_are_closed() {
        for bad in [
            r#"{"kind":"progress","payload":{"updates":1,"done":false}}"#,
            r#"{"kind":"fileProgress","payload":{"updates":1,"done":false},"x":1}"#,
            r#"{"kind":"fileProgress","payload":{"updates":1,"done":false,"x":1}}"#,
            r#"{"kind":"response","payload":{"ok":true}}"#,
        ] {
            assert!(StreamMessage::decode(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
