//! JSON-RPC ids: echoed as spelled, compared by value.
//!
//! `1` and `1.0` are the same id, `1` and `"1"` are not. Numbers are compared as digits and a decimal exponent, never through
//! a float or an integer of fixed width, and never written out: `1e999999999` costs nothing.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// An id as the client spelled it, with the key it is compared by.
#[derive(Clone)]
pub(crate) struct Id {
    spelled: Box<RawValue>,
    key: IdKey,
}

/// What makes two ids the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum IdKey {
    /// The decoded string.
    Text(String),
    /// `digits * 10^exponent`, digits without leading or trailing zeros; no digits at all is zero, whatever its sign.
    Number {
        /// Below zero.
        negative: bool,
        /// Significant decimal digits.
        digits: String,
        /// At least 0: a real fraction is no id.
        exponent: i128,
    },
}

impl Id {
    /// Reads an id. `None`: null, a boolean, a container, a fraction, a string that is no Unicode text, or an exponent that
    /// nobody counts with (beyond thirty digits; refused, so that two different ids are never taken for one).
    pub(crate) fn parse(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        let key = match text.as_bytes().first()? {
            b'"' => IdKey::Text(serde_json::from_str(text).ok()?),
            b'-' | b'0'..=b'9' => number(text)?,
            _ => return None,
        };
        Some(Self { spelled: raw.to_owned(), key })
    }

    /// What it is compared by.
    pub(crate) fn key(&self) -> &IdKey {
        &self.key
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.spelled.serialize(s)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.spelled.get())
    }
}

/// The key of a JSON number; `None` if it is not a whole number.
fn number(text: &str) -> Option<IdKey> {
    let (negative, unsigned) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all: String = [whole, fraction].concat();
    let digits = all.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Some(IdKey::Number { negative: false, digits: String::new(), exponent: 0 });
    }
    let exponent = exponent.map_or(Some(0), small)?;
    let trailing = i128::try_from(digits.len() - significant.len()).ok()?;
    let exponent = exponent - i128::try_from(fraction.len()).ok()? + trailing;
    (exponent >= 0).then(|| IdKey::Number { negative, digits: significant.to_owned(), exponent })
}

/// A JSON exponent, if it has at most thirty digits: adding a string length to it then cannot overflow.
fn small(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    let n: i128 = (digits.len() <= 30).then(|| digits.parse().ok())??;
    Some(if negative { -n } else { n })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Option<Id> {
        Id::parse(&RawValue::from_string(text.to_owned()).unwrap())
    }

    fn same(a: &str, b: &str) -> bool {
        id(a).unwrap().key() == id(b).unwrap().key()
    }

    #[test]
    fn whole_numbers_are_compared_by_value() {
        for (a, b) in [
            ("1", "1.0"),
            ("1", "10e-1"),
            ("100", "1e2"),
            ("100", "1E+2"),
            ("0", "-0"),
            ("0", "0.00e99999999999999999999999999999999999999"),
            ("1e999999999", "10e999999998"),
            ("123456789012345678901234567890", "123456789012345678901234567890.000"),
            ("-5", "-0.5e1"),
            ("\"a\"", "\"\\u0061\""),
        ] {
            assert!(same(a, b), "{a} {b}");
        }
        for (a, b) in [
            ("1", "\"1\""),
            ("1", "-1"),
            ("9007199254740993", "9007199254740992"),
            ("1e999999999", "1e999999998"),
            ("18446744073709551616", "0"),
            ("\"\"", "0"),
            ("\"1\"", "\"1.0\""),
        ] {
            assert!(!same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn what_is_no_id() {
        for text in [
            "null",
            "true",
            "[]",
            "{}",
            "1.5",
            "1e-1",
            "15e-1",
            "\"\\ud800\"",
            "1e9999999999999999999999999999999",
            "1e-9999999999999999999999999999999",
        ] {
            assert!(id(text).is_none(), "{text}");
        }
    }

    #[test]
    fn the_spelling_is_kept() {
        for text in ["1.0", "\"\\u0031\"", "-0", "1e2", "123456789012345678901234567890"] {
            assert_eq!(serde_json::to_string(&id(text).unwrap()).unwrap(), text);
        }
    }
}
