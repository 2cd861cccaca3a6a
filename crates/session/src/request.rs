//! A request as its caller describes it, as it travels to the worker, and how it ends (S2, S5).

use std::sync::Arc;

use beam_base::{Deadline, Utf16Pos};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::error::RequestFailure;
use crate::observation::{Observer, StrayOutput};
use crate::progress::Progress;
use crate::setup::SetupReport;

/// A request to a document's worker.
#[derive(Debug, Clone)]
pub struct RequestSpec {
    /// LSP method.
    pub method: String,
    /// Parameters, an object; the caller puts the document's URI where the method wants it.
    pub params: Value,
    /// Binds the request to a version: another tracked version refuses it, an edit or close ends it.
    pub version: Option<u64>,
    /// When to give up.
    pub deadline: Deadline,
    /// Whether it may be sent again, unchanged, to the worker that replaces one whose header changed. False for what must not run twice.
    pub resend: bool,
    /// Whether it runs text of the caller's, so that a worker which does not answer its cancellation within the grace is burning
    /// a processor and gets replaced. Lean answers a cancelled *ordinary* request only when the elaboration it waits for gets
    /// there, which says nothing about the worker's health; those leave this false.
    pub must_stop: bool,
}

impl RequestSpec {
    /// An unbound request without deadline that may be sent again.
    #[must_use]
    pub fn new(method: impl Into<String>, params: Value) -> Self {
        Self { method: method.into(), params, version: None, deadline: Deadline::NEVER, resend: true, must_stop: false }
    }

    /// Binds it to a version.
    #[must_use]
    pub fn at_version(mut self, version: u64) -> Self {
        self.version = Some(version);
        self
    }

    /// Gives it a deadline.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Deadline) -> Self {
        self.deadline = deadline;
        self
    }

    /// Marks it as one that runs text, see [`RequestSpec::must_stop`].
    #[must_use]
    pub fn running_text(mut self) -> Self {
        self.must_stop = true;
        self
    }

    /// Forbids sending it again.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.resend = false;
        self
    }
}

/// A successful answer.
#[derive(Debug)]
pub struct Reply {
    /// The result as the worker wrote it.
    pub value: Box<RawValue>,
    /// Session generation (S5).
    pub epoch: u64,
    /// The document.
    pub uri: String,
    /// The tracked version when the answer arrived; for a bound request, its version.
    pub version: u64,
    /// How many workers the document had had, this one included; see [`crate::WorkerSummary::starts`].
    pub worker: u64,
    /// The document's progress when the answer arrived.
    pub progress: Option<Progress>,
    /// What the file's own code has written to this worker's output.
    pub stray_output: Option<StrayOutput>,
    /// Why the document's worker before this one was lost or replaced, if it was for what it did: a crash, work that did not stop.
    /// Its handles are gone. Told with every answer of this worker.
    pub replaced: Option<String>,
    /// What was found out about the worker's imports before it was started, where somebody looked.
    pub setup: Option<Arc<SetupReport>>,
}

/// Answers a caller who may have gone away, in which case nobody wants to know.
pub(crate) fn tell<T>(reply: oneshot::Sender<T>, answer: T) {
    reply.send(answer).ok();
}

pub(crate) type Outcome = Result<Reply, RequestFailure>;

/// A JSON-RPC id that code in the worker cannot guess: an elaborated file shares the process with the answers to everybody's requests,
/// and may write frames of its own. An answer is believed only under an id that we gave away, to the worker, for this request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WireId {
    key: u64,
    nonce: u128,
}

impl WireId {
    /// An id for the request of this key.
    pub(crate) fn fresh(key: u64) -> Self {
        Self { key, nonce: nonce() }
    }

    /// A string, which keeps all digits on every Lean; numbers go through floats in some clients.
    pub(crate) fn to_wire(&self) -> String {
        format!("{}-{:032x}", self.key, self.nonce)
    }

    /// Reads what [`WireId::to_wire`] wrote, as JSON text. `None` for anything else.
    pub(crate) fn from_json(text: &str) -> Option<Self> {
        let id: String = serde_json::from_str(text).ok()?;
        let (key, nonce) = id.split_once('-')?;
        let id_of = Self { key: key.parse().ok()?, nonce: u128::from_str_radix(nonce, 16).ok()? };
        // `+7`, `007` and capitals parse, and are not how we spell it.
        (id_of.to_wire() == id).then_some(id_of)
    }

    pub(crate) fn key(&self) -> u64 {
        self.key
    }
}

/// 128 bits from the system's random source.
pub(crate) fn nonce() -> u128 {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => {}
            // Linux since 3.17 has it, and it does not fail for sixteen bytes. Going on with bytes that can be guessed is no choice.
            Err(error) => panic!("the system gives no random bytes: {error}"),
        }
    }
    u128::from_ne_bytes(bytes)
}

/// A request on its way from a handle to the table.
pub(crate) struct Queued {
    /// Unique in this session.
    pub(crate) key: u64,
    /// The JSON-RPC id; the same when sent again.
    pub(crate) id: WireId,
    pub(crate) method: String,
    pub(crate) params: Value,
    pub(crate) version: Option<u64>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) resend: bool,
    pub(crate) must_stop: bool,
    /// It needs the reference index.
    pub(crate) composed: Option<Composed>,
    pub(crate) reply: oneshot::Sender<Outcome>,
    pub(crate) observer: Option<Observer>,
    /// The task that makes the answer, where we do; it ends with the request.
    pub(crate) making: Option<AbortOnDropHandle<()>>,
}

impl Queued {
    pub(crate) fn end(self, outcome: Outcome) {
        // The caller may have dropped its end; then nobody wants to know.
        drop(self.reply.send(outcome));
    }
}

/// A request that needs the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Composed {
    /// Answered from the index alone, once it is complete for the document.
    References { at: Utf16Pos, include_declaration: bool },
    /// Answered by the worker; the answer is corrected.
    Definition { at: Utf16Pos },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    include_declaration: bool,
}
#[derive(Deserialize)]
struct Params {
    position: Utf16Pos,
    #[serde(default)]
    context: Option<Context>,
}

impl Composed {
    /// Whether this is one; an error if it should be and its parameters are wrong.
    pub(crate) fn of(method: &str, params: &Value) -> Result<Option<Self>, serde_json::Error> {
        let read = || Params::deserialize(params);
        Ok(match method {
            "textDocument/references" => {
                let params = read()?;
                let include_declaration = params.context.is_none_or(|context| context.include_declaration);
                Some(Self::References { at: params.position, include_declaration })
            }
            "textDocument/definition" | "textDocument/declaration" => Some(Self::Definition { at: read()?.position }),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn which_requests_are_composed() {
        let params = json!({"position": {"line": 1, "character": 2}, "context": {"includeDeclaration": false}});
        let at = Utf16Pos { line: 1, character: 2 };
        let references = Composed::of("textDocument/references", &params).unwrap();
        assert_eq!(references, Some(Composed::References { at, include_declaration: false }));
        assert_eq!(Composed::of("textDocument/definition", &params).unwrap(), Some(Composed::Definition { at }));
        assert_eq!(Composed::of("textDocument/hover", &json!(null)).unwrap(), None);
        assert!(Composed::of("textDocument/references", &json!({})).is_err());
    }

    #[test]
    fn ids_are_read_as_written_and_never_twice_the_same() {
        let (a, b) = (WireId::fresh(7), WireId::fresh(7));
        assert_ne!(a, b);
        let text = json!(a.to_wire()).to_string();
        assert_eq!(WireId::from_json(&text), Some(a.clone()));
        let wire = a.to_wire();
        for wrong in
            [json!(7), json!("7"), json!(wire.to_uppercase()), json!(format!("0{wire}")), json!(format!("{wire} "))]
        {
            assert!(
                WireId::from_json(&wrong.to_string()).is_none_or(|it| wire.to_uppercase() == wire && it == a),
                "{wrong}"
            );
        }
    }
}
