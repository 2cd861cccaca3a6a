//! What other crates rely on in this one, seen from outside: each of these was a change that no test here noticed.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use beam_base::frame::{FrameError, read_counted, read_lsp};
use beam_base::rpc::{self, Incoming, RequestId};
use beam_base::{AbsPath, ByteOffset, Deadline, DisplayPos, LineIndex, Utf16Pos, uri};

fn run<F: Future>(f: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(f)
}

#[test]
fn a_deadline_passes_in_its_time_and_no_deadline_never() {
    run(async {
        let from = Instant::now();
        let (soon, late) = (Deadline::after(Duration::from_millis(5)), Deadline::after(Duration::from_secs(3600)));
        tokio::select! {
            biased;
            () = Deadline::NEVER.passed() => panic!("there was none"),
            () = late.passed() => panic!("an hour has not passed"),
            () = soon.passed() => {}
        }
        assert!(from.elapsed() >= Duration::from_millis(5), "not before its time");
        assert!(soon.is_past() && !late.is_past() && !Deadline::NEVER.is_past());
    });
}

#[test]
fn a_broken_header_is_quoted_and_a_long_one_is_cut() {
    run(async {
        let Err(FrameError::Header(said)) = read_counted(&mut &b"x\ty\n"[..], 10).await else { panic!() };
        assert_eq!(said, r#""x\ty""#);
        let long = [&vec![b'z'; 500][..], b"\n"].concat();
        let Err(FrameError::Header(said)) = read_counted(&mut &long[..], 10).await else { panic!() };
        assert_eq!(said, format!("\"{}\"", "z".repeat(60)));
    });
}

/// A header line has eight kilobytes at most: who sends a longer one is not read on for ever.
#[test]
fn a_header_line_has_eight_kilobytes() {
    run(async {
        let frame = |line: usize| {
            let head = format!("X-Filler: {}\r\n", "f".repeat(line - 12));
            [head.as_bytes(), b"Content-Length: 2\r\n\r\n{}"].concat()
        };
        assert_eq!(read_lsp(&mut &frame(8 * 1024)[..], 10).await.unwrap().unwrap(), b"{}");
        let Err(FrameError::Header(said)) = read_lsp(&mut &frame(8 * 1024 + 1)[..], 10).await else { panic!() };
        assert_eq!(said, "the header line is too long");
    });
}

#[test]
fn paths_know_what_is_above_them() {
    let path = AbsPath::new("/a/b/c.lean").unwrap();
    assert_eq!(path.parent().unwrap().to_string(), "/a/b");
    assert_eq!(AbsPath::new("/").unwrap().parent(), None);
    let above: Vec<String> = path.ancestors().map(|p| p.to_string()).collect();
    assert_eq!(above, ["/a/b/c.lean", "/a/b", "/a", "/"]);
    assert_eq!(std::path::PathBuf::from(path.clone()), std::path::Path::new("/a/b/c.lean"));
    assert_eq!(format!("{path:?}"), "\"/a/b/c.lean\"");
}

#[test]
fn positions_count_lines_from_the_start_and_stay_within_characters() {
    let text = "a\nüx\n😀z\n";
    let index = LineIndex::new(text);
    assert_eq!((index.last_line(), LineIndex::new("").last_line(), LineIndex::new("a").last_line()), (3, 0, 0));
    // Inside of `ü` (two bytes) and of `😀` (four): the character's start.
    for (offset, line, character) in [(2, 1, 0), (3, 1, 0), (4, 1, 1), (6, 2, 0), (7, 2, 0), (9, 2, 0), (10, 2, 2)] {
        assert_eq!(index.to_utf16(text, ByteOffset(offset)), Utf16Pos { line, character }, "{offset}");
    }
    assert_eq!(DisplayPos::from(Utf16Pos { line: 4, character: 7 }).to_string(), "5:8", "people count from one");
}

#[test]
fn ids_are_the_same_when_they_are_spelled_the_same() {
    let id = |text: &str| serde_json::from_str::<RequestId>(text).unwrap();
    assert!(id("7") == RequestId::from_u64(7) && id("7") != id("\"7\"") && id("1") != id("1.0"));
    let ids: HashSet<RequestId> = ["7", "7", "\"7\"", "7.0"].map(id).into_iter().collect();
    assert_eq!(ids.len(), 3, "equal ones are found again: {ids:?}");
    assert_eq!(format!("{:?}", id("\"a\"")), "\"a\"");
    let hash = |id: &RequestId| {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        BuildHasherDefault::<DefaultHasher>::default().hash_one(id)
    };
    assert_ne!(hash(&id("1")), hash(&id("2")), "a table of them is no list");
}

/// Each shape of message, and the two that we write, are read as what they are.
#[test]
fn each_message_is_read_as_what_it_is() {
    let parse = |text: &str| Incoming::parse(text.as_bytes());
    let Ok(Incoming::Notification { method, params: None }) = parse(r#"{"method":"m"}"#) else { panic!() };
    assert_eq!(method, "m");
    let Ok(Incoming::Response { id: Some(id), outcome: Ok(result) }) = parse(r#"{"id":3,"result":{"a":1}}"#) else {
        panic!()
    };
    assert_eq!((id.as_u64(), result.get()), (Some(3), r#"{"a":1}"#));
    let failed = parse(r#"{"id":null,"error":{"code":-32700,"message":"no"}}"#);
    let Ok(Incoming::Response { id: None, outcome: Err(error) }) = failed else { panic!() };
    assert_eq!((error.code, error.message.as_str()), (-32700, "no"));
    for (shape, why) in [
        (r#"{"id":1}"#, "neither method, result nor error"),
        (r#"{"result":null}"#, "neither method, result nor error"),
        (r#"{"method":"m","result":1}"#, "method, result and error exclude each other"),
        (r#"{"id":1,"result":1,"error":{"code":1,"message":""}}"#, "method, result and error exclude each other"),
    ] {
        let error = parse(shape).expect_err(shape).to_string();
        assert!(error.contains(why), "{shape}: {error}");
    }

    let text = |body: serde_json::Result<Vec<u8>>| String::from_utf8(body.unwrap()).unwrap();
    let sent = text(rpc::request(&RequestId::from_u64(5), "m", [1]));
    assert_eq!(sent, r#"{"jsonrpc":"2.0","id":5,"method":"m","params":[1]}"#);
    assert_eq!(text(rpc::notification("n", ())), r#"{"jsonrpc":"2.0","method":"n","params":null}"#);
}

/// What may stand in a URI as it is does so: peers compare URIs as texts.
#[test]
fn uris_are_spelled_as_others_spell_them() {
    let path = AbsPath::new("/Az09-._~/a b%ü.lean").unwrap();
    assert_eq!(uri::from_path(&path), "file:///Az09-._~/a%20b%25%C3%BC.lean");
}
