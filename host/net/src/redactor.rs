//! Search for a secret in bytes of a server, in the spellings that servers commonly return.
//!
//! Each character may be written plainly, as a JSON escape, percent-encoded, or, for a space, as `+`, in any mixture.
//! The same applies to the base64 text of a secret, alone or within a longer base64 text.

use base64::Engine;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};

/// Minimum length in bytes of a part of a secret, or of a secret in base64; shorter texts are too common.
pub(crate) const SHORTEST_PART: usize = 6;

/// Prefix of a header value that holds the base64 text of `NAME:PASSWORD`.
const BASIC: &str = "basic ";

/// Texts to find.
pub(crate) struct SecretRedactor {
    texts: Vec<Vec<char>>,
    /// Numbers of the texts by the first byte of their UTF-8.
    by_first: Vec<Vec<usize>>,
}

impl SecretRedactor {
    /// The spellings of a header value: the value, its part after the last space, name and password of `Basic`, and
    /// the base64 text of each.
    pub(crate) fn of(value: &str) -> Self {
        let token = value.rsplit_once(' ').map(|(_, token)| token.to_owned());
        let pair = basic(value);
        let (name, password) = pair.as_deref().and_then(|pair| pair.split_once(':')).unzip();
        let parts = [token, pair.clone(), name.map(str::to_owned), password.map(str::to_owned)];
        let mut plain: Vec<String> = parts.into_iter().flatten().filter(|part| part.len() >= SHORTEST_PART).collect();
        plain.push(value.to_owned());
        let encoded = plain.iter().filter(|text| text.len() >= SHORTEST_PART).flat_map(|text| in_base64(text));
        let mut texts: Vec<String> = encoded.collect();
        texts.extend(plain);
        texts.retain(|text| !text.is_empty());
        texts.sort();
        texts.dedup();
        let texts: Vec<Vec<char>> = texts.iter().map(|text| text.chars().collect()).collect();
        let mut by_first = vec![Vec::new(); 256];
        for (number, text) in texts.iter().enumerate() {
            by_first[usize::from(first_byte(text[0]))].push(number);
        }
        Self { texts, by_first }
    }

    /// Replaces every occurrence by `mark`; the longest one where several begin.
    pub(crate) fn hide(&self, bytes: Vec<u8>, mark: &[u8]) -> Vec<u8> {
        let mut hidden = Vec::new();
        let (mut copied, mut place) = (0, 0);
        while place < bytes.len() {
            match self.end_at(&bytes, place) {
                Some(end) => {
                    hidden.extend_from_slice(&bytes[copied..place]);
                    hidden.extend_from_slice(mark);
                    (copied, place) = (end, end);
                }
                None => place += 1,
            }
        }
        if copied == 0 {
            return bytes;
        }
        hidden.extend_from_slice(&bytes[copied..]);
        hidden
    }

    /// End of the longest text that begins at `place`.
    fn end_at(&self, bytes: &[u8], place: usize) -> Option<usize> {
        let candidates = first_bytes_at(&bytes[place..]).flat_map(|first| &self.by_first[usize::from(first)]);
        candidates.filter_map(|number| end_of(&self.texts[*number], bytes, place)).max()
    }
}

/// First byte of the UTF-8 of a character.
fn first_byte(character: char) -> u8 {
    character.encode_utf8(&mut [0; 4]).as_bytes()[0]
}

/// First bytes of the characters that `rest` can begin with, read plainly and as an escape. Only texts with such a
/// first byte are compared, so that a response of nothing but escapes costs little.
fn first_bytes_at(rest: &[u8]) -> impl Iterator<Item = u8> {
    let plain = rest.first().copied();
    let space = (plain == Some(b'+')).then_some(b' ');
    let short = rest.get(1).copied().filter(|next| plain == Some(b'\\') && matches!(next, b'"' | b'\\' | b'/'));
    let percent = rest.get(..3).filter(|escape| escape[0] == b'%').and_then(|escape| hex(&escape[1..]));
    let percent = percent.and_then(|byte| u8::try_from(byte).ok());
    let units = [json_unit(rest, 0), json_unit(rest, 6)].into_iter().map_while(|unit| unit);
    let number = char::decode_utf16(units).next().and_then(Result::ok).map(first_byte);
    [plain, space, short, percent, number].into_iter().flatten()
}

/// UTF-16 unit of the JSON escape `\uXXXX` at a place.
fn json_unit(rest: &[u8], place: usize) -> Option<u16> {
    let escape = rest.get(place..place + 6).filter(|escape| escape.starts_with(b"\\u"))?;
    hex(&escape[2..]).and_then(|unit| u16::try_from(unit).ok())
}

/// End of a text that begins at `place`, with any spelling of each character. Some characters can be read in two ways,
/// such as `%25` for a secret with `%`, so every possible end is followed.
fn end_of(text: &[char], bytes: &[u8], place: usize) -> Option<usize> {
    let mut ends = vec![place];
    for character in text {
        let mut next: Vec<usize> = ends.iter().flat_map(|end| ends_of(*character, bytes, *end)).collect();
        next.sort_unstable();
        next.dedup();
        if next.is_empty() {
            return None;
        }
        ends = next;
    }
    ends.into_iter().max()
}

/// Ends of the spellings of a character that begin at `place`.
fn ends_of(character: char, bytes: &[u8], place: usize) -> impl Iterator<Item = usize> {
    let rest = bytes.get(place..).unwrap_or_default();
    let mut buffer = [0; 4];
    let utf8 = character.encode_utf8(&mut buffer).as_bytes();
    let plain = rest.starts_with(utf8).then_some(utf8.len());
    let space = (character == ' ' && rest.first() == Some(&b'+')).then_some(1);
    let lengths = [plain, space, short_escape(character, rest), json_escape(character, rest), percent(utf8, rest)];
    lengths.into_iter().flatten().map(move |length| place + length)
}

/// Length of a short JSON escape, such as `\/`.
fn short_escape(character: char, rest: &[u8]) -> Option<usize> {
    let escaped = matches!(character, '"' | '\\' | '/') && rest.first() == Some(&b'\\');
    (escaped && rest.get(1).copied().map(char::from) == Some(character)).then_some(2)
}

/// Length of a JSON escape by number, such as `\u003d`; two of them for a character beyond U+FFFF.
fn json_escape(character: char, rest: &[u8]) -> Option<usize> {
    let mut buffer = [0; 2];
    let units = character.encode_utf16(&mut buffer);
    let is_unit = |(index, unit): (usize, &u16)| json_unit(rest, 6 * index) == Some(*unit);
    units.iter().enumerate().all(is_unit).then_some(6 * units.len())
}

/// Length of the percent-encoded bytes, such as `%3D`.
fn percent(utf8: &[u8], rest: &[u8]) -> Option<usize> {
    let is_byte = |(index, byte): (usize, &u8)| {
        let escape = rest.get(3 * index..3 * index + 3);
        escape.is_some_and(|escape| escape[0] == b'%' && hex(&escape[1..]) == Some(u32::from(*byte)))
    };
    utf8.iter().enumerate().all(is_byte).then_some(3 * utf8.len())
}

/// Number of hexadecimal digits in either case.
fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |number, digit| Some(number * 16 + char::from(*digit).to_digit(16)?))
}

/// `NAME:PASSWORD` of a `Basic` header value.
fn basic(value: &str) -> Option<String> {
    let scheme = value.get(..BASIC.len())?;
    let encoded = scheme.eq_ignore_ascii_case(BASIC).then(|| value[BASIC.len()..].trim().trim_end_matches('='))?;
    String::from_utf8(BASE64_STANDARD_NO_PAD.decode(encoded).ok()?).ok()
}

/// Base64 texts in both alphabets: the whole one, and the part that does not depend on neighbours for each of the three
/// offsets within a longer text.
fn in_base64(text: &str) -> Vec<String> {
    let mut texts = Vec::new();
    for engine in [&BASE64_STANDARD_NO_PAD, &BASE64_URL_SAFE_NO_PAD] {
        texts.push(engine.encode(text));
        for offset in 0..3 {
            let whole = engine.encode([&[0; 2][..offset], text.as_bytes()].concat());
            // A base64 character holds 6 bits; those that also hold bits of a neighbour are left out.
            let (first, last) = ((8 * offset).div_ceil(6), 8 * (offset + text.len()) / 6);
            texts.push(whole[first..last].to_owned());
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes with every occurrence of a spelling of `secret` replaced by `*`.
    fn hidden(secret: &str, text: &str) -> String {
        String::from_utf8(SecretRedactor::of(secret).hide(text.as_bytes().to_vec(), b"*")).unwrap()
    }

    #[test]
    fn every_promised_spelling_is_found() {
        // Encoded forms are from Python's json, urllib.parse and base64.
        let secret = "k=/+?\" Zz9";
        for spelling in [
            "k=/+?\" Zz9",
            r#"k=/+?\" Zz9"#,
            r#"k\u003d/\u002b?\u0022 Zz9"#,
            r#"k\u003D\/\u002B?\" Zz9"#,
            r"\u006b\u003d\u002f\u002b\u003f\u0022\u0020\u005a\u007a\u0039",
            "k%3D%2F%2B%3F%22%20Zz9",
            "k%3d%2f%2b%3f%22%20Zz9",
            "k%3D%2F%2B%3F%22+Zz9",
            "%6b%3d%2F%2b%3F%22%20%5a%7A%39",
            "az0vKz8iIFp6OQ",
            "az0vKz8iIFp6OQ==",
            "az0vKz8iIFp6OQ%3D%3D",
            r"az0vKz8iIFp6OQ\u003d\u003d",
        ] {
            let text = format!("before {spelling} after");
            let found = hidden(secret, &text);
            assert!(found.starts_with("before *") && found.ends_with(" after"), "{spelling}: {found}");
            assert!(!found.contains("Zz9") && !found.contains("z0vKz"), "{spelling}: {found}");
        }
    }

    #[test]
    fn base64_of_a_text_around_the_secret_is_found() {
        // base64 of `x-key: topsecret!`, `a topsecret b` and `the topsecret`.
        for text in ["eC1rZXk6IHRvcHNlY3JldCE=", "YSB0b3BzZWNyZXQgYg==", "dGhlIHRvcHNlY3JldA=="] {
            assert!(hidden("topsecret", text).contains('*'), "{text}");
        }
        // base64 of `a topsecrat b`.
        assert_eq!(hidden("topsecret", "YSB0b3BzZWNyYXQgYg=="), "YSB0b3BzZWNyYXQgYg==");
    }

    #[test]
    fn name_and_password_of_basic_are_found() {
        // base64 of `operator:pass-word`.
        let secret = "Basic b3BlcmF0b3I6cGFzcy13b3Jk";
        assert_eq!(hidden(secret, "b3BlcmF0b3I6cGFzcy13b3Jk, operator:pass-word"), "*, *");
        assert_eq!(hidden(secret, "user operator, password pass-word"), "user *, password *");
        assert_eq!(hidden(secret, "pass%2Dword operator%3apass-word"), "* *");
        // base64 of `me:pass-word`: the name is too short to be a text of its own.
        assert_eq!(hidden("basic bWU6cGFzcy13b3Jk", "me and me:pass-word"), "me and *");
        assert_eq!(hidden("Basic not base64!", "not base64, base64! Basic not base64!"), "not base64, * *");
    }

    #[test]
    fn other_texts_stay() {
        for text in ["k=/+?\" Zz8", "k%3D%2F%2B%3F%22%20Zz", r"k\u003e/+? Zz9", "%", r"\u00", "", "az0vKz8jIFp6OQ"] {
            assert_eq!(hidden("k=/+?\" Zz9", text), text);
        }
        assert_eq!(hidden("", "anything"), "anything");
        // Not promised: reversed, with zero-width characters, or in another case.
        for text in ["terces-ym", "my-\u{200b}secret", "MY-SECRET"] {
            assert_eq!(hidden("my-secret", text), text);
        }
    }

    #[test]
    fn characters_that_are_also_escapes_are_read_in_both_ways() {
        for secret in ["100%25ab", r"a\u0062\\c", "50%%+1x"] {
            assert_eq!(hidden(secret, &format!("<{secret}>")), "<*>");
        }
        assert_eq!(hidden("100%25ab", "<100%2525ab>"), "<*>");
        // U+1F600 as UTF-8, percent-encoded, and as two escapes of JSON.
        for text in ["key-😀", "key-%F0%9F%98%80", r"key-\ud83d\uDE00"] {
            assert_eq!(hidden("key-😀", text), "*");
        }
    }
}
