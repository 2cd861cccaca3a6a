//! How a command ends: every local failure, classified once, and the exit code of every ending (C2).

use std::io;
use std::path::PathBuf;

use beam_broker::daemon::lock::LockError;
use beam_broker::daemon::serve::ServeError;
use beam_broker::daemon::start::StartError;
use beam_broker::daemon::stop::StopError;
use beam_broker::daemon::{ClientError, ControlError};
use beam_toolchain::root::RootError;
use beam_toolchain::support::RegistryError;
use beam_toolchain::{ExtensionError, ResolveError, StoreError};

#[cfg(feature = "embedded")]
pub use beam_embedded::InstallError;

/// Why nothing was installed.
#[cfg(not(feature = "embedded"))]
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// This program cannot.
    #[error(
        "this lean-beam was built without the installer of the embedded toolchain (cargo feature `embedded`); build it with that feature, or install Lean with elan"
    )]
    LeftOut,
}

/// Why there is no answer. Nothing of this reaches stdout (C1).
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The command line is none, or asks for help: clap's words.
    #[error("{}", .0.render())]
    CommandLine(#[from] clap::Error),
    /// An argument or a variable that means nothing.
    #[error("{0}")]
    Value(String),
    /// A text, handle or request that cannot be read.
    #[error("cannot read {what}: {source}")]
    Input {
        /// From where.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// `--root` leads nowhere.
    #[error("the workspace root does not resolve: {}: {source}", .path.display())]
    RootDoesNotResolve {
        /// As given.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No project.
    #[error(transparent)]
    Root(RootError),
    /// The control directory.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The control lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A daemon that could not be stopped.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// No Lean.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// No extension.
    #[error(transparent)]
    Extension(#[from] ExtensionError),
    /// The embedded toolchain was not installed.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The lists of toolchains.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// No daemon could be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The daemon failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// No daemon runs, and the command starts none.
    #[error("no live daemon is registered for {root}{}", fact_lines(.facts))]
    NoDaemon {
        /// The project.
        root: String,
        /// What is known.
        facts: Vec<String>,
    },
    /// The daemon was lost, or is not understood.
    #[error("{error}{}", fact_lines(.facts))]
    Client {
        /// What happened.
        error: ClientError,
        /// What is known.
        facts: Vec<String>,
    },
    /// The quick start did not go as it should.
    #[error("{0}")]
    Quickstart(String),
    /// The MCP server's self-check failed.
    #[error(transparent)]
    SelfCheck(#[from] Box<beam_mcp::self_check::Failed>),
    /// The answer could not be written.
    #[error("cannot write to standard output: {0}")]
    Stdout(io::Error),
    /// The system refuses something basic.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Interrupted a second time, without waiting for the daemon.
    #[error("interrupted; the request is cancelled with its connection")]
    Interrupted,
}

fn fact_lines(lines: &[String]) -> String {
    lines.iter().map(|l| format!("\n  {l}")).collect()
}

impl From<RootError> for CliError {
    fn from(e: RootError) -> Self {
        match e {
            RootError::Unusable { path, source } => Self::RootDoesNotResolve { path, source },
            other @ (RootError::NotInferred { .. } | RootError::NotAFolder(_) | RootError::NoMarker(_)) => {
                Self::Root(other)
            }
        }
    }
}

/// How a command that got as far as having something to say ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The question was answered, or what was asked for was done.
    Done,
    /// An answer with `ok:false` was printed.
    Refused,
}

/// The exit code of a command (C2): the only place where one is chosen.
#[must_use]
pub fn exit_code(outcome: &Result<Ending, CliError>) -> u8 {
    match outcome {
        Ok(Ending::Done) => 0,
        Ok(Ending::Refused) => 1,
        Err(error) => match error {
            // Two for a mistake, none for help that was asked for.
            CliError::CommandLine(e) => u8::try_from(e.exit_code()).unwrap_or(2),
            CliError::Value(_)
            | CliError::Input { .. }
            | CliError::RootDoesNotResolve { .. }
            | CliError::Root(_)
            | CliError::Control(_)
            | CliError::Lock(_)
            | CliError::Stop(_)
            | CliError::Resolve(_)
            | CliError::Extension(_)
            | CliError::Install(_)
            | CliError::Store(_)
            | CliError::Registry(_)
            | CliError::Start(_)
            | CliError::Serve(_)
            | CliError::NoDaemon { .. }
            | CliError::Client { .. }
            | CliError::Quickstart(_)
            | CliError::SelfCheck(_)
            | CliError::Stdout(_)
            | CliError::System { .. } => 1,
            // As a shell reports a process that SIGINT ended.
            CliError::Interrupted => 130,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C2.
    #[test]
    fn c2_exit_codes() {
        assert_eq!(exit_code(&Ok(Ending::Done)), 0);
        assert_eq!(exit_code(&Ok(Ending::Refused)), 1);
        assert_eq!(exit_code(&Err(CliError::Value(String::new()))), 1);
        assert_eq!(exit_code(&Err(CliError::Interrupted)), 130);
    }

    #[test]
    fn facts_follow_the_failure() {
        let e = CliError::NoDaemon { root: "/p".into(), facts: vec!["registry: none".into()] };
        assert_eq!(e.to_string(), "no live daemon is registered for /p\n  registry: none");
    }
}
