//! `lakefile.toml`: the part of it that says which modules a package has, where they are, and how they are compiled.
//!
//! Follows Lake's own decoder: unknown keys are ignored, a known key of a wrong type is an error, because what it meant to say would
//! otherwise be silently lost.

use camino::{Utf8Path, Utf8PathBuf};
use std::fmt;

use toml::{Table, Value};

use beam_lean::ModuleName;

/// A Lean option that the configuration sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeanOption {
    /// Its name; may begin with `weak.`.
    pub name: String,
    /// Its value.
    pub value: OptionValue,
}

/// The value of a Lean option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionValue {
    /// Text.
    Text(String),
    /// `true` or `false`.
    Flag(bool),
    /// A natural number.
    Number(u64),
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Flag(flag) => flag.fmt(f),
            Self::Number(number) => number.fmt(f),
        }
    }
}

impl LeanOption {
    /// As an argument of `lean`: `-Dname=value`.
    #[must_use]
    pub fn argument(&self) -> String {
        format!("-D{}={}", self.name, self.value)
    }
}

/// A set of modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Glob {
    /// `A`.
    One(ModuleName),
    /// `A.+`: what lies below.
    Below(ModuleName),
    /// `A.*`: the module and what lies below.
    Tree(ModuleName),
}

impl Glob {
    fn parse(text: &str) -> Option<Self> {
        let (name, rest) = ModuleName::take(text)?;
        // Lake looks at one character and ignores what follows.
        match rest.strip_prefix('.').and_then(|r| r.chars().next()) {
            None if rest.is_empty() => Some(Self::One(name)),
            Some('+') => Some(Self::Below(name)),
            Some('*') => Some(Self::Tree(name)),
            _ => None,
        }
    }

    pub fn matches(&self, module: &ModuleName) -> bool {
        match self {
            Self::One(name) => name == module,
            Self::Below(name) => module.starts_with(name) && module != name,
            Self::Tree(name) => module.starts_with(name),
        }
    }
}

/// How modules are compiled; a library's settings come after its package's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Settings {
    pub options: Vec<LeanOption>,
    /// `moreLeanArgs`: further arguments of `lean`, which are part of a build's identity.
    pub more_args: Vec<String>,
    /// `weakLeanArgs`: further arguments which are not.
    pub weak_args: Vec<String>,
}

impl Settings {
    pub fn after(&self, outer: &Self) -> Self {
        fn join<T: Clone>(a: &[T], b: &[T]) -> Vec<T> {
            a.iter().chain(b).cloned().collect()
        }
        Self {
            options: join(&outer.options, &self.options),
            more_args: join(&outer.more_args, &self.more_args),
            weak_args: join(&outer.weak_args, &self.weak_args),
        }
    }
}

/// A library or an executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigTarget {
    /// Below the package's source folder.
    pub src_dir: Utf8PathBuf,
    pub roots: Vec<ModuleName>,
    pub globs: Vec<Glob>,
    pub settings: Settings,
}

impl ConfigTarget {
    /// Lake's `isBuildableModule`.
    pub fn contains(&self, module: &ModuleName) -> bool {
        let globbed = |m: &ModuleName| self.globs.iter().any(|g| g.matches(m));
        globbed(module) || self.roots.iter().any(|root| module.starts_with(root) && globbed(root))
    }
}

/// A `[[require]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Require {
    pub name: String,
    /// A folder, relative to the requiring package. Without it Lake fetches the package into the packages folder.
    pub path: Option<Utf8PathBuf>,
    /// The package's place in what Lake fetched.
    pub sub_dir: Option<Utf8PathBuf>,
}

/// A package's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackageConfig {
    pub name: String,
    pub src_dir: Utf8PathBuf,
    pub build_dir: Utf8PathBuf,
    /// Below the build folder.
    pub lean_lib_dir: Utf8PathBuf,
    /// Where C files are, below the build folder.
    pub ir_dir: Utf8PathBuf,
    pub packages_dir: Utf8PathBuf,
    pub settings: Settings,
    pub targets: Vec<ConfigTarget>,
    pub requires: Vec<Require>,
}

impl Default for PackageConfig {
    /// What Lake assumes where nothing is said.
    fn default() -> Self {
        Self {
            name: String::new(),
            src_dir: ".".into(),
            build_dir: ".lake/build".into(),
            lean_lib_dir: "lib/lean".into(),
            ir_dir: "ir".into(),
            packages_dir: ".lake/packages".into(),
            settings: Settings::default(),
            targets: Vec::new(),
            requires: Vec::new(),
        }
    }
}

/// Why a `lakefile.toml` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It is no TOML.
    #[error("{0}")]
    Syntax(String),
    /// A key has a value that Lake would refuse.
    #[error("`{key}`: {expected} expected")]
    Value {
        /// The key, with the table it stands in.
        key: String,
        /// What is expected there.
        expected: &'static str,
    },
}

impl PackageConfig {
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let table: Table = text.parse().map_err(|e: toml::de::Error| ConfigError::Syntax(e.to_string()))?;
        let top = Keys { table: &table, place: String::new() };
        let default = Self::default();
        let folder = |key, default: Utf8PathBuf| Ok(top.text(key)?.map_or(default, Utf8PathBuf::from));
        let mut config = Self {
            name: top.text("name")?.unwrap_or_default(),
            src_dir: folder("srcDir", default.src_dir)?,
            build_dir: folder("buildDir", default.build_dir)?,
            lean_lib_dir: folder("leanLibDir", default.lean_lib_dir)?,
            ir_dir: folder("irDir", default.ir_dir)?,
            packages_dir: folder("packagesDir", default.packages_dir)?,
            settings: top.settings()?,
            targets: Vec::new(),
            requires: Vec::new(),
        };
        for lib in top.tables("lean_lib")? {
            config.targets.push(library(&lib)?);
        }
        for exe in top.tables("lean_exe")? {
            config.targets.push(executable(&exe)?);
        }
        for require in top.tables("require")? {
            config.requires.push(requirement(&require)?);
        }
        Ok(config)
    }
}

fn library(keys: &Keys<'_>) -> Result<ConfigTarget, ConfigError> {
    let roots = match keys.list("roots")? {
        None => vec![keys.target_name()?],
        Some(values) => values
            .iter()
            .map(|v| v.as_str().and_then(ModuleName::parse).ok_or_else(|| keys.expected("roots", "module names")))
            .collect::<Result<_, _>>()?,
    };
    let globs = match keys.list("globs")? {
        None => roots.iter().cloned().map(Glob::One).collect(),
        Some(values) => values
            .iter()
            .map(|v| v.as_str().and_then(Glob::parse).ok_or_else(|| keys.expected("globs", "globs like `A.*`")))
            .collect::<Result<_, _>>()?,
    };
    Ok(ConfigTarget { src_dir: keys.src_dir()?, roots, globs, settings: keys.settings()? })
}

/// Lake takes an executable's root for a library of that one module.
fn executable(keys: &Keys<'_>) -> Result<ConfigTarget, ConfigError> {
    let root = match keys.text("root")? {
        None => keys.target_name()?,
        Some(text) => ModuleName::parse(&text).ok_or_else(|| keys.expected("root", "a module name"))?,
    };
    let globs = vec![Glob::One(root)];
    Ok(ConfigTarget { src_dir: keys.src_dir()?, roots: Vec::new(), globs, settings: keys.settings()? })
}

fn requirement(keys: &Keys<'_>) -> Result<Require, ConfigError> {
    let mut path = keys.text("path")?;
    let mut sub_dir = keys.text("subDir")?;
    match keys.table.get("git") {
        Some(Value::Table(table)) => {
            sub_dir = Keys { table, place: keys.place("git") }.text("subDir")?.or(sub_dir);
        }
        None | Some(Value::String(_)) => {}
        Some(_) => return Err(keys.expected("git", "a string or table")),
    }
    if let Some(source) = keys.table.get("source") {
        let table = source.as_table().ok_or_else(|| keys.expected("source", "a table"))?;
        let source = Keys { table, place: keys.place("source") };
        if source.text("type")?.as_deref() == Some("path") {
            path = source.text("dir")?.or(path);
        } else {
            sub_dir = source.text("subDir")?.or(sub_dir);
        }
    }
    let name = keys.text("name")?.ok_or_else(|| keys.expected("name", "a string"))?;
    Ok(Require { name, path: path.map(Into::into), sub_dir: sub_dir.map(Into::into) })
}

/// A table and where it stands, for messages.
struct Keys<'a> {
    table: &'a Table,
    place: String,
}

impl<'a> Keys<'a> {
    fn place(&self, key: &str) -> String {
        if self.place.is_empty() { key.to_owned() } else { format!("{}.{key}", self.place) }
    }

    fn expected(&self, key: &str, expected: &'static str) -> ConfigError {
        ConfigError::Value { key: self.place(key), expected }
    }

    fn text(&self, key: &str) -> Result<Option<String>, ConfigError> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.expected(key, "a string")),
        }
    }

    /// A list, or one value in its place.
    fn list(&self, key: &str) -> Result<Option<&'a [Value]>, ConfigError> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::Array(values)) => Ok(Some(values)),
            Some(one @ Value::String(_)) => Ok(Some(std::slice::from_ref(one))),
            Some(_) => Err(self.expected(key, "a list")),
        }
    }

    fn texts(&self, key: &str) -> Result<Vec<String>, ConfigError> {
        let values = self.list(key)?.unwrap_or_default();
        values.iter().map(|v| v.as_str().map(str::to_owned).ok_or_else(|| self.expected(key, "strings"))).collect()
    }

    fn tables(&self, key: &str) -> Result<Vec<Keys<'a>>, ConfigError> {
        let wrong = || self.expected(key, "a list of tables");
        let Some(value) = self.table.get(key) else {
            return Ok(Vec::new());
        };
        let values = value.as_array().ok_or_else(wrong)?;
        let table = |(n, v): (usize, &'a Value)| {
            let table = v.as_table().ok_or_else(wrong)?;
            let name = table.get("name").and_then(Value::as_str);
            let place = name.map_or_else(|| format!("{key}[{n}]"), |name| format!("{key} {name}"));
            Ok(Keys { table, place })
        };
        values.iter().enumerate().map(table).collect()
    }

    fn target_name(&self) -> Result<ModuleName, ConfigError> {
        let name = self.text("name")?.filter(|text| !text.is_empty()).and_then(|text| ModuleName::of_target(&text));
        name.ok_or_else(|| self.expected("name", "a name"))
    }

    fn src_dir(&self) -> Result<Utf8PathBuf, ConfigError> {
        Ok(self.text("srcDir")?.map_or_else(|| Utf8Path::new(".").to_owned(), Utf8PathBuf::from))
    }

    fn settings(&self) -> Result<Settings, ConfigError> {
        let mut options = Vec::new();
        match self.table.get("leanOptions") {
            None => {}
            Some(Value::Table(table)) => {
                for (name, value) in table {
                    self.option_tree(name, value, &mut options)?;
                }
            }
            Some(Value::Array(values)) => {
                for value in values {
                    options.push(self.option_entry(value)?);
                }
            }
            Some(_) => return Err(self.expected("leanOptions", "a table or a list")),
        }
        Ok(Settings { options, more_args: self.texts("moreLeanArgs")?, weak_args: self.texts("weakLeanArgs")? })
    }

    /// `pp.unicode.fun = true` is a table in a table.
    fn option_tree(&self, name: &str, value: &Value, out: &mut Vec<LeanOption>) -> Result<(), ConfigError> {
        match value {
            Value::Table(table) => {
                table.iter().try_for_each(|(part, value)| self.option_tree(&format!("{name}.{part}"), value, out))
            }
            value => {
                out.push(LeanOption { name: name.to_owned(), value: self.option_value(value)? });
                Ok(())
            }
        }
    }

    /// `{name = "…", value = …}` or `["…", …]`.
    fn option_entry(&self, entry: &Value) -> Result<LeanOption, ConfigError> {
        let (name, value) = match entry {
            Value::Table(table) => (table.get("name"), table.get("value")),
            Value::Array(pair) if pair.len() == 2 => (pair.first(), pair.get(1)),
            _ => (None, None),
        };
        let (Some(name), Some(value)) = (name.and_then(Value::as_str), value) else {
            return Err(self.expected("leanOptions", "entries with a name and a value"));
        };
        Ok(LeanOption { name: name.to_owned(), value: self.option_value(value)? })
    }

    fn option_value(&self, value: &Value) -> Result<OptionValue, ConfigError> {
        match value {
            Value::String(text) => Ok(OptionValue::Text(text.clone())),
            Value::Boolean(flag) => Ok(OptionValue::Flag(*flag)),
            Value::Integer(number) if *number >= 0 => Ok(OptionValue::Number(number.unsigned_abs())),
            _ => Err(self.expected("leanOptions", "a string, boolean or natural number as value")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(text: &str, want: &Expect) {
        let shown = match PackageConfig::parse(text) {
            Ok(c) => format!("{c:#?}"),
            Err(e) => e.to_string(),
        };
        want.assert_eq(&shown);
    }

    fn module(text: &str) -> ModuleName {
        ModuleName::parse(text).unwrap()
    }

    #[test]
    fn a_library_has_its_roots_globs_and_what_lies_below_roots_that_are_globbed() {
        let config = PackageConfig::parse(
            r#"
            name = "pkg"
            srcDir = "src"
            defaultTargets = ["App"]
            [[lean_lib]]
            name = "App"
            [[lean_lib]]
            name = "tests"
            srcDir = "t"
            globs = ["Test.+", "Bench.*", "One"]
            [[lean_lib]]
            name = "two"
            roots = ["L", "M.N"]
            [[lean_exe]]
            name = "tool"
            root = "Tool.Main"
            [[lean_exe]]
            name = "foo-bar"
            "#,
        )
        .unwrap();
        let has = |n: usize, m: &str| config.targets[n].contains(&module(m));
        assert_eq!((config.src_dir.as_str(), config.targets[1].src_dir.as_str()), ("src", "t"));
        for (n, inside, outside) in [
            (0, &["App", "App.A.B"][..], &["Ap", "Apple", "B.App"][..]),
            // Its root is its name, which no glob names, so what lies below is not part of it.
            (1, &["Test.A", "Bench", "Bench.X.Y", "One"], &["Test", "One.A", "tests", "tests.A"]),
            (2, &["L", "L.X", "M.N.O"], &["M", "M.O"]),
            (3, &["Tool.Main"], &["Tool", "Tool.Main.X"]),
            (4, &["«foo-bar»"], &["foo"]),
        ] {
            assert!(inside.iter().all(|m| has(n, m)), "{n}");
            assert!(!outside.iter().any(|m| has(n, m)), "{n}");
        }
    }

    #[test]
    fn settings_in_all_their_spellings() {
        let config = PackageConfig::parse(
            r#"
            moreLeanArgs = ["-q"]
            weakLeanArgs = ["-j2"]
            leanOptions.autoImplicit = false
            leanOptions.pp.unicode.fun = true
            [[lean_lib]]
            name = "A"
            leanOptions = [["maxRecDepth", 7], { name = "weak.linter.x", value = "on" }]
            [[lean_lib]]
            name = "B"
            [lean_lib.leanOptions]
            pp.indent = 4
            "#,
        )
        .unwrap();
        let arguments = |n: usize| -> Vec<String> {
            config.targets[n].settings.after(&config.settings).options.iter().map(LeanOption::argument).collect()
        };
        assert_eq!(
            arguments(0),
            ["-DautoImplicit=false", "-Dpp.unicode.fun=true", "-DmaxRecDepth=7", "-Dweak.linter.x=on"]
        );
        assert_eq!(arguments(1), ["-DautoImplicit=false", "-Dpp.unicode.fun=true", "-Dpp.indent=4"]);
        assert_eq!((config.settings.more_args, config.settings.weak_args), (vec!["-q".into()], vec!["-j2".into()]));
    }

    #[test]
    fn requirements() {
        let config = PackageConfig::parse(
            r#"
            [[require]]
            name = "near"
            path = "../near"
            [[require]]
            name = "far"
            git = { url = "https://example.org/far", subDir = "lean" }
            rev = "main"
            [[require]]
            name = "indexed"
            scope = "someone"
            [[require]]
            name = "source"
            source = { type = "path", dir = "x" }
            "#,
        )
        .unwrap();
        let shown: Vec<_> =
            config.requires.iter().map(|r| (r.name.as_str(), r.path.as_deref(), r.sub_dir.as_deref())).collect();
        let path = |p| Some(Utf8Path::new(p));
        assert_eq!(
            shown,
            [
                ("near", path("../near"), None),
                ("far", None, path("lean")),
                ("indexed", None, None),
                ("source", path("x"), None)
            ]
        );
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        check(
            "name = [",
            &expect![[r#"
            TOML parse error at line 1, column 9
              |
            1 | name = [
              |         ^
            unclosed array, expected `]`
        "#]],
        );
        check("[[lean_lib]]\nname = \"A\"\nroots = [3]", &expect!["`lean_lib A.roots`: module names expected"]);
        check(
            "[[lean_lib]]\nname = \"A\"\nglobs = [\"A.?\"]",
            &expect!["`lean_lib A.globs`: globs like `A.*` expected"],
        );
        check("[[lean_lib]]\nsrcDir = \"x\"", &expect!["`lean_lib[0].name`: a name expected"]);
        check("[lean_lib]\nname = \"A\"", &expect!["`lean_lib`: a list of tables expected"]);
        check("leanOptions.x = 1.5", &expect!["`leanOptions`: a string, boolean or natural number as value expected"]);
        check("srcDir = 1", &expect!["`srcDir`: a string expected"]);
    }

    #[test]
    fn globs_as_lake_reads_them() {
        for (text, want) in
            [("A", Some("One")), ("A.B.*", Some("Tree")), ("A.+", Some("Below")), ("A.?", None), ("*", None)]
        {
            let shown = Glob::parse(text).map(|g| format!("{g:?}"));
            assert_eq!(shown.as_deref().map(|s| s.split('(').next().unwrap()), want, "{text}");
        }
    }
}
