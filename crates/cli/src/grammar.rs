//! The command line's grammar, made from the wire's table of verbs (W3), and its reading.
//!
//! Everything here is pure: words in, data out. A mistake is clap's own error, with its usage, its suggestion and exit code 2.

use std::ffi::{OsStr, OsString};

use beam_wire::field::{Field, FieldType};
use beam_wire::verb::{Daemon, VERBS, VerbSpec};
use beam_wire::{Backend, Op};
use camino::Utf8PathBuf;
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command as Grammar, value_parser};
use clap_complete::Shell;
use serde_json::Value;

use crate::args::{
    Call, ClientArgs, Command, DaemonArgs, FieldArgument, Globals, JsonSource, McpArgs, TextSource, Tool,
    ToolchainCommand, ToolchainWish,
};

/// What `+all-diagnostics` stands for.
const ALL_DIAGNOSTICS: &str = "--diagnostic-scope=all";

/// Usage of the MCP server's variables.
const MCP_VARIABLES: &str = "\
Environment:
  BEAM_MCP_GOALS                       the same as --goals
  LEAN_BEAM_MCP_MAX_OUTPUT_BYTES       limit of a result where a call does not say (default 65536); the rest is cut, and said to be
  LEAN_BEAM_MCP_SELF_CHECK_TIMEOUT_MS  limit of each phase of the self-check (default 120000)
  LEAN_BEAM_MCP_TRACE                  1, or a filter such as beam_mcp=trace: traces on stderr";

/// The grammar of `lean-beam`.
#[must_use]
pub fn beam() -> Grammar {
    let mut grammar = Grammar::new("lean-beam")
        .about("Ask Lean 4 whether a tactic works here, without touching the file.")
        .version(env!("CARGO_PKG_VERSION"))
        .args(globals())
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(100);
    for spec in VERBS {
        grammar = grammar.subcommand(verb(spec));
    }
    grammar.subcommands(local())
}

fn globals() -> [Arg; 5] {
    let global = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help).global(true).help_heading("Options of every command")
    };
    [
        global("root", "PATH", "The project; default: the nearest folder upwards with lean-toolchain or a lakefile")
            .value_parser(value_parser!(Utf8PathBuf)),
        global("toolchain", "WHICH", "auto (default), embedded, or the path of a lean; also BEAM_TOOLCHAIN"),
        global(
            "no-build",
            "",
            "Build nothing: refuse files whose imports would have to be built; also BEAM_BUILD=never",
        )
        .action(ArgAction::SetTrue),
        global(
            "idle",
            "SECONDS",
            "A daemon that is started now ends after so long without a request; 0: never [default: 1800]",
        )
        .value_parser(value_parser!(u64)),
        global("port", "N", "A daemon that is started now listens on 127.0.0.1:N as well (0: any), for token holders")
            .value_parser(value_parser!(u16)),
    ]
}

/// Commands that are not one operation.
fn local() -> Vec<Grammar> {
    let backend = || {
        Arg::new("backend")
            .value_parser(PossibleValuesParser::new(Backend::NAMES))
            .default_value("lean")
            .help("The prover")
    };
    let id = || Arg::new("id").value_name("ID").required(true).help("An id of `toolchain list`");
    vec![
        Grammar::new("shutdown").about("Stop the project's daemon"),
        Grammar::new("doctor")
            .about("Say which Lean, extension and daemon would be used, and why. Changes nothing")
            .arg(backend()),
        Grammar::new("toolchain")
            .about("Lean for machines without one, run by Node")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(
                Grammar::new("install")
                    .about("Install a toolchain")
                    .arg(Arg::new("which").value_parser(["embedded"]).required(true).help("The toolchain to install")),
            )
            .subcommand(Grammar::new("list").about("What the store holds"))
            .subcommand(Grammar::new("remove").about("Remove an entry of the store").arg(id()))
            .subcommand(Grammar::new("path").about("Where an entry of the store lies").arg(id())),
        Grammar::new("validated-toolchains")
            .about("Toolchain names that were tested, one per line")
            .arg(Arg::new("backend").value_parser(["lean"]).hide(true)),
        Grammar::new("compatible-release-lines").about("Release lines that are accepted, one per line"),
        Grammar::new("quickstart")
            .about("Get a Lean if need be, make an example project, and show each kind of question with its answer")
            .arg(path_option("dir", "DIR").help("Folder of the example; by default a new temporary one")),
        mcp("mcp"),
        Grammar::new("completions").about("Completions for a shell, on standard output").arg(
            Arg::new("shell").value_name("SHELL").value_parser(value_parser!(Shell)).required(true).help("The shell"),
        ),
        Grammar::new("version").about("Say what this is"),
        client("client").hide(true),
        Grammar::new("man").hide(true).about("Man pages, into a folder").arg(
            Arg::new("dir")
                .value_name("DIR")
                .value_parser(value_parser!(Utf8PathBuf))
                .required(true)
                .help("The folder"),
        ),
        daemon(),
    ]
}

fn path_option(name: &'static str, value: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).value_parser(value_parser!(Utf8PathBuf))
}

fn daemon() -> Grammar {
    Grammar::new("daemon")
        .hide(true)
        .about("The daemon itself")
        .arg(Arg::new("workspace-id").long("workspace-id").required(true).help("Id of its workspace"))
        .arg(Arg::new("config-hash").long("config-hash").help("What clients look for"))
        .arg(path_option("control-dir", "DIR").help("Where its files are"))
}

/// The grammar of the MCP server.
#[must_use]
pub fn mcp(name: &'static str) -> Grammar {
    Grammar::new(name)
        .about("An MCP server on standard input and output. Every call names its project; nothing is started before a call needs it")
        .after_help(MCP_VARIABLES)
        .disable_version_flag(true)
        .arg(
            Arg::new("lean-cmd")
                .long("lean-cmd")
                .value_name("CMD")
                .help("The Lean of every project: auto (default), embedded, or the path of a lean; also BEAM_TOOLCHAIN"),
        )
        .arg(
            Arg::new("goals")
                .long("goals")
                .value_name("FORM")
                .help("How goals are shown where a call does not say: json (default), or text, which costs fewer tokens"),
        )
        .arg(path_option("self-check", "FILE").help(
            "Start a server, sync FILE of the project in the current directory, say whether all is well, and end",
        ))
        .arg(Arg::new("version").long("version").short('V').action(ArgAction::SetTrue).help("Say what this is"))
}

/// The grammar of `beam-client`.
#[must_use]
pub fn client(name: &'static str) -> Grammar {
    let request = |name: &'static str, about: &'static str| {
        Grammar::new(name).about(about).arg(
            Arg::new("json")
                .value_name("JSON|-")
                .required(true)
                .allow_hyphen_values(true)
                .help("The request, or - for standard input"),
        )
    };
    Grammar::new(name)
        .about("Raw requests to a running daemon. Nothing is added to what is written")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .arg(path_option("socket", "PATH").global(true).help("This daemon, whatever the project's registry says"))
        .subcommand(request("request", "Send one request and print its answer"))
        .subcommand(request("request-stream", "Send one request and print every message, one per line"))
}

/// A verb of the table: positional arguments are the operation's required fields, options the optional ones.
fn verb(spec: &'static VerbSpec) -> Grammar {
    let op = spec.op.spec();
    let mut about = op.summary.trim_end_matches('.').to_owned();
    if !spec.more.is_empty() {
        about.push_str(". ");
        about.push_str(spec.more.trim_end_matches('.'));
    }
    let mut grammar = Grammar::new(spec.name).about(about);
    if internal_name(spec) {
        grammar = grammar.alias(format!("lean-{}", spec.name));
    }
    if spec.daemon == Daemon::Existing {
        grammar = grammar.after_help("Asks a running daemon only; never starts one.");
    }
    if spec.op == Op::Ensure {
        grammar = grammar
            .arg(
                Arg::new("backend")
                    .value_parser(PossibleValuesParser::new(Backend::NAMES))
                    .default_value("lean")
                    .help("The prover"),
            )
            .arg(
                Arg::new("hold")
                    .long("hold")
                    .action(ArgAction::SetTrue)
                    .help("Stay in the foreground until interrupted, and keep the daemon from ending meanwhile"),
            );
    }
    for field in spec.positional() {
        let needed = !spec.trailing.contains(&field.name);
        grammar = grammar.args(positional(field).into_iter().map(|arg| if needed { arg } else { arg.required(false) }));
    }
    for field in spec.options() {
        grammar = grammar.args(options(field));
    }
    grammar
}

/// Whether the verb answers to `lean-…` as well, a name that older scripts use.
fn internal_name(spec: &VerbSpec) -> bool {
    spec.op.spec().backend && spec.op != Op::Ensure
}

/// `END_LINE`; of a list, one of its members.
fn value_name(field: Field) -> String {
    long_name(field).replace('-', "_").to_ascii_uppercase()
}

fn positional(field: Field) -> Vec<Arg> {
    let arg = Arg::new(field.name).value_name(value_name(field)).help(field.doc).required(true);
    match (field.name, field.ty) {
        ("path", _) => vec![arg.help("The file, relative to the current directory or else to the project")],
        // Both take all that is left, and read it as it is.
        ("text", _) => vec![
            Arg::new(field.name)
                .value_name("TEXT")
                .help("Words, joined by blanks; put -- before words that start with dashes")
                .num_args(0..)
                .trailing_var_arg(true)
                .allow_hyphen_values(true),
            Arg::new("stdin").long("stdin").action(ArgAction::SetTrue).help("Read TEXT from standard input, as it is"),
            path_option("text-file", "PATH").help("Read TEXT from a file, as it is"),
        ],
        ("query", _) => vec![arg.num_args(1..).trailing_var_arg(true).allow_hyphen_values(true)],
        (_, FieldType::Handle) => vec![
            arg.required(false)
                .required_unless_present("handle-file")
                .help("A handle, or an answer that holds one: JSON, or - for standard input"),
            path_option("handle-file", "PATH").help("Read HANDLE from a file"),
        ],
        (_, FieldType::Object) => vec![arg.help(format!("{} JSON, or - for standard input", field.doc))],
        (_, FieldType::Choice(names)) => vec![arg.value_parser(PossibleValuesParser::new(names))],
        ("texts", _) => vec![
            Arg::new(field.name)
                .value_name(value_name(field))
                .help("The candidates, each in quotes; put -- before those that start with dashes")
                .num_args(0..),
            Arg::new("stdin")
                .long("stdin")
                .action(ArgAction::SetTrue)
                .help("Read the candidates from standard input, one per line"),
            path_option("text-file", "PATH").help("Read the candidates from a file, one per line"),
        ],
        (_, FieldType::Texts) => vec![arg.num_args(1..)],
        (_, FieldType::Coordinate) => vec![arg.value_parser(coordinate).allow_negative_numbers(true)],
        (_, FieldType::Number) => vec![arg.value_parser(number).allow_negative_numbers(true)],
        _ => vec![arg],
    }
}

/// Digits only: `parse` alone would take a plus sign.
fn number(word: &str) -> Result<u64, String> {
    let digits = word.bytes().all(|b| b.is_ascii_digit()).then(|| word.parse().ok()).flatten();
    digits.ok_or_else(|| format!("must be {}", FieldType::Number.wanted()))
}

fn coordinate(word: &str) -> Result<u32, String> {
    let fits = number(word).ok().and_then(|n| u32::try_from(n).ok());
    fits.ok_or_else(|| format!("must be {}", FieldType::Coordinate.wanted()))
}

/// `diagnosticScope` is `--diagnostic-scope`; a list is given one by one: `--kind K`.
fn long_name(field: Field) -> String {
    let name = field.snake.replace('_', "-");
    match field.ty {
        FieldType::Choices(_) | FieldType::Texts => match name.strip_suffix("ies") {
            Some(stem) => format!("{stem}y"),
            None => name.strip_suffix('s').unwrap_or(&name).to_owned(),
        },
        _ => name,
    }
}

fn options(field: Field) -> Vec<Arg> {
    let long = long_name(field);
    let arg = Arg::new(field.name).long(long.clone()).help(help_of(field));
    let valued = arg.clone().value_name(value_name(field));
    match field.ty {
        FieldType::Bool => {
            let mut both = vec![arg.action(ArgAction::SetTrue)];
            if field.default_value() == Some(Value::Bool(true)) {
                let off = format!("no-{long}");
                let mut switch = Arg::new(off.clone())
                    .long(off)
                    .action(ArgAction::SetTrue)
                    .conflicts_with(field.name)
                    .help(format!("The opposite of --{long}"));
                if let Some(rest) = long.strip_prefix("include-") {
                    switch = switch.visible_alias(format!("exclude-{rest}"));
                }
                both.push(switch);
            }
            both
        }
        FieldType::Choice(names) => vec![valued.value_parser(PossibleValuesParser::new(names))],
        FieldType::Choices(names) => {
            vec![valued.value_parser(PossibleValuesParser::new(names)).action(ArgAction::Append)]
        }
        FieldType::Texts => vec![valued.action(ArgAction::Append)],
        FieldType::Coordinate => vec![valued.value_parser(coordinate)],
        FieldType::Number => vec![valued.value_parser(number)],
        FieldType::Handle => vec![
            valued
                .value_name("HANDLE|-")
                .allow_hyphen_values(true)
                .help("Start from this handle instead of a position: JSON, or - for standard input"),
            path_option("handle-file", "PATH").conflicts_with(field.name).help("Read the handle from a file"),
        ],
        FieldType::Text | FieldType::NonEmpty | FieldType::Object => vec![valued],
    }
}

fn help_of(field: Field) -> String {
    let doc = field.doc.trim_end_matches('.');
    let short = if field.name == "diagnosticScope" { " (+all-diagnostics is short for all)" } else { "" };
    match field.default_value() {
        Some(Value::String(default)) => format!("{doc}{short} [default: {default}]"),
        _ => format!("{doc}{short}"),
    }
}

/// Reads everything behind the program's name.
///
/// # Errors
/// clap's: what is wrong, or help that was asked for.
pub fn parse(args: impl IntoIterator<Item = OsString>, tool: Tool) -> Result<(Globals, Command), clap::Error> {
    let words: Vec<OsString> = args.into_iter().collect();
    let (mut grammar, name) = match tool {
        Tool::Beam => (beam(), "lean-beam"),
        Tool::Mcp => (mcp("lean-beam-mcp"), "lean-beam-mcp"),
        Tool::Client => (client("beam-client").args(globals()), "beam-client"),
    };
    // What this is can be asked of a server whatever else was said: a client may add arguments of its own.
    if tool == Tool::Mcp && words.iter().any(|word| word == "--version") {
        return Ok((Globals::default(), Command::Mcp(McpArgs { version: true, ..McpArgs::default() })));
    }
    if let Some((n, bad)) = words.iter().enumerate().find(|(_, word)| word.to_str().is_none()) {
        let why = format!("argument {} is not valid UTF-8: {}", n + 1, bad.display());
        return Err(grammar.error(ErrorKind::InvalidUtf8, why));
    }
    let words = with_scope(words);
    let all = std::iter::once(OsString::from(name)).chain(words.iter().cloned());
    let matches = match grammar.try_get_matches_from_mut(all) {
        Ok(matches) => matches,
        Err(e) if e.kind() == ErrorKind::DisplayVersion && tool == Tool::Beam => {
            return Ok((Globals::default(), Command::Version));
        }
        Err(e) => return Err(e),
    };
    match tool {
        Tool::Mcp => Ok((Globals::default(), Command::Mcp(mcp_args(&matches)))),
        Tool::Client => Ok((read_globals(&matches), client_args(&matches))),
        Tool::Beam => {
            let command = command(&mut grammar, &matches, &words)?;
            Ok((read_globals(&matches), command))
        }
    }
}

/// `+all-diagnostics`, which clap has no place for, as the option it stands for.
fn with_scope(words: Vec<OsString>) -> Vec<OsString> {
    let Some(verb) = typed(&words).and_then(find_verb) else { return words };
    if !verb.options().any(|f| f.name == "diagnosticScope") {
        return words;
    }
    words.into_iter().map(|word| if word == "+all-diagnostics" { ALL_DIAGNOSTICS.into() } else { word }).collect()
}

/// The command as it was typed: the first word that is neither an option of every command nor the value of one.
fn typed(words: &[OsString]) -> Option<&str> {
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let word = word.to_str()?;
        match word.strip_prefix("--") {
            Some("root" | "toolchain" | "idle" | "port") => drop(rest.next()),
            Some(_) => {}
            None if word.starts_with('-') => {}
            None => return Some(word),
        }
    }
    None
}

/// The verb of that name, or of its older name (`lean-run-at`).
fn find_verb(name: &str) -> Option<&'static VerbSpec> {
    VerbSpec::from_name(name)
        .or_else(|| VerbSpec::from_name(name.strip_prefix("lean-")?).filter(|spec| internal_name(spec)))
}

fn read_globals(matches: &ArgMatches) -> Globals {
    // The values of a global option are known below, where they may have been given.
    let inner = innermost(matches);
    Globals {
        root: inner.get_one::<Utf8PathBuf>("root").cloned(),
        port: inner.get_one::<u16>("port").copied(),
        idle: inner.get_one::<u64>("idle").copied(),
        toolchain: inner.get_one::<String>("toolchain").map(|word| word.as_str().into()),
        no_build: inner.get_flag("no-build"),
    }
}

fn innermost(matches: &ArgMatches) -> &ArgMatches {
    match matches.subcommand() {
        Some((_, inner)) => innermost(inner),
        None => matches,
    }
}

fn command(grammar: &mut Grammar, matches: &ArgMatches, words: &[OsString]) -> Result<Command, clap::Error> {
    let Some((name, inner)) = matches.subcommand() else {
        return Err(grammar.error(ErrorKind::MissingSubcommand, "expected a command"));
    };
    let text = |id: &str| inner.get_one::<String>(id).cloned().unwrap_or_default();
    Ok(match name {
        "version" => Command::Version,
        "shutdown" => Command::Shutdown,
        "doctor" => Command::Doctor(backend(inner)),
        "toolchain" => {
            let Some((what, arguments)) = inner.subcommand() else {
                return Err(grammar.error(ErrorKind::MissingSubcommand, "expected install, list, remove or path"));
            };
            let id = || arguments.get_one::<String>("id").cloned().unwrap_or_default();
            Command::Toolchain(match what {
                "install" => ToolchainCommand::Install,
                "remove" => ToolchainCommand::Remove(id()),
                "path" => ToolchainCommand::Path(id()),
                _ => ToolchainCommand::List,
            })
        }
        "validated-toolchains" => Command::ValidatedToolchains,
        "compatible-release-lines" => Command::CompatibleReleaseLines,
        "quickstart" => Command::Quickstart { dir: inner.get_one::<Utf8PathBuf>("dir").cloned() },
        "mcp" => Command::Mcp(mcp_args(inner)),
        "completions" => match inner.get_one::<Shell>("shell") {
            Some(shell) => Command::Completions(*shell),
            None => return Err(grammar.error(ErrorKind::MissingRequiredArgument, "expected SHELL")),
        },
        "man" => Command::Man(inner.get_one::<Utf8PathBuf>("dir").cloned().unwrap_or_default()),
        "client" => client_args(inner),
        "daemon" => Command::Daemon(DaemonArgs {
            root: inner.get_one::<Utf8PathBuf>("root").cloned().unwrap_or_default(),
            workspace_id: text("workspace-id"),
            port: inner.get_one::<u16>("port").copied(),
            idle: inner.get_one::<u64>("idle").copied(),
            toolchain: inner.get_one::<String>("toolchain").map(|word| word.as_str().into()),
            no_build: inner.get_flag("no-build"),
            config_hash: inner.get_one::<String>("config-hash").cloned(),
            control_dir: inner.get_one::<Utf8PathBuf>("control-dir").cloned(),
        }),
        name => match VerbSpec::from_name(name) {
            Some(spec) => Command::Verb(Box::new(call(spec, inner, words)?)),
            None => return Err(grammar.error(ErrorKind::InvalidSubcommand, format!("unknown command {name}"))),
        },
    })
}

fn backend(matches: &ArgMatches) -> Backend {
    match matches.get_one::<String>("backend").map(String::as_str) {
        Some("rocq") => Backend::Rocq,
        _ => Backend::Lean,
    }
}

fn mcp_args(matches: &ArgMatches) -> McpArgs {
    McpArgs {
        lean_cmd: matches.get_one::<String>("lean-cmd").map(|word| ToolchainWish::from(word.as_str())),
        goals: matches.get_one::<String>("goals").cloned(),
        self_check: matches.get_one::<Utf8PathBuf>("self-check").cloned(),
        version: matches.get_flag("version"),
    }
}

fn client_args(matches: &ArgMatches) -> Command {
    let (stream, inner) = match matches.subcommand() {
        Some((name, inner)) => (name == "request-stream", inner),
        None => (false, matches),
    };
    let request = json_source(inner.get_one::<String>("json").map_or("", String::as_str));
    Command::Client(ClientArgs { stream, request, socket: inner.get_one::<Utf8PathBuf>("socket").cloned() })
}

fn json_source(word: &str) -> JsonSource {
    if word == "-" { JsonSource::Stdin } else { JsonSource::Inline(word.to_owned()) }
}

/// A verb's arguments by field.
fn call(spec: &'static VerbSpec, matches: &ArgMatches, words: &[OsString]) -> Result<Call, clap::Error> {
    let typed = typed(words).unwrap_or(spec.name).to_owned();
    // Errors found here show the verb's own usage, as clap's do.
    let mut usage = verb(spec).bin_name(format!("lean-beam {typed}"));
    let mut refuse = |why: String| usage.error(ErrorKind::ValueValidation, format!("{typed}: {why}"));
    let mut fields = Vec::new();
    for field in spec.positional().chain(spec.options()) {
        let argument = match (field.name, field.ty) {
            ("text", _) if field.required => text_argument(matches, words).map_err(&mut refuse)?,
            ("texts", _) => candidates(matches).map_err(&mut refuse)?,
            ("query", _) => joined(matches, "query").map(|query| FieldArgument::Value(query.into())),
            _ => argument(field, matches),
        };
        if let Some(argument) = argument {
            if argument == FieldArgument::Path(String::new()) {
                return Err(refuse("PATH must not be empty".to_owned()));
            }
            fields.push((field, argument));
        }
    }
    let on_stdin = |argument: &FieldArgument| {
        use FieldArgument::{Candidates, Handle, Text};
        matches!(argument, Handle(JsonSource::Stdin) | Text(TextSource::Stdin) | Candidates(TextSource::Stdin))
    };
    if fields.iter().filter(|(_, argument)| on_stdin(argument)).count() > 1 {
        return Err(refuse("HANDLE and TEXT cannot both be read from standard input".to_owned()));
    }
    let (backend, hold) = match spec.op {
        Op::Ensure => (backend(matches), matches.get_flag("hold")),
        _ => (Backend::Lean, false),
    };
    Ok(Call { spec, typed, backend, hold, fields })
}

/// The argument of a field whose type says all.
fn argument(field: Field, matches: &ArgMatches) -> Option<FieldArgument> {
    let word = || matches.get_one::<String>(field.name).cloned();
    let value = match field.ty {
        _ if field.name == "path" => return word().map(FieldArgument::Path),
        FieldType::Handle => {
            let file = matches.get_one::<Utf8PathBuf>("handle-file").cloned().map(JsonSource::File);
            return file.or_else(|| word().map(|w| json_source(&w))).map(FieldArgument::Handle);
        }
        FieldType::Object => return word().map(|w| FieldArgument::Json(json_source(&w))),
        FieldType::Text | FieldType::NonEmpty | FieldType::Choice(_) => word().map(Value::from),
        FieldType::Coordinate => matches.get_one::<u32>(field.name).map(|n| Value::from(*n)),
        FieldType::Number => matches.get_one::<u64>(field.name).map(|n| Value::from(*n)),
        FieldType::Choices(_) | FieldType::Texts => {
            matches.get_many::<String>(field.name).map(|all| all.cloned().collect::<Vec<_>>().into())
        }
        FieldType::Bool => {
            let off = format!("no-{}", long_name(field));
            let has_off = field.default_value() == Some(Value::Bool(true));
            match (matches.get_flag(field.name), has_off && matches.get_flag(&off)) {
                (true, _) => Some(Value::Bool(true)),
                (false, true) => Some(Value::Bool(false)),
                (false, false) => None,
            }
        }
    };
    value.map(FieldArgument::Value)
}

fn joined(matches: &ArgMatches, name: &str) -> Option<String> {
    let words: Vec<&str> = matches.get_many::<String>(name)?.map(String::as_str).collect();
    Some(words.join(" "))
}

/// `TEXT`: `--stdin`, `--text-file PATH`, `-- words`, `words`. None at all is left to the broker to refuse.
fn text_argument(matches: &ArgMatches, words: &[OsString]) -> Result<Option<FieldArgument>, String> {
    const ALONE: &str = "must be the only TEXT; put -- before words that start with dashes";
    // With `--handle-file` the place of HANDLE is free, and clap puts the text's first word there.
    let moved = match (matches.try_contains_id("handle-file"), matches.try_get_one::<String>("handle")) {
        (Ok(true), Ok(word)) => word,
        _ => None,
    };
    let rest = matches.get_many::<String>("text").into_iter().flatten();
    let given: Vec<&str> = moved.into_iter().chain(rest).map(String::as_str).collect();
    // clap drops the `--` that begins the text, so it is looked for where it stood.
    let escaped = words.len() > given.len() && words[words.len() - given.len() - 1] == OsStr::new("--");
    let sources = [("--stdin", matches.get_flag("stdin")), ("--text-file", matches.contains_id("text-file"))];
    if let Some((name, _)) = sources.iter().find(|(name, set)| {
        (*set && (!given.is_empty() || escaped || sources.iter().all(|(_, set)| *set)))
            || (!escaped && given.contains(name))
    }) {
        return Err(format!("{name} {ALONE}"));
    }
    let source = if matches.get_flag("stdin") {
        TextSource::Stdin
    } else if let Some(path) = matches.get_one::<Utf8PathBuf>("text-file") {
        TextSource::File(path.clone())
    } else if escaped || !given.is_empty() {
        // A misspelt option would otherwise be tried as a tactic.
        if let Some(first) = given.first().filter(|word| !escaped && word.starts_with("--")) {
            return Err(format!("TEXT starts with {first}: put -- before text that starts with dashes"));
        }
        TextSource::Argv(given.join(" "))
    } else {
        return Ok(None);
    };
    Ok(Some(FieldArgument::Text(source)))
}

/// The candidates of `try`: `TEXT...`, `--stdin` or `--text-file PATH`, and only one of them.
fn candidates(matches: &ArgMatches) -> Result<Option<FieldArgument>, String> {
    let given: Vec<String> = matches.get_many::<String>("texts").into_iter().flatten().cloned().collect();
    let file = matches.get_one::<Utf8PathBuf>("text-file").cloned();
    match (given.is_empty(), matches.get_flag("stdin"), file) {
        (true, false, None) => Err("no candidates: give TEXT..., --stdin or --text-file PATH".to_owned()),
        (false, false, None) => Ok(Some(FieldArgument::Value(given.into()))),
        (true, true, None) => Ok(Some(FieldArgument::Candidates(TextSource::Stdin))),
        (true, false, Some(path)) => Ok(Some(FieldArgument::Candidates(TextSource::File(path)))),
        _ => Err("candidates come from one place: TEXT..., --stdin or --text-file PATH".to_owned()),
    }
}

#[cfg(test)]
#[path = "grammar_tests.rs"]
mod tests;
