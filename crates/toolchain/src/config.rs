//! What a project's environment depends on, so that a session can tell that the one it was started with is no longer the project's.
//!
//! Owns the list of files and their fingerprint; must never restart anything, nor run Lake: a worker's environment is taken once, when
//! its session starts, and a change is for the user to hear about.

use beam_base::AbsPath;

/// The files of a project that decide which toolchain it uses and what `lake env` says, relative to its root; for `lean-toolchain` the
/// nearest one from the root upwards, as elan has it. The configuration of dependencies counts through the manifest, which names
/// their revisions.
pub const CONFIG_FILES: [&str; 5] =
    ["lean-toolchain", "lakefile.toml", "lakefile.lean", "lake-manifest.json", ".lake/package-overrides.json"];

/// The content of a project's configuration, as hashes. Equal stamps mean that an environment taken at one holds at the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigStamp {
    /// Each of [`CONFIG_FILES`] in order; `None` where there is none, or none that can be read.
    files: [Option<blake3::Hash>; CONFIG_FILES.len()],
}

/// Reads the project's configuration. Some tens of microseconds: small files, no more than five.
#[must_use]
pub fn config_stamp(root: &AbsPath) -> ConfigStamp {
    let hash = |path: AbsPath| std::fs::read(path).ok().map(|content| blake3::hash(&content));
    ConfigStamp {
        files: CONFIG_FILES.map(|name| match name {
            "lean-toolchain" => root.ancestors().find_map(|dir| hash(dir.join(name))),
            _ => hash(root.join(name)),
        }),
    }
}

impl ConfigStamp {
    /// The files that are not what they were, by name; empty when nothing has changed. A file that appears or goes counts.
    #[must_use]
    pub fn changed_since(&self, before: &Self) -> Vec<&'static str> {
        let pairs = self.files.iter().zip(&before.files);
        CONFIG_FILES.into_iter().zip(pairs).filter(|(_, (now, then))| now != then).map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_follows_contents_and_names_what_changed() {
        let tmp = tempfile::tempdir().unwrap();
        let root = AbsPath::canonical(tmp.path()).unwrap();
        let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
        let empty = config_stamp(&root);
        write("lean-toolchain", "leanprover/lean4:v4.28.0\n");
        write("lakefile.toml", "name = \"x\"\n");
        let first = config_stamp(&root);
        assert_eq!(first.changed_since(&empty), ["lean-toolchain", "lakefile.toml"]);
        // Sources and a rewritten file of the same content are no change; nor is a touched one.
        write("Main.lean", "#eval 1\n");
        write("lakefile.toml", "name = \"x\"\n");
        assert_eq!(config_stamp(&root), first);
        assert!(config_stamp(&root).changed_since(&first).is_empty());
        std::fs::create_dir(root.join(".lake")).unwrap();
        write(".lake/package-overrides.json", "{}");
        write("lake-manifest.json", "{}");
        std::fs::remove_file(root.join("lakefile.toml")).unwrap();
        write("lakefile.lean", "import Lake\n");
        let second = config_stamp(&root);
        assert_eq!(
            second.changed_since(&first),
            ["lakefile.toml", "lakefile.lean", "lake-manifest.json", ".lake/package-overrides.json"]
        );
        assert_eq!(first.changed_since(&second), second.changed_since(&first));
        // The toolchain file above the project decides where the project has none of its own.
        let inner = root.join("packages/inner");
        std::fs::create_dir_all(&inner).unwrap();
        let before = config_stamp(&inner);
        write("lean-toolchain", "leanprover/lean4:v4.29.0\n");
        assert_eq!(config_stamp(&inner).changed_since(&before), ["lean-toolchain"]);
    }
}
