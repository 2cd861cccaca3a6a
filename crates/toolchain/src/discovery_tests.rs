//! Discovery on fake toolchains: what is chosen, what is said, and that nothing is ever installed.

use super::*;
use crate::fake_lean;
use std::fs;
use std::os::unix::fs::symlink;

struct Fixture {
    _tmp: tempfile::TempDir,
    top: AbsPath,
    root: AbsPath,
    env: HostEnv,
}

impl Fixture {
    /// An empty project, an empty elan, an empty store, nothing on PATH but a shell's tools.
    fn new() -> Self {
        let tmp = tempfile::tempdir().unwrap();
        let top = AbsPath::canonical(tmp.path()).unwrap();
        let root = top.join("project");
        for dir in ["project", "elan/toolchains", "store", "bin"] {
            fs::create_dir_all(top.join(dir)).unwrap();
        }
        let host = HostEnv::from_vars([("PATH", "/usr/bin:/bin")]);
        for tool in ["sh", "cat", "dirname"] {
            symlink(host.find_in_path(tool).unwrap(), top.join("bin").join(tool)).unwrap();
        }
        let env = HostEnv::from_vars([
            ("PATH", top.join("bin").as_os_str()),
            ("ELAN_HOME", top.join("elan").as_os_str()),
            ("LEAN_BEAM_HOME", top.join("store").as_os_str()),
        ]);
        Self { _tmp: tmp, top, root, env }
    }

    fn toolchain_file(&self, name: &str) -> &Self {
        fs::write(self.root.join("lean-toolchain"), format!("{name}\n")).unwrap();
        self
    }

    fn elan_has(&self, folder: &str, version: &str) -> AbsPath {
        let prefix = self.top.join("elan/toolchains").join(folder);
        fake_lean::make(&prefix, version);
        prefix
    }

    fn auto(&self) -> Result<Toolchain, ResolveError> {
        resolve(&self.root, &self.env, &Choice::Auto)
    }
}

#[test]
fn the_projects_toolchain_through_elan_comes_first() {
    let f = Fixture::new();
    let prefix = f.elan_has("leanprover--lean4---v4.28.0", "4.28.0");
    fake_lean::make(&f.top.join("other"), "4.29.0");
    symlink(f.top.join("other/bin/lean"), f.top.join("bin/lean")).unwrap();
    let tc = f.toolchain_file("leanprover/lean4:v4.28.0").auto().unwrap();
    let channel = "leanprover/lean4:v4.28.0".to_owned();
    assert_eq!(tc.found, ToolchainOrigin::Elan { channel });
    assert_eq!((tc.kind, tc.version.as_str(), tc.notice), (ToolchainKind::Native, "4.28.0", None));
    assert_eq!(tc.prefix, prefix);
    assert_eq!(tc.lake, Some(prefix.join("bin/lake")));
    assert_eq!(tc.id, tc.fingerprint.short());
}

/// K2: where there is nothing, nothing is made.
#[test]
fn then_lean_on_path_but_never_a_proxy() {
    let f = Fixture::new();
    fake_lean::make(&f.top.join("sys"), "4.30.1");
    f.toolchain_file("leanprover/lean4:v4.28.0");
    let lean = f.top.join("bin/lean");
    symlink(f.top.join("sys/bin/lean"), &lean).unwrap();
    // A link whose folder does not hold `lean` itself: its prefix is asked for, not guessed.
    let tc = f.auto().unwrap_err();
    assert!(tc.to_string().contains("cannot be used"), "the fake takes its own folder for the prefix: {tc}");
    fs::remove_file(&lean).unwrap();
    let env = f.env.clone().with("PATH", format!("{}/sys/bin:{}/bin", f.top, f.top));
    let tc = resolve(&f.root, &env, &Choice::Auto).unwrap();
    assert_eq!((tc.found, tc.version.as_str()), (ToolchainOrigin::Path, "4.30.1"));
    // The same `lean` beside an `elan` is a proxy, which would download what is missing.
    fs::copy(f.top.join("sys/bin/lean"), f.top.join("sys/bin/elan")).unwrap();
    let e = resolve(&f.root, &env, &Choice::Auto).unwrap_err();
    let text = e.to_string();
    assert!(matches!(e, ResolveError::None { .. }), "{text}");
    for part in
        ["`elan toolchain install leanprover/lean4:v4.28.0`", "elan's proxy", "`lean-beam toolchain install embedded`"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(e.command(), Some("lean-beam toolchain install embedded"));
    // K2: looking for it has installed nothing.
    assert_eq!(fs::read_dir(f.top.join("elan/toolchains")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(f.top.join("store")).unwrap().count(), 0);
}

#[test]
fn names_that_no_registry_admits_fail_early() {
    let f = Fixture::new();
    f.elan_has("leanprover--lean4---v4.20.0", "4.20.0");
    let e = f.toolchain_file("leanprover/lean4:v4.20.0").auto().unwrap_err();
    let text = e.to_string();
    for part in [
        "`leanprover/lean4:v4.20.0`",
        "lean-toolchain",
        "lean-beam validated-toolchains",
        "lean-beam compatible-release-lines",
        "custom-lean-toolchains",
    ] {
        assert!(text.contains(part), "{text}");
    }
    // A moving channel is judged by what elan has for it.
    f.elan_has("leanprover--lean4---v4.29.0", "4.29.0");
    let tc = f.toolchain_file("leanprover/lean4:stable").auto().unwrap();
    assert_eq!(tc.version, "4.29.0");
    // The user's own registry admits anything by its exact name, but not what is too old to work.
    fs::write(f.top.join("store/custom-lean-toolchains"), "mine\nold\n").unwrap();
    for (name, version) in [("mine", "4.31.0-pre"), ("old", "4.27.9")] {
        fake_lean::make(&f.top.join(name), version);
        symlink(f.top.join(name), f.top.join("elan/toolchains").join(name)).unwrap();
    }
    assert_eq!(f.toolchain_file("mine").auto().unwrap().version, "4.31.0-pre");
    let e = f.toolchain_file("old").auto().unwrap_err();
    assert!(matches!(e, ResolveError::TooOld { .. }), "{e}");
}

#[test]
fn a_toolchain_that_is_not_what_its_name_says_is_refused() {
    let f = Fixture::new();
    f.elan_has("leanprover--lean4---v4.28.0", "4.29.0");
    let e = f.toolchain_file("leanprover/lean4:v4.28.0").auto().unwrap_err();
    assert!(e.to_string().contains("but it is Lean 4.29.0"), "{e}");
}

#[test]
fn an_explicit_lean_is_taken_as_it_is_named() {
    let f = Fixture::new();
    fake_lean::make(&f.top.join("x"), "4.28.0");
    let lean = f.top.join("x/bin/lean");
    let tc = resolve(&f.root, &f.env, &Choice::Lean(lean.clone())).unwrap();
    assert_eq!((tc.found, &tc.lean), (ToolchainOrigin::Explicit, &lean));
    let e = resolve(&f.root, &f.env, &Choice::Lean(f.top.join("nothing"))).unwrap_err();
    assert!(e.to_string().contains("not an executable file"), "{e}");
    fs::write(f.top.join("x/banner"), "Lean 3").unwrap();
    let e = resolve(&f.root, &f.env, &Choice::Lean(lean)).unwrap_err();
    assert!(e.to_string().contains("no version of Lean 4"), "{e}");
    let e = resolve(&f.root, &f.env, &Choice::Embedded).unwrap_err();
    assert!(matches!(e, ResolveError::NotInstalled), "{e}");
}

/// K1: a rebuilt local toolchain is another one, though its version is the same.
#[test]
fn k1_a_fingerprint_follows_the_binary() {
    let f = Fixture::new();
    fake_lean::make(&f.top.join("x"), "4.28.0");
    let lean = f.top.join("x/bin/lean");
    let id = || resolve(&f.root, &f.env, &Choice::Lean(lean.clone())).unwrap().id;
    let before = id();
    assert_eq!(before, id());
    let mut text = fs::read_to_string(&lean).unwrap();
    text.push_str("# rebuilt\n");
    fs::write(&lean, text).unwrap();
    assert_ne!(before, id());
}

#[test]
fn banners() {
    assert_eq!(
        parse_banner("Lean (version 4.28.0-pre, wasm32-unknown-emscripten, commit 0, Release)").as_deref(),
        Some("4.28.0-pre")
    );
    assert_eq!(parse_banner("Lean (version 4.0.0)").as_deref(), Some("4.0.0"));
    assert_eq!(parse_banner("Lean (version 3.51.1, commit 0)"), None);
    assert_eq!(parse_banner("v20.0.0"), None);
    for (version, want) in
        [("4.28.0-pre", true), ("4.28", true), ("4.27.0", false), ("4.100.0-rc1", true), ("5.0.0", true), ("4", false)]
    {
        assert_eq!(new_enough(version), want, "{version}");
    }
}
