//! The built-in conformance set, by itself: the real extension passes it, and what only looks like one does not.

use beam_base::AbsPath;
use beam_broker::qualify::Qualifier;
use beam_embedded::testing;
use beam_toolchain::{Choice, Qualify, Silent, Store, WorkerLaunch, ensure_extension, resolve, worker_launch};

fn launch() -> (tempfile::TempDir, WorkerLaunch) {
    let _installed = testing::shared_embedded_for_tests(&Qualifier);
    let env = testing::shared_env();
    let dir = tempfile::tempdir().unwrap();
    let root = AbsPath::canonical(dir.path()).unwrap();
    let tc = resolve(&root, &env, &Choice::Embedded).unwrap();
    let store = Store::open(&env).unwrap();
    let ext = ensure_extension(&tc, &store, &env, &Qualifier, &Silent).unwrap();
    let launch = worker_launch(&tc, &ext, &root, &env).unwrap();
    (dir, launch)
}

/// K4: the set is run on the very toolchain, in real workers, and passes there.
#[test]
fn k4_the_extension_passes_its_conformance_set() {
    let (_dir, launch) = launch();
    assert_eq!(Qualifier.qualify(&launch), Ok(()));
}

/// A worker without the extension answers everything but our requests; the reason says which one it was.
#[test]
fn a_worker_without_the_extension_does_not_pass() {
    let (_dir, mut launch) = launch();
    launch.args = vec!["--worker".into()];
    let reason = Qualifier.qualify(&launch).unwrap_err();
    assert!(reason.starts_with("$/lean/runAt: "), "{reason}");
}

/// A program that is no worker is found out by its end, not by a timeout.
#[test]
fn a_program_that_is_no_worker_does_not_pass() {
    let (_dir, mut launch) = launch();
    launch.args = vec!["--version".into()];
    let reason = Qualifier.qualify(&launch).unwrap_err();
    assert!(reason.contains("ended before it was ready"), "{reason}");
}
