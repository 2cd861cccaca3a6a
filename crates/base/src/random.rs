//! Random bytes that nobody can guess, from the system; the one place that tokens and session keys come from.

use std::io;

/// So many bytes from the system's random source.
///
/// # Errors
/// The system has none to give; nothing else will do instead.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut out = [0; N];
    getrandom::fill(&mut out).map_err(io::Error::other)?;
    Ok(out)
}

/// So many bytes in lower-case hexadecimal, two digits each: a token that can stand in a file, a header or an argument.
///
/// # Errors
/// As [`bytes`].
pub fn token<const N: usize>() -> io::Result<String> {
    Ok(bytes::<N>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_differ() {
        let (one, other) = (token::<16>().unwrap(), token::<16>().unwrap());
        assert_eq!(one.len(), 32);
        assert!(one.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{one}");
        assert_ne!(one, other);
    }
}
