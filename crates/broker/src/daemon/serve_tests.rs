//! The daemon in this process, over real sockets in temporary projects.

use std::fs;

use beam_wire::Request;
use beam_wire::control::Shutdown;
use beam_wire::stats::ReadStats;
use tokio::task::JoinHandle;

use super::super::client::{self, ClientError, Endpoint};
use super::super::control::HostPaths;
use super::super::probe::{self, Probe, endpoint};
use super::super::testing::{Fake, project, run_at};
use super::super::{lease::Lease, process, stop};
use super::*;

fn config(control: &Control) -> Config {
    Config {
        control: control.clone(),
        workspace_id: "w".into(),
        config_hash: "0123456789abcdef0123".into(),
        version: "0".into(),
        toolchain: None,
        daemon_bin: None,
        port: None,
        idle: None,
        limits: Limits::default(),
    }
}

type Running = JoinHandle<Result<Stopped, ServeError>>;

/// A daemon that has registered.
async fn start(config: Config) -> (Fake, Registry, Running) {
    let service = Fake::new(config.control.root());
    let (tx, rx) = tokio::sync::oneshot::channel();
    let copy = service.clone();
    let task = tokio::spawn(serve(config, copy, move |r| {
        let _listening = tx.send(r.clone());
    }));
    (service, rx.await.expect("the daemon starts"), task)
}

fn stats(control: &Control) -> Request {
    let mut request = Request::new(ReadStats {});
    request.workspace_id = Some("w".into());
    request.root = Some(control.root().to_string());
    request
}

async fn ask(registry: &Registry, request: &Request) -> String {
    match client::call(&endpoint(registry), request).await {
        Ok(r) => match r.outcome {
            Ok(value) => value.to_string(),
            Err(e) => e.message,
        },
        Err(e) => format!("{e:?}"),
    }
}

#[tokio::test]
async fn d4_the_socket_and_its_folder_are_private() {
    let (_keep, control) = project();
    let (_service, registry, _task) = start(config(&control)).await;
    let mode = |p: &AbsPath| fs::metadata(p).unwrap().mode() & 0o777;
    assert_eq!(mode(&registry.socket), 0o600);
    assert_eq!(mode(&registry.socket.parent().unwrap()), 0o700);
    assert!(!may_enter(1000, 1001) && !may_enter(0, 1000) && may_enter(1000, 1000));
}

/// Slow requests keep nobody waiting, and a panic costs one request.
#[tokio::test]
async fn r5_two_clients_do_not_disturb_each_other() {
    let (_keep, control) = project();
    let (service, registry, _task) = start(config(&control)).await;
    let slow = {
        let r = registry.clone();
        tokio::spawn(async move { ask(&r, &run_at("gate")).await })
    };
    service.active(1).await;
    assert_eq!(ask(&registry, &run_at("ok")).await, r#"{"did":"ok"}"#);
    assert_eq!(ask(&registry, &run_at("panic")).await, "Closed");
    assert_eq!(ask(&registry, &run_at("ok")).await, r#"{"did":"ok"}"#);
    service.open_gate();
    assert_eq!(slow.await.unwrap(), r#"{"did":"gate"}"#);
}

/// The answer to `shutdown` goes out, running requests end, nothing is left behind.
#[tokio::test]
async fn r7_shutdown_answers_drains_and_leaves_nothing() {
    let (_keep, control) = project();
    let (service, registry, task) = start(config(&control)).await;
    let running = {
        let r = registry.clone();
        tokio::spawn(async move { ask(&r, &run_at("hang")).await })
    };
    service.active(1).await;
    assert_eq!(ask(&registry, &Request::new(Shutdown {})).await, r#"{"shutdown":true}"#);
    assert_eq!(running.await.unwrap(), "drained");
    assert_eq!(task.await.unwrap().unwrap(), Stopped::Asked);
    assert!(service.drained() && !registry.socket.exists() && !control.registry_path().exists());
    let error = client::call(&endpoint(&registry), &stats(&control)).await.unwrap_err();
    assert!(matches!(error, ClientError::NotListening(_)), "{error}");
}

/// A daemon whose project is removed, or replaced by another directory of that name, ends by itself.
#[tokio::test]
async fn a_removed_or_replaced_root_ends_the_daemon() {
    for replaced in [false, true] {
        let base = tempfile::tempdir().unwrap();
        let root = AbsPath::canonical(base.path()).unwrap().join("proj");
        fs::create_dir(&root).unwrap();
        let control = Control::locate(&root, &HostPaths::default());
        control.create().unwrap();
        let (_service, _registry, task) = start(config(&control)).await;
        fs::rename(&root, base.path().join("moved")).unwrap();
        if replaced {
            fs::create_dir(&root).unwrap();
        }
        assert_eq!(task.await.unwrap().unwrap(), Stopped::RootGone);
    }
}

#[tokio::test]
async fn an_unregistered_daemon_ends_when_it_is_quiet() {
    let (_keep, control) = project();
    let (service, registry, task) = start(config(&control)).await;
    let running = {
        let r = registry.clone();
        tokio::spawn(async move { ask(&r, &run_at("gate")).await })
    };
    service.active(1).await;
    let mut other = registry.clone();
    other.daemon_id = "another-1".into();
    other.write(&control).unwrap();
    tokio::time::sleep(POLL * 2).await;
    assert!(!task.is_finished(), "it served somebody");
    service.open_gate();
    assert_eq!(running.await.unwrap(), r#"{"did":"gate"}"#);
    assert_eq!(task.await.unwrap().unwrap(), Stopped::Unregistered);
    assert_eq!(Registry::read(&control), Some(other), "the other's entry is not its to remove");
}

#[tokio::test]
async fn idleness_ends_the_daemon_unless_somebody_holds_a_lease() {
    let (_keep, control) = project();
    let mut idle = config(&control);
    idle.idle = Some(Duration::from_millis(100));
    let lease = Lease::take(&control, true).unwrap();
    let (_service, _registry, task) = start(idle).await;
    tokio::time::sleep(POLL * 3).await;
    assert!(!task.is_finished());
    drop(lease);
    assert_eq!(task.await.unwrap().unwrap(), Stopped::Idle);
    // The lock that kept others from finding a daemon about to end is free again.
    assert!(ControlLock::try_acquire(&control).unwrap().is_some());
}

/// A client that connected just before an idle end is served.
#[tokio::test]
async fn the_last_client_before_an_idle_end_is_served() {
    let (_keep, control) = project();
    let service = Fake::new(control.root());
    let daemon = Daemon::bind(config(&control), service.clone()).await.unwrap();
    let registry = daemon.registry.clone();
    // In the queue of the socket, not accepted.
    let mut late = client::Connection::open(&endpoint(&registry)).await.unwrap();
    let ending = tokio::spawn(daemon.end(Stopped::Idle));
    late.send(&run_at("ok").encode()).await;
    assert!(late.response(|_| {}).await.unwrap().outcome.is_ok());
    ending.await.unwrap();
}

/// R8: what a registry says is believed only if the process behind it answers for this root.
#[tokio::test]
async fn r8_liveness_is_an_answer_for_this_root() {
    let (_keep, control) = project();
    assert!(matches!(probe::probe(&control).await, Probe::Absent));

    // A live pid and nobody behind the socket.
    let mut entry = registry::sample(control.root());
    entry.pid = std::process::id();
    entry.pid_namespace = process::pid_namespace();
    entry.write(&control).unwrap();
    assert!(matches!(probe::probe(&control).await, Probe::Stale(_)));

    // A dead pid and a daemon that answers: the pid may be of another namespace.
    let (_service, registry, _task) = start(config(&control)).await;
    let mut entry = registry.clone();
    entry.pid = 1;
    entry.pid_namespace = Some("pid:[1]".into());
    entry.write(&control).unwrap();
    assert!(matches!(probe::probe(&control).await, Probe::Live(_)));

    // A daemon of another root does not count, and is not stopped in this one's name.
    let (_keep2, other) = project();
    let (_service2, foreign, foreign_task) = start(config(&other)).await;
    let mut entry = foreign.clone();
    entry.root = control.root().clone();
    entry.write(&control).unwrap();
    assert!(matches!(probe::probe(&control).await, Probe::Stale(_)));
    let stopped = stop::shutdown(&control, Duration::from_secs(5)).await.unwrap();
    assert!(matches!(stopped, stop::Stopped::NotFound));
    assert!(!control.registry_path().exists());
    assert!(!foreign_task.is_finished());
    assert_eq!(ask(&foreign, &run_at("ok")).await, r#"{"did":"ok"}"#);
}

#[tokio::test]
async fn stopping_without_a_daemon_leaves_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let root = AbsPath::canonical(dir.path()).unwrap();
    let control = Control::locate(&root, &HostPaths::default());
    let stopped = stop::shutdown(&control, Duration::from_secs(5)).await.unwrap();
    assert!(matches!(stopped, stop::Stopped::NotFound));
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
}

/// D4: TCP only on request, on loopback, with the token that only the registry's reader knows.
#[tokio::test]
async fn d4_loopback_needs_the_token() {
    let (_keep, control) = project();
    let mut with_port = config(&control);
    with_port.port = Some(0);
    let (_service, registry, _task) = start(with_port).await;
    let (port, token) = (registry.port.unwrap(), registry.token.clone().unwrap());
    let at = |token| Endpoint::Tcp { port, token };
    assert!(client::call(&at(token), &stats(&control)).await.unwrap().outcome.is_ok());
    let refused = client::call(&at(Token::from_text("guess")), &stats(&control)).await.unwrap();
    assert!(refused.outcome.unwrap_err().message.contains("token"));

    let (_keep2, other) = project();
    let mut same_port = config(&other);
    same_port.port = Some(port);
    let error = serve(same_port, Fake::new(other.root()), |_| panic!("not ready")).await.unwrap_err();
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
    assert!(!other.registry_path().exists());
}

/// Too long a path for a socket address: a private folder elsewhere. An unsafe one there is refused.
#[tokio::test]
async fn long_roots_get_a_socket_elsewhere() {
    let base = tempfile::tempdir().unwrap();
    let tmp = tempfile::tempdir().unwrap();
    let root = AbsPath::canonical(base.path()).unwrap().join("x".repeat(120));
    fs::create_dir(&root).unwrap();
    let runtime = AbsPath::canonical(tmp.path()).unwrap();
    let host = HostPaths { runtime_dir: Some(runtime.clone()), ..HostPaths::default() };
    let control = Control::locate(&root, &host);
    control.create().unwrap();
    let (_service, registry, task) = start(config(&control)).await;
    assert!(registry.socket.as_path().starts_with(&runtime), "{}", registry.socket);
    assert_eq!(ask(&registry, &run_at("ok")).await, r#"{"did":"ok"}"#);
    task.abort();

    let planted = runtime.join(format!("lean-beam-{}", our_uid()));
    fs::remove_dir_all(&planted).unwrap();
    std::os::unix::fs::symlink(base.path(), &planted).unwrap();
    let error = serve(config(&control), Fake::new(&root), |_| panic!("not ready")).await.unwrap_err();
    assert!(error.to_string().contains("refusing to use"), "{error}");
}

/// Sockets of killed daemons are swept at the next start, live ones are not.
#[tokio::test]
async fn stale_sockets_are_swept() {
    let (_keep, control) = project();
    let (_service, live, _task) = start(config(&control)).await;
    let folder = live.socket.parent().unwrap();
    let dead = folder.join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    let (_service2, second, _task2) = start(config(&control)).await;
    assert!(!dead.exists());
    assert!(live.socket.exists() && second.socket.exists() && live.socket != second.socket);
}
