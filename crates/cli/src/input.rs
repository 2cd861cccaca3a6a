//! Texts, handles and other JSON that arguments point to: reads files and standard input.

use std::io::Read;

use beam_base::AbsPath;
use beam_wire::Handle;
use camino::Utf8Path;
use serde_json::Value;

use crate::args::{JsonSource, TextSource};
use crate::error::CliError;

/// A text and where it came from, for `BEAM_DEBUG_TEXT`.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken {
    /// The text, unchanged.
    pub text: String,
    /// `stdin`, `text-file:PATH` or `argv`.
    pub source: String,
}

/// Reads a text as it is: nothing is trimmed or unescaped.
pub fn text(source: &TextSource, cwd: &AbsPath) -> Result<Taken, CliError> {
    match source {
        TextSource::Stdin => Ok(Taken { text: stdin("the text")?, source: "stdin".to_owned() }),
        TextSource::File(path) => {
            let source = format!("text-file:{path}");
            Ok(Taken { text: file(path, cwd, "the text")?, source })
        }
        TextSource::Argv(words) => Ok(Taken { text: words.clone(), source: "argv".to_owned() }),
    }
}

/// Reads a JSON argument.
pub fn json(source: &JsonSource, cwd: &AbsPath, what: &str) -> Result<Value, CliError> {
    let text = match source {
        JsonSource::Inline(text) => text.clone(),
        JsonSource::Stdin => stdin(what)?,
        JsonSource::File(path) => file(path, cwd, what)?,
    };
    serde_json::from_str(&text).map_err(|e| CliError::Value(format!("{what} is not JSON: {e}")))
}

/// Reads a handle: the handle itself, an object that has one, or a whole answer.
pub fn handle(source: &JsonSource, cwd: &AbsPath) -> Result<Value, CliError> {
    find_handle(json(source, cwd, "HANDLE")?).map_err(CliError::Value)
}

fn find_handle(value: Value) -> Result<Value, String> {
    if let Some(result) = value.get("result") {
        if let Some(handle) = result.get("handle") {
            return typed(handle.clone());
        }
        return Err(if result.get("success") == Some(&Value::Bool(false)) {
            "HANDLE is an answer without a handle: its text was rejected".to_owned()
        } else {
            "HANDLE is an answer without a handle: run-at-handle and run-with give one".to_owned()
        });
    }
    if value.get("ok") == Some(&Value::Bool(false)) {
        return Err("HANDLE is the answer to a failed request: it has no handle".to_owned());
    }
    match value.get("handle") {
        Some(handle) => typed(handle.clone()),
        None => typed(value),
    }
}

/// A handle goes out as it came in; only its shape is looked at, so that a mix-up is told here.
fn typed(value: Value) -> Result<Value, String> {
    match serde_json::from_value::<Handle>(value.clone()) {
        Ok(_) => Ok(value),
        Err(e) => Err(format!("HANDLE is no handle: {e}")),
    }
}

fn stdin(what: &str) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|source| CliError::Input { what: format!("{what} from standard input"), source })?;
    String::from_utf8(bytes).map_err(|_| CliError::Value(format!("{what} from standard input is not valid UTF-8")))
}

fn file(path: &Utf8Path, cwd: &AbsPath, what: &str) -> Result<String, CliError> {
    let bytes = std::fs::read(cwd.join(path))
        .map_err(|source| CliError::Input { what: format!("{what} from {path}"), source })?;
    String::from_utf8(bytes).map_err(|_| CliError::Value(format!("{what} in {path} is not valid UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample() -> Value {
        json!({"workspaceId":"w","backend":"lean","epoch":1,"session":"s","raw":{"value":"v"}})
    }

    #[test]
    fn three_shapes_hold_a_handle() {
        for shape in
            [sample(), json!({"handle": sample(), "success": true}), json!({"ok":true,"result":{"handle": sample()}})]
        {
            assert_eq!(find_handle(shape), Ok(sample()));
        }
    }

    #[test]
    fn what_is_no_handle_says_why() {
        for (shape, why) in [
            (json!({"ok":true,"result":{"success":false}}), "rejected"),
            (json!({"ok":true,"result":{"success":true}}), "run-at-handle"),
            (json!({"ok":false,"error":{}}), "failed request"),
            (json!({"raw":1}), "no handle"),
            (json!([1]), "no handle"),
        ] {
            let text = find_handle(shape).unwrap_err();
            assert!(text.contains(why), "{text}");
        }
    }
}
