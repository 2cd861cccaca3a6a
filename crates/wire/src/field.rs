//! Fields of operations: what a Rust type means as JSON. One place for the request check, command-line options and schemas.

use serde_json::{Map, Value};

/// JSON type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldType {
    /// Any string.
    Text,
    /// A string that must not be empty.
    NonEmpty,
    /// A whole number from 0 to 2^32 - 1: LSP coordinates, from 0, UTF-16 units.
    Coordinate,
    /// A whole number from 0: versions, counts, milliseconds.
    Number,
    /// A boolean.
    Bool,
    /// One of these strings.
    Choice(&'static [&'static str]),
    /// An array of these strings.
    Choices(&'static [&'static str]),
    /// An array of strings.
    Texts,
    /// A continuation handle (broker protocol section 7).
    Handle,
    /// Any object: the open bag.
    Object,
}

/// A Rust type that a field of an operation may have.
pub trait FieldValue {
    /// Its JSON type.
    const TYPE: FieldType;
}

/// A string that is not empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct NonEmpty(#[schemars(length(min = 1))] String);

impl NonEmpty {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::ops::Deref for NonEmpty {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for NonEmpty {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.is_empty() { Err("must not be empty") } else { Ok(Self(text)) }
    }
}

impl TryFrom<&str> for NonEmpty {
    type Error = &'static str;
    fn try_from(text: &str) -> Result<Self, Self::Error> {
        Self::try_from(text.to_owned())
    }
}

impl From<NonEmpty> for String {
    fn from(text: NonEmpty) -> Self {
        text.0
    }
}

macro_rules! field_values {
    ($($ty:ty => $kind:expr;)*) => {
        $(impl FieldValue for $ty { const TYPE: FieldType = $kind; })*
    };
}

field_values! {
    String => FieldType::Text;
    NonEmpty => FieldType::NonEmpty;
    u32 => FieldType::Coordinate;
    u64 => FieldType::Number;
    bool => FieldType::Bool;
    Vec<String> => FieldType::Texts;
    Map<String, Value> => FieldType::Object;
}

/// Defines an enum of strings that a field may hold, alone or (`list`) several of them.
macro_rules! choices {
    ($($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $vdoc:literal])+ $variant:ident = $text:literal,)+ })+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
            pub enum $name { $($(#[doc = $vdoc])+ #[serde(rename = $text)] $variant,)+ }

            impl $name {
                /// Every value, in the order of the documentation.
                pub const ALL: &'static [Self] = &[$(Self::$variant),+];
                /// Every spelling.
                pub const NAMES: &'static [&'static str] = &[$($text),+];

                /// Spelling in JSON and on the command line.
                #[must_use]
                pub fn as_str(self) -> &'static str {
                    match self { $(Self::$variant => $text,)+ }
                }
            }

            impl $crate::field::FieldValue for $name {
                const TYPE: $crate::field::FieldType = $crate::field::FieldType::Choice(&[$($text),+]);
            }

            impl $crate::field::FieldValue for Vec<$name> {
                const TYPE: $crate::field::FieldType = $crate::field::FieldType::Choices(&[$($text),+]);
            }
        )+
    };
}
pub(crate) use choices;

/// Defines the fields of operations: the typed struct, and what the table says of each field.
///
/// A field is its Rust name, its JSON name and its type; required ones stand before the word `optional`. `note` is said in descriptions
/// that must be short, `default` is what an absent field means, as JSON.
macro_rules! fields {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident {
            $($(#[doc = $rdoc:literal])+ $rfield:ident $rname:literal: $rty:ty $([note $rnote:literal])?,)*
            $(optional $($(#[doc = $odoc:literal])+ $ofield:ident $oname:literal: $oty:ty $([note $onote:literal])? $([default $odefault:literal])?,)+)?
        }
    )*) => {$(
        $(#[doc = $doc])+
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[doc = $rdoc])+ #[serde(rename = $rname)] pub $rfield: $rty,)*
            $($($(#[doc = $odoc])+ #[serde(rename = $oname, default, skip_serializing_if = "Option::is_none")] pub $ofield: Option<$oty>,)+)?
        }

        #[allow(clippy::new_without_default, reason = "the same for each operation, also where nothing is required")]
        impl $name {
            /// With the required fields only: whoever makes a request names the options that it means, and no others.
            #[must_use]
            pub fn new($($rfield: $rty),*) -> Self {
                Self { $($rfield,)* $($($ofield: None,)+)? }
            }

            /// The operation's own fields, required ones first.
            pub const FIELDS: &'static [$crate::field::Field] = &[
                $($crate::field::Field {
                    name: $rname,
                    snake: stringify!($rfield),
                    ty: <$rty as $crate::field::FieldValue>::TYPE,
                    required: true,
                    doc: concat!($($rdoc),+).trim_ascii(),
                    note: $crate::field::given!($($rnote)?),
                    default: None,
                },)*
                $($($crate::field::Field {
                    name: $oname,
                    snake: stringify!($ofield),
                    ty: <$oty as $crate::field::FieldValue>::TYPE,
                    required: false,
                    doc: concat!($($odoc),+).trim_ascii(),
                    note: $crate::field::given!($($onote)?),
                    default: $crate::field::given!($($odefault)?),
                },)+)?
            ];
        }
    )*};
}
pub(crate) use fields;

/// A literal that may be missing.
macro_rules! given {
    () => {
        None
    };
    ($text:literal) => {
        Some($text)
    };
}
pub(crate) use given;

/// The field of that name, for tables that are made when the program is compiled: a name that does not exist does not compile there.
///
/// # Panics
/// If there is no such field.
#[must_use]
pub const fn named(fields: &[Field], name: &str) -> Field {
    let mut n = 0;
    while n < fields.len() {
        if same(fields[n].name.as_bytes(), name.as_bytes()) {
            return fields[n];
        }
        n += 1;
    }
    panic!("there is no field of that name")
}

/// `==` on bytes, which is not yet `const`.
const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut n = 0;
    while n < a.len() {
        if a[n] != b[n] {
            return false;
        }
        n += 1;
    }
    true
}

/// A named, typed field of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// JSON key.
    pub name: &'static str,
    /// The same in snake case: MCP's spelling, and (with dashes) the command line's.
    pub snake: &'static str,
    /// JSON type.
    pub ty: FieldType,
    /// Whether it must be there.
    pub required: bool,
    /// What it means: for help, man pages and schemas.
    pub doc: &'static str,
    /// What a name alone does not say, in a few words: for descriptions that must be short.
    pub note: Option<&'static str>,
    /// What an absent field means, as JSON, where that is a value.
    pub default: Option<&'static str>,
}

impl Field {
    /// Why the value does not fit, in words that end a sentence "field `x` …"; `None` when it fits.
    /// An explicit `null` fits nothing: absent and null are different things (broker protocol section 3).
    #[must_use]
    pub fn mismatch(&self, value: &Value) -> Option<String> {
        let fits = match self.ty {
            FieldType::Text => value.is_string(),
            FieldType::NonEmpty => value.as_str().is_some_and(|s| !s.is_empty()),
            FieldType::Coordinate => value.as_u64().is_some_and(|n| u32::try_from(n).is_ok()),
            FieldType::Number => value.as_u64().is_some(),
            FieldType::Bool => value.is_boolean(),
            FieldType::Choice(names) => value.as_str().is_some_and(|s| names.contains(&s)),
            FieldType::Choices(names) => {
                value.as_array().is_some_and(|a| a.iter().all(|v| v.as_str().is_some_and(|s| names.contains(&s))))
            }
            FieldType::Texts => value.as_array().is_some_and(|a| a.iter().all(Value::is_string)),
            FieldType::Handle | FieldType::Object => value.is_object(),
        };
        (!fits).then(|| format!("must be {}, not {}", self.ty.wanted(), brief(value)))
    }

    /// What an absent field means, where that is a value.
    #[must_use]
    pub fn default_value(&self) -> Option<Value> {
        self.default.and_then(|text| serde_json::from_str(text).ok())
    }

    /// JSON Schema of the value, flat and without `$ref`: several MCP clients read no more of JSON Schema than that.
    #[must_use]
    pub fn schema(&self) -> Map<String, Value> {
        let value = match self.ty {
            FieldType::Text => serde_json::json!({ "type": "string" }),
            FieldType::NonEmpty => serde_json::json!({ "type": "string", "minLength": 1 }),
            FieldType::Coordinate | FieldType::Number => serde_json::json!({ "type": "integer", "minimum": 0 }),
            FieldType::Bool => serde_json::json!({ "type": "boolean" }),
            FieldType::Choice(names) => serde_json::json!({ "type": "string", "enum": names }),
            FieldType::Choices(names) => {
                serde_json::json!({ "type": "array", "items": { "type": "string", "enum": names } })
            }
            FieldType::Texts => serde_json::json!({ "type": "array", "items": { "type": "string" } }),
            FieldType::Handle | FieldType::Object => serde_json::json!({ "type": "object" }),
        };
        let Value::Object(mut schema) = value else { return Map::new() };
        if let Some(default) = self.default_value() {
            schema.insert("default".to_owned(), default);
        }
        schema
    }
}

impl FieldType {
    /// What a value must be, in words.
    #[must_use]
    pub fn wanted(self) -> String {
        match self {
            Self::Text => "a string".to_owned(),
            Self::NonEmpty => "a non-empty string".to_owned(),
            Self::Coordinate => "a whole number from 0 to 4294967295".to_owned(),
            Self::Number => "a whole number from 0".to_owned(),
            Self::Bool => "true or false".to_owned(),
            Self::Choice(names) => format!("one of {}", quoted(names)),
            Self::Choices(names) => format!("an array of {}", quoted(names)),
            Self::Texts => "an array of strings".to_owned(),
            Self::Handle => "a handle object as run_at returned it".to_owned(),
            Self::Object => "an object".to_owned(),
        }
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(", ")
}

/// A value as an error message quotes it: never more than a few words of the input.
pub(crate) fn brief(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 40 { text } else { text.chars().take(37).chain("...".chars()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::SyncFile;
    use crate::operation::OPERATIONS;
    use crate::run::RunAt;
    use crate::todo::GoalsAt;
    use serde_json::json;

    #[test]
    fn a_boolean_scope_is_refused_with_both_names() {
        let why = named(SyncFile::FIELDS, "diagnosticScope").mismatch(&json!(true)).unwrap();
        assert!(why.contains("\"errors\"") && why.contains("\"all\""), "{why}");
    }

    #[test]
    fn null_fits_nothing() {
        for op in OPERATIONS {
            for f in op.fields() {
                assert!(f.mismatch(&Value::Null).is_some(), "{} {}", op.name, f.name);
            }
        }
    }

    #[test]
    fn numbers_are_whole_and_not_negative() {
        let line = named(RunAt::FIELDS, "line");
        assert!(line.mismatch(&json!(-1)).is_some());
        assert!(line.mismatch(&json!(1.5)).is_some());
        assert!(line.mismatch(&json!(4_294_967_296u64)).is_some());
        assert!(line.mismatch(&json!(0)).is_none());
    }

    /// The two spellings are one name, and defaults are values that the field itself accepts.
    #[test]
    fn spellings_and_defaults_fit() {
        for op in OPERATIONS {
            for f in op.fields() {
                assert_eq!(crate::project::snake(f.name), f.snake, "{}", op.name);
                assert!(!f.doc.is_empty(), "{} {}", op.name, f.name);
                if f.default.is_some() {
                    let value = f.default_value().unwrap_or_else(|| panic!("{} {}", op.name, f.name));
                    assert_eq!(f.mismatch(&value), None, "{} {}", op.name, f.name);
                }
            }
        }
        assert_eq!(named(GoalsAt::FIELDS, "mode").default_value(), Some(json!("after")));
    }
}
