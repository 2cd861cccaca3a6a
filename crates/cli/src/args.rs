//! What a command line means: pure data, as `grammar` reads it (cli sections 1 and 2).

use std::ffi::OsStr;
use std::path::Path;

use beam_wire::Backend;
use beam_wire::field::Field;
use beam_wire::verb::VerbSpec;
use camino::Utf8PathBuf;
use clap_complete::Shell;
use serde_json::Value;

/// Options that every command takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Globals {
    /// `--root PATH`
    pub root: Option<Utf8PathBuf>,
    /// `--port N`
    pub port: Option<u16>,
    /// `--idle SECONDS`; zero means never.
    pub idle: Option<u64>,
    /// `--toolchain auto|embedded|PATH`
    pub toolchain: Option<ToolchainWish>,
    /// `--no-build`
    pub no_build: bool,
}

/// Which toolchain is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolchainWish {
    /// What the project says, else what there is.
    #[default]
    Auto,
    /// The installed embedded one.
    Embedded,
    /// This `lean`.
    Lean(Utf8PathBuf),
}

impl From<&str> for ToolchainWish {
    fn from(word: &str) -> Self {
        match word {
            "auto" => Self::Auto,
            "embedded" => Self::Embedded,
            path => Self::Lean(path.into()),
        }
    }
}

/// What is to be done.
#[derive(Debug)]
pub enum Command {
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
    /// `quickstart [--dir DIR]`
    Quickstart {
        /// `--dir`
        dir: Option<Utf8PathBuf>,
    },
    /// `completions SHELL`
    Completions(Shell),
    /// Internal: man pages into a folder.
    Man(Utf8PathBuf),
    /// Internal: the daemon itself.
    Daemon(DaemonArgs),
    /// `beam-client`, or internal `client`.
    Client(ClientArgs),
    /// `lean-beam-mcp`, or `mcp`.
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
    pub toolchain: Option<ToolchainWish>,
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
    pub request: JsonSource,
    /// `--socket PATH`: this daemon, whatever the project's registry says.
    pub socket: Option<Utf8PathBuf>,
}

/// Arguments of the MCP server.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct McpArgs {
    /// `--lean-cmd`
    pub lean_cmd: Option<ToolchainWish>,
    /// `--goals`: how goals are shown where a call does not say.
    pub goals: Option<String>,
    /// `--self-check`: check instead of serving.
    pub self_check: Option<Utf8PathBuf>,
    /// `--version`: say it instead of serving.
    pub version: bool,
}

/// Where a JSON argument comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonSource {
    /// Written out.
    Inline(String),
    /// `-`
    Stdin,
    /// `--handle-file PATH`
    File(Utf8PathBuf),
}

/// Where a text comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextSource {
    /// `--stdin`
    Stdin,
    /// `--text-file PATH`
    File(Utf8PathBuf),
    /// Words, joined by one blank.
    Argv(String),
}

/// The value of an operation's field, as far as the command line has it.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldArgument {
    /// It stands there.
    Value(Value),
    /// A path, as the user means it.
    Path(String),
    /// A text, to be read.
    Text(TextSource),
    /// Several texts, to be read: one per line, blank lines are none.
    Candidates(TextSource),
    /// A handle, to be read and looked for.
    Handle(JsonSource),
    /// Other JSON, to be read.
    Json(JsonSource),
}

/// A verb with its arguments.
#[derive(Debug)]
pub struct Call {
    /// The table's row.
    pub spec: &'static VerbSpec,
    /// What the user typed: messages show this.
    pub typed: String,
    /// The prover: `ensure rocq`.
    pub backend: Backend,
    /// `ensure --hold`: stay in the foreground.
    pub hold: bool,
    /// The operation's fields, as far as they were given.
    pub fields: Vec<(Field, FieldArgument)>,
}

impl Call {
    /// The path as the user wrote it, where the verb has one.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.fields.iter().find_map(|(_, argument)| match argument {
            FieldArgument::Path(path) => Some(path.as_str()),
            _ => None,
        })
    }
}
