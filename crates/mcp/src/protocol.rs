//! The protocol's state machine: one message in, one decision out.
//!
//! Owns the family of the stream ([`Family`], changed in [`Protocol::request`] and [`Protocol::notification`] only) and the legacy
//! log threshold. Does no IO, knows no workspace and keeps nothing of a request's metadata (M3).
//!
//! A request is *modern* if it is `server/discover` or carries a reserved `_meta` key, else *bare*.
//!
//! ```text
//!              modern discover   other modern request       bare initialize      other bare request
//! Undecided    answered, stays   a supported one: Modern    valid one: Legacy    refused
//! Modern       answered          answered                   refused              refused: metadata is missing
//! Legacy       refused           refused                    refused              answered, once initialized
//! ```

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::envelope::{Inbound, Message, Params, RefusedMessage};
use crate::id::{Id, IdKey};
use crate::level::{LogGate, LogLevel, SharedLevel};
use crate::meta::{MISSING, RequestMeta, RequestOptions, check_identity};
use crate::rpc_error::RpcError;
use crate::tools::{Tool, find};

/// Method of a cancellation.
pub(crate) const CANCELLED: &str = "notifications/cancelled";

/// Which protocol the stream speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// Nobody has said yet.
    Undecided,
    /// 2026-07-28.
    Modern,
    /// 2025-11-25, and whether `notifications/initialized` has come.
    Legacy { initialized: bool },
}

/// Shape of the results of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Revision {
    /// Stamped with result type and server identity.
    Modern,
    /// Bare.
    Legacy,
}

/// What to do about a message.
#[derive(Debug)]
#[must_use]
pub(crate) enum Decision {
    /// Nothing.
    Silence,
    /// Answer at once.
    Answer(ImmediateAnswer),
    /// Run a tool.
    Call(Box<ToolCall>),
    /// Cancel the call with this id, if there is one.
    Cancel(IdKey),
}

/// An answer that needs no work.
#[derive(Debug)]
pub(crate) struct ImmediateAnswer {
    /// Under this id; `None` where none could be read.
    pub(crate) id: Option<Id>,
    /// What.
    pub(crate) outcome: Result<FixedResult, RpcError>,
}

/// Results that depend on nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FixedResult {
    /// The answer to `initialize`.
    Initialized,
    /// The answer to `server/discover`.
    Discovery,
    /// The answer to `tools/list`.
    Tools(Revision),
    /// The answer to `ping` and `logging/setLevel`.
    Empty,
}

/// A call of a known tool.
#[derive(Debug)]
pub(crate) struct ToolCall {
    /// Its id.
    pub(crate) id: Id,
    /// The tool.
    pub(crate) tool: &'static Tool,
    /// Arguments, not looked at.
    pub(crate) arguments: Map<String, Value>,
    /// Progress goes out under this token.
    pub(crate) token: Option<Box<RawValue>>,
    /// Shape of the result.
    pub(crate) revision: Revision,
    /// Which logs may go out.
    pub(crate) log: LogGate,
}

/// The state machine of one stream.
#[derive(Debug)]
pub(crate) struct Protocol {
    family: Family,
    legacy_level: SharedLevel,
}

impl Protocol {
    /// Before the first line.
    pub(crate) fn new() -> Self {
        Self { family: Family::Undecided, legacy_level: SharedLevel::default() }
    }

    /// Decides about one message. Whether its id is in use is not asked here.
    pub(crate) fn message(&mut self, message: Message) -> Decision {
        match message {
            Ok(Inbound::Request { id, method, params }) => match self.request(&method, &params) {
                Ok(ServedRequest::FixedResult(fact)) => {
                    Decision::Answer(ImmediateAnswer { id: Some(id), outcome: Ok(fact) })
                }
                Ok(ServedRequest::Call { revision, tool, arguments, options }) => {
                    let log = match revision {
                        Revision::Modern => LogGate::Request(options.log_level),
                        Revision::Legacy => LogGate::Legacy(self.legacy_level.clone()),
                    };
                    Decision::Call(Box::new(ToolCall { id, tool, arguments, token: options.token, revision, log }))
                }
                Err(error) => Decision::Answer(ImmediateAnswer { id: Some(id), outcome: Err(error) }),
            },
            Ok(Inbound::Notification { method, params }) => self.notification(&method, &params),
            Err(RefusedMessage { id, error }) => Decision::Answer(ImmediateAnswer { id, outcome: Err(error) }),
        }
    }

    fn request(&mut self, method: &str, params: &Params) -> Result<ServedRequest, RpcError> {
        let meta = RequestMeta::of(params);
        if method == "server/discover" || meta.is_modern() {
            if matches!(meta, RequestMeta::Broken) {
                meta.options()?;
            }
            meta.check_modern()?;
            self.modern(method, params, &meta)
        } else {
            self.bare(method, params, &meta)
        }
    }

    /// A request whose metadata is complete and of the served version.
    fn modern(&mut self, method: &str, params: &Params, meta: &RequestMeta) -> Result<ServedRequest, RpcError> {
        if let Family::Legacy { .. } = self.family {
            return Err(RpcError::OutOfPlace(
                "this stream was opened with `initialize` and speaks 2025-11-25; send requests without 2026-07-28 metadata",
            ));
        }
        match method {
            "server/discover" => {
                params.only(&["_meta"])?;
                meta.options()?;
                // Neutral: the client may still choose either family (M2).
                Ok(ServedRequest::FixedResult(FixedResult::Discovery))
            }
            "tools/list" => {
                self.family = Family::Modern;
                list(params, meta, Revision::Modern)
            }
            "tools/call" => {
                self.family = Family::Modern;
                call(params, meta, Revision::Modern)
            }
            other => Err(RpcError::UnknownMethod(shown(other))),
        }
    }

    fn bare(&mut self, method: &str, params: &Params, meta: &RequestMeta) -> Result<ServedRequest, RpcError> {
        match (self.family, method) {
            (Family::Undecided, "initialize") => {
                check_initialize(params, meta)?;
                self.family = Family::Legacy { initialized: false };
                Ok(ServedRequest::FixedResult(FixedResult::Initialized))
            }
            (Family::Undecided, _) => Err(RpcError::OutOfPlace(
                "send `initialize` first (2025-11-25), or put 2026-07-28 metadata into params._meta of every request",
            )),
            (Family::Modern, "initialize") => Err(RpcError::OutOfPlace(
                "this stream speaks 2026-07-28, which has no `initialize`; every request carries its metadata",
            )),
            (Family::Modern, _) => Err(RpcError::Params(MISSING.to_owned())),
            (Family::Legacy { .. }, "initialize") => Err(RpcError::OutOfPlace("this stream is initialized already")),
            (Family::Legacy { .. }, "ping") => {
                params.only(&["_meta"])?;
                meta.options()?;
                Ok(ServedRequest::FixedResult(FixedResult::Empty))
            }
            (Family::Legacy { .. }, "logging/setLevel") => {
                self.legacy_level.set(wanted_level(params, meta)?);
                Ok(ServedRequest::FixedResult(FixedResult::Empty))
            }
            (Family::Legacy { initialized: false }, _) => {
                Err(RpcError::OutOfPlace("send `notifications/initialized` before ordinary requests"))
            }
            (Family::Legacy { initialized: true }, "tools/list") => list(params, meta, Revision::Legacy),
            (Family::Legacy { initialized: true }, "tools/call") => call(params, meta, Revision::Legacy),
            (Family::Legacy { initialized: true }, other) => Err(RpcError::UnknownMethod(shown(other))),
        }
    }

    /// Notifications are never answered; what is wrong with one is a reason to ignore it.
    fn notification(&mut self, method: &str, params: &Params) -> Decision {
        match (self.family, method) {
            (Family::Legacy { initialized: false }, "notifications/initialized") => {
                if params.only(&["_meta"]).is_ok() && !matches!(RequestMeta::of(params), RequestMeta::Broken) {
                    self.family = Family::Legacy { initialized: true };
                }
                Decision::Silence
            }
            (_, CANCELLED) => cancelled(params).map_or(Decision::Silence, Decision::Cancel),
            _ => Decision::Silence,
        }
    }
}

/// A request that is served.
enum ServedRequest {
    FixedResult(FixedResult),
    Call { revision: Revision, tool: &'static Tool, arguments: Map<String, Value>, options: RequestOptions },
}

fn shown(method: &str) -> String {
    method.chars().take(60).collect()
}

fn list(params: &Params, meta: &RequestMeta, revision: Revision) -> Result<ServedRequest, RpcError> {
    params.only(&["cursor", "_meta"])?;
    meta.options()?;
    if params.get("cursor").is_some() {
        return Err(RpcError::Params(
            "the list has one page, so no cursor is valid; send tools/list without one".to_owned(),
        ));
    }
    Ok(ServedRequest::FixedResult(FixedResult::Tools(revision)))
}

fn call(params: &Params, meta: &RequestMeta, revision: Revision) -> Result<ServedRequest, RpcError> {
    params.only(&["name", "arguments", "_meta", "inputResponses", "requestState"])?;
    if let Some(name) = ["inputResponses", "requestState"].into_iter().find(|name| params.get(name).is_some()) {
        return Err(RpcError::Params(format!(
            "`{name}` continues a call that this server never interrupted: it returns no `input_required` result"
        )));
    }
    let options = meta.options()?;
    let name: String = field(params, "name", "a string")?
        .ok_or_else(|| RpcError::Params("`name` of the tool is missing".to_owned()))?;
    let arguments = field(params, "arguments", "an object")?.unwrap_or_default();
    let tool = find(&name)
        .ok_or_else(|| RpcError::Params(format!("unknown tool `{}`; tools/list names them", shown(&name))))?;
    Ok(ServedRequest::Call { revision, tool, arguments, options })
}

fn field<T: serde::de::DeserializeOwned>(params: &Params, name: &str, what: &str) -> Result<Option<T>, RpcError> {
    params
        .get(name)
        .map(|raw| serde_json::from_str(raw.get()).map_err(|_| RpcError::Params(format!("`{name}` must be {what}"))))
        .transpose()
}

/// Everything is checked before the state changes. Any proposed version will do: the answer says which one is spoken.
fn check_initialize(params: &Params, meta: &RequestMeta) -> Result<(), RpcError> {
    params.only(&["protocolVersion", "capabilities", "clientInfo", "_meta"])?;
    meta.options()?;
    let missing = |name: &str| RpcError::Params(format!("initialize: `{name}` is missing"));
    let _proposed: String = field(params, "protocolVersion", "a string")?.ok_or_else(|| missing("protocolVersion"))?;
    let _open: Map<String, Value> =
        field(params, "capabilities", "an object")?.ok_or_else(|| missing("capabilities"))?;
    let client: Map<String, Value> = field(params, "clientInfo", "an object")?.ok_or_else(|| missing("clientInfo"))?;
    check_identity(&client).map_err(|why| RpcError::Params(format!("initialize: clientInfo: {why}")))
}

fn wanted_level(params: &Params, meta: &RequestMeta) -> Result<LogLevel, RpcError> {
    params.only(&["level", "_meta"])?;
    meta.options()?;
    field(params, "level", "one of debug, info, notice, warning, error, critical, alert, emergency")?
        .ok_or_else(|| RpcError::Params("logging/setLevel: `level` is missing".to_owned()))
}

/// The id that a cancellation is about; `None` if it is malformed.
pub(crate) fn cancelled(params: &Params) -> Option<IdKey> {
    params.only(&["requestId", "reason", "_meta"]).ok()?;
    let _why: Option<String> = field(params, "reason", "a string").ok()?;
    if matches!(RequestMeta::of(params), RequestMeta::Broken) {
        return None;
    }
    Id::parse(params.get("requestId")?).map(|id| id.key().clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::parse;
    use proptest::prelude::*;

    /// Pieces of which almost-messages are made.
    const PIECES: [&str; 22] = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"jsonrpc\":\"2.0\"",
        "\"id\":1",
        "\"id\":\"a\"",
        "\"id\":1.5",
        "\"method\":\"tools/call\"",
        "\"method\":\"initialize\"",
        "\"method\":\"notifications/cancelled\"",
        "\"params\":",
        "{\"_meta\":{}}",
        "\"name\":\"lean_sync\"",
        "\"requestId\":1",
        "null",
        "1e999",
        "\"\\ud800\"",
        " ",
        "\u{1F600}",
    ];

    proptest! {
        /// Whatever comes in, something sensible is decided, and an answer is one line of JSON.
        #[test]
        fn any_line_gives_a_step(parts in prop::collection::vec(0..PIECES.len(), 0..14), junk in prop::collection::vec(any::<u8>(), 0..6)) {
            let mut line: Vec<u8> = parts.iter().flat_map(|n| PIECES[*n].bytes()).collect();
            line.extend(junk);
            if let Decision::Answer(answer) = Protocol::new().message(parse(&line)) {
                let frame = crate::reply::answer(&answer);
                prop_assert_eq!(frame.iter().filter(|b| **b == b'\n').count(), 1);
                prop_assert!(serde_json::from_slice::<Value>(&frame).is_ok());
            }
        }
    }
}
