//! The grammar as data: a command line in, what it means out.

use std::os::unix::ffi::OsStringExt;

use expect_test::{Expect, expect};

use super::*;

/// One line of words; `'…'` keeps blanks together.
fn split(line: &str) -> Vec<OsString> {
    let mut out = Vec::new();
    for (n, part) in line.split('\'').enumerate() {
        if n % 2 == 1 {
            out.push(part.into());
        } else {
            out.extend(part.split_whitespace().map(OsString::from));
        }
    }
    out
}

/// What a line means: a command with what was given, or clap's first line and exit code.
fn meaning(result: Result<(Globals, Command), clap::Error>) -> String {
    match result {
        Err(e) if !e.use_stderr() => format!("help: {}", e.render().to_string().lines().next().unwrap_or_default()),
        Err(e) => {
            let text = e.render().to_string();
            let mut lines = text.lines().filter(|l| !l.trim().is_empty());
            // What is missing stands on the second line.
            let first = lines.next().unwrap_or_default();
            let more = if first.ends_with(':') { lines.next().unwrap_or_default() } else { "" };
            format!("exit {}: {first}{more}", e.exit_code())
        }
        Ok((globals, command)) => {
            let mut out = match command {
                Command::Verb(call) => {
                    let mut words = vec![format!("{} ({})", call.typed, call.spec.name)];
                    if call.backend == Backend::Rocq {
                        words.push("rocq".to_owned());
                    }
                    if call.hold {
                        words.push("hold".to_owned());
                    }
                    words.extend(call.fields.iter().map(|(field, argument)| match argument {
                        FieldArgument::Value(value) => format!("{}={value}", field.name),
                        other => format!("{}={other:?}", field.name),
                    }));
                    words.join(" ")
                }
                other => format!("{other:?}"),
            };
            if globals != Globals::default() {
                out.push_str(&format!(" with {globals:?}"));
            }
            out
        }
    }
}

fn check(line: &str, expect: &Expect) {
    expect.assert_eq(&meaning(parse(split(line), Tool::Beam)));
}

#[test]
fn global_options_stand_anywhere() {
    check("", &expect!["exit 2: Ask Lean 4 whether a tactic works here, without touching the file."]);
    check("-h", &expect!["help: Ask Lean 4 whether a tactic works here, without touching the file."]);
    check("help", &expect!["help: Ask Lean 4 whether a tactic works here, without touching the file."]);
    check("help run-at", &expect!["help: Try one tactic or command at a position, without touching the file"]);
    check(
        "sync --help",
        &expect![
            "help: Wait until Lean has checked the whole file; counts its diagnostics and says whether it is ready to"
        ],
    );
    check("help nope", &expect!["exit 2: error: unrecognized subcommand 'nope'"]);
    check("--version", &expect!["Version"]);
    check(
        "--root /p --port=0 --idle 5 --toolchain embedded shutdown",
        &expect![[
            r#"Shutdown with Globals { root: Some("/p"), port: Some(0), idle: Some(5), toolchain: Some(Embedded), no_build: false }"#
        ]],
    );
    check(
        "--port 65536 stats",
        &expect!["exit 2: error: invalid value '65536' for '--port <N>': 65536 is not in 0..=65535"],
    );
    check("--port", &expect!["exit 2: error: a value is required for '--port <N>' but none was supplied"]);
    check("--nope sync", &expect!["exit 2: error: unexpected argument '--nope' found"]);
    check(
        "shutdown --root /p",
        &expect![[
            r#"Shutdown with Globals { root: Some("/p"), port: None, idle: None, toolchain: None, no_build: false }"#
        ]],
    );
    check(
        "update A.lean --root .",
        &expect![[
            r#"update (update) path=Path("A.lean") with Globals { root: Some("."), port: None, idle: None, toolchain: None, no_build: false }"#
        ]],
    );
    check("doctor --bogus", &expect!["exit 2: error: unexpected argument '--bogus' found"]);
    check("snyc A.lean", &expect!["exit 2: error: unrecognized subcommand 'snyc'"]);
    check(
        "help doctor",
        &expect!["help: Say which Lean, extension and daemon would be used, and why. Changes nothing"],
    );
    // In a text they are text.
    check(
        "run-at A.lean 1 2 3 exact --root",
        &expect![[
            r#"run-at (run-at) path=Path("A.lean") version=1 line=2 character=3 text=Text(Argv("exact --root"))"#
        ]],
    );
}

/// W3: each verb of the table takes its arguments in the table's order.
#[test]
fn w3_verbs_take_their_arguments() {
    check("ensure", &expect!["ensure (ensure)"]);
    check("ensure --hold rocq", &expect!["ensure (ensure) rocq hold"]);
    check("ensure anything", &expect!["exit 2: error: invalid value 'anything' for '[backend]'"]);
    check("update A.lean", &expect![[r#"update (update) path=Path("A.lean")"#]]);
    check("lean-update A.lean", &expect![[r#"lean-update (update) path=Path("A.lean")"#]]);
    check("lean-stats", &expect!["exit 2: error: unrecognized subcommand 'lean-stats'"]);
    check("sync A.lean +all-diagnostics", &expect![[r#"sync (sync) path=Path("A.lean") diagnosticScope="all""#]]);
    check("sync A.lean +full", &expect!["exit 2: error: unexpected argument '+full' found"]);
    check(
        "goals before A.lean 1 2 3",
        &expect![[r#"goals (goals) mode="before" path=Path("A.lean") version=1 line=2 character=3"#]],
    );
    check("goals A.lean 1 2 3", &expect!["exit 2: error: invalid value 'A.lean' for '<MODE>'"]);
    check("cancel q", &expect![[r#"cancel (cancel) cancelRequestId="q""#]]);
    check(
        "cancel",
        &expect!["exit 2: error: the following required arguments were not provided:  <CANCEL_REQUEST_ID>"],
    );
    check("stats now", &expect!["exit 2: error: unexpected argument 'now' found"]);
    check("update", &expect!["exit 2: error: the following required arguments were not provided:  <PATH>"]);
    check(
        "run-with A.lean --handle-file h.json exact h",
        &expect![[
            r#"run-with (run-with) path=Path("A.lean") handle=Handle(File("h.json")) text=Text(Argv("exact h"))"#
        ]],
    );
    check("todo A.lean 1", &expect![[r#"todo (todo) path=Path("A.lean") version=1"#]]);
    check(
        "try A.lean --version 1 --line 2 --character 3 simp 'exact h'",
        &expect![[r#"try (try) path=Path("A.lean") texts=["simp","exact h"] version=1 line=2 character=3"#]],
    );
    check(
        "try A.lean --stdin --handle {}",
        &expect![[r#"try (try) path=Path("A.lean") texts=Candidates(Stdin) handle=Handle(Inline("{}"))"#]],
    );
    check("update ''", &expect!["exit 2: error: update: PATH must not be empty"]);
}

#[test]
fn numbers_that_do_not_parse_are_named() {
    check(
        "run-at A.lean x 2 3 t",
        &expect!["exit 2: error: invalid value 'x' for '<VERSION>': must be a whole number from 0"],
    );
    check(
        "run-at A.lean 1 -2 3 t",
        &expect!["exit 2: error: invalid value '-2' for '<LINE>': must be a whole number from 0 to 4294967295"],
    );
    check(
        "run-at A.lean 1 2 4294967296 t",
        &expect![
            "exit 2: error: invalid value '4294967296' for '<CHARACTER>': must be a whole number from 0 to 4294967295"
        ],
    );
    check(
        "run-at A.lean +1 2 3 t",
        &expect!["exit 2: error: invalid value '+1' for '<VERSION>': must be a whole number from 0"],
    );
    check(
        "run-at A.lean 1 2",
        &expect!["exit 2: error: the following required arguments were not provided:  <CHARACTER>"],
    );
}

#[test]
fn text_has_one_source() {
    let text = |words: &str, expect: &Expect| {
        let line = format!("run-at A 1 2 3 {words}");
        let result = parse(split(&line), Tool::Beam);
        let shown = match result {
            Ok((_, Command::Verb(call))) => {
                let text = call.fields.iter().find_map(|(_, argument)| match argument {
                    FieldArgument::Text(text) => Some(text),
                    _ => None,
                });
                format!("{text:?}")
            }
            other => meaning(other),
        };
        expect.assert_eq(&shown);
    };
    text("", &expect!["None"]);
    text("exact h", &expect![[r#"Some(Argv("exact h"))"#]]);
    text("'exact  h' x", &expect![[r#"Some(Argv("exact  h x"))"#]]);
    text("-- --stdin -x", &expect![[r#"Some(Argv("--stdin -x"))"#]]);
    text("--", &expect![[r#"Some(Argv(""))"#]]);
    text("exact -- no comment", &expect![[r#"Some(Argv("exact -- no comment"))"#]]);
    text("-x", &expect![[r#"Some(Argv("-x"))"#]]);
    text("--stdin", &expect!["Some(Stdin)"]);
    text("--text-file f", &expect![[r#"Some(File("f"))"#]]);
    text("--text-file", &expect!["exit 2: error: a value is required for '--text-file <PATH>' but none was supplied"]);
    text(
        "--stdin more",
        &expect!["exit 2: error: run-at: --stdin must be the only TEXT; put -- before words that start with dashes"],
    );
    text(
        "--text-file f more",
        &expect![
            "exit 2: error: run-at: --text-file must be the only TEXT; put -- before words that start with dashes"
        ],
    );
    text(
        "more --stdin",
        &expect!["exit 2: error: run-at: --stdin must be the only TEXT; put -- before words that start with dashes"],
    );
    text(
        "--text f",
        &expect!["exit 2: error: run-at: TEXT starts with --text: put -- before text that starts with dashes"],
    );
}

#[test]
fn handles_have_three_sources_and_stdin_is_read_once() {
    check(
        r#"run-with A {"raw":1} exact h"#,
        &expect![[
            r#"run-with (run-with) path=Path("A") handle=Handle(Inline("{\"raw\":1}")) text=Text(Argv("exact h"))"#
        ]],
    );
    check(
        "run-with-linear A - exact h",
        &expect![[
            r#"run-with-linear (run-with-linear) path=Path("A") handle=Handle(Stdin) text=Text(Argv("exact h"))"#
        ]],
    );
    check(
        "release A --handle-file h.json",
        &expect![[r#"release (release) path=Path("A") handle=Handle(File("h.json"))"#]],
    );
    check(
        "run-with A --handle-file h.json exact h",
        &expect![[r#"run-with (run-with) path=Path("A") handle=Handle(File("h.json")) text=Text(Argv("exact h"))"#]],
    );
    check(
        "run-with A --handle-file h.json -- --stdin",
        &expect![[r#"run-with (run-with) path=Path("A") handle=Handle(File("h.json")) text=Text(Argv("--stdin"))"#]],
    );
    check(
        "release A {} --handle-file h.json",
        &expect!["exit 2: error: release: {} is one argument too many: --handle-file has said HANDLE"],
    );
    check(
        "run-with A - --stdin",
        &expect!["exit 2: error: run-with: HANDLE and TEXT cannot both be read from standard input"],
    );
    check("run-with A", &expect!["exit 2: error: the following required arguments were not provided:  <HANDLE>"]);
}

#[test]
fn todo_takes_options_in_any_order() {
    check(
        "todo A 1 2 3 4 5 --suggest none --kind sorry --kind hole",
        &expect![[
            r#"todo (todo) path=Path("A") version=1 line=2 character=3 endLine=4 endCharacter=5 kinds=["sorry","hole"] suggest="none""#
        ]],
    );
    check("todo A 1 2 3 4 5 --kind nope", &expect!["exit 2: error: invalid value 'nope' for '--kind <KIND>'"]);
    check(
        "todo A 1 2 3 4 5 --suggest",
        &expect!["exit 2: error: a value is required for '--suggest <SUGGEST>' but none was supplied"],
    );
}

#[test]
fn commands_that_are_not_verbs() {
    check("doctor rocq", &expect!["Doctor(Rocq)"]);
    check("toolchain install embedded", &expect!["Toolchain(Install)"]);
    check("toolchain remove x", &expect![[r#"Toolchain(Remove("x"))"#]]);
    check("toolchain install lean", &expect!["exit 2: error: invalid value 'lean' for '<which>'"]);
    check(
        "quickstart --toolchain auto --dir d",
        &expect![[
            r#"Quickstart { dir: Some("d") } with Globals { root: None, port: None, idle: None, toolchain: Some(Auto), no_build: false }"#
        ]],
    );
    check("quickstart d", &expect!["exit 2: error: unexpected argument 'd' found"]);
    check("validated-toolchains lean", &expect!["ValidatedToolchains"]);
    check(
        "daemon --root /p",
        &expect!["exit 2: error: the following required arguments were not provided:  --workspace-id <workspace-id>"],
    );
    check("feedback", &expect!["exit 2: error: unrecognized subcommand 'feedback'"]);
}

#[test]
fn the_client_tool() {
    let check = |line: &str, expect: &Expect| expect.assert_eq(&meaning(parse(split(line), Tool::Client)));
    check(
        "--port 8765 request {}",
        &expect![[
            r#"Client(ClientArgs { stream: false, request: Inline("{}"), socket: None }) with Globals { root: None, port: Some(8765), idle: None, toolchain: None, no_build: false }"#
        ]],
    );
    check(
        "--socket s request-stream -",
        &expect![[r#"Client(ClientArgs { stream: true, request: Stdin, socket: Some("s") })"#]],
    );
    check("request", &expect!["exit 2: error: the following required arguments were not provided:  <JSON|->"]);
    check("sync A", &expect!["exit 2: error: unrecognized subcommand 'sync'"]);
    // The same, under the name of the product.
    let inside = meaning(parse(split("client request {}"), Tool::Beam));
    assert!(inside.starts_with("Client("), "{inside}");
}

#[test]
fn arguments_that_are_not_utf8_are_named() {
    let bad = OsString::from_vec(vec![b'A', 0xff]);
    let line = |args: Vec<OsString>| meaning(parse(args, Tool::Beam));
    assert_eq!(line(vec!["update".into(), bad.clone()]), "exit 2: error: argument 2 is not valid UTF-8: A\u{fffd}");
    let words = ["run-at", "A", "1", "2", "3", "x"].map(OsString::from).into_iter().chain([bad.clone()]).collect();
    assert_eq!(line(words), "exit 2: error: argument 7 is not valid UTF-8: A\u{fffd}");
    assert_eq!(
        line(vec!["--root".into(), bad, "shutdown".into()]),
        "exit 2: error: argument 2 is not valid UTF-8: A\u{fffd}"
    );
}

#[test]
fn the_name_chooses_the_tool() {
    for (name, tool) in [
        ("lean-beam", Tool::Beam),
        ("/opt/bin/lean-beam-mcp", Tool::Mcp),
        ("bin/beam-client", Tool::Client),
        ("", Tool::Beam),
        ("lean-beam-mcp/lean-beam", Tool::Beam),
    ] {
        assert_eq!(Tool::of(OsStr::new(name)), tool, "{name}");
    }
}

#[test]
fn arguments_of_the_mcp_server() {
    let check = |line: &str, expect: &Expect| {
        let meant = meaning(parse(split(line), Tool::Mcp));
        expect.assert_eq(&meant);
        // The subcommand is the same tool.
        if let Ok((_, Command::Mcp(_))) = parse(split(line), Tool::Mcp) {
            assert!(meaning(parse(split(&format!("mcp {line}")), Tool::Beam)).starts_with("Mcp("), "{line}");
        }
    };
    check("", &expect!["Mcp(McpArgs { lean_cmd: None, goals: None, self_check: None, version: false })"]);
    check(
        "--lean-cmd embedded",
        &expect!["Mcp(McpArgs { lean_cmd: Some(Embedded), goals: None, self_check: None, version: false })"],
    );
    check(
        "--lean-cmd=/opt/lean/bin/lean --self-check A.lean",
        &expect![[
            r#"Mcp(McpArgs { lean_cmd: Some(Lean("/opt/lean/bin/lean")), goals: None, self_check: Some("A.lean"), version: false })"#
        ]],
    );
    let version = meaning(parse(split("--nope --version"), Tool::Mcp));
    assert!(version.contains("version: true"), "{version}");
    check(
        "-h",
        &expect![
            "help: An MCP server on standard input and output. Every call names its project; nothing is started before"
        ],
    );
    check("--lean-cmd x help", &expect!["exit 2: error: unexpected argument 'help' found"]);
    check("--root /p", &expect!["exit 2: error: unexpected argument '--root' found"]);
    check(
        "--self-check",
        &expect!["exit 2: error: a value is required for '--self-check <FILE>' but none was supplied"],
    );
    check("serve", &expect!["exit 2: error: unexpected argument 'serve' found"]);
}

/// A mistake shows a suggestion, not the whole manual.
#[test]
fn a_typo_is_told_in_a_few_lines() {
    let error = parse(split("snyc A.lean"), Tool::Beam).unwrap_err();
    let text = error.render().to_string();
    assert!(text.contains("'sync'") && text.lines().count() < 10, "{text}");
}

/// W3: every verb has help of its own that explains each of its arguments, and none of them has a mistake in its grammar.
#[test]
fn w3_every_verb_explains_its_arguments() {
    beam().debug_assert();
    mcp("lean-beam-mcp").debug_assert();
    client("beam-client").debug_assert();
    for spec in VERBS {
        let help = parse(split(&format!("{} --help", spec.name)), Tool::Beam).unwrap_err();
        assert_eq!(help.exit_code(), 0);
        let text = help.render().to_string();
        for field in spec.positional().chain(spec.options()) {
            let shown = if field.required { value_name(field) } else { format!("--{}", long_name(field)) };
            let placed = spec.leading.contains(&field.name) || spec.trailing.contains(&field.name);
            let shown = if placed { value_name(field) } else { shown };
            assert!(text.contains(&shown), "{}: {shown}\n{text}", spec.name);
        }
    }
}
