//! The same JSON in the spelling of another front: our own keys in snake case.

use serde_json::{Map, Value};

/// Keys whose value is not ours: goals, handles, and what LSP and Lean call by their own names. They pass unchanged.
const VERBATIM: &[&str] = &[
    "goals",
    "proofState",
    "before",
    "after",
    "expectedType",
    "handle",
    "codeAction",
    "actions",
    "errors",
    "diagnostic",
    "runAtPosition",
    "range",
    "data",
    "workspaces",
];

/// `endLine` is `end_line` here.
#[must_use]
pub fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// Our keys in snake case, at every depth that is ours.
#[must_use]
pub fn snake_keys(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(snake_keys).collect()),
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(key, value)| {
                    let value = if VERBATIM.contains(&key.as_str()) { value } else { snake_keys(value) };
                    (snake(&key), value)
                })
                .collect::<Map<_, _>>(),
        ),
        plain => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn own_keys_change_and_others_do_not() {
        assert_eq!(
            snake_keys(json!({ "saveReady": [{ "blockingErrorCount": 1 }], "data": { "aB": 1 }, "plain": "aB" })),
            json!({ "save_ready": [{ "blocking_error_count": 1 }], "data": { "aB": 1 }, "plain": "aB" })
        );
    }
}
