//! From a verb's arguments to a typed request. What is missing or wrong is said by the wire's own check, in one voice for all fronts.

use beam_base::AbsPath;
use beam_wire::{ErrorBody, Request, Scope};
use serde_json::{Map, Value};

use crate::args::{Call, FieldArgument};
use crate::context::{Context, WORKSPACE};
use crate::error::CliError;
use crate::input::{self, Taken};
use crate::ui;

/// A request that can be sent, and what is said about it.
#[derive(Debug)]
pub struct Prepared {
    /// The request, or why the fields make none.
    pub request: Result<Request, ErrorBody>,
    /// The text in it.
    pub text: Option<String>,
    /// `sync A.lean`: how lines for people call it.
    pub what: String,
}

/// Reads what the arguments point to and makes the request. Lines of `BEAM_DEBUG_TEXT` are said on the way.
///
/// # Errors
/// Something that an argument points to cannot be read.
pub fn prepare(ctx: &Context, call: &Call, root: &AbsPath, id: Option<&str>) -> Result<Prepared, CliError> {
    let mut body = envelope(call, root, id);
    let mut text = None;
    for (field, argument) in &call.fields {
        let value = match argument {
            FieldArgument::Value(value) => value.clone(),
            FieldArgument::Path(path) => path_argument(path, &ctx.cwd, root).into(),
            FieldArgument::Handle(source) => input::handle(source, &ctx.cwd)?,
            FieldArgument::Json(source) => input::json(source, &ctx.cwd, &field.snake.to_ascii_uppercase())?,
            FieldArgument::Candidates(source) => candidates(&input::text(source, &ctx.cwd)?.text),
            FieldArgument::Text(source) => {
                let Taken { text: taken, source } = input::text(source, &ctx.cwd)?;
                if ui::switch(&ctx.env, "BEAM_DEBUG_TEXT") == Some(true) {
                    for line in ui::debug_text(&source, &taken) {
                        ctx.ui.say(&line);
                    }
                }
                text = Some(taken.clone());
                taken.into()
            }
        };
        body.insert(field.name.to_owned(), value);
    }
    for (name, value) in call.spec.fixed {
        body.insert((*name).to_owned(), Value::Bool(*value));
    }
    let what = match call.path() {
        Some(path) => format!("{} {path}", call.typed),
        None => call.typed.clone(),
    };
    Ok(Prepared { request: Request::from_map(body).map_err(|rejected| rejected.error), text, what })
}

fn envelope(call: &Call, root: &AbsPath, id: Option<&str>) -> Map<String, Value> {
    let spec = call.spec.op.spec();
    let mut body = Map::new();
    body.insert("op".to_owned(), spec.name.into());
    if spec.backend {
        body.insert("backend".to_owned(), call.backend.as_str().into());
    }
    if spec.scope != Scope::Process {
        body.insert("workspaceId".to_owned(), WORKSPACE.into());
        body.insert("root".to_owned(), root.as_str().into());
    }
    if let Some(id) = id {
        body.insert("clientRequestId".to_owned(), id.into());
    }
    body
}

/// One candidate per line. A line's end is the line's, so a carriage return goes with it; what else stands there is the candidate's.
fn candidates(text: &str) -> Value {
    text.lines().filter(|line| !line.trim().is_empty()).map(Value::from).collect()
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
    fn candidates_are_lines() {
        assert_eq!(candidates("simp\r\n\n  exact h\n \n· rfl"), serde_json::json!(["simp", "  exact h", "· rfl"]));
        assert_eq!(candidates("\n"), serde_json::json!([]));
    }

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
