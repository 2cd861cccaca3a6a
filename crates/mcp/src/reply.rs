//! Frames out: results, errors and notifications as lines. The only place that spells an outgoing message.

use beam_wire::StreamDiagnostic;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::id::Id;
use crate::level::LogLevel;
use crate::meta::SERVER;
use crate::protocol::{FixedResult, ImmediateAnswer, Revision};
use crate::rpc_error::{ErrorObject, LEGACY, MODERN, RpcError};
use crate::tools::{self, INSTRUCTIONS, SERVER_NAME, ToolOutput, VERSION};

/// How long a client may keep what discovery and `tools/list` said, in milliseconds: neither depends on user, workspace or time.
const TTL_MS: u32 = 3_600_000;

/// Largest frame we send, in bytes. Clients in use fail above 10 MiB.
pub(crate) const FRAME_CAP: usize = 10 * 1024 * 1024 - 4096;

/// One outgoing message with its line end.
pub(crate) type OutputLine = Vec<u8>;

#[derive(Serialize)]
struct JsonRpcFrame<'a, T: Serialize> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Stamped<T>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject>,
}

/// A result with what the modern revision adds to every one.
#[derive(Serialize)]
struct Stamped<T> {
    #[serde(rename = "resultType", skip_serializing_if = "Option::is_none")]
    result_type: Option<&'static str>,
    #[serde(flatten)]
    body: T,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<ServerMeta>,
}

struct ServerMeta;

impl Serialize for ServerMeta {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map([(SERVER, IDENTITY)])
    }
}

#[derive(Clone, Copy, Serialize)]
struct ServerIdentity {
    name: &'static str,
    version: &'static str,
}

const IDENTITY: ServerIdentity = ServerIdentity { name: SERVER_NAME, version: VERSION };

#[derive(Serialize)]
struct Capabilities {
    logging: Empty,
    tools: ToolsCapability,
}

#[derive(Serialize)]
struct ToolsCapability {
    #[serde(rename = "listChanged")]
    list_changed: bool,
}

#[derive(Serialize)]
struct Empty {}

const CAPABILITIES: Capabilities = Capabilities { logging: Empty {}, tools: ToolsCapability { list_changed: false } };

#[derive(Serialize)]
struct CacheHints {
    #[serde(rename = "ttlMs")]
    ttl_ms: u32,
    #[serde(rename = "cacheScope")]
    scope: &'static str,
}

const PUBLIC: CacheHints = CacheHints { ttl_ms: TTL_MS, scope: "public" };

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult {
    protocol_version: &'static str,
    capabilities: Capabilities,
    server_info: ServerIdentity,
    instructions: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DiscoverResult {
    supported_versions: [&'static str; 1],
    capabilities: Capabilities,
    instructions: &'static str,
    #[serde(flatten)]
    cache: CacheHints,
}

#[derive(Serialize)]
struct ToolsResult<'a> {
    tools: &'a RawValue,
    #[serde(flatten)]
    cache: Option<CacheHints>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallResult<'a> {
    content: [TextContent<'a>; 1],
    structured_content: &'a RawValue,
    is_error: bool,
}

#[derive(Serialize)]
struct TextContent<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

fn line<T: Serialize>(frame: &JsonRpcFrame<'_, T>) -> OutputLine {
    // Every type in here has string keys and finite numbers.
    let mut line = serde_json::to_vec(frame).unwrap_or_else(|e| unreachable!("frames serialise: {e}"));
    line.push(b'\n');
    line
}

fn success(id: Option<&Id>, revision: Revision, body: impl Serialize) -> OutputLine {
    let (result_type, meta) = match revision {
        Revision::Modern => (Some("complete"), Some(ServerMeta)),
        Revision::Legacy => (None, None),
    };
    let result = Some(Stamped { result_type, body, meta });
    line(&JsonRpcFrame { jsonrpc: "2.0", id, method: None, params: None, result, error: None })
}

/// An error response; without `id` where none could be read.
pub(crate) fn error(id: Option<&Id>, error: &RpcError) -> OutputLine {
    let error = Some(error.object());
    line(&JsonRpcFrame::<()> { jsonrpc: "2.0", id, method: None, params: None, result: None, error })
}

/// An answer that needed no work.
pub(crate) fn answer(answer: &ImmediateAnswer) -> OutputLine {
    let id = answer.id.as_ref();
    match &answer.outcome {
        Err(e) => error(id, e),
        Ok(FixedResult::Empty) => success(id, Revision::Legacy, Empty {}),
        Ok(FixedResult::Initialized) => {
            let body = InitializeResult {
                protocol_version: LEGACY,
                capabilities: CAPABILITIES,
                server_info: IDENTITY,
                instructions: INSTRUCTIONS,
            };
            success(id, Revision::Legacy, body)
        }
        Ok(FixedResult::Discovery) => {
            let body = DiscoverResult {
                supported_versions: [MODERN],
                capabilities: CAPABILITIES,
                instructions: INSTRUCTIONS,
                cache: PUBLIC,
            };
            success(id, Revision::Modern, body)
        }
        Ok(FixedResult::Tools(revision)) => {
            let cache = match revision {
                Revision::Modern => Some(PUBLIC),
                Revision::Legacy => None,
            };
            success(id, *revision, ToolsResult { tools: tools::list_json(), cache })
        }
    }
}

/// The result of a tool call: the structured object and its text twin, made from one serialisation. A result that would not
/// fit into a frame is replaced by a tool error that says so.
pub(crate) fn call(id: &Id, revision: Revision, output: &ToolOutput) -> OutputLine {
    let frame = call_unbounded(id, revision, output);
    if frame.len() <= FRAME_CAP {
        return frame;
    }
    let e = tools::ToolError::output_too_large(format!(
        "the result needs {} bytes, more than one MCP message can carry; ask for less",
        frame.len()
    ));
    call_unbounded(id, revision, &e.into())
}

fn call_unbounded(id: &Id, revision: Revision, output: &ToolOutput) -> OutputLine {
    let text = output.structured.to_string();
    // `Value` writes JSON.
    let structured: &RawValue = serde_json::from_str(&text).unwrap_or_else(|e| unreachable!("{e}"));
    let body = CallResult {
        content: [TextContent { kind: "text", text: &text }],
        structured_content: structured,
        is_error: output.is_error,
    };
    success(Some(id), revision, body)
}

fn notification(method: &'static str, params: impl Serialize) -> OutputLine {
    line(&JsonRpcFrame {
        jsonrpc: "2.0",
        id: None,
        method: Some(method),
        params: Some(params),
        result: None,
        error: None,
    })
}

/// A progress update. `count` rises by one from one.
pub(crate) fn progress(token: &RawValue, count: u64, message: &str) -> OutputLine {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        progress_token: &'a RawValue,
        progress: u64,
        message: &'a str,
    }
    notification("notifications/progress", Params { progress_token: token, progress: count, message })
}

#[derive(Serialize)]
struct LogMessage<T> {
    level: LogLevel,
    logger: &'static str,
    data: T,
}

/// A Lean diagnostic as a log message.
pub(crate) fn diagnostic(item: &StreamDiagnostic) -> OutputLine {
    let data: Value = tools::diagnostic_data(item);
    notification("notifications/message", LogMessage { level: LogLevel::of(item), logger: "lean.diagnostic", data })
}

/// The one sign of life of a call without a progress token.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusLog<'a> {
    /// The call.
    pub(crate) request_id: &'a Id,
    /// Its tool.
    pub(crate) tool: &'static str,
    /// `running` or `preparing_dependencies`.
    pub(crate) state: &'static str,
    /// For people.
    pub(crate) message: String,
    /// The file it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<&'a str>,
}

/// The level of [`status`].
pub(crate) const STATUS_LEVEL: LogLevel = LogLevel::Notice;

/// A `beam.status` message.
pub(crate) fn status(status: &StatusLog<'_>) -> OutputLine {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Data<'a> {
        #[serde(flatten)]
        status: &'a StatusLog<'a>,
        progress_hint: &'static str,
    }
    let progress_hint = "For detailed live updates, pass tools/call params._meta.progressToken.";
    notification(
        "notifications/message",
        LogMessage { level: STATUS_LEVEL, logger: "beam.status", data: Data { status, progress_hint } },
    )
}
