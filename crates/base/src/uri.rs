//! `file:` URIs to paths and back, the way LSP peers spell them.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::AbsPath;

/// The `file:///…` URI of a path; every byte outside RFC 3986 `pchar` and `/` is percent-encoded.
#[must_use]
pub fn from_path(path: &AbsPath) -> String {
    let mut out = String::from("file://");
    for &byte in path.as_path().as_os_str().as_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                out.push('%');
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
    out
}

/// The path of a `file:` URI; `None` for another scheme, a foreign host, or a broken escape.
#[must_use]
pub fn to_path(uri: &str) -> Option<AbsPath> {
    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let mut bytes = Vec::with_capacity(rest.len());
    let mut it = rest.bytes();
    while let Some(byte) = it.next() {
        if byte == b'%' {
            let hi = char::from(it.next()?).to_digit(16)?;
            let lo = char::from(it.next()?).to_digit(16)?;
            bytes.push(u8::try_from(hi * 16 + lo).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    AbsPath::new(OsString::from_vec(bytes)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_with_blanks_percent_and_non_ascii() {
        for p in ["/a/b.lean", "/a b/ü%41.lean", "/x/😀/#?.lean"] {
            let path = AbsPath::new(p).unwrap();
            let uri = from_path(&path);
            assert!(uri.is_ascii());
            assert_eq!(to_path(&uri), Some(path));
        }
    }

    #[test]
    fn foreign_uris_are_not_paths() {
        assert_eq!(to_path("untitled:x"), None);
        assert_eq!(to_path("file://host/x"), None);
        assert_eq!(to_path("file:///%zz"), None);
        assert_eq!(to_path("file:///a%2"), None);
    }
}
