//! Usage texts. Verbs and their arguments come from the wire's table (W3).

use beam_wire::verb::{Arg, Daemon, VERBS, VerbSpec};

const GLOBALS: &str = "\
options, before the command:
  --root PATH        the project; default: the nearest folder upwards with lean-toolchain or a lakefile
  --toolchain WHICH  auto (default), embedded, or the path of a lean; also BEAM_TOOLCHAIN
  --no-build         build nothing: refuse files whose imports would have to be built; also BEAM_BUILD=never
  --idle SECONDS     a daemon that is started now ends after so long without a request; 0: never (default 1800)
  --port N           a daemon that is started now listens on 127.0.0.1:N as well (0: any), for token holders
";

const LOCAL: &[(&str, &str)] = &[
    ("shutdown", "Stop the project's daemon."),
    ("doctor [lean|rocq]", "Say which Lean, extension and daemon would be used, and why. Changes nothing."),
    ("toolchain install embedded | list | remove ID | path ID", "Lean for machines without one, run by Node."),
    ("validated-toolchains", "Toolchain names that were tested, one per line."),
    ("compatible-release-lines", "Release lines that are accepted, one per line."),
    (
        "quickstart [--dir DIR] [--toolchain auto|embedded]",
        "Get a Lean if need be, make an example project, and show each kind of question with its answer.",
    ),
    ("mcp", "The MCP server on standard input and output, as lean-beam-mcp is; see `mcp --help`."),
    ("version", "Say what this is."),
    ("help [COMMAND]", "This, or more about one command."),
];

/// What help is about.
#[derive(Debug, Clone, Copy)]
pub enum Topic {
    /// Everything.
    All,
    /// One verb.
    Verb(&'static VerbSpec),
    /// The MCP server.
    Mcp,
}

impl Topic {
    /// Its usage text.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::All => all(),
            Self::Verb(spec) => verb(spec),
            Self::Mcp => crate::mcp::USAGE.to_owned(),
        }
    }
}

/// Usage of everything.
#[must_use]
pub fn all() -> String {
    let mut out = String::from("usage: lean-beam [options] COMMAND [arguments]\n\n");
    out.push_str(GLOBALS);
    out.push_str("\ncommands that ask Lean, one JSON answer each:\n");
    for spec in VERBS {
        push(&mut out, &spec.usage(), &summary(spec));
    }
    out.push_str("\nother commands:\n");
    for (usage, summary) in LOCAL {
        push(&mut out, usage, summary);
    }
    out
}

fn push(out: &mut String, usage: &str, summary: &str) {
    out.push_str("  ");
    out.push_str(usage);
    out.push_str("\n      ");
    out.push_str(summary);
    out.push('\n');
}

/// Usage of one verb, with its arguments explained.
#[must_use]
pub fn verb(spec: &VerbSpec) -> String {
    let mut out = format!("usage: lean-beam {}\n\n{}\n", spec.usage(), summary(spec));
    let explained: Vec<_> = spec.args.iter().filter_map(|arg| explain(*arg)).collect();
    if !explained.is_empty() {
        out.push('\n');
    }
    for text in explained {
        out.push_str("  ");
        out.push_str(text);
        out.push('\n');
    }
    if spec.daemon == Daemon::Existing {
        out.push_str("\nAsks a running daemon only; never starts one.\n");
    }
    out
}

/// The operation's summary and what the verb adds to it.
fn summary(spec: &VerbSpec) -> String {
    let set = |name| spec.fixed.iter().any(|(n, on)| *n == name && *on);
    let mut out = spec.op.spec().summary.to_owned();
    if set("storeHandle") {
        out.push_str(" Keeps the state under a new handle.");
    }
    if set("saveArtifacts") {
        out.push_str(" Saves it first, as `save` does.");
    }
    if set("linear") {
        out.push_str(" The old handle is used up, whatever happens.");
    }
    out
}

fn explain(arg: Arg) -> Option<&'static str> {
    Some(match arg {
        Arg::Path => "PATH       the file, relative to the current directory or else to the project",
        Arg::Version => "VERSION    of the document, as update or sync gave it",
        Arg::Line => "LINE       from 0",
        Arg::Character => "CHARACTER  in the line, from 0, in UTF-16 units",
        Arg::Handle => {
            "HANDLE     a handle, or an answer that holds one: JSON, - for standard input, --handle-file PATH"
        }
        Arg::Text => {
            "TEXT       words (joined by blanks), -- words (also with dashes), --stdin, or --text-file PATH (line breaks kept)"
        }
        Arg::CodeAction => "ACTION     the code action as Lean offered it: JSON, or - for standard input",
        Arg::AllDiagnostics => "+all-diagnostics  show warnings, informations and hints, too",
        Arg::Hold => "--hold     stay in the foreground until interrupted, and keep the daemon from ending meanwhile",
        Arg::TodoKinds => "--kind K   sorry, hole, diagnostic, code_action or incomplete_proof; may be repeated",
        Arg::Suggest => "--suggest none|basic  whether items come with suggested texts",
        Arg::EndLine
        | Arg::EndCharacter
        | Arg::Mode
        | Arg::Query
        | Arg::RequestId
        | Arg::Backend
        | Arg::Declaration => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W3: help lists every verb of the table.
    #[test]
    fn w3_help_lists_every_verb() {
        let text = all();
        for spec in VERBS {
            assert!(text.contains(&format!("  {}\n", spec.usage())), "{}", spec.name);
            assert!(verb(spec).starts_with("usage: lean-beam "));
        }
    }

    #[test]
    fn one_verb() {
        expect_test::expect![[r#"
            usage: lean-beam run-with-linear PATH HANDLE TEXT

            Try one tactic or command from the state that a handle holds. Keeps the state under a new handle. The old handle is used up, whatever happens.

              PATH       the file, relative to the current directory or else to the project
              HANDLE     a handle, or an answer that holds one: JSON, - for standard input, --handle-file PATH
              TEXT       words (joined by blanks), -- words (also with dashes), --stdin, or --text-file PATH (line breaks kept)
        "#]]
        .assert_eq(&verb(VerbSpec::from_name("run-with-linear").unwrap()));
    }
}
