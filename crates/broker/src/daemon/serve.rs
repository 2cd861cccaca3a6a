//! The daemon itself: binds, registers, accepts, and knows when to end.
//!
//! It ends when it is asked to, on a signal, when its root is gone or was replaced, when nobody has asked anything for long,
//! and when its registry no longer names it (then no client can find it). R7 is [`Daemon::end`].

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use beam_base::AbsPath;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::control::{Control, ControlError, SocketFolder};
use super::lock::ControlLock;
use super::process::{our_uid, pid_namespace};
use super::registry::{self, Registry, Token};
use super::{Service, clock, lease, listener};
use listener::{Gate, Limits};

/// How often the root and the registry are looked at, and idleness is judged.
const POLL: Duration = Duration::from_millis(250);
/// What running requests get when the daemon ends. A client that asked for the shutdown waits two seconds in all.
const GRACE: Duration = Duration::from_secs(1);
/// What connections get after that to take their last words.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What a daemon is started with.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its control directory, made already.
    pub control: Control,
    /// The workspace that clients ask about.
    pub workspace_id: String,
    /// See [`super::start::config_hash`].
    pub config_hash: String,
    /// Product version.
    pub version: String,
    /// Toolchain choice, for the registry.
    pub toolchain: Option<String>,
    /// Executable, for the registry.
    pub daemon_bin: Option<AbsPath>,
    /// Loopback TCP as well; 0 for any free port.
    pub port: Option<u16>,
    /// Ends after so long without a request; never if absent.
    pub idle: Option<Duration>,
    /// What connections may cost.
    pub limits: Limits,
}

/// Why a daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No place for the socket.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The port cannot be had.
    #[error("cannot listen on 127.0.0.1:{port}: {source}")]
    Port {
        /// As asked for.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// The project is gone.
    #[error("cannot look at the root {root}: {source}")]
    Root {
        /// The root.
        root: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// The registry cannot be written.
    #[error("cannot write the registry {path}: {source}")]
    Registry {
        /// The file.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// Signals, random numbers.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// Why a daemon ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// `shutdown` was asked.
    Asked,
    /// SIGTERM, SIGINT or SIGHUP.
    Signal,
    /// The root is gone, or is another directory now.
    RootGone,
    /// Nobody asked anything for long.
    Idle,
    /// The registry names another daemon, or is gone.
    Unregistered,
}

/// Serves until there is a reason to stop. `ready` is called when clients can find the daemon.
pub async fn serve<S: Service>(
    config: Config,
    service: S,
    ready: impl FnOnce(&Registry),
) -> Result<Stopped, ServeError> {
    let mut daemon = Daemon::bind(config, service).await?;
    ready(&daemon.registry);
    let why = daemon.accept().await;
    tracing::info!(?why, "the daemon ends");
    daemon.end(why).await;
    Ok(why)
}

struct Daemon<S> {
    config: Config,
    service: S,
    registry: Registry,
    unix: UnixListener,
    tcp: Option<(TcpListener, Token)>,
    connections: JoinSet<()>,
    room: Arc<Semaphore>,
    root_identity: (u64, u64),
    /// Metadata of the registry as last read, so that the poll reads it only when it changed.
    registry_stamp: Option<(u64, i64, i64, u64)>,
    idle_lock: Option<ControlLock>,
    signals: [Signal; 3],
}

enum Arrived {
    Unix(UnixStream),
    Tcp(TcpStream, Token),
}

impl<S: Service> Daemon<S> {
    /// Listens, then registers: a client that reads the registry finds an open socket.
    async fn bind(config: Config, service: S) -> Result<Self, ServeError> {
        let signals =
            [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?];
        let root = config.control.root().clone();
        let root_identity = identity(&root).map_err(|source| ServeError::Root { root: root.clone(), source })?;
        let tcp = match config.port {
            None => None,
            Some(port) => {
                let bound = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port))
                    .await
                    .map_err(|source| ServeError::Port { port, source })?;
                Some((bound, Token::random()?))
            }
        };
        let pid = std::process::id();
        let (socket, unix) = listen(&config.control.socket_folders())?;
        let short: String = config.config_hash.chars().take(12).collect();
        let port = tcp.as_ref().map(|(l, _)| l.local_addr()).transpose()?.map(|a| a.port());
        let registry = Registry {
            daemon_id: format!("{short}-{pid}"),
            pid,
            pid_namespace: pid_namespace(),
            socket,
            port,
            token: tcp.as_ref().map(|(_, t)| t.clone()),
            root,
            workspace_id: config.workspace_id.clone(),
            config_hash: config.config_hash.clone(),
            version: config.version.clone(),
            toolchain: config.toolchain.clone(),
            daemon_bin: config.daemon_bin.clone(),
            started_at: clock::timestamp(SystemTime::now()),
            requested_port: config.port,
            idle_seconds: config.idle.map(|d| d.as_secs()),
        };
        let path = config.control.registry_path();
        if let Err(source) = registry.write(&config.control) {
            let _never_found = std::fs::remove_file(&registry.socket);
            return Err(ServeError::Registry { path, source });
        }
        Ok(Self {
            registry_stamp: registry::stamp(&path),
            room: Arc::new(Semaphore::new(config.limits.connections)),
            connections: JoinSet::new(),
            idle_lock: None,
            config,
            service,
            registry,
            unix,
            tcp,
            root_identity,
            signals,
        })
    }

    /// The loop: one closed set of things that can happen.
    async fn accept(&mut self) -> Stopped {
        let service = self.service.clone();
        let asked = service.shutdown_asked();
        let mut asked = std::pin::pin!(asked);
        let mut poll = tokio::time::interval(POLL);
        poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = &mut asked => return Stopped::Asked,
                () = any(&mut self.signals) => return Stopped::Signal,
                arrived = next(&self.unix, self.tcp.as_ref()) => self.admit(arrived).await,
                // Reaps ended connections, so that the set does not grow.
                Some(ended) = self.connections.join_next(), if !self.connections.is_empty() => note_panic(ended),
                _ = poll.tick() => if let Some(why) = self.look_around() { return why },
            }
        }
    }

    async fn admit(&mut self, arrived: io::Result<Arrived>) {
        let arrived = match arrived {
            Ok(arrived) => arrived,
            Err(e) => {
                // Out of descriptors, or a connection that was gone before it was accepted. Retried, slowly enough not to spin.
                tracing::warn!("cannot accept: {e}");
                tokio::time::sleep(Duration::from_millis(20)).await;
                return;
            }
        };
        let service = self.service.clone();
        let limits = self.config.limits;
        let room = Arc::clone(&self.room).try_acquire_owned();
        self.connections.spawn(async move {
            let ended = match (arrived, room) {
                (Arrived::Unix(io), Ok(_held)) => match io.peer_cred().map(|c| c.uid()) {
                    Ok(uid) if may_enter(uid, our_uid()) => {
                        listener::connection(io, Gate::Open, &service, &limits).await
                    }
                    other => listener::foreign(io, other.ok(), &limits).await,
                },
                (Arrived::Tcp(io, token), Ok(_held)) => {
                    let _only_slower = io.set_nodelay(true);
                    listener::connection(io, Gate::Token(token), &service, &limits).await
                }
                (Arrived::Unix(io), Err(_)) => listener::busy(io, &limits).await,
                (Arrived::Tcp(io, _), Err(_)) => listener::busy(io, &limits).await,
            };
            tracing::debug!(?ended, "connection");
        });
    }

    /// Reasons to end that nobody tells us.
    fn look_around(&mut self) -> Option<Stopped> {
        if identity(self.config.control.root()).ok() != Some(self.root_identity) {
            return Some(Stopped::RootGone);
        }
        let stamp = registry::stamp(&self.config.control.registry_path());
        let ours = stamp.is_some() && (stamp == self.registry_stamp || self.still_named());
        if ours {
            self.registry_stamp = stamp;
        } else if self.quiet() {
            return Some(Stopped::Unregistered);
        }
        self.is_idle().then_some(Stopped::Idle)
    }

    fn still_named(&self) -> bool {
        Registry::read(&self.config.control).is_some_and(|r| r.daemon_id == self.registry.daemon_id)
    }

    fn quiet(&self) -> bool {
        self.connections.is_empty() && self.service.active_requests() == 0
    }

    /// Idle for long enough, nobody holds a lease, and nobody is starting or stopping anything: the lock is taken here and kept
    /// until no client can find us any more.
    fn is_idle(&mut self) -> bool {
        let Some(limit) = self.config.idle else {
            return false;
        };
        if !self.quiet() || self.service.last_activity().elapsed() < limit || lease::any_live(&self.config.control) {
            return false;
        }
        self.idle_lock = ControlLock::try_acquire(&self.config.control).ok().flatten();
        self.idle_lock.is_some()
    }

    /// R7: not to be found, no new connections, cancel, drain to a deadline, end.
    async fn end(mut self, why: Stopped) {
        self.registry.remove(&self.config.control);
        let _already_gone = std::fs::remove_file(&self.registry.socket);
        if why == Stopped::Idle {
            // Clients that had connected before the socket was gone stand in the queue. They are served: they did nothing wrong.
            while let Ok(arrived) = timeout(Duration::from_millis(10), next(&self.unix, self.tcp.as_ref())).await {
                self.admit(arrived).await;
            }
            drop(self.idle_lock.take());
            while let Some(ended) = self.connections.join_next().await {
                note_panic(ended);
            }
        }
        drop((self.unix, self.tcp));
        self.service.drain(GRACE).await;
        let _aborted_below = timeout(LAST_WORDS, async {
            while let Some(ended) = self.connections.join_next().await {
                note_panic(ended);
            }
        })
        .await;
        self.connections.shutdown().await;
    }
}

/// Whether a peer of user `peer` may speak to a daemon of user `ours`. Root gains nothing by it that it did not have, and
/// loses nothing by being told to run the command as the user.
fn may_enter(peer: u32, ours: u32) -> bool {
    peer == ours
}

async fn any([term, int, hup]: &mut [Signal; 3]) {
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
        _ = hup.recv() => {}
    }
}

async fn next(unix: &UnixListener, tcp: Option<&(TcpListener, Token)>) -> io::Result<Arrived> {
    let from_tcp = async {
        match tcp {
            Some((listener, token)) => listener.accept().await.map(|(io, _)| Arrived::Tcp(io, token.clone())),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        io = unix.accept() => io.map(|(io, _)| Arrived::Unix(io)),
        io = from_tcp => io,
    }
}

fn note_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(e) = ended
        && e.is_panic()
    {
        tracing::error!("a connection panicked: {e}");
    }
}

fn identity(root: &AbsPath) -> io::Result<(u64, u64)> {
    let meta = std::fs::metadata(root)?;
    if meta.is_dir() { Ok((meta.dev(), meta.ino())) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// Binds in the first folder that takes a socket. A folder that is not safe is refused outright: somebody put it there.
fn listen(folders: &[SocketFolder]) -> Result<(AbsPath, UnixListener), ServeError> {
    // Not the pid: daemons of two pid namespaces may share it and the folder. The name is short, as socket addresses are.
    let seed = format!("{} {}", std::process::id(), clock::nanos());
    let name = format!("{}.sock", &blake3::hash(seed.as_bytes()).to_hex()[..8]);
    let mut why = Vec::new();
    for folder in folders {
        let Some(path) = folder.socket(&name) else {
            why.push(format!("the path of a socket in {} would be too long", folder.path));
            continue;
        };
        match folder.secure() {
            Ok(()) => {}
            Err(unsafe_folder @ ControlError::Unsafe { .. }) => return Err(unsafe_folder.into()),
            Err(e) => {
                why.push(e.to_string());
                continue;
            }
        }
        sweep(&folder.path);
        match bind(&path) {
            Ok(listener) => return Ok((path, listener)),
            // Some file systems have no sockets.
            Err(e) => why.push(format!("{path}: {e}")),
        }
    }
    Err(ControlError::NoSocketFolder(why.join("; ")).into())
}

fn bind(path: &AbsPath) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    // The folder is private already; this is the second door.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Removes sockets on which nobody listens: those of daemons that were killed.
fn sweep(folder: &AbsPath) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for path in entries.filter_map(Result::ok).map(|e| e.path()) {
        if path.extension().is_some_and(|x| x == "sock") && is_dead(&path) {
            let _somebody_else_did = std::fs::remove_file(path);
        }
    }
}

fn is_dead(path: impl AsRef<std::path::Path>) -> bool {
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => false,
        Err(e) => e.kind() == io::ErrorKind::ConnectionRefused,
    }
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
