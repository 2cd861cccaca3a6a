//! A connection's life against a scripted service, over an in-memory stream and paused time.

use beam_base::AbsPath;
use serde_json::Value;
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::task::JoinHandle;

use super::super::testing::{Fake, run_at};
use super::*;

fn fake() -> Fake {
    Fake::new(&AbsPath::new("/p").unwrap())
}

impl Peer for DuplexStream {
    type Reader = tokio::io::ReadHalf<Self>;
    type Writer = tokio::io::WriteHalf<Self>;

    fn halves(self) -> (Self::Reader, Self::Writer) {
        tokio::io::split(self)
    }

    async fn hung_up(_: &Self::Reader) {}
}

fn place() -> OwnedSemaphorePermit {
    Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap()
}

fn open() -> Gate {
    Gate::Open(place())
}

/// Serves one end of a stream that holds `room` bytes.
fn serve(service: &Fake, gate: Gate, room: usize) -> (BufReader<DuplexStream>, JoinHandle<Ended>) {
    let (ours, theirs) = tokio::io::duplex(room);
    let service = service.clone();
    let task =
        tokio::spawn(async move { connection(theirs, gate, &service, &Limits::default(), &CancelToken::new()).await });
    (BufReader::new(ours), task)
}

/// All messages until the close, without what differs from run to run.
async fn messages(io: &mut BufReader<DuplexStream>) -> Vec<StreamMessage> {
    let mut out = Vec::new();
    while let Ok(Some(body)) = frame::read_counted(io, FRAME_CAP).await {
        out.push(StreamMessage::decode(&body).unwrap());
    }
    out
}

/// Bytes in, the only answer out.
async fn answer(bytes: &[u8], gate: Gate) -> (String, Ended) {
    let service = fake();
    let (mut io, task) = serve(&service, gate, 64 * 1024);
    io.write_all(bytes).await.unwrap();
    let mut all = messages(&mut io).await;
    assert_eq!(all.len(), 1);
    let Event::Response(response) = all.remove(0).event else { panic!() };
    let text = match response.outcome {
        Ok(value) => format!("ok {value}"),
        Err(e) => format!("{} {}", e.code, e.message),
    };
    drop(io);
    (text, task.await.unwrap())
}

async fn check(bytes: impl AsRef<[u8]>, expect: expect_test::Expect) {
    let (text, ended) = answer(bytes.as_ref(), open()).await;
    expect.assert_eq(&format!("{text} [{ended:?}]"));
}

fn framed(body: &[u8]) -> Vec<u8> {
    [format!("{}\n", body.len()).as_bytes(), body].concat()
}

#[tokio::test(start_paused = true)]
async fn framing_errors_are_answered() {
    use expect_test::expect;
    check(framed(br#"{"op":"stats"}"#), expect![[r#"ok {"root":"/p"} [Answered]"#]]).await;
    check(
        framed(b"nonsense"),
        expect!["invalidParams the request is not JSON: expected ident at line 1 column 2 [Answered]"],
    )
    .await;
    check(framed(br#"{"op":"nope"}"#), expect![[r#"invalidParams unknown op "nope" [Answered]"#]]).await;
    check(
        "GET / HTTP/1.1\r\n\r\n",
        expect![[r#"internalError cannot read the request: broken frame header: "GET / HTTP/1.1\r" [Refused]"#]],
    )
    .await;
    check("-5\nhello", expect![[r#"internalError cannot read the request: broken frame header: "-5" [Refused]"#]])
        .await;
    check(
        "99999999999\n{",
        expect![
            "invalidParams cannot read the request: a frame of 99999999999 bytes exceeds the limit of 67108864 [Refused]"
        ],
    )
    .await;
    // Deep nesting is an error of the decoder, not of our stack.
    let deep = "[".repeat(100_000);
    let (text, _) = answer(&framed(deep.as_bytes()), open()).await;
    assert!(text.starts_with("invalidParams the request is not JSON: recursion limit"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asks_nothing_is_let_go() {
    let service = fake();
    let (mut io, task) = serve(&service, open(), 1024);
    io.write_all(b"100\n{\"op\":").await.unwrap();
    let all = messages(&mut io).await;
    assert!(format!("{all:?}").contains("no complete request arrived within 10000 ms"), "{all:?}");
    drop(io);
    assert_eq!(task.await.unwrap(), Ended::Refused);

    let (io, task) = serve(&service, open(), 1024);
    drop(io);
    assert_eq!(task.await.unwrap(), Ended::NoRequest);
}

/// D4: on TCP the token comes first; without it nothing of the request is looked at.
#[tokio::test(start_paused = true)]
async fn d4_tcp_wants_the_token_first() {
    let gate = || Gate::Token { token: Token::from_text("right"), waiting: place(), room: Arc::new(Semaphore::new(1)) };
    let request = framed(br#"{"op":"stats"}"#);
    let with = |token: &str| [framed(token.as_bytes()), request.clone()].concat();
    assert_eq!(answer(&with("right"), gate()).await.0, r#"ok {"root":"/p"}"#);
    for bad in [with("wrong"), with("right "), with(""), request.clone()] {
        let (text, ended) = answer(&bad, gate()).await;
        assert!(text.starts_with("invalidParams the first frame on a TCP connection"), "{text}");
        assert_eq!(ended, Ended::WrongToken);
    }
    // Whoever shows nothing is let go in seconds, not in the time of a request.
    let began = tokio::time::Instant::now();
    let (mut io, task) = serve(&fake(), gate(), 1024);
    assert_eq!(messages(&mut io).await.len(), 1);
    assert_eq!(began.elapsed(), Limits::default().token);
    drop(io);
    assert_eq!(task.await.unwrap(), Ended::WrongToken);
    // With the token, but without room.
    let full = Gate::Token { token: Token::from_text("right"), waiting: place(), room: Arc::new(Semaphore::new(0)) };
    assert!(answer(&with("right"), full).await.0.starts_with("busy the daemon is busy"));
}

/// `nc -N` ends its sending after the request. On a socket that is no reason not to answer; the end of the client is.
#[tokio::test]
async fn a_half_closed_client_is_answered_and_a_gone_one_cancels() {
    let service = fake();
    let serve = |text: &str| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let service = service.clone();
        let task =
            tokio::spawn(
                async move { connection(theirs, open(), &service, &Limits::default(), &CancelToken::new()).await },
            );
        (ours, framed(&run_at(text).encode()), task)
    };
    let (mut ours, request, task) = serve("gate");
    ours.write_all(&request).await.unwrap();
    ours.shutdown().await.unwrap();
    service.active(1).await;
    tokio::time::sleep(HALF_CLOSED * 3).await;
    service.open_gate();
    let mut text = String::new();
    ours.read_to_string(&mut text).await.unwrap();
    assert!(text.contains(r#"{"did":"gate"}"#), "{text}");
    assert_eq!(task.await.unwrap(), Ended::Answered);

    let (mut ours, request, task) = serve("hang");
    ours.write_all(&request).await.unwrap();
    ours.shutdown().await.unwrap();
    service.active(1).await;
    drop(ours);
    service.cancelled(1).await;
    assert_eq!(task.await.unwrap(), Ended::ClientGone);
}

#[tokio::test(start_paused = true)]
async fn a_lost_root_ends_requests_with_a_word_about_it() {
    let (mut ours, theirs) = tokio::io::duplex(4096);
    let (service, lost) = (fake(), CancelToken::new());
    let (copy, token) = (service.clone(), lost.clone());
    let task = tokio::spawn(async move { connection(theirs, open(), &copy, &Limits::default(), &token).await });
    ours.write_all(&framed(&run_at("hang").encode())).await.unwrap();
    service.active(1).await;
    lost.cancel();
    let mut text = String::new();
    ours.read_to_string(&mut text).await.unwrap();
    assert!(text.contains("contentModified") && text.contains("renamed, removed or replaced"), "{text}");
    assert_eq!(task.await.unwrap(), Ended::Answered);
    service.cancelled(1).await;
}

/// The id is on every message, for rejected requests, too.
#[tokio::test(start_paused = true)]
async fn the_request_id_is_echoed_on_every_message() {
    let service = fake();
    for body in [
        br#"{"op":"run_at","workspaceId":"w","path":"p","version":1,"line":0,"character":0,"text":"diagnostics 2","clientRequestId":"q"}"#
            .as_slice(),
        br#"{"op":"run_at","clientRequestId":"q","nope":1}"#,
    ] {
        let (mut io, task) = serve(&service, open(), 64 * 1024);
        io.write_all(&framed(body)).await.unwrap();
        let all = messages(&mut io).await;
        assert!(all.iter().all(|m| m.client_request_id.as_deref() == Some("q")), "{all:?}");
        assert!(matches!(all.last().unwrap().event, Event::Response(_)));
        assert_eq!(task.await.unwrap(), Ended::Answered);
    }
}

/// R4 of the stream: events in order, then exactly one response.
#[tokio::test(start_paused = true)]
async fn r4_events_come_in_order_and_before_the_response() {
    let service = fake();
    let (mut io, _task) = serve(&service, open(), 8 * 1024 * 1024);
    io.write_all(&framed(&run_at("diagnostics 300").encode())).await.unwrap();
    let all = messages(&mut io).await;
    assert_eq!(all.len(), 301);
    for (n, m) in all[..300].iter().enumerate() {
        let Event::Diagnostic(d) = &m.event else { panic!() };
        assert!(d.message.starts_with(&format!("{n} ")), "{n}");
    }
    assert!(matches!(all[300].event, Event::Response(_)));
}

/// Whoever ends the connection cancels the request.
#[tokio::test(start_paused = true)]
async fn a_disconnect_cancels() {
    let service = fake();
    let (mut io, task) = serve(&service, open(), 1024);
    io.write_all(&framed(&run_at("hang").encode())).await.unwrap();
    service.active(1).await;
    // Bytes behind the request are not an end.
    io.write_all(b"more").await.unwrap();
    tokio::task::yield_now().await;
    assert_eq!(service.active_requests(), 1);
    drop(io);
    service.cancelled(1).await;
    assert_eq!(task.await.unwrap(), Ended::ClientGone);
}

/// A client that does not read stops its own request, not the daemon's memory; when it reads on, nothing is missing.
#[tokio::test(start_paused = true)]
async fn back_pressure_stops_the_request_and_loses_no_diagnostic() {
    let service = fake();
    let (mut io, task) = serve(&service, open(), 4096);
    io.write_all(&framed(&run_at("diagnostics 1000").encode())).await.unwrap();
    // Paused time passes only when every task waits: the service is stuck in `send` by then.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let limits = Limits::default();
    let stuck = service.sent();
    assert!(stuck <= limits.queue + 64 + 4, "{stuck} events were taken from a service whose client does not read");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(service.sent(), stuck);
    assert_eq!(messages(&mut io).await.len(), 1001);
    assert_eq!(task.await.unwrap(), Ended::Answered);
}

/// A client that reads nothing for too long is gone, its request cancelled.
#[tokio::test(start_paused = true)]
async fn a_client_that_never_reads_is_let_go() {
    let service = fake();
    let (mut io, task) = serve(&service, open(), 4096);
    io.write_all(&framed(&run_at("diagnostics 1000").encode())).await.unwrap();
    service.cancelled(1).await;
    assert_eq!(task.await.unwrap(), Ended::ClientGone);
}

/// Progress that has newer progress behind it is skipped, the newest never is.
#[tokio::test(start_paused = true)]
async fn superseded_progress_is_skipped() {
    let service = fake();
    let (mut io, _task) = serve(&service, open(), 64 * 1024);
    io.write_all(&framed(&run_at("progress 50").encode())).await.unwrap();
    let all = messages(&mut io).await;
    let seen: Vec<_> = all
        .iter()
        .filter_map(|m| match &m.event {
            Event::FileProgress(p) => Some(p.updates),
            _ => None,
        })
        .collect();
    assert_eq!(seen, [49]);

    let mut batch = vec![
        Event::FileProgress(super::super::testing::progress(1)),
        Event::Diagnostic(super::super::testing::diagnostic("d")),
        Event::FileProgress(super::super::testing::progress(2)),
        Event::FileProgress(super::super::testing::progress(3)),
    ];
    skip_superseded(&mut batch);
    let kinds: Vec<_> = batch
        .iter()
        .map(|e| serde_json::to_value(e).unwrap())
        .map(|v: Value| v["payload"]["updates"].clone())
        .collect();
    assert_eq!(kinds, [Value::from(1), Value::Null, Value::from(3)]);
}

#[tokio::test(start_paused = true)]
async fn busy_and_foreign_peers_are_told() {
    for uid in [None, Some(4711)] {
        let (mut ours, theirs) = tokio::io::duplex(4096);
        let task = tokio::spawn(async move {
            let limits = Limits::default();
            match uid {
                None => busy(theirs, &limits).await,
                some => foreign(theirs, some, &limits).await,
            }
        });
        let mut text = String::new();
        ours.read_to_string(&mut text).await.unwrap();
        let wanted = if uid.is_none() { "the daemon is busy" } else { "from user 4711" };
        assert!(text.contains(wanted), "{text}");
        drop(ours);
        assert_eq!(task.await.unwrap(), Ended::Refused);
    }
}
