//! What the server's owner wants where a call says nothing: values for optional arguments.

use serde_json::{Map, Value};

use super::arguments::{Argument, ArgumentType, arguments};
use super::table::TOOLS;

/// Values for arguments that a caller leaves out, by the argument's name. A tool without an argument of that name is not concerned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Defaults(Map<String, Value>);

impl Defaults {
    /// Sets the value of an optional argument in every tool that has it. `known` is what it may be where no tool has it.
    ///
    /// # Errors
    /// A tool has the argument and does not take the value; the text says what it takes.
    pub(crate) fn set(&mut self, name: &'static str, value: Value, known: &[&str]) -> Result<(), String> {
        let mut offered = TOOLS.iter().flat_map(arguments).filter(|a| a.name == name && !a.required).peekable();
        if offered.peek().is_none() && !value.as_str().is_some_and(|v| known.contains(&v)) {
            return Err(format!("must be one of {}, not {value}", known.join(", ")));
        }
        for argument in offered {
            if let ArgumentType::Operation(field) = argument.ty
                && let Some(why) = field.mismatch(&value)
            {
                return Err(why);
            }
        }
        self.0.insert(name.to_owned(), value);
        Ok(())
    }

    /// Fills in what the caller left out of the arguments that a tool declares.
    pub(crate) fn fill_in(&self, declared: &[Argument], given: &mut Map<String, Value>) {
        for argument in declared.iter().filter(|a| !a.required) {
            if let Some(value) = self.0.get(argument.name)
                && !given.contains_key(argument.name)
            {
                given.insert(argument.name.to_owned(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::table::find;
    use super::*;

    fn filled(defaults: &Defaults, tool: &str, given: &Value) -> Value {
        let mut given = given.as_object().unwrap().clone();
        defaults.fill_in(&arguments(find(tool).unwrap()), &mut given);
        Value::Object(given)
    }

    /// Any optional argument of any tool, whoever adds it.
    #[test]
    fn what_is_left_out_is_filled_in_and_nothing_else() {
        let mut defaults = Defaults::default();
        defaults.set("suggest", json!("none"), &[]).unwrap();
        assert_eq!(filled(&defaults, "lean_todo", &json!({})), json!({ "suggest": "none" }));
        assert_eq!(filled(&defaults, "lean_todo", &json!({ "suggest": "basic" })), json!({ "suggest": "basic" }));
        assert_eq!(filled(&defaults, "lean_todo", &json!({ "suggest": null })), json!({ "suggest": null }));
        assert_eq!(filled(&defaults, "lean_run_at", &json!({})), json!({}), "this tool has no such argument");
        // What is required is never filled in: it is the caller's to say.
        defaults.0.insert("path".to_owned(), json!("A.lean"));
        assert_eq!(filled(&defaults, "lean_sync", &json!({})), json!({}));
    }

    #[test]
    fn a_default_that_no_tool_takes_is_refused() {
        let mut defaults = Defaults::default();
        let why = defaults.set("suggest", json!("much"), &[]).unwrap_err();
        assert!(why.contains("\"none\", \"basic\""), "{why}");
        assert!(defaults.set("no_such_argument", json!("c"), &["a", "b"]).unwrap_err().contains("a, b"));
        assert_eq!(defaults, Defaults::default());
        defaults.set("no_such_argument", json!("a"), &["a", "b"]).unwrap();
        assert_eq!(filled(&defaults, "lean_todo", &json!({})), json!({}));
    }
}
