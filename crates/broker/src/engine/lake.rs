//! Asking Lake about a package, in a child process of its own (D8): Lake's code may end the process it runs in.

use std::sync::Arc;
use std::time::Duration;

use beam_base::AbsPath;
use beam_toolchain::project::{ModuleName, NativeBuild, Project, imports_of, native_needs_build};
use beam_toolchain::{HostEnv, Toolchain};

use super::authority::Built;
use super::ops::Document;
use super::save::{Saved, Target, TargetError};

/// How long Lake may take to say what it would build.
const LOOK: Duration = Duration::from_secs(600);

/// Lake of one package.
#[derive(Debug)]
pub(crate) struct Lake {
    lake: AbsPath,
    root: AbsPath,
    env: HostEnv,
    project: Arc<Project>,
}

impl Lake {
    /// The project's Lake, if it is a Lake package and the toolchain has one.
    pub(crate) fn of(toolchain: &Toolchain, project: &Arc<Project>, env: &HostEnv) -> Option<Self> {
        let lake = toolchain.lake.clone().filter(|_| beam_toolchain::launch::has_lakefile(project.root()))?;
        Some(Self { lake, root: project.root().clone(), env: env.clone(), project: Arc::clone(project) })
    }

    pub(crate) async fn target(&self, doc: &Document) -> Result<Target, TargetError> {
        Err(TargetError::Other(format!("not yet {}", doc.shown())))
    }

    pub(crate) async fn trace(&self, _doc: &Document, _target: &Target, _saved: &Saved) -> Result<(), String> {
        Err("not yet".to_owned())
    }

    /// What a text imports and Lake would have to build. Blocking.
    pub(crate) fn look(&self, text: &str) -> Built {
        let imports: Vec<ModuleName> = imports_of(text)
            .imports
            .into_iter()
            .map(|import| import.module)
            .filter(|module| self.project.source_of(module).is_some())
            .collect();
        let problem = |text: String| Built {
            problem: Some(format!("Failed to build module dependencies.\n{text}")),
            ..Built::default()
        };
        match native_needs_build(&self.lake, &self.root, &self.env, &imports, LOOK) {
            Ok(NativeBuild::UpToDate) => Built { vouches: true, ..Built::default() },
            Ok(NativeBuild::Needed { modules, .. }) => {
                // A Lake that does not say which means some of those that it was asked about.
                let named = if modules.is_empty() { imports } else { modules };
                Built { refused: named.iter().map(ToString::to_string).collect(), ..Built::default() }
            }
            Ok(NativeBuild::Failed { text }) => problem(text),
            Err(e) => problem(e.to_string()),
        }
    }
}
