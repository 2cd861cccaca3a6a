//! Extension builds on a fake native toolchain: compiled in order, qualified, stored once, never used when they failed.

use super::super::sources::WORKER;
use super::*;
use crate::discovery::{Choice, resolve};
use crate::fake_lean;
use crate::lock::LockError;
use crate::progress::Silent;
use crate::store::StoreError;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Fixture {
    _tmp: tempfile::TempDir,
    top: AbsPath,
    env: HostEnv,
    store: Store,
    tc: Toolchain,
    qualified: AtomicUsize,
}

fn sources(a: &str) -> Sources {
    Sources::new(&[
        ("X/A.lean", a),
        ("X/B.lean", "import X.A"),
        ("X/C.lean", "import X.A"),
        ("X.lean", "import X.B\nimport X.C\nimport Lean"),
        (WORKER, "import X"),
    ])
    .unwrap()
}

impl Fixture {
    fn new() -> Self {
        let tmp = tempfile::tempdir().unwrap();
        let top = AbsPath::canonical(tmp.path()).unwrap();
        fake_lean::make(&top.join("lean"), "4.28.0");
        let env =
            HostEnv::from_vars([("PATH", "/usr/bin:/bin"), ("LEAN_BEAM_HOME", top.join("store").to_str().unwrap())]);
        let tc = resolve(&top, &env, &Choice::Lean(top.join("lean/bin/lean"))).unwrap();
        Self { _tmp: tmp, store: Store::open(&env).unwrap(), top, env, tc, qualified: AtomicUsize::new(0) }
    }

    fn ensure(&self, sources: &Sources, verdict: Result<(), &str>) -> Result<Extension, ExtensionError> {
        let qualify = |launch: &WorkerLaunch| {
            self.qualified.fetch_add(1, Ordering::Relaxed);
            let program = launch.args[1].to_str().unwrap();
            assert!(program.ends_with(WORKER) && std::path::Path::new(program).is_file());
            verdict.map_err(str::to_owned)
        };
        ensure(&self.tc, sources, &self.store, &self.env, &qualify, &Silent)
    }

    fn times(&self) -> usize {
        self.qualified.load(Ordering::Relaxed)
    }
}

#[test]
fn a_build_is_made_once_and_found_again() {
    let f = Fixture::new();
    let one = sources("import Lean");
    assert!(find(&f.tc, &f.store, &one).is_none());
    let ext = f.ensure(&one, Ok(())).unwrap();
    assert_eq!(ext.verdict, Verdict::Qualified);
    for file in ["X.olean", "X/A.olean", "X/B.olean", "X/C.olean", WORKER, "build.log"] {
        assert!(ext.dir.join(file).is_file(), "{file}");
    }
    assert!(!ext.dir.join("probe-project").exists());
    let log = fs::read_to_string(&ext.log).unwrap();
    assert_eq!(log.matches("#built ").count(), 4, "{log}");
    let again = f.ensure(&one, Err("not asked")).unwrap();
    assert_eq!((again.dir, f.times()), (ext.dir, 1));
    // Other sources are another build, beside it.
    f.ensure(&sources("-- changed"), Ok(())).unwrap();
    assert_eq!((f.store.extensions().len(), f.times()), (2, 2));
}

/// K4: a failed build is recorded with its reason, reported again without being tried again, and forgotten by its id.
#[test]
fn k4_a_rejected_build_is_never_used() {
    let f = Fixture::new();
    for (sources, verdict, want) in [
        (sources("-- ERROR"), Ok(()), "X/A.lean does not compile"),
        (sources("-- fine"), Err("probe 2 is wrong"), "probe 2 is wrong"),
    ] {
        let before = f.times();
        let id = match f.ensure(&sources, verdict).unwrap_err() {
            ExtensionError::Rejected { reason, log, id } => {
                assert_eq!(reason, want);
                assert!(log.is_file());
                id
            }
            other => panic!("{other}"),
        };
        let tried = f.times();
        let text = f.ensure(&sources, Ok(())).unwrap_err().to_string();
        assert!(text.contains(want) && text.contains(&format!("toolchain remove {id}")), "{text}");
        assert_eq!(f.times(), tried, "not tried again");
        assert!(matches!(find(&f.tc, &f.store, &sources).unwrap().verdict, Verdict::Rejected(_)));
        f.store.remove(&id).unwrap();
        assert!(find(&f.tc, &f.store, &sources).is_none());
        assert!(tried <= before + 1);
    }
    f.ensure(&sources("-- fine"), Ok(())).unwrap();
}

/// A crash says nothing about the sources, so the next try is a new one.
#[test]
fn a_crash_is_not_recorded() {
    let f = Fixture::new();
    let e = f.ensure(&sources("-- CRASH"), Ok(())).unwrap_err();
    assert!(matches!(e, ExtensionError::Crashed { ref module, .. } if module == "X/A.lean"), "{e}");
    assert!(f.store.extensions().is_empty() && f.store.broken().is_empty());
}

#[test]
fn a_damaged_build_is_made_anew() {
    let f = Fixture::new();
    let one = sources("import Lean");
    let ext = f.ensure(&one, Ok(())).unwrap();
    fs::remove_file(ext.dir.join("X/C.olean")).unwrap();
    assert_eq!(f.store.broken().len(), 1);
    f.ensure(&one, Ok(())).unwrap();
    assert_eq!((f.times(), f.store.broken().len()), (2, 0));
}

#[test]
fn many_at_once_build_once() {
    let f = Fixture::new();
    let one = sources("import Lean");
    let dirs: Vec<AbsPath> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(|| f.ensure(&one, Ok(())).unwrap().dir)).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(dirs.iter().all(|d| *d == dirs[0]));
    assert_eq!(f.times(), 1);
}

/// K1: two toolchains in two projects, found through elan, are two builds, each for both to find again; and a toolchain that was
/// rebuilt under the same name is a third, whatever was said of the one before.
#[test]
fn each_toolchain_of_elan_has_a_build_of_its_own() {
    let f = Fixture::new();
    let env = f.env.clone().with("ELAN_HOME", f.top.join("elan").as_os_str());
    let one = sources("import Lean");
    let project = |name: &str, version: &str| {
        let prefix = f.top.join(format!("elan/toolchains/leanprover--lean4---v{version}"));
        if !prefix.is_dir() {
            fake_lean::make(&prefix, version);
        }
        let root = f.top.join(name);
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("lean-toolchain"), format!("leanprover/lean4:v{version}\n")).unwrap();
        (resolve(&root, &env, &Choice::Auto).unwrap(), prefix)
    };
    let build = |tc: &Toolchain, verdict: Result<(), &str>| {
        let qualify = |_: &WorkerLaunch| {
            f.qualified.fetch_add(1, Ordering::Relaxed);
            verdict.map_err(str::to_owned)
        };
        ensure(tc, &one, &f.store, &env, &qualify, &Silent)
    };
    let (old, _) = project("old", "4.28.0");
    let (new, prefix) = project("new", "4.29.0");
    let (same, _) = project("same", "4.28.0");
    assert_eq!(old.fingerprint, same.fingerprint);
    assert_ne!(old.fingerprint, new.fingerprint);
    let dir = build(&old, Ok(())).unwrap().dir;
    assert_eq!(build(&same, Err("not asked")).unwrap().dir, dir);
    build(&new, Err("a probe is wrong")).unwrap_err();
    build(&new, Ok(())).unwrap_err();
    assert_eq!((f.times(), f.store.extensions().len()), (2, 2), "not tried again");
    // A new binary is a new try; the old verdict stays with the old one.
    let lean = prefix.join("bin/lean");
    fs::write(&lean, fs::read_to_string(&lean).unwrap() + "# rebuilt\n").unwrap();
    let (rebuilt, _) = project("new", "4.29.0");
    build(&rebuilt, Ok(())).unwrap();
    assert_eq!((f.times(), f.store.extensions().len()), (3, 3));
}

/// Lake is told what elan's proxy would tell it, and nothing that another Lake around us has set.
#[test]
fn lake_hears_of_elan_and_not_of_an_outer_lake() {
    let f = Fixture::new();
    let elan = f.top.join("elan");
    fake_lean::make(&elan.join("toolchains/leanprover--lean4---v4.28.0"), "4.28.0");
    let root = f.top.join("project");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("lean-toolchain"), "leanprover/lean4:v4.28.0\n").unwrap();
    fs::write(root.join("lakefile.toml"), "").unwrap();
    let env = f.env.clone().with("ELAN_HOME", elan.as_os_str()).with("LEAN_GITHASH", "other");
    let launched = |env: &HostEnv| {
        let tc = resolve(&root, env, &Choice::Auto).unwrap();
        let ext = ensure(&tc, &sources("import Lean"), &f.store, env, &|_: &WorkerLaunch| Ok(()), &Silent).unwrap();
        worker_launch(&tc, &ext, &root, env).unwrap()
    };
    let var = |launch: &WorkerLaunch, key: &str| {
        launch.env.iter().find(|(k, _)| k == key).map(|(_, value)| value.to_str().unwrap().to_owned())
    };
    let launch = launched(&env);
    assert_eq!(var(&launch, "ELAN_HOME"), Some(elan.to_string()));
    assert_eq!(var(&launch, "ELAN_TOOLCHAIN").as_deref(), Some("leanprover/lean4:v4.28.0"));
    assert_eq!(var(&launch, "LEAN_GITHASH").as_deref(), Some("other"), "the user's own");
    let launch = launched(&env.with("LAKE", "/elsewhere/bin/lake"));
    assert_eq!(var(&launch, "LEAN_GITHASH").as_deref(), Some("own"), "another Lake's");
}

#[test]
fn the_launch_on_a_native_toolchain() {
    let f = Fixture::new();
    let ext = f.ensure(&sources("import Lean"), Ok(())).unwrap();
    let root = f.top.join("project");
    fs::create_dir(&root).unwrap();
    let env = f.env.clone().with("LEAN_PATH", "/outer");
    let path = |launch: &WorkerLaunch| {
        let found = launch.env.iter().find(|(k, _)| k == "LEAN_PATH").unwrap();
        found.1.to_str().unwrap().to_owned()
    };
    // Without a lakefile the caller's search path stays, with ours behind it.
    fs::write(root.join("lean-toolchain"), "").unwrap();
    let launch = worker_launch(&f.tc, &ext, &root, &env).unwrap();
    assert_eq!(path(&launch), format!("/outer:{}", ext.dir));
    assert_eq!((&launch.program, &launch.cwd), (&f.tc.lean, &root));
    assert!(launch.env_remove.contains(&"LEAN_SYSROOT".into()));
    // With one, Lake's word counts.
    fs::write(root.join("lakefile.toml"), "").unwrap();
    let launch = worker_launch(&f.tc, &ext, &root, &env).unwrap();
    assert_eq!(path(&launch), format!("{root}/.lake/build/lib/lean:{}", ext.dir));
    assert!(launch.env.contains(&("LEAN_SYSROOT".into(), f.tc.prefix.as_os_str().to_owned())));
    assert!(launch.env_remove.contains(&"LAKE_NO_CACHE".into()));
    assert!(!launch.env.iter().any(|(k, _)| k == "x"));
    fs::write(root.join("broken"), "").unwrap();
    let e = worker_launch(&f.tc, &ext, &root, &env).unwrap_err();
    assert!(e.to_string().contains("lakefile is broken"), "{e}");
}

/// Fault 8: whoever gives up stops the compiler, and the next caller does not wait for it.
#[test]
fn an_aborted_build_stops_compiling_and_the_next_caller_takes_over() {
    let f = Fixture::new();
    let endless = sources("-- ENDLESS");
    let fine = sources("-- fine");
    let stop = beam_process::StopOnDrop::default();
    let env = f.env.clone().stopped_by(stop.flag());
    let begun = std::time::Instant::now();
    let never = |_: &WorkerLaunch| -> Result<(), String> { panic!("nothing to qualify") };
    let pid_file = f.top.join("lean/pid");
    let build = |env: &HostEnv| ensure(&f.tc, &endless, &f.store, env, &never, &Silent).unwrap_err();
    let stopped = |e: &ExtensionError| {
        matches!(
            e,
            ExtensionError::Run(RunError::Stopped { .. })
                | ExtensionError::Store(StoreError::Lock(LockError::Stopped { .. }))
        )
    };
    std::thread::scope(|scope| {
        let aborted = scope.spawn(|| build(&env));
        while !pid_file.is_file() {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Another one waits at the lock, and wants it no more either.
        let other = beam_process::StopOnDrop::default();
        let their_env = f.env.clone().stopped_by(other.flag());
        let waiting = scope.spawn({
            let build = &build;
            move || build(&their_env)
        });
        drop(other);
        let e = waiting.join().unwrap();
        assert!(stopped(&e), "{e}");
        drop(stop);
        let e = aborted.join().unwrap();
        assert!(stopped(&e), "{e}");
    });
    let pid = fs::read_to_string(&pid_file).unwrap();
    assert!(!std::path::Path::new("/proc").join(pid.trim()).join("exe").exists(), "the compiler is gone");
    assert!(f.store.extensions().is_empty() && f.store.broken().is_empty(), "nothing is recorded");
    f.ensure(&fine, Ok(())).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60));
}
