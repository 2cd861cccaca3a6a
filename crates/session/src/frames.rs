//! Messages in what a worker writes, between whatever else is written to the same stream.
//!
//! An elaborated file runs in the worker's process. A task that prints, a process it started, or code that opens the stream by its number
//! writes where the protocol is. That is the user's output, and no reason to lose the worker: the next message is found behind it.
//!
//! What can be relied on: JSON as Lean writes it holds no raw carriage return, so a whole `Content-Length: N\r\n\r\n` inside a body is
//! never part of it. A message with text *inside* is put together again where that can be done in one way only; where it cannot, a
//! message is lost, somebody would wait for it for ever, and so the stream is given up with [`Found::Torn`].
//!
//! Pure: bytes in, messages out.

use std::collections::VecDeque;

use beam_base::rpc::Incoming;

const MARK: &[u8] = b"Content-Length: ";
const END: &[u8] = b"\r\n\r\n";
/// Digits of a length that are looked at; more are no length.
const MAX_DIGITS: usize = 19;
/// In how many places text may be cut out of a torn message before it is given up.
const MAX_CUTS: usize = 256;
/// A torn message longer than this, in bytes, is not put together.
const MAX_MENDED: usize = 4 << 20;

/// What was found in the stream.
#[derive(Debug)]
pub(crate) enum Found {
    Message(Incoming),
    /// Bytes between messages.
    Stray(Vec<u8>),
    /// A message is lost: the bytes of one were there, with others in between.
    Torn,
    /// This many bytes came without a message among them; and a length over the limit, if one was announced.
    NoMessages {
        bytes: usize,
        announced: Option<usize>,
    },
}

/// Finds messages in a stream that is fed to it in pieces.
pub(crate) struct FrameReader {
    buffer: Vec<u8>,
    /// Bytes at the front of the buffer that were dealt with.
    start: usize,
    /// Up to where, counted from `start`, there is no header inside the body that is being read.
    searched: usize,
    found: VecDeque<Found>,
    cap: usize,
    /// Bytes without a message after which the stream is given up.
    patience: usize,
    stray_run: usize,
    announced: Option<usize>,
}

/// A whole header within some bytes.
#[derive(Clone, Copy)]
struct Header {
    at: usize,
    body: usize,
    len: usize,
}

impl FrameReader {
    /// Messages of at most `cap` bytes; gives up after `patience` bytes without any.
    pub(crate) fn new(cap: usize, patience: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            found: VecDeque::new(),
            cap,
            patience,
            stray_run: 0,
            announced: None,
        }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.start >= self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next thing in the stream, or `None` until more bytes are fed.
    pub(crate) fn next(&mut self) -> Option<Found> {
        while self.found.is_empty() && self.step() {}
        self.found.pop_front()
    }

    /// Whether a decision waits for what follows, or for the news that nothing follows at the moment.
    pub(crate) fn is_undecided(&self) -> bool {
        let rest = &self.buffer[self.start..];
        match first_header(rest, 0) {
            Some(header) => rest.len() >= header.body.saturating_add(header.len),
            None => !rest.is_empty(),
        }
    }

    /// Nothing follows at the moment: decides with what is there.
    pub(crate) fn settle(&mut self) -> Option<Found> {
        if self.is_undecided() {
            let rest = self.buffer.len() - self.start;
            self.resolve(rest);
        }
        self.next()
    }

    /// One step forward; false if it needs more bytes.
    fn step(&mut self) -> bool {
        let rest = &self.buffer[self.start..];
        let Some(header) = first_header(rest, 0) else {
            // What may be the beginning of a header stays, and so does what looks like the ruins of one.
            let ruins = find(rest, MARK).into_iter().chain(find(rest, b"\r")).min();
            let keep = rest.len() - ruins.unwrap_or_else(|| rest.len() - overlap(rest));
            let stray = rest.len() - keep;
            if keep > self.patience {
                self.resolve(stray + keep);
                return true;
            }
            self.stray(stray);
            return stray > 0;
        };
        if header.at > 0 {
            self.resolve(header.at);
            return true;
        }
        if header.len > self.cap {
            self.announced = Some(header.len);
            self.stray(header.body);
            return true;
        }
        let end = header.body + header.len;
        let whole = rest.get(header.body..end);
        if let Some(Ok(message)) = whole.map(Incoming::parse) {
            self.found.push_back(Found::Message(message));
            self.consume(end);
            self.stray_run = 0;
            return true;
        }
        if whole.is_some_and(|body| serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok()) {
            // In one piece, and not JSON-RPC: nothing of Lean's.
            self.stray(end);
            return true;
        }
        // Not there yet, or no message. The next header ends it in either case.
        let from = if whole.is_some() { header.body } else { header.body.max(self.searched) };
        match first_header(rest, from) {
            Some(next) => {
                self.resolve(next.at);
                true
            }
            None => {
                // A header may have begun in the last few bytes.
                self.searched = rest.len().saturating_sub(MARK.len() + MAX_DIGITS + END.len()).max(header.body);
                false
            }
        }
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.searched = 0;
    }

    /// The next `bytes` bytes are no message.
    fn stray(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let text = self.buffer[self.start..self.start + bytes].to_vec();
        self.consume(bytes);
        self.found.push_back(Found::Stray(text));
        self.stray_run += bytes;
        if self.stray_run > self.patience {
            self.found.push_back(Found::NoMessages { bytes: self.stray_run, announced: self.announced });
        }
    }

    /// The next `bytes` bytes end where the next message begins, or where the stream rests, and are no message as they stand.
    fn resolve(&mut self, bytes: usize) {
        let region = &self.buffer[self.start..self.start + bytes];
        // A file may well print JSON. What also has the head of a message, or what stands behind every head, was one.
        let has_head = find(region, MARK).is_some() || find(region, END).is_some();
        let has_body = find(region, b"\"jsonrpc\"").is_some() || find(region, b"\r\n\r\n{\"").is_some();
        if !has_head || !has_body {
            return self.stray(bytes);
        }
        let mended = if region.len() > MAX_MENDED { None } else { mend(region) };
        let Some((message, stray)) = mended else {
            self.stray(bytes);
            self.found.push_back(Found::Torn);
            return;
        };
        if !stray.is_empty() {
            self.found.push_back(Found::Stray(stray));
        }
        self.found.push_back(Found::Message(message));
        self.consume(bytes);
        self.stray_run = 0;
    }
}

/// A message out of bytes that hold one and something else, and that something else.
fn mend(region: &[u8]) -> Option<(Incoming, Vec<u8>)> {
    let without = |at: usize, len: usize| [&region[..at], &region[at + len..]].concat();
    let Some(header) = first_header(region, 0) else {
        // The header itself is in pieces: what stands there as one JSON value is the message.
        let at = find(region, b"{\"")?;
        let mut values = serde_json::Deserializer::from_slice(&region[at..]).into_iter::<serde::de::IgnoredAny>();
        values.next()?.ok()?;
        let len = values.byte_offset();
        let message = Incoming::parse(&region[at..at + len]).ok()?;
        return Some((message, without(at, len)));
    };
    // Between header and body, in one piece.
    for (at, _) in region.iter().enumerate().skip(header.body).filter(|(_, byte)| **byte == b'{').take(MAX_CUTS) {
        if let Some(body) = region.get(at..at + header.len)
            && let Ok(message) = Incoming::parse(body)
        {
            let mut stray = region[..header.at].to_vec();
            stray.extend_from_slice(&region[header.body..at]);
            stray.extend_from_slice(&region[at + header.len..]);
            return Some((message, stray));
        }
    }
    // Inside the body: as many bytes too many as were put in. They are cut out where that makes a message, and must be so in one way.
    let body = &region[header.body..];
    let extra = body.len().checked_sub(header.len).filter(|n| *n > 0)?;
    let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(body) else { return None };
    let line_start: usize = body.split_inclusive(|b| *b == b'\n').take(error.line() - 1).map(<[u8]>::len).sum();
    // Bytes up to here are a beginning of JSON, so the text begins here at the latest; and it does not end before.
    let wrong = (line_start + error.column()).min(body.len().saturating_sub(1));
    let first = (wrong + 1).saturating_sub(extra + 1);
    let last = wrong.min(header.len);
    if last.saturating_sub(first) > MAX_CUTS {
        return None;
    }
    let mut found: Option<(Incoming, Vec<u8>)> = None;
    let mut text: Vec<u8> = Vec::new();
    for at in first..=last {
        let Some(cut) = body.get(at..at + extra) else { break };
        let whole = [&body[..at], &body[at + extra..]].concat();
        let Ok(message) = Incoming::parse(&whole) else { continue };
        if found.is_some() && text != whole {
            return None;
        }
        text = whole;
        found = Some((message, cut.to_vec()));
    }
    found
}

/// The first whole header at or behind `from`.
fn first_header(bytes: &[u8], from: usize) -> Option<Header> {
    let mut from = from;
    loop {
        // Found by its rarest byte: there is none in a body.
        let end = from + bytes.get(from..)?.iter().position(|byte| *byte == b'\r')?;
        if bytes[end..].starts_with(END)
            && let Some(header) = header_ending_at(bytes, end)
        {
            return Some(header);
        }
        from = end + 1;
    }
}

fn header_ending_at(bytes: &[u8], end: usize) -> Option<Header> {
    let digits = bytes[..end].iter().rev().take(MAX_DIGITS + 1).take_while(|byte| byte.is_ascii_digit()).count();
    let at = (end - digits).checked_sub(MARK.len())?;
    let is_mark = bytes[at..end - digits].eq_ignore_ascii_case(MARK);
    if !is_mark || digits == 0 || digits > MAX_DIGITS {
        return None;
    }
    let len = std::str::from_utf8(&bytes[end - digits..end]).ok()?.parse().ok()?;
    Some(Header { at, body: end + END.len(), len })
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|it| it == what)
}

/// How many of the last bytes are the beginning of [`MARK`].
fn overlap(bytes: &[u8]) -> usize {
    (1..MARK.len()).rev().find(|n| bytes.ends_with(&MARK[..*n])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PATIENCE: usize = 4096;

    fn frame(body: &str) -> Vec<u8> {
        format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    }

    fn message(n: u32, text: &str) -> String {
        serde_json::json!({"jsonrpc": "2.0", "method": format!("m{n}"), "params": {"text": text, "n": [n, {}]}})
            .to_string()
    }

    /// Feeds pieces of these sizes, over and over, and lets the stream rest at the end. Methods of messages, stray bytes, the last word.
    fn read(bytes: &[u8], sizes: &[usize]) -> (Vec<String>, Vec<u8>, Option<String>) {
        let mut reader = FrameReader::new(1 << 20, PATIENCE);
        let (mut methods, mut stray, mut end) = (Vec::new(), Vec::new(), None);
        let mut note = |found: Found| match found {
            Found::Message(Incoming::Notification { method, .. }) => methods.push(method),
            Found::Message(other) => panic!("{other:?}"),
            Found::Stray(bytes) => stray.extend(bytes),
            other @ (Found::Torn | Found::NoMessages { .. }) => end = Some(format!("{other:?}")),
        };
        let (mut rest, mut sizes) = (bytes, sizes.iter().cycle());
        while !rest.is_empty() {
            let (piece, more) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
            reader.feed(piece);
            rest = more;
            while let Some(found) = reader.next() {
                note(found);
            }
        }
        while let Some(found) = reader.settle() {
            note(found);
        }
        (methods, stray, end)
    }

    #[test]
    fn what_stands_between_messages_is_output() {
        let (a, b) = (frame(&message(1, "a")), frame(&message(2, "b")));
        for noise in [
            "hello\n",
            "Content-Length: 5\r\n\r\nhello",
            "Content-Length: 2\r\n\r\n{}",
            "Content-Length: 99999\r\n\r\n",
            "Content-Length: 99999999999\r\n\r\n",
            "Content-Length: 3\r\n\r\n",
            "Content-Length: x\r\n\r\n",
            "Content-Le",
            "\r\n\r\n",
            "\u{0}\u{7f}é",
        ] {
            let bytes = [&a[..], noise.as_bytes(), &b, noise.as_bytes(), &a].concat();
            for sizes in [vec![usize::MAX], vec![1], vec![7, 3]] {
                let (methods, stray, end) = read(&bytes, &sizes);
                assert_eq!((methods, end), (vec!["m1".into(), "m2".into(), "m1".into()], None), "{noise:?}");
                assert_eq!(String::from_utf8_lossy(&stray), noise.repeat(2), "{noise:?}");
            }
        }
    }

    /// A text inside the bytes of one message, at every place.
    #[test]
    fn a_message_with_text_inside_is_put_together_or_given_up() {
        let body = message(1, "some words");
        let whole = frame(&body);
        let next = frame(&message(2, ""));
        let (mut mended, mut torn) = (0, 0);
        for at in 1..whole.len() {
            for noise in ["hello\n", "{x}", "two\nlines\n"] {
                for follows in [&next[..], b""] {
                    let bytes = [&whole[..at], noise.as_bytes(), &whole[at..], follows].concat();
                    let (methods, stray, end) = read(&bytes, &[usize::MAX]);
                    if methods.first().is_some_and(|it| it == "m1") {
                        let (head, stray) = (whole.len() - body.len(), String::from_utf8_lossy(&stray).into_owned());
                        // A head in pieces is output, too.
                        let as_long = if at < head { [noise.len(), noise.len() + head] } else { [noise.len(); 2] };
                        assert!(as_long.contains(&stray.len()), "at {at}: {stray:?}");
                        assert_eq!((methods.len(), end), (1 + usize::from(!follows.is_empty()), None));
                        mended += 1;
                    } else {
                        assert!(end.is_some(), "a lost message is told: at {at} {noise:?}");
                        torn += 1;
                    }
                }
            }
        }
        // Between header and body, and where JSON shows what does not belong: by far the most.
        assert!(mended > torn, "{mended} {torn}");
    }

    #[test]
    fn a_stream_without_messages_is_given_up() {
        let (_, _, end) = read(&b"noise\n".repeat(PATIENCE), &[1000]);
        assert!(end.unwrap().starts_with("NoMessages"));
        // As long as messages come, any amount of output may stand between them.
        let bytes: Vec<u8> = (0..100).flat_map(|n| [b"noise\n".repeat(500), frame(&message(n, ""))].concat()).collect();
        let (methods, stray, end) = read(&bytes, &[1000]);
        assert_eq!((methods.len(), stray.len(), end), (100, 300_000, None));
    }

    #[test]
    fn undecided_bytes_wait_for_what_follows() {
        let mut reader = FrameReader::new(1 << 20, PATIENCE);
        let whole = frame(&message(1, ""));
        reader.feed(&whole[..whole.len() - 1]);
        assert!(reader.next().is_none() && !reader.is_undecided(), "more of it will come");
        assert!(reader.settle().is_none());
        reader.feed(&whole[whole.len() - 1..]);
        assert!(matches!(reader.next(), Some(Found::Message(_))) && !reader.is_undecided());
        reader.feed(b"Content-");
        assert!(reader.next().is_none() && reader.is_undecided());
        assert!(matches!(reader.settle(), Some(Found::Stray(_))));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), size in 1usize..50) {
            read(&bytes, &[size]);
        }

        /// Pieces of real messages and headers in any order: nothing panics, and no intact message is lost.
        #[test]
        fn intact_messages_are_found_among_ruins(
            parts in proptest::collection::vec((0usize..7, 0u32..100, ".{0,12}", 0usize..40), 0..12),
            sizes in proptest::collection::vec(1usize..200, 1..5),
        ) {
            let (mut bytes, mut wanted) = (Vec::new(), Vec::new());
            let mut ruins = false;
            for (kind, n, text, cut) in parts {
                let whole = frame(&message(n, &text));
                match kind {
                    0..=2 => {
                        wanted.push(format!("m{n}"));
                        bytes.extend(whole);
                    }
                    3 => bytes.extend(text.as_bytes()),
                    4 => bytes.extend(format!("Content-Length: {}\r\n\r\n", cut * 10).as_bytes()),
                    5 => bytes.extend(b"Content-Length: "),
                    _ => {
                        ruins = true;
                        bytes.extend(&whole[..cut.min(whole.len() - 1)]);
                    }
                }
            }
            let (methods, stray, end) = read(&bytes, &sizes);
            prop_assert_eq!(methods, wanted);
            prop_assert!(ruins || end.is_none());
            prop_assert!(!(ruins && stray.is_empty() && end.is_none()) || stray.is_empty());
        }
    }
}
