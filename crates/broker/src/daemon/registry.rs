//! The registry file: how a client finds the daemon of its project.
//!
//! A registry is a hint. Whether its daemon lives is decided by asking it (R8).

#![allow(
    clippy::disallowed_methods,
    reason = "called by commands before they ask, and by the daemon on blocking threads"
)]

use std::fmt;
use std::fs::{self, TryLockError};
use std::io;
use std::time::{Duration, Instant};

use beam_base::AbsPath;
use beam_base::guarded::{Access, Folder, GuardError};
use serde::{Deserialize, Serialize};

use super::control::{Control, REGISTRY, SMALL};

/// The secret that a client on loopback TCP shows. Never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token(String);

impl Token {
    /// 256 bits from the system's generator, in hex.
    pub fn random() -> io::Result<Self> {
        beam_base::random::token::<32>().map(Self)
    }

    /// A token that was handed over.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// What goes over the wire.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether these bytes are the token. Hashes are compared, in constant time, so that timing says nothing.
    #[must_use]
    pub fn matches(&self, shown: &[u8]) -> bool {
        blake3::hash(self.0.as_bytes()) == blake3::hash(shown)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// A running daemon's entry. Unknown fields are skipped: an older client must be able to replace a newer daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registry {
    /// First 12 characters of the config hash, a dash, the pid.
    pub daemon_id: String,
    /// Of the daemon, in its namespace.
    pub pid: u32,
    /// The namespace of that pid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<String>,
    /// Where it listens.
    pub socket: AbsPath,
    /// Loopback TCP, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// What a TCP client must show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// Canonical project root.
    pub root: AbsPath,
    /// The workspace it was started with.
    pub workspace_id: String,
    /// What it was configured as; see [`super::start::config_hash`].
    pub config_hash: String,
    /// Product version.
    pub version: String,
    /// Toolchain choice it was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolchain: Option<String>,
    /// The executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon_bin: Option<AbsPath>,
    /// `YYYY-MM-DDTHH:MM:SSZ`
    pub started_at: String,
    /// `--port`, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_port: Option<u16>,
    /// Seconds without a request after which it ends; absent for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<u64>,
}

impl Registry {
    /// The entry of a control directory; `None` when there is none or it is no entry (then nothing can be found by it).
    #[must_use]
    pub fn read(control: &Control) -> Option<Self> {
        Self::look(control).ok().flatten()
    }

    /// The same, and why what lies there is not even read.
    pub fn look(control: &Control) -> Result<Option<Self>, GuardError> {
        match control.folder().and_then(|folder| folder.read(REGISTRY, SMALL)) {
            Ok(body) => Ok(serde_json::from_slice(&body).ok()),
            Err(e) if e.is_missing() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Publishes the entry in one step.
    pub fn write(&self, control: &Control) -> io::Result<()> {
        let mut body = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        body.push(b'\n');
        let folder = control.folder().map_err(GuardError::into_io)?;
        let _held = Guard::take(&folder)?;
        folder.replace(REGISTRY, &body)
    }

    /// Takes the entry away if it is still this very daemon's.
    ///
    /// All of the entry is compared: two daemons of two pid namespaces can share configuration and pid, and so the id. Comparing and
    /// removing are one act for whoever writes an entry, since both hold [`Guard`]: a successor's entry cannot come in between.
    pub fn remove(&self, control: &Control) {
        let Ok(folder) = control.folder() else {
            return;
        };
        // Without the lock the entry stays. It is then stale, which costs the next command a look; a wrong removal costs a daemon.
        let Ok(_held) = Guard::take(&folder) else {
            return;
        };
        if Self::read(control).as_ref() == Some(self) {
            let _already_gone = folder.remove(REGISTRY);
        }
    }

    /// Whether both entries are of one daemon, whatever else they say.
    #[must_use]
    pub fn is_same_daemon(&self, other: &Self) -> bool {
        (&self.daemon_id, &self.socket, &self.started_at) == (&other.daemon_id, &other.socket, &other.started_at)
    }

    /// As JSON for people and reports: without the token.
    #[must_use]
    pub fn redacted(&self) -> serde_json::Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(token) = value.get_mut("token") {
            *token = "(hidden)".into();
        }
        value
    }

    /// `unix:PATH`, and the TCP address where there is one.
    #[must_use]
    pub fn endpoint_text(&self) -> String {
        let unix = format!("unix:{}", self.socket);
        match self.port {
            Some(port) => format!("{unix} tcp://127.0.0.1:{port}"),
            None => unix,
        }
    }
}

/// Orders every change of the registry file. Not the control lock: a daemon that ends must not wait for whoever starts another.
struct Guard(
    // Holds the lock.
    #[expect(dead_code, reason = "held, not read")] fs::File,
);

impl Guard {
    const NAME: &'static str = "beam-daemon.json.lock";

    /// Held for a few system calls at a time; whoever is stopped while holding it must not stop everybody else.
    fn take(folder: &Folder) -> io::Result<Self> {
        let file = folder.file(Self::NAME, Access::Write).map_err(GuardError::into_io)?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) if began.elapsed() < Duration::from_secs(2) => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::TimedOut.into()),
                Err(TryLockError::Error(e)) => return Err(e),
            }
        }
    }
}

/// Identity of the registry's content as far as metadata tell; changes when it is replaced.
#[must_use]
pub(crate) fn stamp(control: &Control) -> Option<(u64, i64, i64, i64)> {
    use std::os::unix::fs::MetadataExt;
    let m = fs::symlink_metadata(control.registry_path()).ok()?;
    Some((m.ino(), m.mtime(), m.mtime_nsec(), i64::try_from(m.len()).unwrap_or(i64::MAX)))
}

#[cfg(test)]
pub(crate) fn sample(root: &AbsPath) -> Registry {
    Registry {
        daemon_id: "0123456789ab-7".into(),
        pid: 7,
        pid_namespace: Some("pid:[1]".into()),
        socket: root.join(".beam/run/d.sock"),
        port: None,
        token: None,
        root: root.clone(),
        workspace_id: "w".into(),
        config_hash: "0123456789abcdef".into(),
        version: "0.0.0".into(),
        toolchain: None,
        daemon_bin: None,
        started_at: "2026-01-01T00:00:00Z".into(),
        requested_port: None,
        idle_seconds: Some(1800),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::project;
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_file_has_the_promised_keys_and_only_its_owner_reads_it() {
        let (_keep, control) = project();
        let mut r = sample(&AbsPath::new("/p").unwrap());
        r.port = Some(4000);
        r.token = Some(Token::from_text("secret"));
        r.write(&control).unwrap();
        expect_test::expect![[r#"
            {
              "daemonId": "0123456789ab-7",
              "pid": 7,
              "pidNamespace": "pid:[1]",
              "socket": "/p/.beam/run/d.sock",
              "port": 4000,
              "token": "secret",
              "root": "/p",
              "workspaceId": "w",
              "configHash": "0123456789abcdef",
              "version": "0.0.0",
              "startedAt": "2026-01-01T00:00:00Z",
              "idleSeconds": 1800
            }
        "#]]
        .assert_eq(&fs::read_to_string(control.registry_path()).unwrap());
        assert_eq!(fs::metadata(control.registry_path()).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Registry::read(&control), Some(r));
    }

    #[test]
    fn newer_fields_are_skipped_and_rubbish_is_no_entry() {
        let (_keep, control) = project();
        let mut value = serde_json::to_value(sample(control.root())).unwrap();
        value["someday"] = 1.into();
        fs::write(control.registry_path(), value.to_string()).unwrap();
        assert!(Registry::read(&control).is_some());
        fs::write(control.registry_path(), "{").unwrap();
        assert_eq!(Registry::read(&control), None);
    }

    #[test]
    fn only_the_own_entry_is_taken_away() {
        let (_keep, control) = project();
        let ours = sample(control.root());
        let mut other = ours.clone();
        other.daemon_id = "other-8".into();
        other.write(&control).unwrap();
        ours.remove(&control);
        assert!(control.registry_path().exists());
        other.remove(&control);
        assert!(!control.registry_path().exists());
    }

    #[test]
    fn the_token_stays_out_of_reports_and_logs() {
        let mut r = sample(&AbsPath::new("/p").unwrap());
        r.token = Some(Token::from_text("hush"));
        assert!(!r.redacted().to_string().contains("hush"));
        assert!(!format!("{r:?}").contains("hush"));
        let t = Token::random().unwrap();
        assert_eq!(t.expose().len(), 64);
        assert_ne!(t, Token::random().unwrap());
        assert!(t.matches(t.expose().as_bytes()) && !t.matches(b"") && !t.matches(b"x"));
    }

    /// Same configuration, same pid of another namespace: the same id, and yet another daemon.
    #[test]
    fn an_entry_of_the_same_id_is_not_the_own_one() {
        let (_keep, control) = project();
        let ours = sample(control.root());
        let mut successor = ours.clone();
        successor.socket = control.root().join(".beam/run/e.sock");
        successor.write(&control).unwrap();
        ours.remove(&control);
        assert_eq!(Registry::read(&control), Some(successor));
    }

    /// A daemon that ends while its successor registers never takes the successor's entry with it.
    #[test]
    fn a_successors_entry_survives_a_removal_at_the_same_time() {
        let (_keep, control) = project();
        let ours = sample(control.root());
        let mut successor = ours.clone();
        successor.daemon_id = "successor-8".into();
        for _ in 0..500 {
            ours.write(&control).unwrap();
            let together = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    together.wait();
                    ours.remove(&control);
                });
                together.wait();
                successor.write(&control).unwrap();
            });
            assert_eq!(Registry::read(&control).as_ref(), Some(&successor));
        }
    }

    /// Links, FIFOs and endless files in its place are no entry, at once, and a daemon that registers replaces them.
    #[test]
    fn planted_registries_are_neither_followed_nor_waited_for() {
        let (_keep, control) = project();
        let path = control.registry_path();
        let entry = sample(control.root());
        let victim = control.root().join("victim");
        fs::write(&victim, serde_json::to_vec(&entry).unwrap()).unwrap();
        for target in [victim.as_path(), std::path::Path::new("/dev/zero")] {
            std::os::unix::fs::symlink(target, &path).unwrap();
            assert_eq!(Registry::read(&control), None);
            assert!(matches!(Registry::look(&control), Err(GuardError::Link { .. })));
            entry.write(&control).unwrap();
            assert_eq!(Registry::read(&control).as_ref(), Some(&entry));
            fs::remove_file(&path).unwrap();
        }
        assert!(victim.exists());
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        assert!(matches!(Registry::look(&control), Err(GuardError::WrongType { .. })));
        fs::remove_file(&path).unwrap();
        fs::write(&path, vec![b' '; 1 << 20]).unwrap();
        assert!(matches!(Registry::look(&control), Err(GuardError::TooLarge { .. })));
    }
}
