//! Arguments to commands: pure data in, pure data out (cli sections 1 and 2). Verbs come from the wire's table (W3).
//!
//! Global options stand before the command and nowhere else: behind it they may be text.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use beam_wire::field;
use beam_wire::request::GoalsMode;
use beam_wire::verb::{Arg, VerbSpec};
use beam_wire::{Backend, Op};
use camino::Utf8PathBuf;

use crate::help::Topic;
use crate::mcp::{self, McpArgs};

/// Why the arguments are no command.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ArgError {
    /// No such command or option, or too few or too many arguments: usage is shown.
    #[error("{0}")]
    Usage(String, Topic),
    /// An argument that does not mean anything: its name is in the message.
    #[error("{0}")]
    Value(String),
}

/// Options before the command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Globals {
    /// `--root PATH`
    pub root: Option<Utf8PathBuf>,
    /// `--port N`
    pub port: Option<u16>,
    /// `--idle SECONDS`; zero means never.
    pub idle: Option<u64>,
    /// `--toolchain auto|embedded|PATH`
    pub toolchain: Option<Wish>,
    /// `--no-build`
    pub no_build: bool,
}

/// Which toolchain is wished for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Wish {
    /// What the project says, else what there is.
    #[default]
    Auto,
    /// The installed embedded one.
    Embedded,
    /// This `lean`.
    Lean(Utf8PathBuf),
}

/// What is to be done.
#[derive(Debug)]
pub enum Command {
    /// Usage on stderr.
    Help(Topic),
    /// `version`
    Version,
    /// A verb of the table.
    Verb(Box<Call>),
    /// `shutdown`
    Shutdown,
    /// `doctor [lean|rocq]`
    Doctor(Backend),
    /// `toolchain …`
    Toolchain(ToolchainCommand),
    /// `validated-toolchains [lean]`
    ValidatedToolchains,
    /// `compatible-release-lines`
    CompatibleReleaseLines,
    /// `quickstart [--dir DIR] [--toolchain auto|embedded]`
    Quickstart {
        /// `--dir`
        dir: Option<Utf8PathBuf>,
        /// `--toolchain`, here or before the command.
        toolchain: Option<Wish>,
    },
    /// Internal: the daemon itself.
    Daemon(DaemonArgs),
    /// `beam-client`, or internal `client`.
    Client(ClientArgs),
    /// `lean-beam-mcp`, or internal `mcp`.
    Mcp(McpArgs),
}

/// Which tool the program was started as (D5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// `lean-beam`, or any other name.
    Beam,
    /// `beam-client`
    Client,
    /// `lean-beam-mcp`
    Mcp,
}

impl Tool {
    /// What the program's name says.
    #[must_use]
    pub fn of(program: &OsStr) -> Self {
        match Path::new(program).file_name().and_then(OsStr::to_str) {
            Some("beam-client") => Self::Client,
            Some("lean-beam-mcp") => Self::Mcp,
            _ => Self::Beam,
        }
    }
}

/// `toolchain …`
#[derive(Debug, PartialEq, Eq)]
pub enum ToolchainCommand {
    /// `install embedded`
    Install,
    /// `list`
    List,
    /// `remove ID`
    Remove(String),
    /// `path ID`
    Path(String),
}

/// Arguments of the daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DaemonArgs {
    /// `--root`, required.
    pub root: Utf8PathBuf,
    /// `--workspace-id`, required.
    pub workspace_id: String,
    /// `--port`
    pub port: Option<u16>,
    /// `--idle`; zero means never.
    pub idle: Option<u64>,
    /// `--toolchain`
    pub toolchain: Option<Wish>,
    /// `--no-build`
    pub no_build: bool,
    /// `--config-hash`: what the client will look for.
    pub config_hash: Option<String>,
    /// `--control-dir`: the client's `BEAM_CONTROL_DIR`, made absolute there.
    pub control_dir: Option<Utf8PathBuf>,
}

/// Arguments of `beam-client`.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientArgs {
    /// `request-stream` instead of `request`.
    pub stream: bool,
    /// The request.
    pub request: Json,
    /// `--socket PATH`: this daemon, whatever the project's registry says.
    pub socket: Option<Utf8PathBuf>,
}

/// Where a JSON argument comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// Written out.
    Inline(String),
    /// `-`
    Stdin,
    /// `--handle-file PATH`
    File(Utf8PathBuf),
}

/// Where a text comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    /// `--stdin`
    Stdin,
    /// `--text-file PATH`
    File(Utf8PathBuf),
    /// Words, joined by one blank.
    Argv(String),
}

/// A verb with its arguments.
#[derive(Debug)]
pub struct Call {
    /// The table's row.
    pub spec: &'static VerbSpec,
    /// What the user typed: messages show this.
    pub typed: String,
    /// The arguments.
    pub given: Given,
}

/// Arguments as far as they were given.
#[derive(Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named and explained in the wire's tables of arguments and fields")]
pub struct Given {
    pub path: Option<String>,
    pub version: Option<u64>,
    pub line: Option<u32>,
    pub character: Option<u32>,
    pub end_line: Option<u32>,
    pub end_character: Option<u32>,
    pub mode: Option<GoalsMode>,
    pub handle: Option<Json>,
    pub code_action: Option<Json>,
    pub text: Option<Text>,
    pub query: Option<String>,
    pub request_id: Option<String>,
    pub backend: Backend,
    pub all_diagnostics: bool,
    pub include_declaration: Option<bool>,
    pub kinds: Vec<String>,
    pub suggest: Option<String>,
    pub hold: bool,
}

pub(crate) type Rest = VecDeque<OsString>;

/// Reads everything behind the program's name.
pub fn parse(args: impl IntoIterator<Item = OsString>, tool: Tool) -> Result<(Globals, Command), ArgError> {
    let mut rest: Rest = args.into_iter().collect();
    let mut globals = Globals::default();
    if tool == Tool::Mcp {
        return Ok((globals, mcp::parse(rest)?));
    }
    let mut socket = None;
    while let Some(first) = rest.front().and_then(|a| a.to_str()).filter(|a| a.starts_with('-')).map(str::to_owned) {
        rest.pop_front();
        let (name, inline) = match first.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (first.as_str(), None),
        };
        match name {
            "-h" | "--help" => return Ok((globals, Command::Help(Topic::All))),
            "--version" => return Ok((globals, Command::Version)),
            "--root" => globals.root = Some(utf8_path(value(name, inline, &mut rest)?)?),
            "--port" => globals.port = Some(port(&value(name, inline, &mut rest)?)?),
            "--idle" => globals.idle = Some(number("--idle", &value(name, inline, &mut rest)?)?),
            "--toolchain" => globals.toolchain = Some(wish(value(name, inline, &mut rest)?)?),
            "--no-build" if inline.is_none() => globals.no_build = true,
            "--socket" if tool == Tool::Client => socket = Some(utf8_path(value(name, inline, &mut rest)?)?),
            _ => return Err(usage(format!("unknown option {first}"))),
        }
    }
    let Some(name) = rest.pop_front() else {
        return Ok((globals, Command::Help(Topic::All)));
    };
    let name = utf8(&name, "the command")?.to_owned();
    let command = if tool == Tool::Client { client(&name, rest, socket) } else { command(&name, rest) }?;
    Ok((globals, command))
}

fn command(name: &str, mut rest: Rest) -> Result<Command, ArgError> {
    let command = match name {
        "help" => match rest.pop_front() {
            None => Command::Help(Topic::All),
            Some(verb) => {
                let verb = utf8(&verb, "the command")?.to_owned();
                Command::Help(Topic::Verb(find_verb(&verb).ok_or_else(|| usage(format!("unknown command {verb}")))?))
            }
        },
        "version" => Command::Version,
        "shutdown" => Command::Shutdown,
        "doctor" => Command::Doctor(backend(rest.pop_front())),
        "validated-toolchains" => {
            let _only_lean_has_one = take_if(&mut rest, &["lean"]);
            Command::ValidatedToolchains
        }
        "compatible-release-lines" => Command::CompatibleReleaseLines,
        "toolchain" => toolchain(&mut rest)?,
        "quickstart" => quickstart(&mut rest)?,
        "daemon" => daemon(&mut rest)?,
        "mcp" => return mcp::parse(rest),
        "client" => {
            let socket = match take_if(&mut rest, &["--socket"]) {
                Some(_) => Some(utf8_path(value("--socket", None, &mut rest)?)?),
                None => None,
            };
            let what = rest.pop_front().unwrap_or_default();
            return client(utf8(&what, "the client's command")?, rest, socket);
        }
        _ => match find_verb(name) {
            Some(spec) => return verb(spec, name, rest),
            None => return Err(usage(format!("unknown command {name}"))),
        },
    };
    match rest.front() {
        Some(first) if first == "--help" || first == "-h" => Ok(Command::Help(Topic::All)),
        Some(extra) => Err(usage(format!("{name}: unexpected argument {}", extra.display()))),
        None => Ok(command),
    }
}

/// The verb of that name, or of that internal name (`lean-run-at`).
fn find_verb(name: &str) -> Option<&'static VerbSpec> {
    VerbSpec::from_name(name).or_else(|| {
        let spec = VerbSpec::from_name(name.strip_prefix("lean-")?)?;
        (spec.op.spec().backend && spec.op != Op::Ensure).then_some(spec)
    })
}

fn verb(spec: &'static VerbSpec, typed: &str, mut rest: Rest) -> Result<Command, ArgError> {
    if rest.len() == 1 && (rest[0] == "--help" || rest[0] == "-h") {
        return Ok(Command::Help(Topic::Verb(spec)));
    }
    let mut given = Given::default();
    let mut options = Vec::new();
    for arg in spec.args {
        positional(*arg, &mut rest, &mut given, &mut options).map_err(|e| in_verb(e, spec, typed))?;
    }
    while let Some(next) = rest.pop_front() {
        option(&next, &options, &mut rest, &mut given).map_err(|e| in_verb(e, spec, typed))?;
    }
    let reads_stdin = |json: &Option<Json>| *json == Some(Json::Stdin);
    if given.text == Some(Text::Stdin) && reads_stdin(&given.handle) {
        return Err(ArgError::Value(format!("{typed}: HANDLE and TEXT cannot both be read from standard input")));
    }
    Ok(Command::Verb(Box::new(Call { spec, typed: typed.to_owned(), given })))
}

/// Errors of a verb show its usage, and its name as typed.
fn in_verb(error: ArgError, spec: &'static VerbSpec, typed: &str) -> ArgError {
    match error {
        ArgError::Usage(why, _) => ArgError::Usage(format!("{typed}: {why}"), Topic::Verb(spec)),
        ArgError::Value(why) => ArgError::Value(format!("{typed}: {why}")),
    }
}

/// Takes one argument that has a place. Options are put aside.
fn positional(arg: Arg, rest: &mut Rest, given: &mut Given, options: &mut Vec<Arg>) -> Result<(), ArgError> {
    let mut word = || -> Result<String, ArgError> {
        let next = rest.pop_front().ok_or_else(|| usage(format!("missing {}", arg.usage())))?;
        utf8(&next, arg.usage()).map(str::to_owned)
    };
    match arg {
        Arg::Path => {
            given.path = Some(word()?);
            if given.path.as_deref() == Some("") {
                return Err(ArgError::Value("PATH must not be empty".to_owned()));
            }
        }
        Arg::Version => given.version = Some(number("VERSION", &word()?)?),
        Arg::Line => given.line = Some(coordinate("LINE", &word()?)?),
        Arg::Character => given.character = Some(coordinate("CHARACTER", &word()?)?),
        Arg::EndLine => given.end_line = Some(coordinate("END_LINE", &word()?)?),
        Arg::EndCharacter => given.end_character = Some(coordinate("END_CHARACTER", &word()?)?),
        Arg::RequestId => given.request_id = Some(word()?),
        Arg::Mode => {
            given.mode = Some(match word()?.as_str() {
                "before" => GoalsMode::Before,
                "after" => GoalsMode::After,
                other => {
                    return Err(ArgError::Value(format!("the first argument must be before or after, not {other:?}")));
                }
            });
        }
        Arg::Handle => given.handle = Some(json(rest, arg, true)?),
        Arg::CodeAction => given.code_action = Some(json(rest, arg, false)?),
        Arg::Text => given.text = text(rest)?,
        Arg::Query => {
            given.query = Some(words(&std::mem::take(rest), "QUERY")?).filter(|q| !q.is_empty());
            if given.query.is_none() {
                return Err(usage("missing QUERY"));
            }
        }
        Arg::Backend | Arg::AllDiagnostics | Arg::Declaration | Arg::TodoKinds | Arg::Suggest | Arg::Hold => {
            options.push(arg);
        }
    }
    Ok(())
}

/// Takes one of the options that the verb has; they come last, in any order.
fn option(next: &OsStr, options: &[Arg], rest: &mut Rest, given: &mut Given) -> Result<(), ArgError> {
    let has = |arg| options.contains(&arg);
    let mut of = |choices: &[&str]| -> Result<String, ArgError> {
        let name = next.to_string_lossy().into_owned();
        let word = value(&name, None, rest)?;
        match word.to_str().filter(|w| choices.contains(w)) {
            Some(word) => Ok(word.to_owned()),
            None => {
                Err(ArgError::Value(format!("{name} must be one of {}, not {}", choices.join(", "), word.display())))
            }
        }
    };
    match next.to_str() {
        Some("+all-diagnostics") if has(Arg::AllDiagnostics) => given.all_diagnostics = true,
        Some("--include-declaration") if has(Arg::Declaration) => given.include_declaration = Some(true),
        Some("--exclude-declaration") if has(Arg::Declaration) => given.include_declaration = Some(false),
        Some("--kind") if has(Arg::TodoKinds) => given.kinds.push(of(field::TODO_KINDS)?),
        Some("--suggest") if has(Arg::Suggest) => given.suggest = Some(of(&["none", "basic"])?),
        Some("--hold") if has(Arg::Hold) => given.hold = true,
        Some(word) if has(Arg::Backend) && !word.starts_with('-') => given.backend = backend(Some(word.into())),
        _ => return Err(usage(format!("unexpected argument {}", next.display()))),
    }
    Ok(())
}

/// `HANDLE` and `ACTION-JSON`.
fn json(rest: &mut Rest, arg: Arg, from_file: bool) -> Result<Json, ArgError> {
    let next = rest.pop_front().ok_or_else(|| usage(format!("missing {}", arg.usage())))?;
    if from_file && next == "--handle-file" {
        return Ok(Json::File(utf8_path(value("--handle-file", None, rest)?)?));
    }
    if next == "-" {
        return Ok(Json::Stdin);
    }
    Ok(Json::Inline(utf8(&next, arg.usage())?.to_owned()))
}

/// `TEXT`: `--stdin`, `--text-file PATH`, `-- words`, `words`. None at all is left to the broker to refuse.
fn text(rest: &mut Rest) -> Result<Option<Text>, ArgError> {
    let Some(first) = rest.front().cloned() else {
        return Ok(None);
    };
    let alone = |rest: &Rest, name: &str| match rest.len() {
        0 => Ok(()),
        _ => Err(ArgError::Value(format!("{name} must be the only TEXT; put -- before words that start with dashes"))),
    };
    match first.to_str() {
        Some("--stdin") => {
            rest.pop_front();
            alone(rest, "--stdin")?;
            return Ok(Some(Text::Stdin));
        }
        Some("--text-file") => {
            rest.pop_front();
            let path = utf8_path(value("--text-file", None, rest)?)?;
            alone(rest, "--text-file PATH")?;
            return Ok(Some(Text::File(path)));
        }
        Some("--") => {
            rest.pop_front();
            return Ok(Some(Text::Argv(words(&std::mem::take(rest), "TEXT")?)));
        }
        // A misspelt option would otherwise be tried as a tactic.
        Some(word) if word.starts_with("--") => {
            return Err(ArgError::Value(format!(
                "TEXT starts with {word}: put -- before text that starts with dashes"
            )));
        }
        _ => {}
    }
    if let Some(mixed) = rest.iter().find(|w| *w == "--stdin" || *w == "--text-file") {
        return Err(ArgError::Value(format!(
            "{} must be the only TEXT; put -- before words that start with dashes",
            mixed.display()
        )));
    }
    Ok(Some(Text::Argv(words(&std::mem::take(rest), "TEXT")?)))
}

fn words(rest: &Rest, name: &str) -> Result<String, ArgError> {
    let words: Vec<_> = rest.iter().map(|w| utf8(w, name)).collect::<Result<_, _>>()?;
    Ok(words.join(" "))
}

fn client(name: &str, mut rest: Rest, socket: Option<Utf8PathBuf>) -> Result<Command, ArgError> {
    let stream = match name {
        "request" => false,
        "request-stream" => true,
        "help" => return Ok(Command::Help(Topic::All)),
        _ => return Err(usage("expected request JSON|- or request-stream JSON|-")),
    };
    let request = json(&mut rest, Arg::CodeAction, false).map_err(|_| usage(format!("{name}: missing JSON|-")))?;
    match rest.pop_front() {
        None => Ok(Command::Client(ClientArgs { stream, request, socket })),
        Some(extra) => Err(usage(format!("{name}: unexpected argument {}", extra.display()))),
    }
}

fn toolchain(rest: &mut Rest) -> Result<Command, ArgError> {
    let usage = || usage("expected toolchain install embedded | list | remove ID | path ID");
    let mut word = || rest.pop_front().and_then(|w| w.into_string().ok());
    let command = match word().as_deref() {
        Some("install") => match word().as_deref() {
            Some("embedded") => ToolchainCommand::Install,
            _ => return Err(usage()),
        },
        Some("list") => ToolchainCommand::List,
        Some("remove") => ToolchainCommand::Remove(word().ok_or_else(usage)?),
        Some("path") => ToolchainCommand::Path(word().ok_or_else(usage)?),
        Some("--help" | "-h") => return Ok(Command::Help(Topic::All)),
        _ => return Err(usage()),
    };
    Ok(Command::Toolchain(command))
}

fn quickstart(rest: &mut Rest) -> Result<Command, ArgError> {
    let (mut dir, mut toolchain) = (None, None);
    while let Some(name) = take_if(rest, &["--dir", "--toolchain"]) {
        match name.to_str() {
            Some("--dir") => dir = Some(utf8_path(value("--dir", None, rest)?)?),
            _ => toolchain = Some(wish(value("--toolchain", None, rest)?)?),
        }
    }
    Ok(Command::Quickstart { dir, toolchain })
}

fn daemon(rest: &mut Rest) -> Result<Command, ArgError> {
    let mut args = DaemonArgs::default();
    while let Some(name) = rest.pop_front() {
        let name = utf8(&name, "an option")?.to_owned();
        if name == "--no-build" {
            args.no_build = true;
            continue;
        }
        let taken = value(&name, None, rest)?;
        match name.as_str() {
            "--root" => args.root = utf8_path(taken)?,
            "--workspace-id" => args.workspace_id = utf8(&taken, "--workspace-id")?.to_owned(),
            "--port" => args.port = Some(port(&taken)?),
            "--idle" => args.idle = Some(number("--idle", &taken)?),
            "--toolchain" => args.toolchain = Some(wish(taken)?),
            "--config-hash" => args.config_hash = Some(utf8(&taken, "--config-hash")?.to_owned()),
            "--control-dir" => args.control_dir = Some(utf8_path(taken)?),
            _ => return Err(usage(format!("daemon: unknown option {name}"))),
        }
    }
    if args.root.as_os_str().is_empty() || args.workspace_id.is_empty() {
        return Err(usage("daemon: --root PATH and --workspace-id ID are required"));
    }
    Ok(Command::Daemon(args))
}

/// The next argument, if it is one of these.
fn take_if(rest: &mut Rest, these: &[&str]) -> Option<OsString> {
    if these.iter().any(|w| rest.front().is_some_and(|next| next == w)) { rest.pop_front() } else { None }
}

/// Any word but `rocq` counts as Lean.
fn backend(word: Option<OsString>) -> Backend {
    if word.is_some_and(|w| w == "rocq") { Backend::Rocq } else { Backend::Lean }
}

pub(crate) fn wish(word: OsString) -> Result<Wish, ArgError> {
    let word = utf8_path(word)?;
    Ok(match word.as_str() {
        "auto" => Wish::Auto,
        "embedded" => Wish::Embedded,
        _ => Wish::Lean(word),
    })
}

/// A path that was given. Every path stands in an answer sooner or later, so one that is not UTF-8 is refused here.
fn utf8_path(word: OsString) -> Result<Utf8PathBuf, ArgError> {
    beam_base::path::utf8(word).map_err(|e| ArgError::Value(e.to_string()))
}

/// An option's value, behind its equals sign or as the next argument.
pub(crate) fn value(name: &str, inline: Option<OsString>, rest: &mut Rest) -> Result<OsString, ArgError> {
    inline.or_else(|| rest.pop_front()).ok_or_else(|| usage(format!("{name} needs a value")))
}

fn port(word: &OsStr) -> Result<u16, ArgError> {
    digits(word).ok_or_else(|| {
        ArgError::Value(format!("--port must be a whole number from 0 to 65535, not {:?}", word.display().to_string()))
    })
}

fn number(name: &str, word: impl AsRef<OsStr>) -> Result<u64, ArgError> {
    let word = word.as_ref();
    digits(word).ok_or_else(|| {
        ArgError::Value(format!("{name} must be a whole number from 0, not {:?}", word.display().to_string()))
    })
}

fn coordinate(name: &str, word: &str) -> Result<u32, ArgError> {
    digits(OsStr::new(word))
        .ok_or_else(|| ArgError::Value(format!("{name} must be a whole number from 0 to 4294967295, not {word:?}")))
}

/// Digits only: `parse` alone would take a plus sign.
fn digits<T: std::str::FromStr>(word: &OsStr) -> Option<T> {
    let word = word.to_str().filter(|w| w.bytes().all(|b| b.is_ascii_digit()))?;
    word.parse().ok()
}

fn utf8<'a>(word: &'a OsStr, name: &str) -> Result<&'a str, ArgError> {
    word.to_str().ok_or_else(|| ArgError::Value(format!("{name} is not valid UTF-8: {}", word.display())))
}

fn usage(why: impl Into<String>) -> ArgError {
    ArgError::Usage(why.into(), Topic::All)
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
