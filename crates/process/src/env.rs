//! The process environment, read once.
//!
//! Everything here and in the crates above that depends on an environment variable takes a [`HostEnv`]; nothing else asks the process.
//! So tests build an environment by hand, and a daemon can serve a client with the client's environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use beam_base::AbsPath;

use crate::stop::StopFlag;

/// Environment variables captured once.
#[derive(Debug, Clone, Default)]
pub struct HostEnv {
    vars: BTreeMap<OsString, OsString>,
    /// Shared by all that was made from this one.
    ending: StopFlag,
    /// Of whoever waits for what runs in this one, if they want to be able to stop it.
    stops: Vec<StopFlag>,
}

impl HostEnv {
    /// The environment of this process, now.
    #[must_use]
    pub fn capture() -> Self {
        Self::from_vars(std::env::vars_os())
    }

    /// An environment of exactly these variables.
    pub fn from_vars<K, V>(vars: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        let vars = vars.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        Self { vars, ending: StopFlag::default(), stops: Vec::new() }
    }

    /// Ends every short-lived child that runs in this environment or one made from it, and every one that is started from now on: for a
    /// process that is about to go. Blocking work cannot be aborted, but what it waits for can be killed.
    pub fn end_children(&self) {
        self.ending.raise();
    }

    /// The same environment, in which children end as soon as `stop` is raised, too: for work that consists of several children and of
    /// waiting between them, and that nobody may want any more.
    #[must_use]
    pub fn stopped_by(mut self, stop: StopFlag) -> Self {
        self.stops.push(stop);
        self
    }

    /// Whether children must end, and work that would start others with them.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.ending.is_raised() || self.stops.iter().any(StopFlag::is_raised)
    }

    /// The same environment with one variable more, or another value of it.
    #[must_use]
    pub fn with(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.vars.insert(key.into(), value.into());
        self
    }

    /// The same environment without a variable.
    #[must_use]
    pub fn without(mut self, key: impl AsRef<OsStr>) -> Self {
        self.vars.remove(key.as_ref());
        self
    }

    /// A variable's value; `None` when unset, empty, or not UTF-8.
    #[must_use]
    pub fn var(&self, key: &str) -> Option<&str> {
        self.var_os(key)?.to_str()
    }

    /// A variable's value as the system holds it; `None` when unset or empty.
    #[must_use]
    pub fn var_os(&self, key: &str) -> Option<&OsStr> {
        self.vars.get(OsStr::new(key)).map(OsString::as_os_str).filter(|v| !v.is_empty())
    }

    /// All variables, for a child process.
    pub fn vars(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.vars.iter().map(|(k, v)| (k.as_os_str(), v.as_os_str()))
    }

    /// The first executable file of that name in `PATH`. Relative entries of `PATH` are skipped: what they mean would depend on
    /// the directory a daemon happens to run in.
    #[must_use]
    pub fn find_in_path(&self, exe: &str) -> Option<AbsPath> {
        let path = self.var_os("PATH")?;
        std::env::split_paths(path)
            .filter_map(|dir| AbsPath::new(dir).ok())
            .map(|dir| dir.join(exe))
            .find(|file| is_executable(file))
    }

    /// The user's home folder (`HOME`).
    #[must_use]
    pub fn home(&self) -> Option<AbsPath> {
        AbsPath::new(self.var_os("HOME")?).ok()
    }

    /// elan's folder: `ELAN_HOME`, else `~/.elan`.
    #[must_use]
    pub fn elan_home(&self) -> Option<AbsPath> {
        match self.var_os("ELAN_HOME") {
            Some(dir) => AbsPath::new(dir).ok(),
            None => self.home().map(|h| h.join(".elan")),
        }
    }
}

/// Whether the path leads to a file that somebody may execute.
#[must_use]
pub fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_look_up_wants_an_executable_file_in_an_absolute_folder() {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::create_dir(bin.join("folder")).unwrap();
        std::fs::write(bin.join("data"), "x").unwrap();
        std::fs::write(bin.join("tool"), "x").unwrap();
        std::fs::set_permissions(bin.join("tool"), PermissionsExt::from_mode(0o755)).unwrap();
        let path = format!("relative:{}", bin.display());
        let env = HostEnv::from_vars([("PATH", path.as_str()), ("EMPTY", "")]);
        assert_eq!(env.find_in_path("tool").unwrap().as_path(), bin.join("tool"));
        assert_eq!(env.find_in_path("data"), None);
        assert_eq!(env.find_in_path("folder"), None);
        assert_eq!(env.find_in_path("absent"), None);
        assert_eq!(env.var("EMPTY"), None);
    }
}
