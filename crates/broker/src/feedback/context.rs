//! What a front knows when it asks for a report: the project, its control folder, and whose words are private.

use std::path::PathBuf;
use std::time::SystemTime;

use beam_base::AbsPath;
use serde_json::{Map, Value};

use crate::daemon::Control;

/// Whose words are private.
#[derive(Debug, Clone, Default)]
pub struct Person {
    /// The home directory.
    pub home: Option<PathBuf>,
    /// Account names.
    pub names: Vec<String>,
}

impl Person {
    /// Who runs this process, as the environment says.
    #[must_use]
    pub fn current() -> Self {
        let names = ["USER", "LOGNAME"].iter().filter_map(|k| std::env::var(k).ok()).collect();
        Self { home: std::env::var_os("HOME").map(PathBuf::from), names }
    }
}

/// What a front supplies. Nothing here may be about another workspace than `root`.
#[derive(Debug, Clone)]
pub struct Context {
    /// The identity object (`name`, `version`, `mcp_protocol`, `runtime_active`, …).
    pub identity: Map<String, Value>,
    /// Canonical root of the project that the report is about.
    pub root: Option<AbsPath>,
    /// The project's control directory; its registry and incidents are collected if it is given. It is never created but for a bundle.
    pub control: Option<Control>,
    /// The bundle's directory instead of a new one below the control directory.
    pub output_dir: Option<AbsPath>,
    /// Statistics of this workspace, from something that runs already.
    pub stats: Option<Value>,
    /// Open files of this workspace, likewise.
    pub open_files: Option<Value>,
    /// What the front could not find out.
    pub warnings: Vec<String>,
    /// Whether the answer and its text hold what was collected. A bundle holds it in any case.
    pub include_collected: bool,
    /// Whose words are replaced.
    pub person: Person,
    /// When the report is made.
    pub at: SystemTime,
}

impl Context {
    /// A context with nothing known but who we are and which project it is about.
    #[must_use]
    pub fn new(identity: Map<String, Value>, root: Option<AbsPath>) -> Self {
        Self {
            identity,
            root,
            control: None,
            output_dir: None,
            stats: None,
            open_files: None,
            warnings: Vec::new(),
            include_collected: true,
            person: Person::current(),
            at: SystemTime::now(),
        }
    }
}
