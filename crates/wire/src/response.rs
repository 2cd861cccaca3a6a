//! The response object: success or failure, never both, never neither (broker protocol section 5).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeMap};
use serde_json::Value;

use crate::answer::Answer;
use crate::error::ErrorBody;
use crate::observed::Progress;

/// How a request ended: with an [`Answer`] where it was made, with JSON where it was read off a connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Response<A = Value> {
    /// Answer or failure.
    pub outcome: Result<A, ErrorBody>,
    /// Progress of the document, where it was observed.
    pub file_progress: Option<Progress>,
}

impl<A> Response<A> {
    /// Success.
    #[must_use]
    pub fn ok(result: A) -> Self {
        Self { outcome: Ok(result), file_progress: None }
    }

    /// Failure.
    #[must_use]
    pub fn failed(error: ErrorBody) -> Self {
        Self { outcome: Err(error), file_progress: None }
    }

    /// Attaches progress.
    #[must_use]
    pub fn with_progress(mut self, progress: Option<Progress>) -> Self {
        self.file_progress = progress;
        self
    }
}

impl Response<Answer> {
    /// The same with the answer as JSON.
    #[must_use]
    pub fn into_json(self) -> Response {
        Response { outcome: self.outcome.map(|answer| answer.to_value()), file_progress: self.file_progress }
    }
}

impl<A: Serialize> Serialize for Response<A> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("ok", &self.outcome.is_ok())?;
        match &self.outcome {
            Ok(result) => map.serialize_entry("result", result)?,
            Err(error) => map.serialize_entry("error", error)?,
        }
        if let Some(p) = &self.file_progress {
            map.serialize_entry("fileProgress", p)?;
        }
        map.end()
    }
}

/// Tells an absent key from an explicit null.
fn present<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(d).map(Some)
}

impl<'de> Deserialize<'de> for Response {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        struct In {
            ok: bool,
            #[serde(default, deserialize_with = "present")]
            result: Option<Value>,
            #[serde(default)]
            error: Option<ErrorBody>,
            #[serde(default)]
            file_progress: Option<Progress>,
        }
        let r = In::deserialize(d)?;
        let outcome = match (r.ok, r.result, r.error) {
            (true, Some(result), None) => Ok(result),
            (false, None, Some(error)) => Err(error),
            _ => return Err(de::Error::custom("`ok` contradicts `result` and `error`")),
        };
        Ok(Self { outcome, file_progress: r.file_progress })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w1_contradictions_are_refused() {
        for bad in [
            "{}",
            r#"{"ok":true}"#,
            r#"{"ok":false}"#,
            r#"{"ok":true,"result":1,"error":{"code":"x","message":""}}"#,
            r#"{"ok":false,"result":null,"error":{"code":"x","message":""}}"#,
            r#"{"ok":true,"result":1,"clientRequestId":"x"}"#,
        ] {
            assert!(serde_json::from_str::<Response>(bad).is_err(), "{bad}");
        }
        for good in [
            r#"{"ok":true,"result":null}"#,
            r#"{"ok":false,"error":{"code":"x","message":"m","data":{"a":1}},"fileProgress":{"updates":1,"done":true}}"#,
        ] {
            let r: Response = serde_json::from_str(good).unwrap();
            assert_eq!(serde_json::to_string(&r).unwrap(), good);
        }
    }
}
