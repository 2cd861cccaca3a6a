//! `params._meta`: what a request says about itself. Read per request and never kept (M3).

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::envelope::{Params, members};
use crate::level::LogLevel;
use crate::rpc_error::{MODERN, RpcError};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Key of the server's identity in the `_meta` of a modern result.
pub(crate) const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// What a bare request on a modern stream is told.
pub(crate) const MISSING: &str = "this stream speaks 2026-07-28: every request needs params._meta with \
    \"io.modelcontextprotocol/protocolVersion\" and \"io.modelcontextprotocol/clientCapabilities\"";

/// `_meta` as sent.
#[derive(Debug)]
pub(crate) enum RequestMeta {
    /// There is none.
    Absent,
    /// Its members.
    Object(Vec<(String, Box<RawValue>)>),
    /// It is not an object, or has a member twice.
    Broken,
}

/// What a call wants to be told while it runs.
#[derive(Debug, Default)]
pub(crate) struct RequestOptions {
    /// Progress goes out under this token, as spelled.
    pub(crate) token: Option<Box<RawValue>>,
    /// Logs from this level on; only modern requests say so.
    pub(crate) log_level: Option<LogLevel>,
}

impl RequestMeta {
    /// Reads it out of the parameters.
    pub(crate) fn of(params: &Params) -> Self {
        match params.get("_meta") {
            None => Self::Absent,
            Some(raw) => members(raw).map_or(Self::Broken, Self::Object),
        }
    }

    /// Whether the request says that it is a modern one.
    pub(crate) fn is_modern(&self) -> bool {
        [VERSION, CAPABILITIES, CLIENT, LOG_LEVEL].iter().any(|key| self.get(key).is_some())
    }

    fn get(&self, name: &str) -> Option<&RawValue> {
        match self {
            Self::Object(members) => members.iter().find(|(n, _)| n == name).map(|(_, value)| &**value),
            Self::Absent | Self::Broken => None,
        }
    }

    fn typed<T: DeserializeOwned>(&self, name: &str, what: &str) -> Result<Option<T>, RpcError> {
        self.get(name)
            .map(|raw| {
                serde_json::from_str(raw.get())
                    .map_err(|_| RpcError::Params(format!("_meta[\"{name}\"] must be {what}")))
            })
            .transpose()
    }

    fn required<T: DeserializeOwned>(&self, name: &str, what: &str) -> Result<T, RpcError> {
        self.typed(name, what)?.ok_or_else(|| RpcError::Params(format!("_meta[\"{name}\"] is missing; {MISSING}")))
    }

    /// Checks the metadata of a modern request: complete, well typed, and of the version that is served; in this order.
    pub(crate) fn check_modern(&self) -> Result<(), RpcError> {
        let version: String = self.required(VERSION, "a string")?;
        let _open: Map<String, Value> = self.required(CAPABILITIES, "an object")?;
        if let Some(client) = self.typed::<Map<String, Value>>(CLIENT, "an object")? {
            check_identity(&client).map_err(|why| RpcError::Params(format!("_meta[\"{CLIENT}\"]: {why}")))?;
        }
        self.log_level()?;
        if version == MODERN { Ok(()) } else { Err(RpcError::Version(version)) }
    }

    fn log_level(&self) -> Result<Option<LogLevel>, RpcError> {
        self.typed(LOG_LEVEL, "one of debug, info, notice, warning, error, critical, alert, emergency")
    }

    /// What both families have in common: an object, and a token that is one.
    pub(crate) fn options(&self) -> Result<RequestOptions, RpcError> {
        if matches!(self, Self::Broken) {
            return Err(RpcError::Params("`_meta` must be an object without repeated members".to_owned()));
        }
        let token = self.get("progressToken");
        if token.is_some_and(|raw| !raw.get().starts_with(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']))
        {
            return Err(RpcError::Params("_meta.progressToken must be a string or a number".to_owned()));
        }
        Ok(RequestOptions { token: token.map(ToOwned::to_owned), log_level: self.log_level()? })
    }
}

/// An implementation's identity: name and version are strings.
pub(crate) fn check_identity(client: &Map<String, Value>) -> Result<(), String> {
    match ["name", "version"].iter().find(|key| !client.get(**key).is_some_and(Value::is_string)) {
        Some(key) => Err(format!("`{key}` must be there and a string")),
        None => Ok(()),
    }
}
