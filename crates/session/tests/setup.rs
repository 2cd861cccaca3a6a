//! What happens before a worker is started: requests wait, edits and closes are heard, and every request still ends once.

mod common;

use std::sync::{Arc, Mutex};

use beam_base::AbsPath;
use beam_session::{BoxFuture, EndStatus, ExitReason, Observation, RequestFailure, Setup, SetupLines, SetupReport};
use common::*;
use serde_json::{Value, json};
use testkit::worker::Exit;
use tokio::sync::{mpsc, oneshot};

/// One preparation, as the test sees it.
struct Work {
    text: String,
    lines: SetupLines,
    done: oneshot::Sender<SetupReport>,
}

/// Lets the test prepare by hand.
struct ByHand(Mutex<mpsc::UnboundedSender<Work>>);

impl Setup for ByHand {
    fn set_up(&self, _path: &AbsPath, text: Arc<str>, lines: SetupLines) -> BoxFuture<'static, SetupReport> {
        let (done, report) = oneshot::channel();
        let work = Work { text: text.to_string(), lines, done };
        self.0.lock().unwrap().send(work).unwrap();
        Box::pin(async move { report.await.expect("the test ends every preparation") })
    }
}

fn harness() -> (Harness, mpsc::UnboundedReceiver<Work>) {
    let (tx, works) = mpsc::unbounded_channel();
    (Harness::with(false, |config| config.setup = Some(Arc::new(ByHand(Mutex::new(tx))))), works)
}

fn report(problem: &str) -> SetupReport {
    SetupReport { problem: Some(problem.to_owned()), ..SetupReport::default() }
}

#[tokio::test(start_paused = true)]
async fn requests_wait_and_see_the_log() {
    let (mut h, mut works) = harness();
    assert!(h.apply("A.lean", "import B").await.opened);
    let work = works.recv().await.unwrap();
    assert_eq!(work.text, "import B");
    let (tx, mut seen) = beam_session::observer();
    let pending = h.session.request(&path("A.lean"), spec("x").at_version(1), Some(tx));
    // The document is asked, so everything before has been handled.
    assert_eq!(h.session.document(&path("A.lean")).await.unwrap().pending, 1);
    assert_eq!(h.started(), 0);
    work.lines.say("✔ [1/2] Built B");
    let Observation::BuildLine { version: 1, item } = seen.recv().await.unwrap() else { panic!("a log line") };
    assert_eq!(item["message"], "✔ [1/2] Built B");
    work.done.send(report("bad")).unwrap();
    let (mut fake, open) = h.worker().await;
    assert_eq!(open["textDocument"]["text"], "import B");
    let request = heard(&mut fake, "x").await;
    fake.peer.reply(&request, json!(7)).await.unwrap();
    let reply = pending.await.unwrap();
    assert_eq!(value(&reply), json!(7));
    assert_eq!(reply.setup.unwrap().problem.as_deref(), Some("bad"));
}

#[tokio::test(start_paused = true)]
async fn an_edit_meanwhile_is_prepared_too() {
    let (mut h, mut works) = harness();
    h.apply("A.lean", "import B").await;
    let first = works.recv().await.unwrap();
    let bound = h.ask("A.lean", spec("x").at_version(1));
    assert_eq!(h.apply("A.lean", "import C").await.version, 2);
    assert!(matches!(bound.await, Err(RequestFailure::ContentModified { .. })));
    let later = h.ask("A.lean", spec("y").at_version(2));
    first.done.send(SetupReport::default()).unwrap();
    let second = works.recv().await.unwrap();
    assert_eq!(second.text, "import C");
    // Too late: it belongs to a text that is gone.
    first.lines.say("stray");
    second.done.send(SetupReport::default()).unwrap();
    let (mut fake, open) = h.worker().await;
    assert_eq!((&open["textDocument"]["text"], &open["textDocument"]["version"]), (&json!("import C"), &json!(2)));
    let request = heard(&mut fake, "y").await;
    fake.peer.reply(&request, Value::Null).await.unwrap();
    later.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cancelling_meanwhile_costs_nothing() {
    let (mut h, mut works) = harness();
    h.apply("A.lean", "import B").await;
    let work = works.recv().await.unwrap();
    let pending = h.ask("A.lean", spec("x").running_text());
    pending.canceller().cancel();
    assert!(matches!(pending.await, Err(RequestFailure::Cancelled)));
    // Far longer than a worker may go on with a cancelled request.
    tokio::time::sleep(GRACE * 100).await;
    work.done.send(SetupReport::default()).expect("the preparation goes on");
    let (mut fake, _) = h.worker().await;
    silence(&mut fake).await;
}

#[tokio::test(start_paused = true)]
async fn closing_stops_the_work() {
    let (h, mut works) = harness();
    h.apply("A.lean", "import B").await;
    let mut work = works.recv().await.unwrap();
    let pending = h.ask("A.lean", spec("x"));
    assert!(h.session.close(&path("A.lean")).await);
    assert!(matches!(pending.await, Err(RequestFailure::ContentModified { .. })));
    work.done.closed().await;
    assert_eq!(h.started(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_changed_header_is_prepared_before_the_next_worker() {
    let (mut h, mut works) = harness();
    h.apply("A.lean", "import B").await;
    works.recv().await.unwrap().done.send(report("old")).unwrap();
    let (mut fake, _) = h.worker().await;
    speak(&mut fake).await;
    h.apply("A.lean", "import C").await;
    fake.peer.expect("textDocument/didChange").await.unwrap();
    let pending = h.ask("A.lean", spec("x").at_version(2));
    heard(&mut fake, "x").await;
    fake.die(Exit::Code(2));
    let work = works.recv().await.unwrap();
    assert_eq!(work.text, "import C");
    work.done.send(report("new")).unwrap();
    let (mut fresh, open) = h.worker().await;
    assert_eq!(open["textDocument"]["text"], "import C");
    let again = heard(&mut fresh, "x").await;
    fresh.peer.reply(&again, json!(1)).await.unwrap();
    assert_eq!(pending.await.unwrap().setup.unwrap().problem.as_deref(), Some("new"));
}

#[tokio::test(start_paused = true)]
async fn s2_a_worker_that_cannot_be_started_ends_the_whole_line() {
    let (h, mut works) = harness();
    h.break_spawn(true);
    h.apply("A.lean", "import B").await;
    let (one, two) = (h.ask("A.lean", spec("x")), h.ask("A.lean", spec("y").running_text()));
    works.recv().await.unwrap().done.send(SetupReport::default()).unwrap();
    for pending in [one, two] {
        assert!(matches!(reason_of(pending.await), ExitReason::SpawnFailed(_)));
    }
    // The next one tries again.
    h.break_spawn(false);
    let three = h.ask("A.lean", spec("z"));
    works.recv().await.unwrap().done.send(SetupReport::default()).unwrap();
    let mut h = h;
    let (mut fake, _) = h.worker().await;
    let request = heard(&mut fake, "z").await;
    fake.peer.reply(&request, Value::Null).await.unwrap();
    three.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_defect_in_the_work_is_a_problem_of_the_imports() {
    let (mut h, mut works) = harness();
    h.apply("A.lean", "import B").await;
    // Dropping the sender makes the preparation panic.
    drop(works.recv().await.unwrap().done);
    let (mut fake, _) = h.worker().await;
    let pending = h.ask("A.lean", spec("x"));
    let request = heard(&mut fake, "x").await;
    fake.peer.reply(&request, Value::Null).await.unwrap();
    let problem = pending.await.unwrap().setup.unwrap().problem.clone().unwrap();
    assert!(problem.starts_with("Failed to build module dependencies."), "{problem}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_at_once_is_not_started_over_and_over() {
    let (mut h, mut works) = harness();
    h.apply("A.lean", "import B").await;
    works.recv().await.unwrap().done.send(SetupReport::default()).unwrap();
    let (mut fake, _) = h.worker().await;
    let pending = h.ask("A.lean", spec("x"));
    heard(&mut fake, "x").await;
    fake.die(Exit::Code(1));
    let exit = exit_of(pending.await);
    assert_eq!(exit.status, Some(EndStatus::Code(1)));
    assert!(works.try_recv().is_err(), "nobody asked for another worker");
}

#[tokio::test(start_paused = true)]
async fn a_file_with_options_gets_a_worker_of_its_own() {
    let (mut h, mut works) = harness();
    h.session.prestart().await.unwrap();
    let spare = h.newborn().await;
    h.apply("A.lean", "").await;
    let args = vec!["-Dx=1".into()];
    let report = SetupReport { worker_args: args.clone(), ..SetupReport::default() };
    works.recv().await.unwrap().done.send(report).unwrap();
    h.worker().await;
    assert_eq!(h.args(), [vec![], args]);
    spare.ended().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_build_starts_no_worker_until_it_is_not_refused() {
    let (mut h, mut works) = harness();
    h.apply("A.lean", "import B").await;
    let (one, two) = (h.ask("A.lean", spec("x")), h.ask("A.lean", spec("y").running_text()));
    let refused = SetupReport { refused: vec!["B".into()], ..SetupReport::default() };
    works.recv().await.unwrap().done.send(refused).unwrap();
    for pending in [one, two] {
        assert!(matches!(pending.await, Err(RequestFailure::BuildRefused { modules, .. }) if modules == ["B"]));
    }
    assert_eq!(h.started(), 0);
    let three = h.ask("A.lean", spec("z"));
    works.recv().await.unwrap().done.send(SetupReport::default()).unwrap();
    let (mut fake, _) = h.worker().await;
    let request = heard(&mut fake, "z").await;
    fake.peer.reply(&request, Value::Null).await.unwrap();
    three.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_worker_lost_with_a_line_behind_it_is_prepared_once() {
    let (tx, mut works) = mpsc::unbounded_channel();
    let mut h = Harness::with(false, |config| {
        config.setup = Some(Arc::new(ByHand(Mutex::new(tx))));
        config.max_in_flight = 1;
    });
    h.apply("A.lean", "import B").await;
    works.recv().await.unwrap().done.send(SetupReport::default()).unwrap();
    let (mut fake, _) = h.worker().await;
    speak(&mut fake).await;
    let lost = h.ask("A.lean", spec("x"));
    let line = [h.ask("A.lean", spec("y")), h.ask("A.lean", spec("z")), h.ask("A.lean", spec("r").running_text())];
    heard(&mut fake, "x").await;
    heard(&mut fake, "r").await;
    fake.die(Exit::Code(1));
    exit_of(lost.await);
    let work = works.recv().await.unwrap();
    // The document goes on listening meanwhile.
    assert_eq!(h.session.document(&path("A.lean")).await.unwrap().pending, 2);
    work.done.send(SetupReport::default()).unwrap();
    let (mut fresh, _) = h.worker().await;
    let [y, z, r] = line;
    for (method, pending) in [("y", y), ("z", z)] {
        let request = heard(&mut fresh, method).await;
        fresh.peer.reply(&request, Value::Null).await.unwrap();
        pending.await.unwrap();
    }
    exit_of(r.await);
    assert!(works.try_recv().is_err());
}
