//! Lean's own text hash, so that a text can be named to a worker without sending it again.
//!
//! Lean's `String.hash` is MurmurHash64A over the UTF-8 bytes with seed 11 (`hash_str` in Lean's runtime). The values in the
//! tests were printed by a real Lean.

use std::borrow::Cow;

const SEED: u64 = 11;
const M: u64 = 0xc6a4_a793_5bd1_e995;
const R: u32 = 47;

/// Turns `\r\n` into `\n`, once, as Lean does with every text it opens; a lone `\r` stays, and so does the first of `\r\r\n`.
///
/// Not idempotent, as Lean's is not: `\r\r\n` becomes `\r\n`, which Lean's parser refuses as an isolated carriage return. So a text is
/// normalised where it is read, and nowhere else.
#[must_use]
pub fn normalize_newlines(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

/// A text that [`normalize_newlines`] turns into this one: what a worker is sent, as it normalises whatever it is sent.
#[must_use]
pub fn denormalize_newlines(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\r\r\n")) } else { Cow::Borrowed(text) }
}

/// Lean's `hash` of a text as it stands; of a file's content, that is after [`normalize_newlines`].
#[must_use]
pub fn lean_text_hash(text: &str) -> u64 {
    murmur64a(text.as_bytes(), SEED)
}

/// Lake's hash of a text whose [`lean_text_hash`] this is (`Lake.Hash.ofText`): that hash mixed into Lake's empty trace.
#[must_use]
pub fn lake_text_hash(text_hash: u64) -> u64 {
    const NIL: u64 = 1723;
    // `lean_uint64_mix_hash`; the second exclusive or is Lean's, where MurmurHash64A multiplies.
    let mut k = text_hash.wrapping_mul(M);
    k ^= k >> R;
    k ^= M;
    (NIL ^ k).wrapping_mul(M)
}

fn murmur64a(bytes: &[u8], seed: u64) -> u64 {
    // A slice's length fits in 64 bits on every target Rust has.
    let mut h = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut k = u64::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        h = (h ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        h = (h ^ u64::from_le_bytes(last)).wrapping_mul(M);
    }
    h ^= h >> R;
    h = h.wrapping_mul(M);
    h ^ (h >> R)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `#eval hash "…"` in Lean 4.28.0-pre.
    const FROM_LEAN: [(&str, u64); 25] = [
        ("", 9_877_294_847_684_254_529),
        ("a", 15_917_291_556_903_334_389),
        ("ab", 1_859_847_562_730_075_588),
        ("abc", 13_471_000_911_841_882_655),
        ("abcd", 11_774_739_814_239_950_349),
        ("abcde", 9_879_683_515_900_917_099),
        ("abcdef", 3_908_226_602_854_121_306),
        ("abcdefg", 934_485_623_504_580_153),
        ("abcdefgh", 4_343_876_127_666_658_534),
        ("abcdefghi", 4_853_633_868_021_991_863),
        ("abcdefghij", 13_591_273_013_636_353_742),
        ("abcdefghijk", 16_840_220_840_137_896_361),
        ("abcdefghijkl", 15_118_158_046_629_458_853),
        ("abcdefghijklm", 10_723_254_943_300_190_083),
        ("abcdefghijklmn", 11_063_154_514_736_088_531),
        ("abcdefghijklmno", 4_849_408_229_862_914_980),
        ("abcdefghijklmnop", 9_532_572_014_013_698_213),
        ("abcdefghijklmnopq", 10_292_012_499_202_201_976),
        ("λ", 12_846_411_820_529_120_378),
        ("∀ x : α, x = x", 16_424_524_609_697_639_784),
        ("日本語テキスト", 10_074_661_044_560_905_498),
        ("😀", 10_513_925_242_104_159_437),
        ("a\nb\n", 4_672_623_921_513_674_299),
        ("a\rb", 6_668_749_897_505_831_741),
        ("def f := 1\n", 14_264_703_723_407_273_360),
    ];

    #[test]
    fn the_values_are_leans() {
        for (text, hash) in FROM_LEAN {
            assert_eq!(lean_text_hash(text), hash, "{text:?}");
        }
        assert_eq!(lean_text_hash(&"x".repeat(1000)), 8_275_211_415_937_667_041);
    }

    /// `#eval mixHash 1723 (hash "…")` in Lean 4.28.0-pre.
    #[test]
    fn the_mixed_values_are_leans() {
        assert_eq!(lake_text_hash(lean_text_hash("def a := 1\n")), 10_132_011_979_054_286_555);
        assert_eq!(lake_text_hash(lean_text_hash("")), 2_433_114_807_351_286_261);
        assert_eq!(lake_text_hash(5), 3_325_771_459_931_962_717);
    }

    #[test]
    fn line_ends_are_leans() {
        for (read, lean) in [
            ("a\r\nb\r\n", "a\nb\n"),
            ("a\r\r\nb", "a\r\nb"),
            ("a\r\r\r\n", "a\r\r\n"),
            ("a\n\r\n\r", "a\n\n\r"),
            ("a\rb", "a\rb"),
        ] {
            assert_eq!(normalize_newlines(read), lean, "{read:?}");
        }
        assert!(matches!(normalize_newlines("a\rb\n"), Cow::Borrowed(_)));
        assert!(matches!(denormalize_newlines("a\rb\n"), Cow::Borrowed(_)));
    }

    proptest::proptest! {
        /// Any text can be sent so that Lean has exactly this one.
        #[test]
        fn what_is_sent_is_what_lean_has(text in "[\r\na]{0,12}") {
            let sent = denormalize_newlines(&text);
            proptest::prop_assert_eq!(normalize_newlines(&sent), text.as_str());
        }
    }
}
