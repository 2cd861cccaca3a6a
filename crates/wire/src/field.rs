//! The fields a request may carry, with their types: one place for checks, CLI and schema.

use serde_json::Value;

/// JSON type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any string.
    Str,
    /// A string that must not be empty.
    NonEmpty,
    /// A non-negative integer up to 2^32 - 1: LSP coordinates, from 0, UTF-16 units.
    Coordinate,
    /// A non-negative integer: a document version.
    Version,
    /// A boolean.
    Bool,
    /// One of these strings.
    Choice(&'static [&'static str]),
    /// An array of these strings.
    Choices(&'static [&'static str]),
    /// A continuation handle (section 7).
    Handle,
    /// Any object: the open bag.
    Object,
}

/// A named, typed field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// JSON key.
    pub name: &'static str,
    /// JSON type.
    pub kind: Kind,
}

/// Kinds of items that `todo` lists.
pub const TODO_KINDS: &[&str] = &["sorry", "hole", "diagnostic", "code_action", "incomplete_proof"];

macro_rules! fields {
    ($($const:ident = $name:literal: $kind:expr;)*) => {
        $(#[doc = concat!("`", $name, "`")] pub const $const: Field = Field { name: $name, kind: $kind };)*
    };
}

fields! {
    CLIENT_REQUEST_ID = "clientRequestId": Kind::Str;
    WORKSPACE_ID = "workspaceId": Kind::NonEmpty;
    ROOT = "root": Kind::Str;
    PATH = "path": Kind::NonEmpty;
    VERSION = "version": Kind::Version;
    LINE = "line": Kind::Coordinate;
    CHARACTER = "character": Kind::Coordinate;
    END_LINE = "endLine": Kind::Coordinate;
    END_CHARACTER = "endCharacter": Kind::Coordinate;
    TEXT = "text": Kind::Str;
    QUERY = "query": Kind::Str;
    CANCEL_REQUEST_ID = "cancelRequestId": Kind::Str;
    INCLUDE_DECLARATION = "includeDeclaration": Kind::Bool;
    STORE_HANDLE = "storeHandle": Kind::Bool;
    LINEAR = "linear": Kind::Bool;
    DIAGNOSTICS_IN_RESULT = "diagnosticsInResult": Kind::Bool;
    DIAGNOSTIC_SCOPE = "diagnosticScope": Kind::Choice(&["errors", "all"]);
    KINDS = "kinds": Kind::Choices(TODO_KINDS);
    SUGGEST = "suggest": Kind::Choice(&["none", "basic"]);
    MODE = "mode": Kind::Choice(&["before", "after"]);
    HANDLE = "handle": Kind::Handle;
    CODE_ACTION = "codeAction": Kind::Object;
    BACKEND = "backend": Kind::Choice(&["lean", "rocq"]);
    SAVE_ARTIFACTS = "saveArtifacts": Kind::Bool;
    WORKSPACE_MODE = "workspaceMode": Kind::Choice(&["set", "verify", "reset"]);
    LEAN_CMD = "leanCmd": Kind::NonEmpty;
    ROCQ_CMD = "rocqCmd": Kind::NonEmpty;
}

impl Field {
    /// Why the value does not fit, in words that end a sentence "field `x` …"; `None` when it fits.
    /// An explicit `null` fits nothing: absent and null are different things (section 3).
    #[must_use]
    pub fn mismatch(&self, value: &Value) -> Option<String> {
        let fits = match self.kind {
            Kind::Str => value.is_string(),
            Kind::NonEmpty => value.as_str().is_some_and(|s| !s.is_empty()),
            Kind::Coordinate => value.as_u64().is_some_and(|n| u32::try_from(n).is_ok()),
            Kind::Version => value.as_u64().is_some(),
            Kind::Bool => value.is_boolean(),
            Kind::Choice(names) => value.as_str().is_some_and(|s| names.contains(&s)),
            Kind::Choices(names) => {
                value.as_array().is_some_and(|a| a.iter().all(|v| v.as_str().is_some_and(|s| names.contains(&s))))
            }
            Kind::Handle | Kind::Object => value.is_object(),
        };
        (!fits).then(|| {
            let wanted = match self.kind {
                Kind::Str => "a string".to_owned(),
                Kind::NonEmpty => "a non-empty string".to_owned(),
                Kind::Coordinate => "a whole number from 0 to 4294967295".to_owned(),
                Kind::Version => "a whole number from 0".to_owned(),
                Kind::Bool => "true or false".to_owned(),
                Kind::Choice(names) => format!("one of {}", quoted(names)),
                Kind::Choices(names) => format!("an array of {}", quoted(names)),
                Kind::Handle => "a handle object as run_at returned it".to_owned(),
                Kind::Object => "an object".to_owned(),
            };
            format!("must be {wanted}, not {}", brief(value))
        })
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(", ")
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 40 { text } else { text.chars().take(37).chain("...".chars()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_boolean_scope_is_refused_with_both_names() {
        let why = DIAGNOSTIC_SCOPE.mismatch(&json!(true)).unwrap();
        assert!(why.contains("\"errors\"") && why.contains("\"all\""), "{why}");
    }

    #[test]
    fn null_fits_nothing() {
        for f in [PATH, ROOT, VERSION, STORE_HANDLE, KINDS, HANDLE, CODE_ACTION, MODE] {
            assert!(f.mismatch(&Value::Null).is_some(), "{}", f.name);
        }
    }

    #[test]
    fn numbers_are_whole_and_not_negative() {
        assert!(LINE.mismatch(&json!(-1)).is_some());
        assert!(LINE.mismatch(&json!(1.5)).is_some());
        assert!(LINE.mismatch(&json!(4_294_967_296u64)).is_some());
        assert!(LINE.mismatch(&json!(0)).is_none());
    }
}
