//! The two framings: `Content-Length` headers (LSP) and a decimal length line (our broker). Invariant B3.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Longest header line or length line that is looked at before giving up, in bytes.
const MAX_HEADER: usize = 8 * 1024;

/// Why no frame could be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream ended inside a frame.
    #[error("the stream ended inside a frame")]
    Truncated,
    /// The header is not one.
    #[error("broken frame header: {0}")]
    Header(String),
    /// The frame announces more bytes than the reader accepts.
    #[error("a frame of {size} bytes exceeds the limit of {cap}")]
    TooLarge {
        /// Announced bytes.
        size: u64,
        /// Accepted bytes.
        cap: usize,
    },
    /// The stream failed.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
}

/// Reads one `Content-Length` frame; `None` at a clean end of stream. Other header fields are ignored.
pub async fn read_lsp<R: AsyncBufRead + Unpin>(r: &mut R, cap: usize) -> Result<Option<Vec<u8>>, FrameError> {
    let mut length = None;
    let mut first = true;
    loop {
        let Some(line) = read_line(r).await? else {
            return if first { Ok(None) } else { Err(FrameError::Truncated) };
        };
        first = false;
        let line = line.strip_suffix('\r').unwrap_or(&line);
        if line.is_empty() {
            break;
        }
        let Some((name, value)) = line.split_once(':') else {
            return Err(FrameError::Header(shorten(line)));
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(parse_length(value.trim())?);
        }
    }
    let size = length.ok_or_else(|| FrameError::Header("no Content-Length".into()))?;
    read_body(r, size, cap).await.map(Some)
}

/// Reads one length-line frame; `None` at a clean end of stream.
pub async fn read_counted<R: AsyncBufRead + Unpin>(r: &mut R, cap: usize) -> Result<Option<Vec<u8>>, FrameError> {
    let Some(line) = read_line(r).await? else {
        return Ok(None);
    };
    let size = parse_length(&line)?;
    read_body(r, size, cap).await.map(Some)
}

/// Writes one `Content-Length` frame and flushes.
pub async fn write_lsp<W: AsyncWrite + Unpin>(w: &mut W, body: &[u8]) -> io::Result<()> {
    write(w, format!("Content-Length: {}\r\n\r\n", body.len()), body).await
}

/// Writes one length-line frame and flushes.
pub async fn write_counted<W: AsyncWrite + Unpin>(w: &mut W, body: &[u8]) -> io::Result<()> {
    write(w, format!("{}\n", body.len()), body).await
}

async fn write<W: AsyncWrite + Unpin>(w: &mut W, head: String, body: &[u8]) -> io::Result<()> {
    // One buffer, one write: a peer that is killed between two writes would leave half a frame, and small frames cost one system call.
    let mut frame = head.into_bytes();
    frame.extend_from_slice(body);
    w.write_all(&frame).await?;
    w.flush().await
}

fn parse_length(text: &str) -> Result<u64, FrameError> {
    // `u64::from_str` would accept a leading plus sign.
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(FrameError::Header(shorten(text)));
    }
    text.parse().map_err(|_| FrameError::Header(shorten(text)))
}

async fn read_line<R: AsyncBufRead + Unpin>(r: &mut R) -> Result<Option<String>, FrameError> {
    let mut line = Vec::new();
    let limit = u64::try_from(MAX_HEADER).unwrap_or(u64::MAX);
    if r.take(limit).read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(if line.len() + 1 >= MAX_HEADER {
            FrameError::Header("the header line is too long".into())
        } else {
            FrameError::Truncated
        });
    }
    String::from_utf8(line).map(Some).map_err(|e| FrameError::Header(shorten(&String::from_utf8_lossy(e.as_bytes()))))
}

async fn read_body<R: AsyncBufRead + Unpin>(r: &mut R, size: u64, cap: usize) -> Result<Vec<u8>, FrameError> {
    match usize::try_from(size) {
        Ok(n) if n <= cap => {
            // Grows with what arrives: an announced size is a claim, not a reason to allocate.
            let mut body = Vec::with_capacity(n.min(64 * 1024));
            r.take(size).read_to_end(&mut body).await?;
            if body.len() == n { Ok(body) } else { Err(FrameError::Truncated) }
        }
        _ => Err(FrameError::TooLarge { size, cap }),
    }
}

fn shorten(text: &str) -> String {
    let cut: String = text.chars().take(60).collect();
    format!("{cut:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run<F: Future>(f: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(f)
    }

    #[test]
    fn round_trips() {
        run(async {
            let mut buf = Vec::new();
            write_lsp(&mut buf, b"{}").await.unwrap();
            write_lsp(&mut buf, "\"ü\"".as_bytes()).await.unwrap();
            let mut r = &buf[..];
            assert_eq!(read_lsp(&mut r, 10).await.unwrap().unwrap(), b"{}");
            assert_eq!(read_lsp(&mut r, 10).await.unwrap().unwrap(), "\"ü\"".as_bytes());
            assert!(read_lsp(&mut r, 10).await.unwrap().is_none());

            let mut buf = Vec::new();
            write_counted(&mut buf, b"[1]").await.unwrap();
            assert_eq!(buf, b"3\n[1]");
            assert_eq!(read_counted(&mut &buf[..], 10).await.unwrap().unwrap(), b"[1]");
        });
    }

    #[test]
    fn huge_and_broken_frames_are_errors() {
        run(async {
            assert!(matches!(
                read_counted(&mut &b"11\nxxxxxxxxxxx"[..], 10).await,
                Err(FrameError::TooLarge { size: 11, cap: 10 })
            ));
            assert!(matches!(read_counted(&mut &b"+1\nx"[..], 10).await, Err(FrameError::Header(_))));
            assert!(matches!(read_counted(&mut &b"5\nxx"[..], 10).await, Err(FrameError::Truncated)));
            assert!(matches!(
                read_counted(&mut &b"99999999999999999999999\n"[..], 10).await,
                Err(FrameError::Header(_))
            ));
            assert!(matches!(read_lsp(&mut &b"Content-Type: x\r\n\r\n"[..], 10).await, Err(FrameError::Header(_))));
            assert!(matches!(read_lsp(&mut &b"[DEBUG] hello\n"[..], 10).await, Err(FrameError::Header(_))));
            let long = vec![b'a'; 3 * MAX_HEADER];
            assert!(matches!(read_lsp(&mut &long[..], 10).await, Err(FrameError::Header(_))));
        });
    }

    proptest! {
        /// B3: any bytes give a frame, an end or an error.
        #[test]
        fn b3_arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), lsp in any::<bool>()) {
            run(async {
                let mut r = &bytes[..];
                for _ in 0..64 {
                    let got = if lsp { read_lsp(&mut r, 100).await } else { read_counted(&mut r, 100).await };
                    match got { Ok(Some(body)) => assert!(body.len() <= 100), _ => break }
                }
            });
        }
    }
}
