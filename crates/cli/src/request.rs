//! From a verb's arguments to the request's JSON object.
//!
//! The object is not checked here: what is missing or wrong is the broker's to say, in one voice for all its clients.

use beam_base::AbsPath;
use beam_wire::request::GoalsMode;
use beam_wire::{Backend, Op, Scope};
use serde_json::{Map, Value};

use crate::args::{Call, Given};
use crate::context::{Context, WORKSPACE};
use crate::error::CliError;
use crate::input::{self, Taken};
use crate::ui;

/// A request that can be sent, and what is said about it.
#[derive(Debug)]
pub struct Prepared {
    /// The object.
    pub body: Map<String, Value>,
    /// The text in it.
    pub text: Option<String>,
    /// `sync A.lean`: how lines for people call it.
    pub what: String,
}

/// Reads what the arguments point to and builds the request. Lines of `BEAM_DEBUG_TEXT` are said on the way.
pub fn prepare(ctx: &Context, call: &Call, root: &AbsPath) -> Result<Prepared, CliError> {
    let given = &call.given;
    let handle = given.handle.as_ref().map(|h| input::handle(h, &ctx.cwd)).transpose()?;
    let action = given.code_action.as_ref().map(|a| input::json(a, &ctx.cwd, "ACTION")).transpose()?;
    let text = given.text.as_ref().map(|t| input::text(t, &ctx.cwd)).transpose()?;
    if let Some(Taken { text, source }) = &text
        && ui::switch(&ctx.env, "BEAM_DEBUG_TEXT") == Some(true)
    {
        for line in ui::debug_text(source, text) {
            ctx.ui.say(&line);
        }
    }
    let text = text.map(|t| t.text);
    let path = given.path.as_ref().map(|p| path_argument(p, &ctx.cwd, root));
    let mut body = body(call.spec.op, given, root);
    for (key, value) in [
        ("path", path.map(Value::from)),
        ("handle", handle),
        ("codeAction", action),
        ("text", text.clone().map(Value::from)),
    ] {
        if let Some(value) = value {
            body.insert(key.to_owned(), value);
        }
    }
    for (key, value) in call.spec.fixed {
        body.insert((*key).to_owned(), Value::Bool(*value));
    }
    let what = match &given.path {
        Some(path) => format!("{} {path}", call.typed),
        None => call.typed.clone(),
    };
    Ok(Prepared { body, text, what })
}

/// The envelope, and the fields that need no reading.
fn body(op: Op, given: &Given, root: &AbsPath) -> Map<String, Value> {
    let spec = op.spec();
    let mut body = Map::new();
    body.insert("op".to_owned(), op.name().into());
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(key.to_owned(), value);
        }
    };
    set("backend", spec.backend.then(|| given.backend.as_str().into()));
    if spec.scope != Scope::Process {
        set("workspaceId", Some(WORKSPACE.into()));
        set("root", Some(root.to_string().into()));
    }
    set("version", given.version.map(Value::from));
    set("line", given.line.map(Value::from));
    set("character", given.character.map(Value::from));
    set("endLine", given.end_line.map(Value::from));
    set("endCharacter", given.end_character.map(Value::from));
    set(
        "mode",
        given.mode.map(|m| match m {
            GoalsMode::Before => "before".into(),
            GoalsMode::After => "after".into(),
        }),
    );
    set("query", given.query.clone().map(Value::from));
    set("cancelRequestId", given.request_id.clone().map(Value::from));
    set("includeDeclaration", given.include_declaration.map(Value::from));
    set("diagnosticScope", given.all_diagnostics.then(|| "all".into()));
    set("kinds", (!given.kinds.is_empty()).then(|| given.kinds.clone().into()));
    set("suggest", given.suggest.clone().map(Value::from));
    body
}

/// Which prover a verb is about.
#[must_use]
pub fn backend(call: &Call) -> Backend {
    call.given.backend
}

/// A path as the user means it.
///
/// The protocol's relative paths start at the root, people's start where they stand. Inside the project the current directory
/// comes first and the root second; outside of it the root comes first. The first place that has the file wins; when neither
/// has it, the first is named, so that the error speaks of the place the user looks at.
fn path_argument(given: &str, cwd: &AbsPath, root: &AbsPath) -> String {
    let here = AbsPath::resolve(cwd, given);
    let there = AbsPath::resolve(root, given);
    let inside = cwd.relative_to(root).is_some();
    let exists = |p: &AbsPath| std::fs::symlink_metadata(p).is_ok();
    let (first, second) = if inside { (&here, &there) } else { (&there, &here) };
    let chosen = if exists(first) || !exists(second) { first } else { second };
    chosen.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_start_where_the_user_stands() {
        let dir = tempfile::tempdir().unwrap();
        let top = AbsPath::canonical(dir.path()).unwrap();
        let root = top.join("proj");
        let sub = root.join("Sub");
        std::fs::create_dir_all(&sub).unwrap();
        for file in ["proj/A.lean", "proj/B.lean", "proj/Sub/A.lean", "Out.lean"] {
            std::fs::write(top.join(file), "").unwrap();
        }
        let check = |given: &str, cwd: &AbsPath, wanted: &str| {
            assert_eq!(path_argument(given, cwd, &root), top.join(wanted).to_string(), "{given} in {cwd}");
        };
        check("A.lean", &root, "proj/A.lean");
        check("A.lean", &sub, "proj/Sub/A.lean");
        check("../A.lean", &sub, "proj/A.lean");
        check("B.lean", &sub, "proj/B.lean");
        check("Sub/A.lean", &sub, "proj/Sub/A.lean");
        check("None.lean", &sub, "proj/Sub/None.lean");
        check("A.lean", &top, "proj/A.lean");
        check("proj/A.lean", &top, "proj/A.lean");
        check("None.lean", &top, "proj/None.lean");
        check("Out.lean", &top, "Out.lean");
        let absolute = sub.join("A.lean").to_string();
        check(&absolute, &top, "proj/Sub/A.lean");
    }
}
