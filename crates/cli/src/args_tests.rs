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

fn about(topic: Topic) -> &'static str {
    match topic {
        Topic::All => "everything",
        Topic::Verb(spec) => spec.name,
        Topic::Mcp => "lean-beam-mcp",
    }
}

fn meaning(result: Result<(Globals, Command), ArgError>) -> String {
    match result {
        Err(ArgError::Usage(why, topic)) => format!("usage of {}: {why}", about(topic)),
        Err(ArgError::Value(why)) => format!("error: {why}"),
        Ok((globals, command)) => {
            let mut out = match command {
                Command::Verb(call) => {
                    // Only what was given.
                    let given = format!("{:?}", call.given);
                    let fields = given.trim_start_matches("Given { ").trim_end_matches(" }");
                    let default = format!("{:?}", Given::default());
                    let default = default.trim_start_matches("Given { ").trim_end_matches(" }");
                    let all: Vec<_> = default.split(", ").collect();
                    let shown: Vec<_> = fields.split(", ").filter(|f| !all.contains(f)).collect();
                    format!("{} ({}) {}", call.typed, call.spec.name, shown.join(", "))
                }
                Command::Help(topic) => format!("help {}", about(topic)),
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
fn global_options_stand_before_the_command() {
    check("", &expect!["help everything"]);
    check("-h", &expect!["help everything"]);
    check("help", &expect!["help everything"]);
    check("help run-at", &expect!["help run-at"]);
    check("sync --help", &expect!["help sync"]);
    check("help nope", &expect!["usage of everything: unknown command nope"]);
    check("--version", &expect!["Version"]);
    check(
        "--root /p --port=0 --idle 5 --toolchain embedded shutdown",
        &expect![[
            r#"Shutdown with Globals { root: Some("/p"), port: Some(0), idle: Some(5), toolchain: Some(Embedded), no_build: false }"#
        ]],
    );
    check("--port 65536 stats", &expect![[r#"error: --port must be a whole number from 0 to 65535, not "65536""#]]);
    check("--port", &expect!["usage of everything: --port needs a value"]);
    check("--nope sync", &expect!["usage of everything: unknown option --nope"]);
    check("shutdown --root /p", &expect!["usage of everything: shutdown: unexpected argument --root"]);
    // Behind the command they are text.
    check(
        "run-at A.lean 1 2 3 exact --root",
        &expect![[
            r#"run-at (run-at) path: Some("A.lean"), version: Some(1), line: Some(2), character: Some(3), text: Some(Argv("exact --root"))"#
        ]],
    );
}

/// W3: each verb of the table takes its arguments in the table's order.
#[test]
fn w3_verbs_take_their_arguments() {
    check("ensure", &expect!["ensure (ensure) "]);
    check("ensure --hold rocq", &expect!["ensure (ensure) backend: Rocq, hold: true"]);
    check("ensure anything", &expect!["ensure (ensure) "]);
    check("update A.lean", &expect![[r#"update (update) path: Some("A.lean")"#]]);
    check("lean-update A.lean", &expect![[r#"lean-update (update) path: Some("A.lean")"#]]);
    check("lean-stats", &expect!["usage of everything: unknown command lean-stats"]);
    check("sync A.lean +all-diagnostics", &expect![[r#"sync (sync) path: Some("A.lean"), all_diagnostics: true"#]]);
    check("sync A.lean +full", &expect!["usage of sync: sync: unexpected argument +full"]);
    check(
        "goals before A.lean 1 2 3",
        &expect![[
            r#"goals (goals) path: Some("A.lean"), version: Some(1), line: Some(2), character: Some(3), mode: Some(Before)"#
        ]],
    );
    check(
        "goals A.lean 1 2 3",
        &expect![[r#"error: goals: the first argument must be before or after, not "A.lean""#]],
    );
    check("cancel q", &expect![[r#"cancel (cancel) request_id: Some("q")"#]]);
    check("cancel", &expect!["usage of cancel: cancel: missing REQUEST-ID"]);
    check("stats now", &expect!["usage of stats: stats: unexpected argument now"]);
    check("update", &expect!["usage of update: update: missing PATH"]);
    check("update ''", &expect!["error: update: PATH must not be empty"]);
}

#[test]
fn numbers_that_do_not_parse_are_named() {
    check("run-at A.lean x 2 3 t", &expect![[r#"error: run-at: VERSION must be a whole number from 0, not "x""#]]);
    check(
        "run-at A.lean 1 -2 3 t",
        &expect![[r#"error: run-at: LINE must be a whole number from 0 to 4294967295, not "-2""#]],
    );
    check(
        "run-at A.lean 1 2 4294967296 t",
        &expect![[r#"error: run-at: CHARACTER must be a whole number from 0 to 4294967295, not "4294967296""#]],
    );
    check("run-at A.lean +1 2 3 t", &expect![[r#"error: run-at: VERSION must be a whole number from 0, not "+1""#]]);
    check("run-at A.lean 1 2", &expect!["usage of run-at: run-at: missing CHARACTER"]);
}

#[test]
fn text_has_one_source() {
    let text = |words: &str, expect: &Expect| {
        let line = format!("run-at A 1 2 3 {words}");
        let result = parse(split(&line), Tool::Beam);
        let shown = match result {
            Ok((_, Command::Verb(call))) => format!("{:?}", call.given.text),
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
    text("--text-file", &expect!["usage of run-at: run-at: --text-file needs a value"]);
    text(
        "--stdin more",
        &expect!["error: run-at: --stdin must be the only TEXT; put -- before words that start with dashes"],
    );
    text(
        "--text-file f more",
        &expect!["error: run-at: --text-file PATH must be the only TEXT; put -- before words that start with dashes"],
    );
    text(
        "more --stdin",
        &expect!["error: run-at: --stdin must be the only TEXT; put -- before words that start with dashes"],
    );
    text("--text f", &expect!["error: run-at: TEXT starts with --text: put -- before text that starts with dashes"]);
}

#[test]
fn handles_have_three_sources_and_stdin_is_read_once() {
    check(
        r#"run-with A {"raw":1} exact h"#,
        &expect![[
            r#"run-with (run-with) path: Some("A"), handle: Some(Inline("{\"raw\":1}")), text: Some(Argv("exact h"))"#
        ]],
    );
    check(
        "run-with-linear A - exact h",
        &expect![[
            r#"run-with-linear (run-with-linear) path: Some("A"), handle: Some(Stdin), text: Some(Argv("exact h"))"#
        ]],
    );
    check(
        "release A --handle-file h.json",
        &expect![[r#"release (release) path: Some("A"), handle: Some(File("h.json"))"#]],
    );
    check("run-with A - --stdin", &expect!["error: run-with: HANDLE and TEXT cannot both be read from standard input"]);
    check("run-with A", &expect!["usage of run-with: run-with: missing HANDLE"]);
}

#[test]
fn todo_takes_options_in_any_order() {
    check(
        "todo A 1 2 3 4 5 --suggest none --kind sorry --kind hole",
        &expect![[
            r#"todo (todo) path: Some("A"), version: Some(1), line: Some(2), character: Some(3), end_line: Some(4), end_character: Some(5), kinds: ["sorry", "hole"], suggest: Some("none")"#
        ]],
    );
    check(
        "todo A 1 2 3 4 5 --kind nope",
        &expect!["error: todo: --kind must be one of sorry, hole, diagnostic, code_action, incomplete_proof, not nope"],
    );
    check("todo A 1 2 3 4 5 --suggest", &expect!["usage of todo: todo: --suggest needs a value"]);
}

#[test]
fn commands_that_are_not_verbs() {
    check("doctor rocq", &expect!["Doctor(Rocq)"]);
    check("toolchain install embedded", &expect!["Toolchain(Install)"]);
    check("toolchain remove x", &expect![[r#"Toolchain(Remove("x"))"#]]);
    check(
        "toolchain install lean",
        &expect!["usage of everything: expected toolchain install embedded | list | remove ID | path ID"],
    );
    check("quickstart --toolchain auto --dir d", &expect![[r#"Quickstart { dir: Some("d"), toolchain: Some(Auto) }"#]]);
    check("quickstart d", &expect!["usage of everything: quickstart: unexpected argument d"]);
    check("validated-toolchains lean", &expect!["ValidatedToolchains"]);
    check("daemon --root /p", &expect!["usage of everything: daemon: --root PATH and --workspace-id ID are required"]);
    check("feedback", &expect!["usage of everything: unknown command feedback"]);
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
    check("request", &expect!["usage of everything: request: missing JSON|-"]);
    check("sync A", &expect!["usage of everything: expected request JSON|- or request-stream JSON|-"]);
    // The same, under the name of the product.
    let inside = meaning(parse(split("client request {}"), Tool::Beam));
    assert!(inside.starts_with("Client("), "{inside}");
}

#[test]
fn arguments_that_are_not_utf8_are_named() {
    let bad = OsString::from_vec(vec![b'A', 0xff]);
    let line = |args: Vec<OsString>| meaning(parse(args, Tool::Beam));
    assert_eq!(line(vec!["update".into(), bad.clone()]), "error: update: PATH is not valid UTF-8: A\u{fffd}");
    let words = ["run-at", "A", "1", "2", "3", "x"].map(OsString::from).into_iter().chain([bad.clone()]).collect();
    assert_eq!(line(words), "error: run-at: TEXT is not valid UTF-8: A\u{fffd}");
    // Where a path stays a path, it may be anything.
    assert!(matches!(
        parse(["--root".into(), bad, "shutdown".into()], Tool::Beam),
        Ok((Globals { root: Some(_), .. }, Command::Shutdown))
    ));
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
        // The hidden subcommand is the same tool.
        assert_eq!(meaning(parse(split(&format!("mcp {line}")), Tool::Beam)), meant);
    };
    check("", &expect!["Mcp(McpArgs { lean_cmd: None, goals: None, self_check: None, version: false })"]);
    check(
        "--lean-cmd embedded",
        &expect![[r#"Mcp(McpArgs { lean_cmd: Some("embedded"), goals: None, self_check: None, version: false })"#]],
    );
    check(
        "--lean-cmd=/opt/lean/bin/lean --self-check A.lean",
        &expect![[
            r#"Mcp(McpArgs { lean_cmd: Some("/opt/lean/bin/lean"), goals: None, self_check: Some("A.lean"), version: false })"#
        ]],
    );
    check("--nope --version", &expect!["Mcp(McpArgs { lean_cmd: None, goals: None, self_check: None, version: true })"]);
    check("-h", &expect!["help lean-beam-mcp"]);
    check("--lean-cmd x help", &expect!["help lean-beam-mcp"]);
    check("--root /p", &expect!["usage of lean-beam-mcp: unexpected argument --root"]);
    check("--self-check", &expect!["usage of lean-beam-mcp: --self-check needs a value"]);
    check("serve", &expect!["usage of lean-beam-mcp: unexpected argument serve"]);
}
