//! A real native Lean 4.35.0 without a library: what is found out about it, and what becomes of an extension that cannot be compiled.

use beam_base::AbsPath;
use beam_toolchain::{
    Choice, ExtensionError, Fingerprint, HostEnv, Silent, Store, ToolchainKind, ToolchainOrigin, Verdict, WorkerLaunch,
    ensure_extension, extension, resolve,
};
use testkit::native;

/// K1, K4: the fingerprint is the toolchain's own word; the build fails for a real reason, is recorded with Lean's output, and is not
/// tried again until it is forgotten.
#[test]
fn k4_a_real_toolchain_that_cannot_compile_the_extension_is_rejected_with_the_log() {
    let tmp = tempfile::tempdir().unwrap();
    let top = AbsPath::canonical(tmp.path()).unwrap();
    let env = HostEnv::capture().with("LEAN_BEAM_HOME", top.as_os_str());
    let lean = AbsPath::new(native::lean()).unwrap();
    let tc = resolve(&top, &env, &Choice::Lean(lean.clone())).unwrap();
    assert_eq!(
        (tc.kind, &tc.found, tc.version.as_str()),
        (ToolchainKind::Native, &ToolchainOrigin::Explicit, native::VERSION)
    );
    assert_eq!(tc.prefix.as_path(), native::prefix());
    assert_eq!(tc.lake, None);
    match &tc.fingerprint {
        Fingerprint::Native { lean_version, lake_version: None, size, .. } => {
            assert!(lean_version.contains("x86_64-unknown-linux-gnu"), "{lean_version}");
            assert_eq!(*size, lean.metadata().unwrap().len());
        }
        other => panic!("{other:?}"),
    }

    let store = Store::open(&env).unwrap();
    let never = |_: &WorkerLaunch| -> Result<(), String> { panic!("what does not compile is not qualified") };
    let reject = || match ensure_extension(&tc, &store, &env, &never, &Silent).unwrap_err() {
        ExtensionError::Rejected { reason, log, id } => (reason, log, id),
        other => panic!("{other}"),
    };
    let (reason, log, id) = reject();
    assert!(reason.ends_with("does not compile"), "{reason}");
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("unknown module prefix 'Init'") || said.contains("unknown module prefix 'Lean'"), "{said}");
    let built_at = || log.metadata().unwrap().modified().unwrap();
    let before = built_at();
    assert_eq!(reject(), (reason.clone(), log.clone(), id.clone()));
    assert_eq!(built_at(), before, "not tried again");
    let found = extension::find_extension(&tc, &store).unwrap().unwrap();
    assert_eq!(found.verdict, Verdict::Rejected(reason));
    store.remove(&id).unwrap();
    assert!(extension::find_extension(&tc, &store).unwrap().is_none());
    assert_eq!(reject().2, id);
}
