//! The product itself, on real Lean: what a new user runs first.

use std::process::Command;

use beam_broker::qualify::Qualifier;
use beam_toolchain::testing::{shared_embedded_for_tests, shared_env};

use crate::tests;

tests! {
    quickstart_gives_right_answers_on_real_lean
    the_self_check_passes_on_real_lean
}

/// Every answer is checked by the command itself; here it is checked that it showed them, and left no daemon behind.
fn quickstart_gives_right_answers_on_real_lean() {
    let _installed = shared_embedded_for_tests(&Qualifier);
    let dir = tempfile::Builder::new().prefix("beam-quick-").tempdir().unwrap();
    let run = || {
        Command::new(env!("CARGO_BIN_EXE_lean-beam"))
            .args(["quickstart", "--toolchain", "embedded", "--dir"])
            .arg(dir.path())
            .env_clear()
            .envs(shared_env().vars())
            .output()
            .unwrap()
    };
    let output = run();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let asked: Vec<_> = stdout.lines().filter(|l| l.starts_with("$ ")).collect();
    expect_test::expect![[r#"
        $ lean-beam --toolchain embedded update Example.lean
        $ lean-beam --toolchain embedded goals before Example.lean 1 1 2
        $ lean-beam --toolchain embedded run-at Example.lean 1 1 2 'exact ⟨hp, hq⟩'
        $ lean-beam --toolchain embedded run-at Example.lean 1 1 2 'exact hp'
        $ lean-beam --toolchain embedded run-at-handle Example.lean 1 1 2 constructor
        $ ... | lean-beam --toolchain embedded run-with Example.lean - 'exact hp'
        $ ... | lean-beam --toolchain embedded run-with Example.lean - 'exact hq'
        $ lean-beam --toolchain embedded sync Example.lean"#]]
    .assert_eq(&asked.join("\n"));
    assert!(!dir.path().join(".beam/beam-daemon.json").exists());

    // What is there and not the example is not touched, and the command says so.
    std::fs::write(dir.path().join("Example.lean"), "-- mine\n").unwrap();
    let again = run();
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("name an empty folder with --dir"));
    assert_eq!(std::fs::read_to_string(dir.path().join("Example.lean")).unwrap(), "-- mine\n");
}

/// As a user runs it after registering the server.
fn the_self_check_passes_on_real_lean() {
    let _installed = shared_embedded_for_tests(&Qualifier);
    let dir = tempfile::Builder::new().prefix("beam-check-").tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::write(root.join("lean-toolchain"), "leanprover/lean4:v4.28.0\n").unwrap();
    std::fs::write(root.join("A.lean"), "example : True := trivial\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_lean-beam"))
        .args(["mcp", "--lean-cmd", "embedded", "--self-check", "A.lean"])
        .current_dir(&root)
        .env_clear()
        .envs(shared_env().vars())
        .env("LEAN_BEAM_MCP_SELF_CHECK_TIMEOUT_MS", "600000")
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && stderr.is_empty(), "{stdout}\n{stderr}");
    expect_test::expect![[r#"
        lean-beam-mcp self-check passed
        root: $ROOT
        file: A.lean
        workspace: {"root":"$ROOT"}
        protocol: 2026-07-28
        lean_sync: ok
    "#]]
    .assert_eq(&stdout.replace(root.to_str().unwrap(), "$ROOT"));
    assert!(!root.join(".beam").exists(), "a check leaves nothing in the project");
}
