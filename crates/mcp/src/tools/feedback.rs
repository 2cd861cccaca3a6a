//! `beam_feedback_report`: its arguments, and the report as a result. The report itself is the broker's, for all fronts alike.
//!
//! Must never start a runtime or look at another workspace. Nothing of a confidential report names the project.

use beam_base::AbsPath;
use beam_broker::daemon::{Control, HostPaths};
use beam_broker::feedback::{self, Context, Input};
use serde_json::{Map, Value};

use super::arguments::INCLUDE_COLLECTED;
use super::descriptor::Workspace;
use super::output::{ToolError, ToolOutput};
use super::process::version_object;
use super::truncate::{self, OutputLimits};

/// A report that is asked for.
#[derive(Debug)]
pub(crate) struct FeedbackCall {
    tool: &'static str,
    /// The project it is about.
    pub workspace: Workspace,
    input: Input,
    include_collected: bool,
}

/// What the process knows of the workspace. Not looked at in a confidential report.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuntimeContext {
    /// Some workspace has a runtime.
    pub runtime_active: bool,
    /// Statistics of this workspace, if it has a runtime.
    pub stats: Option<Value>,
    /// Its open files, likewise.
    pub open_files: Option<Value>,
}

impl FeedbackCall {
    /// Reads the arguments, among which undeclared ones are no more. Order: descriptor, then the report's own fields.
    pub(super) fn read(tool: &'static str, mut arguments: Map<String, Value>) -> Result<Self, ToolError> {
        let workspace = Workspace::read(tool, &arguments)?;
        arguments.remove("workspace");
        let bad = |why: String| ToolError::invalid_input(format!("{tool}: {why}"));
        let include_collected = match arguments.remove(INCLUDE_COLLECTED) {
            None => false,
            Some(Value::Bool(b)) => b,
            Some(other) => return Err(bad(format!("`{INCLUDE_COLLECTED}` must be true or false, not {other}"))),
        };
        let input = Input::from_object(&arguments).map_err(|e| bad(e.to_string()))?;
        Ok(Self { tool, workspace, input, include_collected })
    }

    /// Whether nothing may be collected from the project.
    pub(crate) fn confidential(&self) -> bool {
        self.input.confidential
    }

    /// Makes the report, and writes the bundle if one is asked for. Blocks on the file system.
    pub(crate) fn finish(self, known: RuntimeContext, limits: &OutputLimits) -> ToolOutput {
        let Value::Object(mut identity) = version_object(known.runtime_active) else {
            return ToolError::invalid_result("the identity is no object").into();
        };
        let root = &self.workspace.root;
        if !self.confidential() {
            identity.insert("active_root".into(), root.to_string().into());
        }
        let mut context = Context::new(identity, Some(root.clone()));
        context.include_collected = self.include_collected;
        context.control = Some(Control::locate(root, &host_paths()));
        if !self.confidential() {
            if known.stats.is_none() {
                context.warnings.push(
                    "this workspace has no Lean runtime in this process: there are no statistics and no open files of it".to_owned(),
                );
            }
            context.stats = known.stats;
            context.open_files = known.open_files;
        }
        let report = match feedback::report(&self.input, &context) {
            Ok(report) => report,
            Err(e) => {
                let code = if e.is_input() { "invalidInput" } else { "internalError" };
                let message = format!("{}: {e}", self.tool);
                return ToolError { code: code.to_owned(), message, data: None }.into();
            }
        };
        let mut structured = report.to_value();
        if !self.confidential() {
            structured["workspace"] = self.workspace.echo();
        }
        truncate::to_limit(ToolOutput { structured, is_error: false }, limits)
    }
}

/// Where a daemon of the project would keep its files, as the environment says.
fn host_paths() -> HostPaths {
    let dir = |name| std::env::var_os(name).and_then(|d| AbsPath::new(d).ok());
    let control_dir = std::env::var_os("BEAM_CONTROL_DIR")
        .and_then(|d| Some(AbsPath::resolve(&AbsPath::current_dir().ok()?, d.to_str()?)));
    HostPaths { control_dir, runtime_dir: dir("XDG_RUNTIME_DIR"), tmp_dir: dir("TMPDIR") }
}

#[cfg(test)]
mod tests {
    use beam_broker::feedback::{BUNDLES, FIELDS, KINDS, REQUIRED, SEVERITIES};
    use serde_json::json;

    use super::super::arguments::{ArgumentType, ReportFieldType, arguments};
    use super::super::table::find;
    use super::super::testing::Project;
    use super::*;

    const TOOL: &str = "beam_feedback_report";

    impl Project {
        fn call(&self, more: Value) -> Result<FeedbackCall, ToolError> {
            let mut arguments = json!({
                "title": "Sync hangs", "summary": "s", "reproduction": "r", "expected": "e", "actual": "a",
                "workspace": { "root": self.root() },
            });
            let (Value::Object(all), Value::Object(more)) = (&mut arguments, more) else { unreachable!() };
            all.extend(more);
            FeedbackCall::read(TOOL, all.clone())
        }

        fn report(&self, more: Value, known: RuntimeContext) -> ToolOutput {
            self.call(more).unwrap().finish(known, &OutputLimits::default())
        }
    }

    fn known() -> RuntimeContext {
        RuntimeContext {
            runtime_active: true,
            stats: Some(json!({ "uptimeMs": 77 })),
            open_files: Some(json!({ "files": ["Secret.lean"] })),
        }
    }

    /// The schema offers exactly what the collector takes, and what only MCP has.
    #[test]
    fn the_schema_is_the_collectors() {
        let all = arguments(find(TOOL).unwrap());
        let mut names: Vec<_> = all.iter().filter(|a| a.ty != ArgumentType::Workspace).map(|a| a.name).collect();
        assert_eq!(names.pop(), Some(INCLUDE_COLLECTED));
        assert_eq!(names, FIELDS);
        let required: Vec<_> = all.iter().filter(|a| a.required).map(|a| a.name).collect();
        assert_eq!(required, [REQUIRED, &["workspace"]].concat());
        for (name, words) in [("kind", KINDS), ("severity", SEVERITIES), ("bundle", BUNDLES)] {
            let of = all.iter().find(|a| a.name == name).unwrap().ty;
            assert_eq!(of, ArgumentType::Report(ReportFieldType::Choice(words)), "{name}");
        }
    }

    #[test]
    fn every_rule_of_the_input_is_told_as_invalid_input() {
        let project = Project::new();
        for (more, why) in [
            (json!({ "title": " " }), "`title` is empty"),
            (json!({ "kind": "rant" }), "`kind` must be one of bug, ux, perf, docs, question"),
            (json!({ "tags": "x" }), "`tags`"),
            (json!({ "request": "x" }), "`request` must be a JSON object"),
            (json!({ "evidence": [{ "name": "../x", "content": "c" }] }), "`evidence[0].name`"),
            (json!({ "evidence": [{ "name": "x", "content": "c", "path": "p" }] }), "exactly one"),
            (json!({ "confidential": true, "redact": false }), "`redact` must not be false"),
            (json!({ "include_collected": 1 }), "`include_collected` must be true or false"),
        ] {
            let e = project.call(more).unwrap_err();
            assert_eq!(e.code, "invalidInput");
            assert!(e.message.starts_with(TOOL) && e.message.contains(why), "{}", e.message);
        }
        let outside = project
            .report(json!({ "evidence": [{ "name": "x", "path": "/etc/hostname" }] }), RuntimeContext::default());
        assert!(outside.is_error && outside.structured["code"] == "invalidInput", "{}", outside.structured);
    }

    #[test]
    fn a_report_says_what_is_known_of_this_workspace() {
        let project = Project::new();
        let out = project.report(json!({ "include_collected": true }), known());
        assert!(!out.is_error, "{}", out.structured);
        let s = &out.structured;
        assert_eq!(s["workspace"]["root"], project.root().to_string());
        assert_eq!(s["collected"]["stats"]["uptimeMs"], 77);
        assert_eq!(s["collected"]["openFiles"]["files"][0], "Secret.lean");
        assert_eq!(s["collected"]["identity"]["mcp_protocol"], "2026-07-28");
        assert_eq!(s["collection_warnings"], json!([]));
        assert_eq!(s["metadata"]["schema"], "beam.feedback.report-card.v1");
        assert!(s["markdown"].as_str().unwrap().starts_with("# Sync hangs"));
        assert!(!project.root().join(".beam").exists(), "a report without a bundle writes nothing");

        let short = project.report(json!({}), known()).structured;
        assert!(short.get("collected").is_none());
        let cold = project.report(json!({ "include_collected": true }), RuntimeContext::default()).structured;
        assert!(cold["collected"]["stats"].is_null() && cold["collected"]["openFiles"].is_null());
        assert!(cold["collection_warnings"][0].as_str().unwrap().contains("no Lean runtime"), "{cold}");
    }

    #[test]
    fn a_confidential_report_does_not_know_the_project() {
        let project = Project::new();
        let out = project
            .report(json!({ "confidential": true, "include_collected": true, "client_request_id": "id7" }), known());
        assert!(!out.is_error);
        let text = out.structured.to_string();
        for word in ["workspace", "uptimeMs", "Secret.lean", "id7", &project.root().to_string()] {
            assert!(!text.contains(&format!("\"{word}")), "{word}: {text}");
        }
        let identity = &out.structured["collected"]["identity"];
        let keys: Vec<_> = identity.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["name", "version", "mcp_protocol", "runtime_active"]);
        assert_eq!(out.structured["collection_warnings"], json!([]));
    }

    #[test]
    fn a_bundle_lies_in_the_project() {
        let project = Project::new();
        let out = project.report(json!({ "bundle": "zip", "redact": false }), known());
        assert!(!out.is_error, "{}", out.structured);
        let dir = out.structured["bundle_dir"].as_str().unwrap();
        assert!(dir.starts_with(&format!("{}/.beam/feedback/", project.root())), "{dir}");
        assert!(std::path::Path::new(dir).join("card.md").is_file());
        assert!(std::path::Path::new(out.structured["zip_path"].as_str().unwrap()).is_file());
    }

    /// What the caller could not have known is not called their input.
    #[test]
    fn a_bundle_that_cannot_be_written_is_no_fault_of_the_input() {
        let project = Project::new();
        std::fs::write(project.root().join(".beam"), "a file where the folder should be").unwrap();
        let out = project.report(json!({ "bundle": "dir" }), RuntimeContext::default());
        assert!(out.is_error && out.structured["code"] == "internalError", "{}", out.structured);
    }
}
