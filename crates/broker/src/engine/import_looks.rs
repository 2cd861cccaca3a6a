//! Imports that moved on since a document's worker loaded them, as every answer about positions tells them: a probe in an outdated
//! environment is a wrong answer, too, and nobody who probes has to sync first.
//!
//! Cheap: time and length of each imported workspace file, at most once a second for a document, and only as long as the disk answers
//! at once. The barrier looks for itself, each time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use beam_base::AbsPath;
use beam_session::SetupReport;

use super::disk::Disk;

/// How long a look counts.
const FRESH: Duration = Duration::from_secs(1);

/// The last look for each document.
#[derive(Debug, Default)]
pub(super) struct ImportLooks(Mutex<HashMap<AbsPath, ImportLook>>);

#[derive(Debug)]
struct ImportLook {
    at: Instant,
    /// What the worker was started with: another worker is looked at anew.
    setup: Arc<SetupReport>,
    moved: Vec<String>,
}

impl ImportLooks {
    /// Modules that hold another text now than the one that was loaded, in the order of the report; `None` if there are none, or if
    /// nothing is known.
    pub(super) async fn moved(
        &self,
        disk: &Disk,
        path: &AbsPath,
        setup: Option<&Arc<SetupReport>>,
    ) -> Option<Vec<String>> {
        let setup = setup?;
        if setup.imports.is_empty() {
            return None;
        }
        let moved = match self.remembered(path, setup) {
            Some(moved) => moved,
            None => {
                let report = Arc::clone(setup);
                let look = move || -> Vec<String> {
                    report.imports.iter().filter(|s| !s.is_current()).map(|s| s.module.clone()).collect()
                };
                let moved = disk.want(look).await?;
                let look = ImportLook { at: Instant::now(), setup: Arc::clone(setup), moved: moved.clone() };
                self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone(), look);
                moved
            }
        };
        (!moved.is_empty()).then_some(moved)
    }

    fn remembered(&self, path: &AbsPath, setup: &Arc<SetupReport>) -> Option<Vec<String>> {
        let looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let look = looks.get(path).filter(|look| look.at.elapsed() < FRESH && Arc::ptr_eq(&look.setup, setup))?;
        Some(look.moved.clone())
    }
}
