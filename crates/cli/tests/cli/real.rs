//! The product itself, on real Lean: what a new user runs first.

use std::path::Path;
use std::process::{Command, Output};

use beam_broker::qualify::Qualifier;
use beam_embedded::testing::{shared_embedded_for_tests, shared_env};

use serde_json::Value;

use crate::tests;

tests! {
    quickstart_gives_right_answers_on_real_lean
    a_recovery_plan_is_run_by_a_shell_as_it_stands
    the_self_check_passes_on_real_lean
    the_questions_of_agents_are_answered_by_real_lean
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

/// Runs a line in a shell whose `lean-beam` is the one under test.
fn shell(root: &Path, line: &str) -> Output {
    let bin = root.join("bin");
    if !bin.exists() {
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lean-beam"), bin.join("lean-beam")).unwrap();
    }
    let env = shared_env();
    let path = format!("{}:{}", bin.display(), env.var("PATH").unwrap_or_default());
    Command::new("sh")
        .args(["-c", line])
        .current_dir(root)
        .env_clear()
        .envs(env.vars())
        .env("PATH", path)
        .env("BEAM_TOOLCHAIN", "embedded")
        .output()
        .unwrap()
}

fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

/// Five modules: a diamond over one with a `module` header, and one with an error. Edit, stale, the plan as printed, ready.
fn a_recovery_plan_is_run_by_a_shell_as_it_stands() {
    let _installed = shared_embedded_for_tests(&Qualifier);
    let dir = tempfile::Builder::new().prefix("beam-five-").tempdir().unwrap();
    let root = dir.path();
    let write = |file: &str, text: &str| std::fs::write(root.join(file), text).unwrap();
    std::fs::create_dir(root.join("My App")).unwrap();
    write("lean-toolchain", "leanprover/lean4:v4.28.0\n");
    write(
        "lakefile.toml",
        "name = \"five\"\n\n[[lean_lib]]\nname = \"App\"\nsrcDir = \"My App\"\nglobs = [\"Base\", \"Left\", \"Right\", \"Top\", \"Bad\"]\n",
    );
    write("My App/Base.lean", "module\n\npublic def base : Nat := 1\n");
    write("My App/Left.lean", "import Base\n\ndef left : Nat := base + 1\n");
    write("My App/Right.lean", "import Base\n\ndef right : Nat := base + 2\n");
    write("My App/Top.lean", "import Left\nimport Right\n\ntheorem sum : left + right = 5 := by decide\n");
    write("My App/Bad.lean", "import Base\n\ndef bad : Nat := \"one\"\n");
    let sync = |file: &str| shell(root, &format!("lean-beam sync '{file}'"));

    let first = sync("My App/Top.lean");
    assert!(first.status.success(), "{first:?}");
    assert!(String::from_utf8_lossy(&first.stderr).contains("Built Left"), "the build is shown: {first:?}");
    assert_eq!(answer(&first)["result"]["readiness"]["saveReady"], true);

    // The first look at a file is where its history begins.
    assert!(sync("My App/Left.lean").status.success());
    write("My App/Left.lean", "import Base\n\ndef left : Nat := base + 1 + 0\n");
    assert!(sync("My App/Left.lean").status.success());
    let stale = sync("My App/Top.lean");
    assert!(!stale.status.success());
    let stale = answer(&stale);
    assert_eq!(stale["error"]["code"], "syncBarrierIncomplete");
    let plan = stale["error"]["data"]["recoveryPlan"].as_array().unwrap();
    assert_eq!(plan.len(), 2, "{plan:?}");
    for line in plan {
        let done = shell(root, line.as_str().unwrap());
        assert!(done.status.success(), "{line}: {done:?}");
        assert!(!String::from_utf8_lossy(&done.stderr).contains("Built"), "nothing had to be built: {done:?}");
    }
    assert_eq!(answer(&sync("My App/Top.lean"))["result"]["readiness"]["saveReady"], true);

    let bad = answer(&sync("My App/Bad.lean"));
    assert_eq!(bad["result"]["readiness"]["reason"], "documentErrors");
    let unsaved = shell(root, "lean-beam close-save 'My App/Bad.lean'");
    assert_eq!(answer(&unsaved)["error"]["code"], "invalidParams");
    let closed = shell(root, "lean-beam close-save 'My App/Top.lean'");
    assert_eq!(answer(&closed)["result"]["saved"]["module"], "Top", "{closed:?}");
    assert!(shell(root, "lean-beam shutdown").status.success());
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

/// Each new verb once, over one worker: the right values are Lean's.
fn the_questions_of_agents_are_answered_by_real_lean() {
    let _installed = shared_embedded_for_tests(&Qualifier);
    let dir = tempfile::Builder::new().prefix("beam-asks-").tempdir().unwrap();
    let root = dir.path();
    std::fs::write(root.join("lean-toolchain"), "leanprover/lean4:v4.28.0\n").unwrap();
    let text = "theorem t (a b : Nat) : a + b = b + a := by\n  sorry\n\ntheorem u (a : Nat) : a = a := by\n  exact?\n";
    std::fs::write(root.join("A.lean"), text).unwrap();
    let run = |line: &str| {
        let done = shell(root, line);
        assert!(done.status.success(), "{line}: {done:?}");
        (answer(&done)["result"].clone(), String::from_utf8(done.stderr).unwrap())
    };

    let (synced, said) = run("lean-beam sync A.lean");
    assert_eq!(synced["sorries"], serde_json::json!([{"line": 1, "character": 2, "declaration": "t"}]), "{synced}");
    assert!(said.contains("note: sorry A.lean:2:3: `t` is not proved"), "{said}");
    let version = &synced["version"];

    let place = format!("--version {version} --line 1 --character 2");
    let (tried, said) = run(&format!(
        "printf 'rfl\\nsorry\\nby simp\\nexact Nat.add_comm a b\\n' | lean-beam try A.lean --stdin {place}"
    ));
    let outcomes: Vec<_> =
        tried["results"].as_array().unwrap().iter().map(|r| r["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["failed", "solved", "failed", "solved"], "{tried}");
    assert_eq!(tried["solved"], 3, "a sorry solves nothing: {tried}");
    assert!(said.contains("note: candidate 2 was accepted, but it leaves a `sorry`"), "{said}");
    assert!(said.contains("hint for candidate 3: "), "{said}");
    let (run_at, said) = run(&format!("lean-beam run-at-handle A.lean {version} 1 2 sorry"));
    assert_eq!(run_at["caveats"], serde_json::json!(["sorry"]), "{run_at}");
    assert!(
        said.contains("note: the text was accepted, but it leaves a `sorry`; the declaration is not proved"),
        "{said}"
    );
    let from = format!("lean-beam run-at-handle A.lean {version} 1 2 'have h := Nat.add_comm a b'");
    let (tried, _) = run(&format!("{from} | lean-beam try A.lean 'exact h.symm' 'exact h' --handle -"));
    assert_eq!(tried["solved"], 1, "{tried}");

    let (found, _) = run(&format!("lean-beam search A.lean {version} --name 'Nat.add_comm' --kind theorem"));
    assert_eq!(found["hits"][0]["name"], "Nat.add_comm", "{found}");
    let (found, _) = run(&format!("lean-beam search A.lean {version} --pattern '(_ : Nat) + _ = _ + _' --limit 200"));
    assert!(found["hits"].as_array().unwrap().iter().any(|hit| hit["name"] == "t"), "{found}");
    let (checked, _) = run(&format!("lean-beam check A.lean {version} --name t"));
    assert_eq!(checked["verdict"], "sorry", "{checked}");
    let (snippet, _) = run(&format!("lean-beam snippet A.lean {version} 'example : 1 + 1 = 2 := rfl'"));
    assert_eq!(
        (&snippet["success"], &snippet["diagnostics"]),
        (&Value::Bool(true), &serde_json::json!([])),
        "{snippet}"
    );
    let (actions, _) = run(&format!("lean-beam code-actions A.lean {version} 4"));
    let edit = &actions["actions"][0]["edit"]["documentChanges"][0]["edits"][0];
    let place = serde_json::json!({"start": {"line": 4, "character": 2}, "end": {"line": 4, "character": 8}});
    assert_eq!(edit["range"], place, "{actions}");
    // Which lemma Lean finds is its own affair; that it proves the goal is not.
    let found = edit["newText"].as_str().unwrap();
    let (proved, _) = run(&format!("lean-beam snippet A.lean {version} 'example (a : Nat) : a = a := by {found}'"));
    assert!(found.starts_with("exact ") && proved["success"] == true, "{actions}: {proved}");
    let (filtered, _) = run(&format!("lean-beam diagnostics A.lean {version} --severity warning"));
    assert_eq!(filtered["diagnostics"][0]["range"]["start"]["line"], 0, "{filtered}");
    assert_eq!(filtered["diagnostics"].as_array().unwrap().len(), 1, "{filtered}");
    let (todo, _) = run(&format!("lean-beam todo A.lean {version} --kind sorry"));
    assert_eq!(todo["items"].as_array().unwrap().len(), 1, "{todo}");
    assert_eq!(std::fs::read_to_string(root.join("A.lean")).unwrap(), text, "nothing writes the file");
    assert!(shell(root, "lean-beam shutdown").status.success());
}
