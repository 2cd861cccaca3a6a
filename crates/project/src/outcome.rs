//! What is asked of a build, and what comes of it.

use std::collections::BTreeMap;

use beam_base::AbsPath;
use beam_lean::ModuleName;
use beam_toolchain::fs::FsError;
use beam_toolchain::lock::LockError;

use crate::plan::Why;

/// Whether modules may be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildPermission {
    /// What is stale is built.
    Build,
    /// Nothing is built or written; what would have to be is named.
    Never,
}

/// A module that has to be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeedsBuild {
    /// Its name.
    pub module: ModuleName,
    /// Its source.
    pub path: AbsPath,
    /// Why.
    pub why: Why,
}

/// For people: what would have to be built, and why.
#[must_use]
pub fn refusal(modules: &[NeedsBuild]) -> String {
    let named: Vec<String> = modules.iter().take(8).map(|m| format!("{} ({})", m.module, m.why)).collect();
    let more = modules.len().saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("building is switched off, and these modules have to be built first: {}{more}", named.join(", "))
}

/// A module that could not be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedModule {
    /// Its name.
    pub module: ModuleName,
    /// Its source.
    pub path: AbsPath,
    /// What there is to say, as Lake would print it: `error: App/Mid.lean:3:10: …` and so on.
    pub log: String,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildOutcome {
    /// Nothing had to be built.
    UpToDate {
        /// How many modules the text imports, directly or not.
        reused: usize,
    },
    /// All that was stale has been built.
    Built {
        /// In the order in which they were done.
        modules: Vec<ModuleName>,
        /// How many others were fresh.
        reused: usize,
    },
    /// Something the text needs cannot be built.
    Failed {
        /// The modules at fault; not those that merely import them.
        modules: Vec<FailedModule>,
        /// The whole report; its first line is Lake's `Failed to build module dependencies.`
        text: String,
    },
    /// [`BuildPermission::Never`], and something would have to be built.
    Refused {
        /// All that would have to be built, imports before importers.
        modules: Vec<NeedsBuild>,
    },
    /// The caller wanted no more. What had been finished is in place.
    Cancelled,
}

/// The keys of a text's direct workspace imports, by name: what a session that imports them now is based on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Basis(pub(crate) BTreeMap<String, String>);

/// The answer of [`Builder::ensure`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ensured {
    /// What came of it.
    pub outcome: BuildOutcome,
    /// Direct imports that are neither in the project nor in any library; Lean's own error will name them.
    pub missing: Vec<ModuleName>,
    /// For a later save of the text; empty unless the outcome is `UpToDate` or `Built`.
    pub basis: Basis,
}

/// Why it is not known what came of it.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file operation failed.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// Another build took too long.
    #[error("another process is building this project: {0}")]
    Lock(#[from] LockError),
    /// Lean separates the folders of its search path by colons.
    #[error("{0} cannot be on Lean's search path: its name contains `:`")]
    Colon(AbsPath),
    /// The sources do not hold still.
    #[error("{module} was edited again and again while it was being built; try again")]
    Restless {
        /// One of the modules.
        module: ModuleName,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_and_why() {
        let need = |n: usize| NeedsBuild {
            module: ModuleName::parse(&format!("A.M{n}")).unwrap(),
            path: AbsPath::new("/p/A.lean").unwrap(),
            why: if n == 0 { Why::SourceChanged } else { Why::NeverBuilt },
        };
        let all: Vec<_> = (0..10).map(need).collect();
        let text = refusal(&all);
        assert!(text.contains("first: A.M0 (its source has changed), A.M1 (it has not been built), "), "{text}");
        assert!(text.ends_with("A.M7 (it has not been built) and 2 more"), "{text}");
        assert!(refusal(&all[..1]).ends_with("A.M0 (its source has changed)"));
    }
}
