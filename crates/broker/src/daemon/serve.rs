//! The daemon itself: binds, registers, accepts, and knows when to end.
//!
//! It ends when it is asked to, on a signal, when its root is gone or was replaced, when nobody has asked anything for long,
//! and when its registry no longer names it (then no client can find it). R7 is [`Daemon::end`].

#![allow(clippy::disallowed_methods, reason = "the daemon does this on blocking threads, or when it ends")]

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use beam_base::guarded::our_uid;
use beam_base::{AbsPath, CancelToken};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::control::{Control, ControlError, SocketFolder};
use super::lock::ControlLock;
use super::process::pid_namespace;
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
    /// Places of those who are told that there is no room: telling takes a moment, and must not be without bound either.
    refusals: Arc<Semaphore>,
    /// Places of TCP connections that have not shown the token.
    strangers: Arc<Semaphore>,
    wrong_tokens: Arc<AtomicU64>,
    root_lost: CancelToken,
    root_identity: (u64, u64),
    /// Metadata of the registry as last read, so that the poll reads it only when it changed.
    registry_stamp: Stamp,
    idle_lock: Option<ControlLock>,
    signals: [Signal; 3],
}

type Stamp = Option<(u64, i64, i64, i64)>;

/// What a look around has seen.
struct Surroundings {
    root_is_there: bool,
    stamp: Stamp,
    /// Whether clients find this daemon.
    named: bool,
    /// The control lock, if idleness may end the daemon.
    idle: Option<ControlLock>,
}

/// Runs what may wait for a file system where it keeps nobody waiting.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
        // Not aborted by us: the runtime ends, and with it whoever waits here.
        Err(_) => std::future::pending().await,
    }
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
        let looked_at = root.clone();
        let root_identity = blocking(move || identity(&looked_at))
            .await
            .map_err(|source| ServeError::Root { root: root.clone(), source })?;
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
        let control = config.control.clone();
        let (socket, unix) = blocking(move || listen(&control.socket_folders())).await?;
        let unix = UnixListener::from_std(unix)?;
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
        let (control, entry) = (config.control.clone(), registry.clone());
        let registry_stamp = blocking(move || {
            entry.write(&control).map(|()| registry::stamp(&control)).inspect_err(|_| {
                let _never_found = std::fs::remove_file(&entry.socket);
            })
        })
        .await
        .map_err(|source| ServeError::Registry { path: config.control.registry_path(), source })?;
        Ok(Self {
            registry_stamp,
            room: Arc::new(Semaphore::new(config.limits.connections)),
            refusals: Arc::new(Semaphore::new(config.limits.connections)),
            strangers: Arc::new(Semaphore::new(config.limits.strangers)),
            wrong_tokens: Arc::default(),
            root_lost: CancelToken::new(),
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

    /// The loop: one closed set of things that can happen. Nothing in it waits for a file system: looking around is done on a thread of
    /// its own, and one that hangs there keeps nobody from being served.
    async fn accept(&mut self) -> Stopped {
        let service = self.service.clone();
        let asked = service.shutdown_asked();
        let mut asked = std::pin::pin!(asked);
        let mut poll = tokio::time::interval(POLL);
        poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut looking: Option<JoinHandle<Surroundings>> = None;
        loop {
            let looked = async {
                match &mut looking {
                    Some(looking) => looking.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut asked => return Stopped::Asked,
                () = any(&mut self.signals) => return Stopped::Signal,
                arrived = next(&self.unix, self.tcp.as_ref()) => self.admit(arrived).await,
                // Reaps ended connections, so that the set does not grow.
                Some(ended) = self.connections.join_next(), if !self.connections.is_empty() => note_panic(ended),
                looked = looked => {
                    looking = None;
                    match looked {
                        Ok(surroundings) => if let Some(why) = self.judge(surroundings) { return why },
                        Err(e) => tracing::error!("cannot look around: {e}"),
                    }
                }
                _ = poll.tick() => if looking.is_none() { looking = Some(self.look_around()) },
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
        match arrived {
            Arrived::Unix(io) => self.admit_client(io),
            Arrived::Tcp(io, token) => self.admit_stranger(io, token),
        }
    }

    fn admit_client(&mut self, io: UnixStream) {
        let service = self.service.clone();
        let limits = self.config.limits;
        let root_lost = self.root_lost.clone();
        let uid = io.peer_cred().map(|c| c.uid());
        let known = matches!(uid, Ok(uid) if may_enter(uid, our_uid()));
        match Arc::clone(&self.room).try_acquire_owned() {
            Ok(place) if known => {
                self.connections.spawn(async move {
                    let ended = listener::connection(io, Gate::Open(place), &service, &limits, &root_lost).await;
                    tracing::debug!(?ended, "connection");
                });
            }
            // Without a place even for a refusal the connection is closed, and the client asks again.
            other => {
                if let Ok(held) = Arc::clone(&self.refusals).try_acquire_owned() {
                    drop(other);
                    self.connections.spawn(async move {
                        let _held = held;
                        let ended = match known {
                            true => listener::busy(io, &limits).await,
                            false => listener::foreign(io, uid.ok(), &limits).await,
                        };
                        tracing::debug!(?ended, "connection");
                    });
                }
            }
        }
    }

    /// Anybody on this machine can connect to the port: who has not shown the token takes no client's place.
    fn admit_stranger(&mut self, io: TcpStream, token: Token) {
        let Ok(waiting) = Arc::clone(&self.strangers).try_acquire_owned() else {
            tracing::debug!(
                "a TCP connection was closed: {} others have not shown the token",
                self.config.limits.strangers
            );
            return;
        };
        let _only_slower = io.set_nodelay(true);
        let gate = Gate::Token { token, waiting, room: Arc::clone(&self.room) };
        let service = self.service.clone();
        let limits = self.config.limits;
        let (root_lost, wrong) = (self.root_lost.clone(), Arc::clone(&self.wrong_tokens));
        self.connections.spawn(async move {
            let ended = listener::connection(io, gate, &service, &limits, &root_lost).await;
            if ended == listener::Ended::WrongToken {
                let count = wrong.fetch_add(1, Ordering::Relaxed) + 1;
                // The log must not grow with the patience of whoever guesses.
                if count.is_power_of_two() {
                    tracing::warn!("TCP connections without the right token so far: {count}");
                }
            }
            tracing::debug!(?ended, "connection");
        });
    }

    /// Looks at everything that nobody tells us about.
    fn look_around(&self) -> JoinHandle<Surroundings> {
        let control = self.config.control.clone();
        let registry = self.registry.clone();
        let (before, root) = (self.registry_stamp, self.root_identity);
        let idle = self.is_due();
        tokio::task::spawn_blocking(move || {
            let stamp = registry::stamp(&control);
            let named = stamp.is_some()
                && (stamp == before || Registry::read(&control).is_some_and(|r| r.is_same_daemon(&registry)));
            Surroundings {
                root_is_there: identity(control.root()).ok() == Some(root),
                stamp,
                named,
                // Nobody holds a lease, and nobody is starting or stopping anything.
                idle: match idle && !lease::any_live(&control) {
                    true => ControlLock::try_acquire(&control).ok().flatten(),
                    false => None,
                },
            }
        })
    }

    /// Reasons to end that nobody tells us.
    fn judge(&mut self, seen: Surroundings) -> Option<Stopped> {
        if !seen.root_is_there {
            return Some(Stopped::RootGone);
        }
        if seen.named {
            self.registry_stamp = seen.stamp;
        } else if self.quiet() {
            return Some(Stopped::Unregistered);
        }
        // Somebody may have come while we looked. If not, the lock is kept until no client can find us any more.
        if seen.idle.is_some() && self.is_due() {
            self.idle_lock = seen.idle;
            return Some(Stopped::Idle);
        }
        None
    }

    fn quiet(&self) -> bool {
        self.connections.is_empty() && self.service.active_requests() == 0
    }

    /// Idle for long enough.
    fn is_due(&self) -> bool {
        self.config.idle.is_some_and(|limit| self.quiet() && self.service.last_activity().elapsed() >= limit)
    }

    /// R7: not to be found, no new connections, cancel, drain to a deadline, end.
    async fn end(mut self, why: Stopped) {
        if why == Stopped::RootGone {
            self.root_lost.cancel();
        }
        let (control, registry) = (self.config.control.clone(), self.registry.clone());
        let unregister = blocking(move || {
            registry.remove(&control);
            let _already_gone = std::fs::remove_file(&registry.socket);
        });
        // A file system that hangs keeps the entry, not the process.
        let _left_as_stale = timeout(GRACE, unregister).await;
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
fn listen(folders: &[SocketFolder]) -> Result<(AbsPath, std::os::unix::net::UnixListener), ServeError> {
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

fn bind(path: &AbsPath) -> io::Result<std::os::unix::net::UnixListener> {
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
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
