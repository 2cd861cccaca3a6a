//! Everything that can be wrong with the machine: each gives an error that says what helps, and leaves nothing behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::{FetchError, InstallError, Installer, TrialError, UnpackError};
use super::fixture::{Fixture, SOURCES, archive};
use super::{fixture, kill};
use beam_toolchain::ExtensionError;
use beam_toolchain::testing::with_program;
use beam_toolchain::{Progress, Silent};

/// The error's text; nothing may be in the store.
fn fails(f: &Fixture) -> (InstallError, String) {
    let error = f.install().expect_err("must not succeed");
    assert!(f.store.list().is_empty());
    assert!(f.store.broken().is_empty());
    assert!(f.leftovers().is_empty(), "{:?}", f.leftovers());
    let text = error.to_string();
    (error, text)
}

#[test]
fn no_node() {
    let (_tmp, mut f) = fixture();
    let empty = f.dir.join("empty");
    f.env = f.env.with("PATH", empty.as_os_str());
    let (error, text) = fails(&f);
    assert!(matches!(error, InstallError::Fetch(FetchError::NoNode(_))));
    assert!(text.contains("Node 20 or newer"), "{text}");
}

#[test]
fn an_old_node_and_a_node_that_is_none() {
    let (_tmp, mut f) = fixture();
    let old = f.env.clone();
    f.env = old.clone().with("FAKE_NODE_VERSION", "v18.20.1");
    let (error, text) = fails(&f);
    assert!(matches!(error, InstallError::Fetch(FetchError::OldNode { .. })));
    assert!(text.contains("is Node v18.20.1") && text.contains("LEAN_NODE"), "{text}");
    f.env = old.with("FAKE_NODE_VERSION", "hello");
    let (error, text) = fails(&f);
    assert!(matches!(error, InstallError::Fetch(FetchError::BadNode { .. })));
    assert!(text.contains("hello"), "{text}");
}

#[test]
fn lean_node_goes_before_path() {
    let (_tmp, mut f) = fixture();
    let node = f.dir.join("bin/node").to_string();
    f.env = with_program(&f.env, &f.dir.join("bad"), "node", "#!/bin/sh\necho v1.0.0\n");
    assert!(matches!(fails(&f).0, InstallError::Fetch(FetchError::OldNode { .. })));
    f.env = f.env.with("LEAN_NODE", node);
    f.install().unwrap();
}

#[test]
fn no_npm() {
    let (_tmp, f) = fixture();
    fs::remove_file(f.dir.join("bin/npm")).unwrap();
    // The system's own npm must not be found either.
    let mut f = f;
    let bin = f.dir.join("only");
    fs::create_dir(&bin).unwrap();
    for tool in ["sh", "dirname", "cat", "readlink", "tr"] {
        let real = f.env.find_in_path(tool).unwrap();
        std::os::unix::fs::symlink(real, bin.join(tool)).unwrap();
    }
    f.env = f.env.with("PATH", format!("{}/bin:{bin}", f.dir));
    let (error, text) = fails(&f);
    assert!(matches!(error, InstallError::Fetch(FetchError::NoNpm)));
    assert!(text.contains("no `npm` on PATH"), "{text}");
}

#[test]
fn npm_fails_and_its_words_are_shown() {
    let (_tmp, f) = fixture();
    let script = "#!/bin/sh\necho 'npm error code ENOTFOUND' >&2\nexit 1\n";
    drop(with_program(&f.env, &f.dir.join("bin"), "npm", script));
    let (error, text) = fails(&f);
    assert!(matches!(error, InstallError::Fetch(FetchError::Npm { .. })));
    for part in ["`npm pack fake@1.2.3` failed", "`npm ping`", "ENOTFOUND"] {
        assert!(text.contains(part), "{text}");
    }
    drop(with_program(&f.env, &f.dir.join("bin"), "npm", "#!/bin/sh\n"));
    assert!(matches!(fails(&f).0, InstallError::Fetch(FetchError::NoPackage(_))));
}

#[test]
fn a_package_with_another_hash_is_not_even_unpacked() {
    let (_tmp, f) = fixture();
    let tgz = f.dir.join("package.tgz");
    let mut bytes = fs::read(&tgz).unwrap();
    let last = bytes.len() - 9;
    bytes[last] ^= 1;
    fs::write(&tgz, bytes).unwrap();
    let (error, text) = fails(&f);
    assert!(matches!(error, InstallError::Fetch(FetchError::WrongHash { .. })));
    assert!(text.contains("npm cache clean --force"), "{text}");
}

/// A package whose hash is as pinned, but whose archive is not as expected.
fn install_archive(bytes: &[u8]) -> InstallError {
    let (tmp, f) = fixture();
    fs::write(f.dir.join("package.tgz"), bytes).unwrap();
    fails(&Fixture::open(tmp.path())).0
}

#[test]
fn damaged_and_incomplete_archives() {
    let (_tmp, f) = fixture();
    let whole = fs::read(f.dir.join("package.tgz")).unwrap();
    for cut in [20, whole.len() / 2, whole.len() - 4] {
        let error = install_archive(&whole[..cut]);
        assert!(matches!(error, InstallError::Unpack(UnpackError::Damaged(_))), "{cut}: {error}");
    }
    let error = install_archive(&archive(&[("package/package.json", b"{}")]));
    assert!(error.to_string().contains("no lean.js"), "{error}");
    let library = archive(&[("./Init.olean", b"x")]);
    let cut = &library[..library.len() / 2];
    let error = install_archive(&archive(&[("package/lean-lib.tar.gz", cut)]));
    assert!(matches!(error, InstallError::Unpack(UnpackError::Damaged(_))), "{error}");
    let escape = [("package/lean-lib.tar.gz", &archive_with_parent_path()[..])];
    let error = install_archive(&archive(&escape));
    assert!(matches!(error, InstallError::Unpack(UnpackError::Shape(_))), "{error}");
}

/// The `tar` crate refuses to write such a name, so the header is made by hand.
fn archive_with_parent_path() -> Vec<u8> {
    use std::io::Write;
    let mut header = tar::Header::new_gnu();
    let name = b"./Init/../../evil.olean";
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_size(0);
    header.set_cksum();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(header.as_bytes()).unwrap();
    gz.write_all(&[0; 1024]).unwrap();
    gz.finish().unwrap()
}

#[test]
fn a_lean_that_does_not_work_is_not_published() {
    let (_tmp, mut f) = fixture();
    f.env = f.env.with("FAKE_TRIAL", "/dev/null");
    let (error, text) = fails(&f);
    assert!(matches!(error, InstallError::Trial(TrialError::Wrong { .. })), "{text}");
}

#[test]
fn an_extension_that_does_not_compile_or_crashes_lean() {
    let (_tmp, mut f) = fixture();
    let good = f.env.clone();
    f.env = good.clone().with("FAKE_BAD_MODULE", "Ext.B");
    let (error, text) = fails(&f);
    assert!(
        matches!(error, InstallError::Extension(ExtensionError::Compile { ref module, .. }) if module == "Ext/B.lean"),
        "{text}"
    );
    assert!(text.contains("Ext.B: error"), "{text}");
    f.env = good.with("FAKE_CRASH_MODULE", "Ext.A");
    let (error, text) = fails(&f);
    assert!(
        matches!(error, InstallError::Extension(ExtensionError::Crashed { ref module, .. }) if module == "Ext/A.lean"),
        "{text}"
    );
    assert!(text.contains("134") && text.contains("out of memory"), "{text}");
}

/// K4.
#[test]
fn k4_a_failed_self_test_publishes_nothing() {
    let (_tmp, f) = fixture();
    let error = Installer {
        package: &f.package,
        sources: &SOURCES,
        store: &f.store,
        env: &f.env,
        qualify: &|_: &beam_toolchain::WorkerLaunch| Err("probe 3 is wrong".to_owned()),
        progress: &Silent,
    }
    .run()
    .unwrap_err();
    assert!(matches!(error, InstallError::SelfTest(ref why) if why == "probe 3 is wrong"));
    assert!(f.store.list().is_empty() && f.leftovers().is_empty());
}

#[test]
fn too_little_space_is_noticed_before_the_download() {
    let (_tmp, mut f) = fixture();
    f.package.space = u64::MAX / 2;
    let (error, text) = fails(&f);
    assert!(matches!(error, InstallError::NoSpace { .. }));
    assert!(text.contains("LEAN_BEAM_HOME"), "{text}");
}

/// The disk fills up in the middle: a file size limit makes writes fail in the same way, without a disk of our own.
#[test]
fn a_write_that_fails_says_what_helps() {
    let (_tmp, f) = fixture();
    let text = kill::install_with_file_limit(&f);
    assert!(text.contains("cannot write") && text.contains("free about 1 GB"), "{text}");
    assert!(f.store.list().is_empty() && f.leftovers().is_empty());
    f.assert_clean(&f.install().unwrap());
}

#[test]
fn a_store_that_cannot_be_written() {
    let (_tmp, f) = fixture();
    // A file where the folder should be stops root as well.
    fs::write(f.store.home(), "").unwrap();
    let text = f.install().unwrap_err().to_string();
    assert!(text.contains("cannot lock"), "{text}");
}

#[test]
fn of_two_at_once_one_works_and_the_other_waits_for_it() {
    #[derive(Default)]
    struct Notes(Mutex<Vec<String>>);
    impl Progress for Notes {
        fn phase(&self, _: &str, _: Option<u64>) {}
        fn advance(&self, _: u64) {}
        fn note(&self, line: &str) {
            self.0.lock().unwrap().push(line.to_owned());
        }
    }
    let (_tmp, f) = fixture();
    // The first one's npm waits until the second one has said that it waits.
    let (gate, tgz) = (f.dir.join("gate"), f.dir.join("package.tgz"));
    let script = format!("#!/bin/sh\nwhile [ ! -e '{gate}' ]; do sleep 0.02; done\nexec cp '{tgz}' ./package.tgz\n");
    drop(with_program(&f.env, &f.dir.join("bin"), "npm", &script));
    let notes = Notes::default();
    std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| f.install_with(&SOURCES, &notes).unwrap()));
        let begun = std::time::Instant::now();
        while notes.0.lock().unwrap().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(5));
        }
        fs::write(&gate, "").unwrap();
        let [a, b] = both.map(|t| t.join().unwrap());
        assert_eq!(a.manifest, b.manifest);
        f.assert_clean(&a);
    });
    assert_eq!(f.qualified.load(Ordering::Relaxed), 1);
    let notes = notes.0.into_inner().unwrap();
    let me = format!("pid {} (installing", std::process::id());
    assert!(notes.len() == 1 && notes[0].starts_with(&me), "{notes:?}");
}

#[test]
fn an_entry_that_is_half_gone_is_not_used_and_is_replaced() {
    for damage in ["removed", "shortened", "added", "no manifest", "foreign manifest"] {
        let (_tmp, f) = fixture();
        let entry = f.install().unwrap();
        let module = entry.dir.join("lib/lean/Init/A.olean");
        let manifest = entry.dir.join("entry.json");
        match damage {
            "removed" => fs::remove_file(&module).unwrap(),
            "shortened" => fs::write(&module, "x").unwrap(),
            "added" => fs::write(entry.dir.join("lib/lean/New.olean"), "x").unwrap(),
            "no manifest" => fs::remove_file(&manifest).unwrap(),
            _ => fs::write(&manifest, "{}").unwrap(),
        }
        assert!(f.store.list().is_empty(), "{damage}");
        let broken = f.store.broken();
        assert_eq!(broken.len(), 1, "{damage}");
        assert_eq!(broken[0].id, entry.id);
        f.assert_clean(&f.install().unwrap());
    }
}

#[test]
fn removal() {
    let (_tmp, f) = fixture();
    let entry = f.install().unwrap();
    for bad in ["", ".", "..", "../toolchains", "a/b", "/etc", "absent"] {
        let text = f.store.remove(bad).unwrap_err().to_string();
        assert!(text.contains("lean-beam toolchain list"), "{bad}: {text}");
    }
    f.store.remove(&entry.id).unwrap();
    assert!(!entry.dir.exists() && f.leftovers().is_empty());
    assert!(f.store.remove(&entry.id).is_err());
    // What a killed removal leaves behind is swept by the next one that works in the store.
    fs::create_dir_all(f.store.home().join("tmp/removed.1-0-0/x")).unwrap();
    f.assert_clean(&f.install().unwrap());
    // A read-only entry can be removed as well.
    let entry = f.install().unwrap();
    fs::set_permissions(entry.lean(), PermissionsExt::from_mode(0o555)).unwrap();
    f.store.remove(&entry.id).unwrap();
}
