//! Lines from stdin, with a cap: a line that is too long is skipped, not kept.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Longest line that is read, in bytes. No argument of a tool comes near.
pub(crate) const LINE_CAP: usize = 32 * 1024 * 1024;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InputLine {
    /// A line without its end, or what stood before the end of the stream.
    Line(Vec<u8>),
    /// A line that was longer than the cap.
    TooLong,
    /// The stream has ended.
    End,
}

/// Reads the next line.
pub(crate) async fn next(r: &mut (impl AsyncBufRead + Unpin), cap: usize) -> io::Result<InputLine> {
    let (mut line, mut too_long) = (Vec::new(), false);
    loop {
        let chunk = r.fill_buf().await?;
        if chunk.is_empty() {
            return Ok(match (line.is_empty(), too_long) {
                (_, true) => InputLine::TooLong,
                (true, false) => InputLine::End,
                (false, false) => InputLine::Line(line),
            });
        }
        let end = chunk.iter().position(|b| *b == b'\n');
        let part = end.unwrap_or(chunk.len());
        if line.len() + part > cap {
            too_long = true;
            line = Vec::new();
        } else if !too_long {
            line.extend_from_slice(&chunk[..part]);
        }
        r.consume(end.map_or(part, |n| n + 1));
        if end.is_some() {
            if too_long {
                return Ok(InputLine::TooLong);
            }
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(InputLine::Line(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_and_their_ends() {
        let input = b"a\r\n\nlonger than ten\nb\n12345678901\nrest";
        // A buffer of one byte shows every boundary.
        for capacity in [1, 3, 1000] {
            let mut r = tokio::io::BufReader::with_capacity(capacity, &input[..]);
            let mut got = Vec::new();
            loop {
                let read = next(&mut r, 10).await.unwrap();
                let end = read == InputLine::End;
                got.push(read);
                if end {
                    break;
                }
            }
            let line = |s: &str| InputLine::Line(s.as_bytes().to_vec());
            assert_eq!(
                got,
                [line("a"), line(""), InputLine::TooLong, line("b"), InputLine::TooLong, line("rest"), InputLine::End],
                "{capacity}"
            );
        }
    }
}
