//! A recovery plan in the language of this front: tool calls to be sent as they stand.
//!
//! The broker gives the plan twice: as shell lines for people (`recoveryPlan`) and as steps (`recovery`), each an operation with its
//! fields or a command to be run in the project. Lines are never parsed.

use beam_wire::{Op, project::snake};
use serde_json::{Map, Value, json};

use super::descriptor::Workspace;
use super::table::TOOLS;

/// Replaces the shell lines of an error's data by tool calls. Data without steps passes unchanged.
pub(crate) fn as_tool_calls(data: &mut Value, workspace: &Workspace) {
    let Some(map) = data.as_object_mut() else { return };
    let Some(Value::Array(steps)) = map.remove("recovery") else { return };
    let calls: Vec<Value> = steps.iter().filter_map(|step| call(step.as_object()?, workspace)).collect();
    map.insert("recoveryPlan".to_owned(), calls.into());
}

fn call(step: &Map<String, Value>, workspace: &Workspace) -> Option<Value> {
    if let Some(command) = step.get("command") {
        return Some(json!({ "command": command, "directory": workspace.root }));
    }
    let op = Op::from_name(step.get("op")?.as_str()?)?;
    // The plain tool of the operation: one that sets no flags of its own.
    let tool = TOOLS.iter().find(|t| t.operation.is_some_and(|o| o.op == op && o.fixed.is_empty()))?;
    let mut arguments = Map::from_iter([("workspace".to_owned(), workspace.echo())]);
    arguments.extend(step.iter().filter(|(key, _)| *key != "op").map(|(key, value)| (snake(key), value.clone())));
    Some(json!({ "name": tool.name, "arguments": arguments }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_become_calls_that_can_be_sent() {
        let workspace = Workspace { root: beam_base::AbsPath::new("/p").unwrap() };
        let mut data = json!({
            "targetPath": "B.lean",
            "recoveryPlan": ["lean-beam save \"A.lean\"", "lean-beam refresh \"B.lean\"", "lake build"],
            "recovery": [{ "op": "save_olean", "path": "A.lean" }, { "op": "refresh_file", "path": "B.lean" }, { "command": "lake build" }],
        });
        as_tool_calls(&mut data, &workspace);
        assert_eq!(
            data,
            json!({ "targetPath": "B.lean", "recoveryPlan": [
                { "name": "lean_save", "arguments": { "workspace": { "root": "/p" }, "path": "A.lean" } },
                { "name": "lean_refresh", "arguments": { "workspace": { "root": "/p" }, "path": "B.lean" } },
                { "command": "lake build", "directory": "/p" },
            ] })
        );
        for mut other in [json!({ "a": 1 }), json!([1]), json!({ "recoveryPlan": [] })] {
            let before = other.clone();
            as_tool_calls(&mut other, &workspace);
            assert_eq!(other, before);
        }
    }
}
