//! Which toolchain names are supported, judged before anything is resolved or run.
//!
//! This is about names only. That the extension really works on a toolchain is shown by qualification (invariant K4).

use std::collections::BTreeSet;
use std::path::PathBuf;

use beam_base::AbsPath;

use crate::release::{Release, number};
use crate::store::Store;

const VALIDATED: &str = include_str!("../assets/validated-lean-toolchains");
const LINES: &str = include_str!("../assets/compatible-lean-release-lines");
/// The optional registry of the install, in the store's home.
pub const CUSTOM_FILE: &str = "custom-lean-toolchains";

/// What the registries say of a toolchain name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// Listed by its exact name.
    Validated,
    /// A canonical release of a listed line.
    ReleaseLine,
    /// Listed by its exact name in the install's own registry.
    Custom,
    /// None of these.
    Unsupported,
}

impl Support {
    /// The word shown by `doctor`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Validated => "validated",
            Self::ReleaseLine => "release-line",
            Self::Custom => "custom",
            Self::Unsupported => "unsupported",
        }
    }
}

/// A registry that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The file is there but cannot be read.
    #[error("cannot read the toolchain registry {path}: {source}")]
    Read {
        /// The registry.
        path: AbsPath,
        /// Why.
        source: std::io::Error,
    },
    /// An entry that is no toolchain name or release line.
    #[error("{} line {line}: `{entry}` is not a valid entry", .registry.display())]
    Malformed {
        /// The registry.
        registry: PathBuf,
        /// 1-based.
        line: usize,
        /// As written.
        entry: String,
    },
    /// The same entry twice.
    #[error("{} line {line}: `{entry}` is listed twice", .registry.display())]
    Duplicate {
        /// The registry.
        registry: PathBuf,
        /// 1-based, of the second.
        line: usize,
        /// As written.
        entry: String,
    },
}

/// The three registries.
#[derive(Debug, Clone)]
pub struct Registries {
    validated: Vec<String>,
    lines: Vec<String>,
    custom: Vec<String>,
    custom_path: AbsPath,
}

impl Registries {
    /// The built-in lists and the install's own one, which may be absent.
    pub fn load(store: &Store) -> Result<Self, RegistryError> {
        let custom_path = store.home().join(CUSTOM_FILE);
        let text = match std::fs::read_to_string(&custom_path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(source) => {
                return Err(RegistryError::Read { path: custom_path, source });
            }
        };
        Ok(Self {
            validated: parse("validated-lean-toolchains", VALIDATED, |e| Release::parse(e).is_some())?,
            lines: parse("compatible-lean-release-lines", LINES, is_line)?,
            custom: parse(custom_path.as_path(), &text, |e| !e.contains(char::is_whitespace))?,
            custom_path,
        })
    }

    /// Exact names.
    #[must_use]
    pub fn validated(&self) -> &[String] {
        &self.validated
    }

    /// Lines such as `leanprover/lean4:v4.33`.
    #[must_use]
    pub fn release_lines(&self) -> &[String] {
        &self.lines
    }

    /// The install's own names.
    #[must_use]
    pub fn custom(&self) -> &[String] {
        &self.custom
    }

    /// Where the install's own registry is or would be.
    #[must_use]
    pub fn custom_path(&self) -> &AbsPath {
        &self.custom_path
    }

    /// What the registries say of a name as it stands in a `lean-toolchain` file.
    #[must_use]
    pub fn classify(&self, name: &str) -> Support {
        let listed = |list: &[String]| list.iter().any(|e| e == name);
        if listed(&self.validated) {
            Support::Validated
        } else if Release::parse(name).is_some_and(|r| listed_line(&self.lines, r)) {
            Support::ReleaseLine
        } else if listed(&self.custom) {
            Support::Custom
        } else {
            Support::Unsupported
        }
    }
}

fn listed_line(lines: &[String], release: Release) -> bool {
    let line = format!("leanprover/lean4:v{}.{}", release.major, release.minor);
    lines.contains(&line)
}

fn is_line(entry: &str) -> bool {
    entry
        .strip_prefix("leanprover/lean4:v")
        .and_then(|v| v.split_once('.'))
        .is_some_and(|(major, minor)| number(major).is_some() && number(minor).is_some())
}

fn parse(registry: impl Into<PathBuf>, text: &str, valid: impl Fn(&str) -> bool) -> Result<Vec<String>, RegistryError> {
    let registry = registry.into();
    let mut seen = BTreeSet::new();
    let mut out = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let entry = line.split('#').next().unwrap_or_default().trim();
        if entry.is_empty() {
            continue;
        }
        let (entry, line) = (entry.to_owned(), n + 1);
        if !valid(&entry) {
            return Err(RegistryError::Malformed { registry, line, entry });
        }
        if !seen.insert(entry.clone()) {
            return Err(RegistryError::Duplicate { registry, line, entry });
        }
        out.push(entry);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use beam_process::HostEnv;

    fn registries(custom: &str) -> Result<Registries, RegistryError> {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(CUSTOM_FILE), custom).unwrap();
        let store = Store::open(&HostEnv::from_vars([("LEAN_BEAM_HOME", home.path())])).unwrap();
        Registries::load(&store)
    }

    #[test]
    fn classification() {
        let r = registries("mine # a comment\n\n# another\nx/y:z\n").unwrap();
        for (name, want) in [
            ("leanprover/lean4:v4.28.0", Support::Validated),
            ("leanprover/lean4:v4.28.1", Support::ReleaseLine),
            ("leanprover/lean4:v4.34.0-rc2", Support::ReleaseLine),
            ("leanprover/lean4:v4.34.0-rc0", Support::Unsupported),
            ("leanprover/lean4:v4.34.00", Support::Unsupported),
            ("leanprover/lean4:v4.034.0", Support::Unsupported),
            ("leanprover/lean4:4.28.1", Support::Unsupported),
            ("leanprover/lean4:v4.27.0", Support::Unsupported),
            ("leanprover/lean4:v4.28.0.1", Support::Unsupported),
            ("leanprover/lean4:v4.28", Support::Unsupported),
            ("stable", Support::Unsupported),
            ("mine", Support::Custom),
            ("x/y:z", Support::Custom),
        ] {
            assert_eq!(r.classify(name), want, "{name}");
        }
    }

    #[test]
    fn broken_registries_are_errors() {
        let e = registries("a\nb c\n").unwrap_err().to_string();
        assert!(e.ends_with("line 2: `b c` is not a valid entry"), "{e}");
        let e = registries("a\n#\na\n").unwrap_err().to_string();
        assert!(e.ends_with("line 3: `a` is listed twice"), "{e}");
    }
}
