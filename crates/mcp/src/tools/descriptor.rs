//! The workspace descriptor: `{"root": "/absolute/path"}`, and nothing else (mcp section 3).
//!
//! Touches the file system, so it may block. Must never create anything: a refused descriptor leaves no trace.

#![allow(clippy::disallowed_methods, reason = "arguments are read on blocking threads")]

use beam_base::AbsPath;
use beam_broker::root::{self, Backend, RootError};
use serde_json::{Map, Value, json};

use super::output::ToolError;

/// How to do it right, in every message.
const SHAPE: &str = r#"pass "workspace": {"root": "/absolute/path/of/the/project"}"#;

/// A project that exists.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Workspace {
    /// Canonical, valid UTF-8.
    pub root: AbsPath,
}

impl Workspace {
    /// The private workspace id: a function of the canonical root, so that aliases share a runtime.
    pub(crate) fn id(&self) -> String {
        id(&self.root)
    }

    /// The descriptor that results echo.
    pub(crate) fn echo(&self) -> Value {
        json!({ "root": self.root })
    }

    /// Reads the descriptor of a call that is bound to a project.
    pub(crate) fn read(tool: &str, arguments: &Map<String, Value>) -> Result<Self, ToolError> {
        let given = absolute(tool, arguments)?;
        let root = root::check(&given, Backend::Lean).map_err(|e| bad(tool, &reason(&e)))?;
        utf8(tool, root).map(|root| Self { root })
    }
}

/// What is to be dropped: a root that was a project once, whatever it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DropTarget {
    /// Canonical if it exists, else as given without `.` and `..`.
    pub root: AbsPath,
}

impl DropTarget {
    /// The private workspace id.
    pub(crate) fn id(&self) -> String {
        id(&self.root)
    }

    /// The descriptor that the result echoes.
    pub(crate) fn echo(&self) -> Value {
        json!({ "root": self.root })
    }

    /// Reads the descriptor of a drop.
    pub(crate) fn read(tool: &str, arguments: &Map<String, Value>) -> Result<Self, ToolError> {
        let given = absolute(tool, arguments)?;
        let root = AbsPath::canonical(&given).unwrap_or_else(|_| AbsPath::resolve(&given, "."));
        utf8(tool, root).map(|root| Self { root })
    }
}

fn id(root: &AbsPath) -> String {
    format!("local:{root}")
}

fn absolute(tool: &str, arguments: &Map<String, Value>) -> Result<AbsPath, ToolError> {
    let descriptor = arguments.get("workspace").ok_or_else(|| bad(tool, "it is missing"))?;
    let map = descriptor.as_object().ok_or_else(|| bad(tool, "it must be an object"))?;
    if let Some(extra) = map.keys().find(|k| *k != "root") {
        return Err(bad(tool, &format!("it must hold `root` and nothing else, not `{extra}`")));
    }
    let root = map.get("root").ok_or_else(|| bad(tool, "it has no `root`"))?;
    let text = root.as_str().ok_or_else(|| bad(tool, "`root` must be a string"))?;
    AbsPath::new(text).map_err(|_| bad(tool, &format!("`root` must be an absolute path, not {root}")))
}

fn reason(e: &RootError) -> String {
    match e {
        RootError::Unusable { path, source } => format!("the root {} does not resolve: {source}", path.display()),
        RootError::NotAFolder(path) => format!("the root {path} is not a directory"),
        RootError::NoMarker(path) => {
            format!("the root {path} is not a Lean project: it has none of {}", Backend::Lean.markers().join(", "))
        }
        RootError::NotInferred { .. } => e.to_string(),
    }
}

fn bad(tool: &str, why: &str) -> ToolError {
    ToolError::invalid_input(format!("{tool}: the workspace cannot be used: {why}; {SHAPE}"))
}

fn utf8(tool: &str, root: AbsPath) -> Result<AbsPath, ToolError> {
    match root.to_str() {
        Some(_) => Ok(root),
        None => Err(bad(tool, &format!("the root {root} is not valid UTF-8"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(descriptor: Value) -> Result<Workspace, String> {
        let map = Map::from_iter([("workspace".to_owned(), descriptor)]);
        Workspace::read("lean_sync", &map).map_err(|e| e.message)
    }

    #[test]
    fn every_way_to_get_it_wrong_says_how_to_get_it_right() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().to_str().unwrap().to_owned();
        std::fs::write(tmp.path().join("file"), "").unwrap();
        let why = |e: Result<Workspace, String>| {
            let e = e.unwrap_err();
            assert!(e.starts_with("lean_sync: ") && e.ends_with(SHAPE), "{e}");
            e
        };
        assert!(why(Workspace::read("lean_sync", &Map::new()).map_err(|e| e.message)).contains("missing"));
        assert!(why(read(json!("/x"))).contains("an object"));
        assert!(why(read(json!(null))).contains("an object"));
        assert!(why(read(json!({}))).contains("no `root`"));
        assert!(why(read(json!({ "root": 1 }))).contains("a string"));
        assert!(why(read(json!({ "root": dir, "id": "x" }))).contains("`id`"));
        assert!(why(read(json!({ "root": "a/b" }))).contains("absolute path, not \"a/b\""));
        assert!(why(read(json!({ "root": "" }))).contains("absolute path"));
        assert!(why(read(json!({ "root": format!("{dir}/none") }))).contains("does not resolve"));
        assert!(why(read(json!({ "root": format!("{dir}/file") }))).contains("not a directory"));
        assert!(why(read(json!({ "root": dir }))).contains("none of lean-toolchain, lakefile.toml, lakefile.lean"));
    }

    #[test]
    fn aliases_are_one_workspace() {
        let tmp = tempfile::tempdir().unwrap();
        let top = AbsPath::canonical(tmp.path()).unwrap();
        let project = top.join("p");
        std::fs::create_dir(&project).unwrap();
        std::fs::write(project.join("lean-toolchain"), "").unwrap();
        std::os::unix::fs::symlink(&project, top.join("link")).unwrap();
        let direct = read(json!({ "root": project })).unwrap();
        assert_eq!(read(json!({ "root": top.join("link") })).unwrap(), direct);
        assert_eq!(read(json!({ "root": top.join("p/../p/.") })).unwrap().id(), format!("local:{project}"));
        assert_eq!(direct.echo(), json!({ "root": project }));
    }

    #[test]
    fn a_drop_needs_no_project() {
        let tmp = tempfile::tempdir().unwrap();
        let top = AbsPath::canonical(tmp.path()).unwrap();
        std::os::unix::fs::symlink(&top, top.join("link")).unwrap();
        let drop = |root: Value| {
            let map = Map::from_iter([("workspace".to_owned(), json!({ "root": root }))]);
            DropTarget::read("lean_drop_workspace", &map).map(|t| t.root)
        };
        assert_eq!(drop(json!(top.join("link"))).unwrap(), top);
        assert_eq!(drop(json!(top.join("gone/x/../y"))).unwrap(), top.join("gone/y"));
        assert!(drop(json!("gone")).is_err());
    }
}
