//! What is done before a worker reads a document's imports: which workspace files they are, in which text, and, where there is no Lake, building
//! them.
//!
//! Natively Lake builds, from inside the worker; here only the texts are noted. They are read *before* the build begins: a file that changes in
//! between counts as changed, which costs a refresh, never a verdict about another text than the user's.

#![allow(clippy::disallowed_methods, reason = "runs on blocking threads: the session's preparation of imports")]

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};

use beam_base::AbsPath;
use beam_lean::{ModuleName, imports_of, lean_text_hash, normalize_newlines};
use beam_process::StopOnDrop;
use beam_project::Project;
use beam_session::{BoxFuture, ImportedSource, Setup, SetupLines, SetupReport};

use super::authority::Authority;
use crate::engine::settings::BuildPolicy;

/// Prepares the imports of one workspace's documents.
pub(in crate::engine) struct Imports(Arc<ImportReader>);

struct ImportReader {
    project: Arc<Project>,
    authority: Arc<Authority>,
    policy: BuildPolicy,
    /// What was read of each file, as long as its time and length stay.
    known: Mutex<HashMap<AbsPath, ReadSource>>,
}

#[derive(Clone)]
struct ReadSource {
    source: ImportedSource,
    imports: Vec<ModuleName>,
}

impl Setup for Imports {
    fn set_up(&self, path: &AbsPath, text: Arc<str>, lines: SetupLines) -> BoxFuture<'static, SetupReport> {
        let (this, path) = (Arc::clone(&self.0), path.clone());
        Box::pin(async move {
            let stop = StopOnDrop::default();
            let stopped = stop.flag();
            let work = move || this.prepare(&path, &text, &lines, &|| stopped.is_raised());
            match tokio::task::spawn_blocking(work).await {
                Ok(report) => report,
                Err(e) => std::panic::resume_unwind(e.try_into_panic().unwrap_or_else(|_| Box::new("aborted"))),
            }
        })
    }
}

impl Imports {
    pub(in crate::engine) fn new(project: Arc<Project>, authority: Arc<Authority>, policy: BuildPolicy) -> Self {
        Self(Arc::new(ImportReader { project, authority, policy, known: Mutex::default() }))
    }
}

impl ImportReader {
    fn prepare(
        &self,
        path: &AbsPath,
        text: &str,
        lines: &SetupLines,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> SetupReport {
        let imports = self.closure(text);
        let built = self.authority.build(path, text, self.policy, lines, stopped);
        SetupReport {
            imports,
            built: built.vouches,
            problem: built.problem,
            refused: built.refused,
            worker_args: self.worker_args(path),
        }
    }

    /// The options of the file, where no Lake tells them to the worker.
    fn worker_args(&self, path: &AbsPath) -> Vec<OsString> {
        if self.authority.is_lake() {
            return Vec::new();
        }
        self.project.options_for(path).iter().map(|option| option.argument().into()).collect()
    }

    /// Every workspace source that the text imports, directly or not.
    fn closure(&self, text: &str) -> Vec<ImportedSource> {
        let mut out = Vec::new();
        let mut seen = HashSet::new();
        let mut queue: Vec<ModuleName> = imported(text);
        while let Some(module) = queue.pop() {
            if !seen.insert(module.clone()) {
                continue;
            }
            // What belongs to no package is Lean's own library, or does not exist; the latter Lean itself reports.
            let Some(path) = self.project.source_of(&module) else { continue };
            // What Lake fetched is nobody's to edit and does not import the workspace; with it every barrier would look at all of Mathlib.
            if path.relative_to(self.project.root()).is_some_and(|relative| relative.starts_with(".lake")) {
                continue;
            }
            let Some(known) = self.read(&module, path) else { continue };
            out.push(known.source);
            queue.extend(known.imports);
        }
        out.sort_by(|a, b| a.module.cmp(&b.module));
        out
    }

    fn read(&self, module: &ModuleName, path: AbsPath) -> Option<ReadSource> {
        let stamp = ImportedSource::stamp_of(&path);
        let table = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = table().get(&path)
            && stamp.is_some()
            && known.source.stamp == stamp
        {
            return Some(known.clone());
        }
        let text = std::fs::read_to_string(&path).ok()?;
        let hash = lean_text_hash(&normalize_newlines(&text));
        let source = ImportedSource { module: module.to_string(), path: path.clone(), hash, stamp };
        let known = ReadSource { source, imports: imported(&text) };
        table().insert(path, known.clone());
        Some(known)
    }
}

fn imported(text: &str) -> Vec<ModuleName> {
    imports_of(text).imports.into_iter().map(|import| import.module).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closure_holds_the_workspace_and_nothing_that_was_fetched() {
        let dir = tempfile::tempdir().unwrap();
        let root = AbsPath::canonical(dir.path()).unwrap();
        let write = |file: &str, text: &str| {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let lakefile = "[[require]]\nname = \"dep\"\ngit = \"x\"\n\n[[lean_lib]]\nname = \"A\"\nglobs = [\"A.+\"]\n";
        write("lakefile.toml", lakefile);
        write(".lake/packages/dep/lakefile.toml", "[[lean_lib]]\nname = \"Dep\"\n");
        write(".lake/packages/dep/Dep.lean", "def d := 1\n");
        write("A/Low.lean", "import Dep\n");
        write("A/Mid.lean", "import A.Low\nimport Lean\n");
        let project = Arc::new(Project::read(&root));
        assert!(project.source_of(&ModuleName::parse("Dep").unwrap()).is_some());
        let imports = Imports::new(project, Arc::new(Authority::nobody()), BuildPolicy::OnDemand);
        let closure = |text| -> Vec<String> { imports.0.closure(text).into_iter().map(|s| s.module).collect() };
        assert_eq!(closure("import A.Mid\nimport A.Mid\nimport A.None\n"), ["A.Low", "A.Mid"]);
        // Read anew where it changed, however soon.
        write("A/Mid.lean", "import Lean\n\n\n");
        assert_eq!(closure("import A.Mid\n"), ["A.Mid"]);
    }
}
