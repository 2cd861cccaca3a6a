//! Reading elan's folder: which toolchain elan would use for a project, and where it is.
//!
//! Must never run elan or one of its proxies: they download what is missing, and discovery never installs (invariant K2).

use std::collections::BTreeMap;

use beam_base::AbsPath;
use beam_process::HostEnv;
use beam_process::env::is_executable;
use serde::Deserialize;

use crate::release::Release;

const DEFAULT_ORIGIN: &str = "leanprover/lean4";

/// What decides the toolchain of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decider {
    /// `ELAN_TOOLCHAIN`.
    Environment,
    /// `elan override set` for this folder or one above it.
    Override(AbsPath),
    /// A `lean-toolchain` file.
    File(AbsPath),
    /// elan's default toolchain.
    Default,
}

/// A toolchain name and who named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// As written, trimmed.
    pub name: String,
    /// By whom.
    pub by: Decider,
}

/// The part of `settings.toml` that we read; elan owns the file, so unknown keys are none of our business.
#[derive(Debug, Default, Deserialize)]
struct Settings {
    #[serde(default)]
    default_toolchain: Option<String>,
    #[serde(default)]
    overrides: BTreeMap<String, String>,
}

/// elan's folder, which may be absent.
#[derive(Debug)]
pub(crate) struct Elan {
    home: Option<AbsPath>,
    settings: Settings,
}

impl Elan {
    /// Reads the settings. Settings that cannot be read count as empty: elan itself will complain about them.
    pub fn open(env: &HostEnv) -> Self {
        let home = env.elan_home().filter(|h| h.is_dir());
        let settings = home
            .as_ref()
            .and_then(|h| std::fs::read_to_string(h.join("settings.toml")).ok())
            .and_then(|text| toml::from_str(&text).ok())
            .unwrap_or_default();
        Self { home, settings }
    }

    /// The toolchain elan would choose in `dir`, by elan's own order of precedence.
    pub fn wanted(&self, dir: &AbsPath, env: &HostEnv) -> Option<Wanted> {
        if let Some(name) = env.var("ELAN_TOOLCHAIN") {
            return Some(Wanted { name: name.trim().to_owned(), by: Decider::Environment });
        }
        for dir in dir.ancestors() {
            if let Some(name) = dir.to_str().and_then(|d| self.settings.overrides.get(d)) {
                return Some(Wanted { name: name.clone(), by: Decider::Override(dir) });
            }
            if let Some(name) = read_toolchain_file(&dir) {
                return Some(Wanted { name, by: Decider::File(dir.join("lean-toolchain")) });
            }
        }
        // The default is elan's own; without elan nobody asked for it.
        self.settings.default_toolchain.clone().map(|name| Wanted { name, by: Decider::Default })
    }

    /// The installed toolchain for a name, with the name of what it stands for (moving channels resolve to the newest one installed).
    pub fn installed(&self, name: &str) -> Option<(String, AbsPath)> {
        let toolchains = self.home.as_ref()?.join("toolchains");
        let (origin, release) = match name.split_once(':') {
            Some((origin, release)) => (origin, release),
            None => (DEFAULT_ORIGIN, name),
        };
        if release.is_empty() || release.contains('/') || release.starts_with('.') {
            return None;
        }
        // A linked toolchain of that bare name goes first, whatever the origin says.
        let linked = toolchains.join(release);
        if linked.is_symlink() && is_executable(&linked.join("bin/lean")) {
            return Some((release.to_owned(), linked));
        }
        let nightly = release.starts_with("nightly") && !origin.ends_with("-nightly");
        let origin = if nightly { format!("{origin}-nightly") } else { origin.to_owned() };
        let release = match release {
            "stable" | "beta" | "nightly" => newest(&toolchains, &origin, release)?,
            r if r.starts_with(|c: char| c.is_ascii_digit()) => format!("v{r}"),
            r => r.to_owned(),
        };
        let full = format!("{origin}:{release}");
        let dir = toolchains.join(folder_name(&full));
        is_executable(&dir.join("bin/lean")).then_some((full, dir))
    }

    /// Whether a `lean` found in PATH is one of elan's proxies. They are links to, or copies of, the `elan` beside them.
    pub fn is_proxy(&self, lean: &AbsPath) -> bool {
        let beside = lean.parent().is_some_and(|bin| is_executable(&bin.join("elan")));
        let in_home = self.home.as_ref().is_some_and(|h| lean.parent() == Some(h.join("bin")));
        let leads_to_elan = std::fs::canonicalize(lean)
            .is_ok_and(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("elan")));
        beside || in_home || leads_to_elan
    }
}

/// The first line of `lean-toolchain` in the folder, trimmed; `None` without a file or with an empty one.
pub(crate) fn read_toolchain_file(dir: &AbsPath) -> Option<String> {
    let text = std::fs::read_to_string(dir.join("lean-toolchain")).ok()?;
    let name = text.lines().next()?.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// elan's folder for a full toolchain name.
fn folder_name(full: &str) -> String {
    full.replace('/', "--").replace(':', "---")
}

/// The newest installed release of a moving channel.
fn newest(toolchains: &AbsPath, origin: &str, channel: &str) -> Option<String> {
    let prefix = folder_name(&format!("{origin}:"));
    let names = std::fs::read_dir(toolchains).ok()?;
    let releases = names
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter_map(|n| n.strip_prefix(&prefix).map(str::to_owned));
    if channel == "nightly" {
        // `nightly-2026-01-31`: the names sort by date.
        return releases.filter(|r| r.starts_with("nightly-")).max();
    }
    releases
        .filter_map(|r| Some((Release::parse_version(r.strip_prefix('v')?)?, r)))
        .filter(|(v, _)| channel == "beta" || !v.is_candidate())
        .max_by_key(|(v, _)| *v)
        .map(|(_, r)| r)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    fn put_lean(dir: &Path) {
        std::fs::create_dir_all(dir.join("bin")).unwrap();
        std::fs::write(dir.join("bin/lean"), "").unwrap();
        std::fs::set_permissions(dir.join("bin/lean"), PermissionsExt::from_mode(0o755)).unwrap();
    }

    struct Fixture {
        _tmp: tempfile::TempDir,
        top: AbsPath,
        env: HostEnv,
    }

    fn fixture(settings: &str) -> Fixture {
        let tmp = tempfile::tempdir().unwrap();
        let top = AbsPath::canonical(tmp.path()).unwrap();
        for name in [
            "leanprover--lean4---v4.28.0",
            "leanprover--lean4---v4.29.0",
            "leanprover--lean4---v4.30.0-rc1",
            "leanprover--lean4-nightly---nightly-2026-01-02",
            "leanprover--lean4-nightly---nightly-2026-01-10",
            "plain",
        ] {
            put_lean(&top.join("elan/toolchains").join(name));
        }
        put_lean(&top.join("mine"));
        symlink(top.join("mine"), top.join("elan/toolchains/mine")).unwrap();
        std::fs::create_dir_all(top.join("elan/toolchains/leanprover--lean4---v4.27.0")).unwrap();
        std::fs::write(top.join("elan/settings.toml"), settings.replace("TOP", top.to_str().unwrap())).unwrap();
        let env = HostEnv::from_vars([("ELAN_HOME", top.join("elan").as_os_str())]);
        Fixture { _tmp: tmp, top, env }
    }

    #[test]
    fn names_resolve_to_installed_folders_only() {
        let f = fixture("");
        let elan = Elan::open(&f.env);
        for (name, want) in [
            ("leanprover/lean4:v4.28.0", Some("leanprover/lean4:v4.28.0")),
            ("leanprover/lean4:4.28.0", Some("leanprover/lean4:v4.28.0")),
            ("4.29.0", Some("leanprover/lean4:v4.29.0")),
            ("v4.29.0", Some("leanprover/lean4:v4.29.0")),
            ("stable", Some("leanprover/lean4:v4.29.0")),
            ("leanprover/lean4:beta", Some("leanprover/lean4:v4.30.0-rc1")),
            ("nightly", Some("leanprover/lean4-nightly:nightly-2026-01-10")),
            ("leanprover/lean4:nightly-2026-01-02", Some("leanprover/lean4-nightly:nightly-2026-01-02")),
            ("mine", Some("mine")),
            ("x/y:mine", Some("mine")),
            // Folders that were not linked by name, have no lean, or lie elsewhere.
            ("plain", None),
            ("leanprover/lean4:v4.27.0", None),
            ("leanprover/lean4:v4.31.0", None),
            ("a:../../mine", None),
            ("..", None),
        ] {
            assert_eq!(elan.installed(name).map(|(n, _)| n).as_deref(), want, "{name}");
        }
    }

    #[test]
    fn precedence_is_environment_then_nearest_then_default() {
        let f = fixture(
            "version = \"12\"\ndefault_toolchain = \"leanprover/lean4:stable\"\n[overrides]\n\"TOP/p/over\" = \"mine\"\n",
        );
        let root = f.top.join("p/over/in");
        std::fs::create_dir_all(&root).unwrap();
        let elan = Elan::open(&f.env);
        let by = |dir: &AbsPath, env: &HostEnv| elan.wanted(dir, env).map(|w| (w.name, w.by));
        assert_eq!(by(&f.top.join("p"), &f.env), Some(("leanprover/lean4:stable".into(), Decider::Default)));
        std::fs::write(f.top.join("p/lean-toolchain"), " leanprover/lean4:v4.28.0 \n").unwrap();
        assert_eq!(by(&f.top.join("p"), &f.env).unwrap().0, "leanprover/lean4:v4.28.0");
        assert_eq!(by(&root, &f.env), Some(("mine".into(), Decider::Override(f.top.join("p/over")))));
        std::fs::write(root.join("lean-toolchain"), "x\n").unwrap();
        assert_eq!(by(&root, &f.env), Some(("x".into(), Decider::File(root.join("lean-toolchain")))));
        let env = f.env.clone().with("ELAN_TOOLCHAIN", "y");
        assert_eq!(by(&root, &env), Some(("y".into(), Decider::Environment)));
    }

    #[test]
    fn proxies_are_recognised() {
        let f = fixture("");
        let elan = Elan::open(&f.env);
        assert!(elan.is_proxy(&f.top.join("elan/bin/lean")));
        assert!(!elan.is_proxy(&f.top.join("mine/bin/lean")));
        // A packaged elan lives elsewhere, with its proxies beside it.
        put_lean(&f.top.join("usr"));
        std::fs::copy(f.top.join("usr/bin/lean"), f.top.join("usr/bin/elan")).unwrap();
        assert!(elan.is_proxy(&f.top.join("usr/bin/lean")));
        std::fs::create_dir_all(f.top.join("links")).unwrap();
        symlink(f.top.join("usr/bin/elan"), f.top.join("links/lean")).unwrap();
        assert!(elan.is_proxy(&f.top.join("links/lean")));
    }
}
