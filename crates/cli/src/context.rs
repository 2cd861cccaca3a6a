//! What a command starts from: environment, current directory, global options; and what follows from them.

use std::time::Duration;

use beam_base::AbsPath;
use beam_broker::daemon::start::{self, Wanted};
use beam_broker::daemon::{Control, HostPaths};
use beam_toolchain::root::{self, Backend as RootBackend};
use beam_toolchain::{Choice, HostEnv, Store};
use beam_wire::Backend;

use crate::args::{Globals, ToolchainWish};
use crate::error::CliError;
use crate::ui::Ui;

/// The workspace id of every command: private to the CLI, the same for all projects, since each has its own daemon.
pub const WORKSPACE: &str = "beam-cli-project";
/// Seconds without a request after which a daemon ends, unless `--idle` says otherwise.
pub const IDLE_SECONDS: u64 = 30 * 60;
/// Product version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Variables that speak to one command and not to the daemon it may start.
const PERSONAL: &[&str] = &["BEAM_REQUEST_ID", "BEAM_PROGRESS", "BEAM_DEBUG_TEXT", "BEAM_TOOLCHAIN", "BEAM_BUILD"];

/// The surroundings of one command.
#[derive(Debug, Clone)]
pub struct Context {
    /// Environment, captured once.
    pub env: HostEnv,
    /// Current directory.
    pub cwd: AbsPath,
    /// Options before the command.
    pub globals: Globals,
    /// `BEAM_REQUEST_ID`, trimmed; never empty.
    pub request_id: Option<String>,
    /// The streams.
    pub ui: Ui,
}

impl Context {
    /// Looks at the process.
    pub fn capture(globals: Globals) -> Result<Self, CliError> {
        let env = HostEnv::capture();
        let cwd = AbsPath::current_dir()
            .map_err(|source| CliError::System { what: "the current directory cannot be used", source })?;
        let request_id = env.var("BEAM_REQUEST_ID").map(str::trim).filter(|id| !id.is_empty()).map(str::to_owned);
        let ui = Ui::new(&env, request_id.as_deref());
        Ok(Self { env, cwd, globals, request_id, ui })
    }

    /// The project of a command that is about one prover.
    pub fn root(&self, backend: Backend) -> Result<AbsPath, CliError> {
        let backend = match backend {
            Backend::Lean => RootBackend::Lean,
            Backend::Rocq => RootBackend::Rocq,
        };
        let root = match &self.globals.root {
            Some(explicit) => root::check(&self.cwd.join(explicit), backend)?,
            None => root::find(&self.cwd, backend)?,
        };
        Ok(root)
    }

    /// The project of a command that is about a daemon, whatever it proves with: Lean's markers first, then Rocq's.
    pub fn any_root(&self) -> Result<AbsPath, CliError> {
        let root = match &self.globals.root {
            Some(explicit) => root::check(&self.cwd.join(explicit), RootBackend::Rocq)?,
            None => match root::find(&self.cwd, RootBackend::Lean) {
                Ok(root) => root,
                Err(lean) => root::find(&self.cwd, RootBackend::Rocq).map_err(|_| lean)?,
            },
        };
        Ok(root)
    }

    /// Where the project's daemon keeps its files.
    #[must_use]
    pub fn control(&self, root: &AbsPath) -> Control {
        let dir = |name| self.env.var_os(name).and_then(|d| AbsPath::new(d).ok());
        let host = HostPaths {
            control_dir: self
                .env
                .var_os("BEAM_CONTROL_DIR")
                .and_then(|d| Some(AbsPath::resolve(&self.cwd, d.to_str()?))),
            runtime_dir: dir("XDG_RUNTIME_DIR"),
            tmp_dir: dir("TMPDIR"),
        };
        Control::locate(root, &host)
    }

    /// `BEAM_CONTROL_LOCK_TIMEOUT_MS`, a minute by default.
    pub fn lock_limit(&self) -> Result<Duration, CliError> {
        let Some(text) = self.env.var_os("BEAM_CONTROL_LOCK_TIMEOUT_MS") else {
            return Ok(Duration::from_secs(60));
        };
        match text.to_str().and_then(|t| t.trim().parse::<u64>().ok()) {
            Some(ms) if ms > 0 => Ok(Duration::from_millis(ms)),
            _ => Err(CliError::Value(format!(
                "BEAM_CONTROL_LOCK_TIMEOUT_MS must be a whole number of milliseconds above 0, not {:?}",
                text.display().to_string()
            ))),
        }
    }

    /// `--toolchain`, else `BEAM_TOOLCHAIN`, else automatic.
    #[must_use]
    pub fn wish(&self) -> ToolchainWish {
        self.globals.toolchain.clone().unwrap_or_else(|| match self.env.var("BEAM_TOOLCHAIN") {
            None | Some("auto") => ToolchainWish::Auto,
            Some("embedded") => ToolchainWish::Embedded,
            Some(path) => ToolchainWish::Lean(path.into()),
        })
    }

    /// The wish as the toolchain crate takes it.
    #[must_use]
    pub fn choice(&self) -> Choice {
        match self.wish() {
            ToolchainWish::Auto => Choice::Auto,
            ToolchainWish::Embedded => Choice::Embedded,
            ToolchainWish::Lean(path) => Choice::Lean(AbsPath::resolve(&self.cwd, path)),
        }
    }

    /// The wish as an option of the daemon.
    #[must_use]
    pub fn choice_text(&self) -> String {
        match self.choice() {
            Choice::Auto => "auto".to_owned(),
            Choice::Embedded => "embedded".to_owned(),
            Choice::Lean(path) => path.to_string(),
        }
    }

    /// Whether nothing may be built: `--no-build`, or `BEAM_BUILD=never`.
    pub fn no_build(&self) -> Result<bool, CliError> {
        match self.env.var_os("BEAM_BUILD") {
            _ if self.globals.no_build => Ok(true),
            None => Ok(false),
            Some(word) if word == "never" => Ok(true),
            Some(word) if word == "auto" || word.is_empty() => Ok(false),
            // A misspelt `never` must not build.
            Some(word) => {
                Err(CliError::Value(format!("BEAM_BUILD must be never or auto, not {:?}", word.display().to_string())))
            }
        }
    }

    /// The daemon that a command in this project wants.
    pub fn wanted(&self, root: &AbsPath) -> Result<Wanted, CliError> {
        let program = std::env::current_exe()
            .map_err(|e| e.to_string())
            .and_then(|p| AbsPath::new(p).map_err(|e| e.to_string()))
            .map_err(|e| CliError::Value(format!("cannot find this program's own file: {e}")))?;
        let config_hash = start::config_hash(root, VERSION, &identity(&program), &self.settings_key(root)?);
        let idle = self.globals.idle.unwrap_or(IDLE_SECONDS);
        let mut args: Vec<std::ffi::OsString> = vec!["daemon".into()];
        let mut option = |name: &str, value: std::ffi::OsString| args.extend([name.into(), value]);
        option("--root", root.as_path().into());
        option("--workspace-id", WORKSPACE.into());
        option("--config-hash", config_hash.clone().into());
        option("--idle", idle.to_string().into());
        option("--toolchain", self.choice_text().into());
        let no_build = self.no_build()?;
        if let Some(port) = self.globals.port {
            option("--port", port.to_string().into());
        }
        if let Some(base) = self.env.var("BEAM_CONTROL_DIR") {
            // The daemon lives in the root: a relative path would mean another place there.
            option("--control-dir", AbsPath::resolve(&self.cwd, base).as_path().into());
        }
        if no_build {
            args.push("--no-build".into());
        }
        Ok(Wanted {
            workspace_id: WORKSPACE.to_owned(),
            config_hash,
            port: self.globals.port,
            program,
            args,
            env_remove: PERSONAL.iter().map(Into::into).collect(),
        })
    }

    /// Everything that decides on the toolchain and its use, and costs next to nothing to read: this is asked on every command.
    fn settings_key(&self, root: &AbsPath) -> Result<String, CliError> {
        let file = std::fs::read(root.join("lean-toolchain")).unwrap_or_default();
        let store = Store::open(&self.env).map(|s| s.home().to_string()).unwrap_or_default();
        let pinned = self.env.var("ELAN_TOOLCHAIN").unwrap_or_default();
        let build = if self.no_build()? { "never" } else { "auto" };
        Ok(format!("{}\0{}\0{store}\0{pinned}\0{build}", self.choice_text(), blake3::hash(&file).to_hex()))
    }
}

/// A program's path and what changes when it is built anew: a daemon of an older build is replaced.
fn identity(program: &AbsPath) -> String {
    use std::os::unix::fs::MetadataExt;
    match std::fs::metadata(program) {
        Ok(m) => format!("{program} {} {} {}", m.len(), m.mtime(), m.mtime_nsec()),
        Err(_) => program.to_string(),
    }
}
