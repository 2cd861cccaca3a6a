//! Positions in text. Three kinds that look alike and are not (invariant B2):
//!
//! * [`Utf16Pos`]: line and UTF-16 code units, both from 0: what LSP and our users send;
//! * [`ByteOffset`]: bytes from the start of the text: how strings are cut;
//! * [`DisplayPos`]: line and column from 1, columns in Unicode scalar values: what people read.

use std::fmt;

use serde::{Deserialize, Serialize};

/// 0-based line, 0-based UTF-16 code unit in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Utf16Pos {
    /// Line, from 0.
    pub line: u32,
    /// UTF-16 code units from the start of the line.
    pub character: u32,
}

/// A half-open range of [`Utf16Pos`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Utf16Range {
    /// First position.
    pub start: Utf16Pos,
    /// Position behind the last.
    pub end: Utf16Pos,
}

/// Bytes from the start of a UTF-8 text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteOffset(pub usize);

/// 1-based line and column, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DisplayPos {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl From<Utf16Pos> for DisplayPos {
    /// Counts the column in UTF-16 units when the text is not at hand.
    fn from(pos: Utf16Pos) -> Self {
        Self { line: pos.line.saturating_add(1), column: pos.character.saturating_add(1) }
    }
}

impl fmt::Display for DisplayPos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Why a position is not in a text; names the limit that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutOfRange {
    /// There is no such line.
    #[error("line {line} is beyond the last line {last}")]
    Line {
        /// What was asked.
        line: u32,
        /// The last line there is.
        last: u32,
    },
    /// The line is shorter.
    #[error("character {character} is beyond the end of line {line}, whose last position is {last}")]
    Character {
        /// The line.
        line: u32,
        /// What was asked.
        character: u32,
        /// UTF-16 length of the line without its line ending.
        last: u32,
    },
}

/// Where the lines of one text start. A line ends at `\n`; a `\r` before it belongs to the line ending, not to the line.
#[derive(Debug, Clone)]
pub struct LineIndex {
    starts: Vec<usize>,
}

impl LineIndex {
    /// Scans the text once.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut starts = vec![0];
        starts.extend(text.bytes().enumerate().filter(|&(_, b)| b == b'\n').map(|(i, _)| i + 1));
        Self { starts }
    }

    /// The last line: the one that holds end of file (empty if the text ends in a newline).
    #[must_use]
    pub fn last_line(&self) -> u32 {
        u32::try_from(self.starts.len() - 1).unwrap_or(u32::MAX)
    }

    fn line<'t>(&self, text: &'t str, line: u32) -> Option<(usize, &'t str)> {
        let n = usize::try_from(line).ok()?;
        let start = *self.starts.get(n)?;
        let body = match self.starts.get(n + 1) {
            Some(&next) => text.get(start..next - 1)?.strip_suffix('\r').unwrap_or(text.get(start..next - 1)?),
            None => text.get(start..)?,
        };
        Some((start, body))
    }

    /// Byte offset of a position. A position inside a surrogate pair counts as the start of its character.
    pub fn to_byte(&self, text: &str, pos: Utf16Pos) -> Result<ByteOffset, OutOfRange> {
        let (start, body) =
            self.line(text, pos.line).ok_or(OutOfRange::Line { line: pos.line, last: self.last_line() })?;
        let mut units = 0u32;
        for (i, ch) in body.char_indices() {
            let next = units + u32::try_from(ch.len_utf16()).unwrap_or(2);
            if pos.character < next {
                return Ok(ByteOffset(start + i));
            }
            units = next;
        }
        if pos.character == units {
            Ok(ByteOffset(start + body.len()))
        } else {
            Err(OutOfRange::Character { line: pos.line, character: pos.character, last: units })
        }
    }

    /// Position of a byte offset, which is clamped to the text and to a character boundary before it.
    #[must_use]
    pub fn to_utf16(&self, text: &str, offset: ByteOffset) -> Utf16Pos {
        let mut at = offset.0.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let n = self.starts.partition_point(|&s| s <= at) - 1;
        let units: usize = text[self.starts[n]..at].chars().map(char::len_utf16).sum();
        Utf16Pos { line: u32::try_from(n).unwrap_or(u32::MAX), character: u32::try_from(units).unwrap_or(u32::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(line: u32, character: u32) -> Utf16Pos {
        Utf16Pos { line, character }
    }

    #[test]
    fn astral_characters_count_two_units() {
        let text = "-- 😀\nx";
        let ix = LineIndex::new(text);
        assert_eq!(ix.to_byte(text, at(0, 5)), Ok(ByteOffset(7)));
        assert_eq!(ix.to_byte(text, at(0, 6)), Err(OutOfRange::Character { line: 0, character: 6, last: 5 }));
        assert_eq!(ix.to_utf16(text, ByteOffset(7)), at(0, 5));
    }

    #[test]
    fn carriage_return_is_no_column() {
        let text = "ab\r\nc\r";
        let ix = LineIndex::new(text);
        assert_eq!(ix.to_byte(text, at(0, 2)), Ok(ByteOffset(2)));
        assert!(ix.to_byte(text, at(0, 3)).is_err());
        assert_eq!(ix.to_byte(text, at(1, 2)), Ok(ByteOffset(6)));
    }

    #[test]
    fn the_line_behind_a_final_newline_exists() {
        let text = "a\n";
        let ix = LineIndex::new(text);
        assert_eq!(ix.to_byte(text, at(1, 0)), Ok(ByteOffset(2)));
        assert_eq!(ix.to_byte(text, at(2, 0)), Err(OutOfRange::Line { line: 2, last: 1 }));
    }

    /// A slow model: walk the characters, counting lines and units.
    fn naive(text: &str, pos: Utf16Pos) -> Option<usize> {
        let (mut line, mut unit) = (0, 0);
        for (i, ch) in text.char_indices() {
            if line == pos.line && unit <= pos.character && pos.character < unit + ch.len_utf16() as u32 && ch != '\n' {
                let crlf = ch == '\r' && text[i + 1..].starts_with('\n');
                return (!crlf || unit == pos.character).then_some(i);
            }
            if ch == '\n' {
                if line == pos.line && unit == pos.character {
                    return Some(i);
                }
                line += 1;
                unit = 0;
            } else if !(ch == '\r' && text[i + 1..].starts_with('\n')) {
                unit += ch.len_utf16() as u32;
            }
        }
        (line == pos.line && unit == pos.character).then_some(text.len())
    }

    proptest! {
        /// B2: the one place of conversion agrees with the naive model in both directions.
        #[test]
        fn b2_positions_agree_with_a_naive_model(text in "[a😀ü\r\n\t]{0,24}", line in 0u32..6, character in 0u32..10) {
            let ix = LineIndex::new(&text);
            let pos = at(line, character);
            prop_assert_eq!(ix.to_byte(&text, pos).ok().map(|b| b.0), naive(&text, pos));
            if let Ok(byte) = ix.to_byte(&text, pos) {
                let back = ix.to_utf16(&text, byte);
                prop_assert!(back == pos || (back.line == pos.line && back.character + 1 == pos.character));
            }
        }
    }
}
