//! JSON answers as text: two blanks of indentation, keys in the order that an agent wants to read them.
//!
//! The order is presentation only; it is data ([`KEYS`]), applied at every depth.

use serde_json::{Map, Value};

/// What comes first, in this order. Other keys follow, alphabetically.
const KEYS: &[&str] = &[
    "ok",
    "result",
    "error",
    "expectedVersion",
    "acceptedVersion",
    "path",
    "version",
    "saveReady",
    "reason",
    "changed",
    "diagnostics",
    "counts",
    "items",
    "readiness",
    "blockingErrorCount",
    "blockingDiagnostics",
    "blockingMessages",
    "fileProgress",
    "warning",
    "information",
    "hint",
    "unknown",
    "total",
    "message",
    "range",
    "severity",
    "saveBlocking",
    "completionBlocking",
    "done",
    "updates",
    "start",
    "end",
    "line",
    "character",
    "rangeStartLine",
    "rangeEndLine",
];

/// The text of a value, without a final line break.
#[must_use]
pub fn pretty(value: Value) -> String {
    // A `Value` has string keys and finite numbers only.
    serde_json::to_string_pretty(&ordered(value)).unwrap_or_default()
}

fn ordered(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(ordered).collect()),
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().map(|(k, v)| (rank(&k), k, ordered(v))).collect();
            entries.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
            Value::Object(entries.into_iter().map(|(_, k, v)| (k, v)).collect::<Map<_, _>>())
        }
        plain => plain,
    }
}

fn rank(key: &str) -> usize {
    KEYS.iter().position(|k| *k == key).unwrap_or(KEYS.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(json: &str, expect: &Expect) {
        let value: Value = serde_json::from_str(json).unwrap();
        let text = pretty(value.clone());
        expect.assert_eq(&text);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value, "order is presentation only");
    }

    /// The whole order, and that of two keys outside of it.
    #[test]
    fn keys_stand_in_the_promised_order() {
        let mut map = Map::new();
        for key in KEYS.iter().rev().chain(&["zeta", "alpha"]) {
            map.insert((*key).to_owned(), Value::Null);
        }
        expect![[r#"ok result error expectedVersion acceptedVersion path version saveReady reason changed diagnostics counts items readiness blockingErrorCount blockingDiagnostics blockingMessages fileProgress warning information hint unknown total message range severity saveBlocking completionBlocking done updates start end line character rangeStartLine rangeEndLine alpha zeta"#]]
        .assert_eq(&ordered(Value::Object(map)).as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" "));
    }

    #[test]
    fn a_sync_answer() {
        check(
            r#"{"clientRequestId":"q","fileProgress":{"done":true,"updates":2},"ok":true,"result":{"diagnostics":{"items":[],"counts":{"total":1,"hint":0,"unknown":0,"error":1,"warning":0,"information":0}},"path":"A.lean","readiness":{"blockingMessages":[],"saveReady":true,"reason":"ok"},"version":3,"extra":{}}}"#,
            &expect![[r#"
                {
                  "ok": true,
                  "result": {
                    "path": "A.lean",
                    "version": 3,
                    "diagnostics": {
                      "counts": {
                        "error": 1,
                        "warning": 0,
                        "information": 0,
                        "hint": 0,
                        "unknown": 0,
                        "total": 1
                      },
                      "items": []
                    },
                    "readiness": {
                      "saveReady": true,
                      "reason": "ok",
                      "blockingMessages": []
                    },
                    "extra": {}
                  },
                  "fileProgress": {
                    "done": true,
                    "updates": 2
                  },
                  "clientRequestId": "q"
                }"#]],
        );
    }

    #[test]
    fn texts_are_not_escaped_more_than_need_be() {
        check(
            r#"[{"b":"⊢ p ∧ q\nx","a":"\u0001"}]"#,
            &expect![[r#"
                [
                  {
                    "a": "\u0001",
                    "b": "⊢ p ∧ q\nx"
                  }
                ]"#]],
        );
    }
}
