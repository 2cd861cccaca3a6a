//! Which file is which module, over folders that exist for one test.

use super::*;
use expect_test::expect;
use std::fs;

struct Folder {
    _tmp: tempfile::TempDir,
    root: AbsPath,
}

fn folder(files: &[(&str, &str)]) -> Folder {
    let tmp = tempfile::tempdir().unwrap();
    let root = AbsPath::canonical(tmp.path()).unwrap().join("project");
    for (name, text) in files {
        let path = AbsPath::resolve(&root, name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Folder { _tmp: tmp, root }
}

fn module(text: &str) -> ModuleName {
    ModuleName::parse(text).unwrap()
}

impl Folder {
    fn read(&self) -> Project {
        Project::read(&self.root)
    }

    /// The module of a file, and that the way back leads to the file.
    fn module_of(&self, project: &Project, file: &str) -> Option<String> {
        let path = AbsPath::resolve(&self.root, file);
        let module = project.module_of(&path)?;
        assert_eq!(module.source, path);
        assert_eq!(project.source_of(&module.name), Some(path));
        Some(module.name.to_string())
    }
}

#[test]
fn without_configuration_a_module_is_the_path_of_its_file() {
    let f = folder(&[("lean-toolchain", ""), ("A/B c.lean", ""), ("Main.lean", "")]);
    let p = f.read();
    assert_eq!(*p.kind(), ConfigKind::None);
    assert_eq!(f.module_of(&p, "A/B c.lean").as_deref(), Some("A.«B c»"));
    assert_eq!(f.module_of(&p, "Main.lean").as_deref(), Some("Main"));
    assert_eq!(p.source_of(&module("A.C")), None);
    assert_eq!(p.module_of(&f.root.join(".lake/packages/x/X.lean")), None);
    assert_eq!(p.module_of(&f.root.join("a.txt")), None);
    assert_eq!(p.lib_dirs(), [f.root.join(".lake/build/lib/lean")]);
    assert_eq!(p.source_dirs(), std::slice::from_ref(&f.root));
    assert!(p.notices().is_empty());
}

#[test]
fn a_lakefile_toml_decides() {
    let f = folder(&[
        (
            "lakefile.toml",
            "srcDir = \"src\"\nbuildDir = \"out\"\nleanOptions = {autoImplicit = false}\n[[lean_lib]]\nname = \"App\"\nleanOptions = {pp.indent = 4}\n[[lean_lib]]\nname = \"T\"\nsrcDir = \"tests\"\nglobs = [\"T.+\"]\n[[lean_exe]]\nname = \"main\"\nroot = \"Main\"\n",
        ),
        ("src/App/A.lean", ""),
    ]);
    let p = f.read();
    assert_eq!(*p.kind(), ConfigKind::Toml);
    for (file, want) in [
        ("src/App/A.lean", Some("App.A")),
        ("src/App.lean", Some("App")),
        ("src/tests/T/X.lean", Some("T.X")),
        ("src/Main.lean", Some("Main")),
        ("src/tests/T.lean", None),
        ("src/Scratch.lean", None),
        ("App/A.lean", None),
        ("lakefile.lean", None),
    ] {
        assert_eq!(f.module_of(&p, file).as_deref(), want, "{file}");
    }
    assert_eq!(p.lib_dirs(), [f.root.join("out/lib/lean")]);
    assert_eq!(p.source_of(&module("App.Absent")), Some(f.root.join("src/App/Absent.lean")));
    assert_eq!(p.source_of(&module("Lean.Elab")), None);
    let options =
        |file: &str| -> Vec<_> { p.options_for(&f.root.join(file)).iter().map(LeanOption::argument).collect() };
    assert_eq!(options("src/App/A.lean"), ["-DautoImplicit=false", "-Dpp.indent=4"]);
    assert_eq!(options("src/Scratch.lean"), ["-DautoImplicit=false"]);
    let a = p.find(&module("App.A")).unwrap();
    assert_eq!(a.artifact("olean.private"), Some(f.root.join("out/lib/lean/App/A.olean.private")));
    assert_eq!(a.c_file(), Some(f.root.join("out/ir/App/A.c")));
}

#[test]
fn an_unreadable_configuration_is_told_and_paths_stand_in() {
    let f = folder(&[("lakefile.lean", "import Lake"), ("lakefile.toml", "name = \"x\""), ("A.lean", "")]);
    let p = f.read();
    assert_eq!(*p.kind(), ConfigKind::LakefileLean);
    assert_eq!(f.module_of(&p, "A.lean").as_deref(), Some("A"));
    assert_eq!(f.module_of(&p, "lakefile.lean"), None);
    assert_eq!(p.source_of(&module("lakefile")), None);
    assert!(p.notices()[0].starts_with("lakefile.lean cannot be read without Lake"), "{:?}", p.notices());

    let f = folder(&[("lakefile.toml", "[[lean_lib]]\nname = 3\n"), ("A.lean", "")]);
    let p = f.read();
    assert!(matches!(p.kind(), ConfigKind::Broken { .. }));
    assert_eq!(f.module_of(&p, "A.lean").as_deref(), Some("A"));
    expect![[r#"
        [
            "lakefile.toml cannot be used: `lean_lib[0].name`: a string expected; until it is mended, a module is taken to be the path of its file",
        ]
    "#]]
    .assert_debug_eq(&p.notices());
}

#[test]
fn dependencies_by_path_and_those_that_lake_has_fetched() {
    let f = folder(&[
        (
            "lakefile.toml",
            "[[require]]\nname = \"near\"\npath = \"../near\"\n[[require]]\nname = \"inner\"\npath = \"inner\"\n[[require]]\nname = \"far\"\nscope = \"s\"\n[[require]]\nname = \"gone\"\ngit = \"u\"\n[[lean_lib]]\nname = \"App\"\n",
        ),
        ("lake-manifest.json", r#"{"version":"1.1.0","packages":[{"name":"far","type":"git","subDir":"lean"}]}"#),
        (
            "../near/lakefile.toml",
            "[[require]]\nname = \"deep\"\npath = \"../deep\"\n[[require]]\nname = \"far\"\npath = \"other\"\n[[lean_lib]]\nname = \"Near\"\n",
        ),
        ("../deep/Deep.lean", ""),
        ("inner/lakefile.toml", "[[lean_lib]]\nname = \"Inner\"\n"),
        (".lake/packages/far/lean/lakefile.toml", "[[lean_lib]]\nname = \"Far\"\n"),
    ]);
    let p = f.read();
    for (file, want) in [
        ("App.lean", Some("App")),
        ("../near/Near/X.lean", Some("Near.X")),
        ("../deep/Deep.lean", Some("Deep")),
        ("inner/Inner.lean", Some("Inner")),
        (".lake/packages/far/lean/Far.lean", Some("Far")),
        ("inner/App.lean", None),
        ("../elsewhere/X.lean", None),
    ] {
        assert_eq!(f.module_of(&p, file).as_deref(), want, "{file}");
    }
    let dirs: Vec<_> = p.lib_dirs().iter().map(|d| d.display_in(&f.root.parent().unwrap())).collect();
    assert_eq!(
        dirs,
        [
            "project/.lake/build/lib/lean",
            "near/.lake/build/lib/lean",
            "project/inner/.lake/build/lib/lean",
            "project/.lake/packages/far/lean/.lake/build/lib/lean",
            "deep/.lake/build/lib/lean",
        ]
    );
    assert_eq!(p.notices().len(), 1);
    assert!(p.notices()[0].contains("`gone`"));
}

#[test]
fn the_stamp_tells_every_change_of_the_configuration() {
    let f = folder(&[
        ("lakefile.toml", "[[require]]\nname = \"n\"\npath = \"../n\"\n"),
        ("lean-toolchain", "a"),
        ("../n/N.lean", ""),
    ]);
    let p = f.read();
    assert!(p.config_stamp().changed().is_empty());
    let mut last = p.config_stamp().clone();
    for file in ["lakefile.toml", "lean-toolchain", "lake-manifest.json", "lakefile.lean", "../n/lakefile.toml"] {
        fs::write(AbsPath::resolve(&f.root, file), "changed").unwrap();
        assert_eq!(last.changed(), [AbsPath::resolve(&f.root, file)]);
        last = last.now();
    }
    fs::write(f.root.join("A.lean"), "").unwrap();
    assert_eq!(p.config_stamp().now(), last);
    // A file that appears and goes.
    fs::remove_file(f.root.join("lake-manifest.json")).unwrap();
    assert_eq!(last.changed(), [f.root.join("lake-manifest.json")]);
}
