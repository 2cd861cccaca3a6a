//! A project's packages: which module a file is, and which file a module is.
//!
//! Lake is the authority on Lake projects. This is what can be known without running it: `lakefile.toml`, path dependencies, and what
//! Lake has fetched into its packages folder. A `lakefile.lean` is a program only Lake can run; then, and without any configuration, a
//! module is the path of its file.

use camino::{Utf8Path, Utf8PathBuf};
use std::collections::HashSet;
use std::sync::Arc;

use beam_base::AbsPath;

use crate::config::{LeanOption, PackageConfig, Require, Settings};
use crate::stamp::ConfigStamp;
use beam_lean::ModuleName;

/// How a package says what it consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigKind {
    /// It says nothing: there is no lakefile.
    None,
    /// By a `lakefile.toml`, which was read.
    Toml,
    /// By a `lakefile.lean`, which only Lake can read.
    LakefileLean,
    /// By a `lakefile.toml` that cannot be used.
    Broken {
        /// Why, for people.
        error: String,
    },
}

/// A module of the project or of a package it depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Its name.
    pub name: ModuleName,
    /// Its source file, whether or not it exists.
    pub source: AbsPath,
    /// The folder that its name is relative to; Lean's `-R`.
    pub source_root: AbsPath,
    /// Where its package's `.olean` files are; on Lean's search path.
    pub lib_dir: AbsPath,
    /// Its package's build folder.
    pub build_dir: AbsPath,
    ir_dir: AbsPath,
    settings: Arc<Settings>,
}

impl Module {
    /// Its C file, which a save writes and the builder does not: there is no C compiler to use it.
    #[must_use]
    pub fn c_file(&self) -> Option<AbsPath> {
        Some(self.ir_dir.join(self.name.path("c")?))
    }

    /// A file of the module in the library folder, e.g. with the ending `olean.server`. `None` for a name that can have none.
    #[must_use]
    pub fn artifact(&self, ending: &str) -> Option<AbsPath> {
        Some(self.lib_dir.join(self.name.path(ending)?))
    }

    /// The Lean options that the configuration sets for it, package first; of two with one name the later counts.
    #[must_use]
    pub fn options(&self) -> &[LeanOption] {
        &self.settings.options
    }

    /// `moreLeanArgs`: arguments of `lean` that shape the artifacts and that a file worker does not get.
    #[must_use]
    pub fn more_args(&self) -> &[String] {
        &self.settings.more_args
    }

    pub(crate) fn weak_args(&self) -> &[String] {
        &self.settings.weak_args
    }
}

/// A project: its root package and the packages it depends on, as far as they are there.
#[derive(Debug, Clone)]
pub struct Project {
    root: AbsPath,
    /// The root first, then in the order of the requirements, breadth first.
    packages: Vec<Package>,
    /// Requirements whose folder is not there.
    absent: Vec<String>,
    stamp: ConfigStamp,
}

#[derive(Debug, Clone)]
struct Package {
    dir: AbsPath,
    kind: ConfigKind,
    source_dir: AbsPath,
    build_dir: AbsPath,
    lib_dir: AbsPath,
    ir_dir: AbsPath,
    /// None for a package whose modules are simply its files.
    targets: Option<Vec<LayoutTarget>>,
    settings: Arc<Settings>,
    requires: Vec<Require>,
    packages_dir: Utf8PathBuf,
}

#[derive(Debug, Clone)]
struct LayoutTarget {
    target: crate::config::ConfigTarget,
    source_dir: AbsPath,
    settings: Arc<Settings>,
}

impl Project {
    /// Reads the configuration of the project and its dependencies. Never fails: what cannot be read is [`Project::kind`], and modules
    /// are then paths.
    #[must_use]
    pub fn read(root: &AbsPath) -> Self {
        let first = Package::read(root);
        let packages_dir = AbsPath::resolve(root, &first.packages_dir);
        let fetched = Fetched::read(root);
        let mut seen = HashSet::from([root.clone()]);
        let mut names = HashSet::new();
        let mut absent = Vec::new();
        let mut packages = vec![first];
        let mut next = 0;
        // Breadth first, so that the nearest requirement of a name decides, as in Lake.
        while next < packages.len() {
            let (dir, requires) = (packages[next].dir.clone(), packages[next].requires.clone());
            for require in requires {
                if !names.insert(require.name.clone()) {
                    continue;
                }
                let place = match &require.path {
                    Some(path) => AbsPath::resolve(&dir, path),
                    None => {
                        let at = packages_dir.join(&require.name);
                        let sub_dir = fetched.sub_dir(&require.name).or(require.sub_dir);
                        sub_dir.map_or(at.clone(), |sub| AbsPath::resolve(&at, sub))
                    }
                };
                // The same folder by two ways must be one package.
                match AbsPath::canonical(&place) {
                    Ok(place) if place.is_dir() => {
                        if seen.insert(place.clone()) {
                            packages.push(Package::read(&place));
                        }
                    }
                    _ => absent.push(require.name),
                }
            }
            next += 1;
        }
        let stamp = ConfigStamp::of(stamped_files(&packages));
        Self { root: root.clone(), packages, absent, stamp }
    }

    /// The project's root.
    #[must_use]
    pub fn root(&self) -> &AbsPath {
        &self.root
    }

    /// How the root package is configured.
    #[must_use]
    pub fn kind(&self) -> &ConfigKind {
        self.packages.first().map_or(&ConfigKind::None, |p| &p.kind)
    }

    /// What a user should be told about the configuration: one line each, with what to do.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let mut out = Vec::new();
        for package in &self.packages {
            let file = |name: &str| package.dir.join(name).display_in(&self.root);
            match &package.kind {
                ConfigKind::None | ConfigKind::Toml => {}
                ConfigKind::LakefileLean => out.push(format!(
                    "{} cannot be read without Lake, which this toolchain does not have: a module is taken to be the path of its file, and no Lean options are set; use a native toolchain, or a lakefile.toml (`lake translate-config toml`)",
                    file("lakefile.lean")
                )),
                ConfigKind::Broken { error } => out.push(format!(
                    "{} cannot be used: {}; until it is mended, a module is taken to be the path of its file",
                    file("lakefile.toml"),
                    error.trim_end()
                )),
            }
        }
        for name in &self.absent {
            out.push(format!(
                "the required package `{name}` is not there; fetch it with `lake update` of a native toolchain"
            ));
        }
        out
    }

    /// What the configuration was when this was read: lakefiles and `lean-toolchain` of the project, the manifest and its overrides,
    /// lakefiles of the packages.
    #[must_use]
    pub fn config_stamp(&self) -> &ConfigStamp {
        &self.stamp
    }

    /// The folders to be put on Lean's search path, the project's own first. They need not exist yet.
    #[must_use]
    pub fn lib_dirs(&self) -> Vec<AbsPath> {
        distinct(self.packages.iter().map(|p| &p.lib_dir))
    }

    /// The folders in which sources are, the project's own first; for `LEAN_SRC_PATH` and the search for references.
    #[must_use]
    pub fn source_dirs(&self) -> Vec<AbsPath> {
        distinct(self.packages.iter().flat_map(|p| {
            let targets = p.targets.iter().flatten().map(|t| &t.source_dir);
            targets.chain(p.targets.is_none().then_some(&p.source_dir))
        }))
    }

    /// The module that a source file is; `None` if it is no module of any package (it can be elaborated, but not imported). Both the path
    /// and the project's root must be canonical. The file need not exist.
    #[must_use]
    pub fn module_of(&self, path: &AbsPath) -> Option<Module> {
        // The innermost package owns the file: dependencies may lie inside the project.
        let package = self
            .packages
            .iter()
            .filter(|p| path.relative_to(&p.dir).is_some())
            .max_by_key(|p| p.dir.components().count())?;
        package.module_of(path)
    }

    /// The source file of a module; `None` if it belongs to no package, as a module of Lean's own library does not. With a readable
    /// configuration the file need not exist.
    #[must_use]
    pub fn source_of(&self, module: &ModuleName) -> Option<AbsPath> {
        self.find(module).map(|m| m.source)
    }

    /// The module of that name.
    #[must_use]
    pub fn find(&self, module: &ModuleName) -> Option<Module> {
        self.packages.iter().find_map(|p| p.find(module))
    }

    /// A module that has an artifact but no source (any more), in a package whose modules are its files.
    pub(crate) fn orphan(&self, module: &ModuleName) -> Option<Module> {
        self.packages.iter().filter(|p| p.targets.is_none()).find_map(|p| {
            let module = p.module(module.clone(), &p.source_dir, &p.settings)?;
            module.artifact("olean")?.is_file().then_some(module)
        })
    }

    /// The Lean options for a file, as the worker that elaborates it needs them too. A file that is no module gets the root package's.
    #[must_use]
    pub fn options_for(&self, path: &AbsPath) -> Vec<LeanOption> {
        match self.module_of(path) {
            Some(module) => module.options().to_vec(),
            None => self.packages.first().map(|p| p.settings.options.clone()).unwrap_or_default(),
        }
    }
}

impl Package {
    fn read(dir: &AbsPath) -> Self {
        let (kind, config) = read_config(dir);
        let source_dir = AbsPath::resolve(dir, &config.src_dir);
        let build_dir = AbsPath::resolve(dir, &config.build_dir);
        let lib_dir = AbsPath::resolve(&build_dir, &config.lean_lib_dir);
        let ir_dir = AbsPath::resolve(&build_dir, &config.ir_dir);
        let targets = (kind == ConfigKind::Toml).then(|| {
            let target = |target: crate::config::ConfigTarget| LayoutTarget {
                source_dir: AbsPath::resolve(&source_dir, &target.src_dir),
                settings: Arc::new(target.settings.after(&config.settings)),
                target,
            };
            // Lake asks the last one first.
            config.targets.into_iter().map(target).rev().collect()
        });
        Self {
            dir: dir.clone(),
            kind,
            source_dir,
            build_dir,
            lib_dir,
            ir_dir,
            targets,
            settings: Arc::new(config.settings),
            requires: config.requires,
            packages_dir: config.packages_dir,
        }
    }

    fn module(&self, name: ModuleName, source_root: &AbsPath, settings: &Arc<Settings>) -> Option<Module> {
        Some(Module {
            source: source_root.join(name.path("lean")?),
            name,
            source_root: source_root.clone(),
            lib_dir: self.lib_dir.clone(),
            build_dir: self.build_dir.clone(),
            ir_dir: self.ir_dir.clone(),
            settings: Arc::clone(settings),
        })
    }

    fn module_of(&self, path: &AbsPath) -> Option<Module> {
        match &self.targets {
            Some(targets) => targets.iter().find_map(|t| {
                let name = ModuleName::of_path(path.relative_to(&t.source_dir)?)?;
                t.target.contains(&name).then(|| self.module(name, &t.source_dir, &t.settings))?
            }),
            None => {
                let relative = path.relative_to(&self.source_dir)?;
                if relative.starts_with(".lake") || is_lakefile(relative) {
                    return None;
                }
                self.module(ModuleName::of_path(relative)?, &self.source_dir, &self.settings)
            }
        }
    }

    fn find(&self, name: &ModuleName) -> Option<Module> {
        match &self.targets {
            Some(targets) => {
                let target = targets.iter().find(|t| t.target.contains(name))?;
                self.module(name.clone(), &target.source_dir, &target.settings)
            }
            None => {
                let module = self.module(name.clone(), &self.source_dir, &self.settings)?;
                (!is_lakefile(&name.path("lean")?) && module.source.is_file()).then_some(module)
            }
        }
    }
}

/// The configuration itself is Lean source, but no module.
fn is_lakefile(relative: &Utf8Path) -> bool {
    relative == Utf8Path::new("lakefile.lean")
}

fn read_config(dir: &AbsPath) -> (ConfigKind, PackageConfig) {
    // With both, Lake takes the program.
    if dir.join("lakefile.lean").is_file() {
        return (ConfigKind::LakefileLean, PackageConfig::default());
    }
    let path = dir.join("lakefile.toml");
    if !path.is_file() {
        return (ConfigKind::None, PackageConfig::default());
    }
    let parsed = std::fs::read_to_string(&path)
        .map_err(|e| e.to_string())
        .and_then(|text| PackageConfig::parse(&text).map_err(|e| e.to_string()));
    match parsed {
        Ok(config) => (ConfigKind::Toml, config),
        Err(error) => (ConfigKind::Broken { error }, PackageConfig::default()),
    }
}

/// What `lake-manifest.json` says of fetched packages. A manifest we cannot read says nothing: the lakefile's own words then count.
#[derive(Default)]
struct Fetched(Vec<(String, Utf8PathBuf)>);

impl Fetched {
    fn read(root: &AbsPath) -> Self {
        let parsed = std::fs::read(root.join("lake-manifest.json")).ok();
        let Some(manifest) = parsed.and_then(|b| serde_json::from_slice::<serde_json::Value>(&b).ok()) else {
            return Self::default();
        };
        let packages = manifest["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let entry = |p: &serde_json::Value| {
            let name = p["name"].as_str()?.trim_matches(['«', '»']).to_owned();
            Some((name, Utf8PathBuf::from(p["subDir"].as_str()?)))
        };
        Self(packages.iter().filter_map(entry).collect())
    }

    fn sub_dir(&self, name: &str) -> Option<Utf8PathBuf> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, dir)| dir.clone())
    }
}

fn stamped_files(packages: &[Package]) -> Vec<AbsPath> {
    let mut files = Vec::new();
    for (n, package) in packages.iter().enumerate() {
        files.extend(["lakefile.lean", "lakefile.toml"].map(|f| package.dir.join(f)));
        if n == 0 {
            files.extend(["lake-manifest.json", ".lake/package-overrides.json"].map(|f| package.dir.join(f)));
            // The nearest one upwards decides, as elan has it; and one that is put in front of that later.
            for dir in package.dir.ancestors() {
                let file = dir.join("lean-toolchain");
                let decides = file.is_file();
                files.push(file);
                if decides {
                    break;
                }
            }
        }
    }
    files
}

fn distinct<'a>(dirs: impl Iterator<Item = &'a AbsPath>) -> Vec<AbsPath> {
    let mut seen = HashSet::new();
    dirs.filter(|d| seen.insert((*d).clone())).cloned().collect()
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
