//! Numbers and strings in the source.

/// A number in the source.
#[derive(Debug, PartialEq)]
pub(super) enum NumberLiteral {
    Int(i128),
    Float(f64),
}

/// Whether a byte is a digit in some base.
type IsDigit = fn(u8) -> bool;

/// Bytes of digits with single underscores between them.
fn digits(text: &str, is_digit: IsDigit) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let goes_on = *byte == b'_' && at > 0 && bytes.get(at + 1).is_some_and(|next| is_digit(*next));
        if !is_digit(*byte) && !goes_on {
            break;
        }
        at += 1;
    }
    at
}

fn is_decimal(byte: u8) -> bool {
    byte.is_ascii_digit()
}

/// The number at the start of a text, and its bytes. Behind a dot, a number has no fraction.
pub(super) fn number(text: &str, may_be_float: bool) -> Result<(usize, NumberLiteral), String> {
    let too_large = |_| "a number is too large".to_owned();
    let prefix = text.get(..2).unwrap_or_default().to_ascii_lowercase();
    let radix: Option<(u32, IsDigit)> = match prefix.as_str() {
        "0x" => Some((16, |byte| byte.is_ascii_hexdigit())),
        "0o" => Some((8, |byte| (b'0'..=b'7').contains(&byte))),
        "0b" => Some((2, |byte| byte == b'0' || byte == b'1')),
        _ => None,
    };
    if let Some((radix, is_digit)) = radix {
        let rest = text.get(2..).unwrap_or_default();
        let bytes = digits(rest, is_digit);
        if bytes > 0 {
            let plain = rest.get(..bytes).unwrap_or_default().replace('_', "");
            return Ok((2 + bytes, NumberLiteral::Int(i128::from_str_radix(&plain, radix).map_err(too_large)?)));
        }
    }
    let whole = digits(text, is_decimal);
    let end = if may_be_float { float_end(text, whole) } else { whole };
    let plain = text.get(..end).unwrap_or_default().replace('_', "");
    if end > whole {
        let number = plain.parse().map_err(|_| "a number is malformed".to_owned())?;
        return Ok((end, NumberLiteral::Float(number)));
    }
    Ok((end, NumberLiteral::Int(plain.parse().map_err(too_large)?)))
}

/// Bytes of a number with its fraction and exponent.
fn float_end(text: &str, whole: usize) -> usize {
    let after = |at: usize| text.get(at..).unwrap_or_default();
    let mut end = whole;
    if after(end).starts_with('.') {
        let fraction = digits(after(end + 1), is_decimal);
        end += if fraction > 0 { 1 + fraction } else { 0 };
    }
    if after(end).starts_with(['e', 'E']) {
        let sign = usize::from(after(end + 1).starts_with(['+', '-']));
        let exponent = digits(after(end + 1 + sign), is_decimal);
        end += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    end
}

/// The value of a string between its quotes.
pub(super) fn text(source: &str) -> Result<String, String> {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        text.push_str(before);
        rest = escape_of(escape.get(1..).unwrap_or_default(), &mut text)?;
    }
    text.push_str(rest);
    Ok(text)
}

/// Appends the character of the escape after a backslash; returns what follows.
fn escape_of<'a>(source: &'a str, text: &mut String) -> Result<&'a str, String> {
    let Some(letter) = source.chars().next() else {
        text.push('\\');
        return Ok(source);
    };
    let rest = source.get(letter.len_utf8()..).unwrap_or_default();
    let simple = match letter {
        '\n' => return Ok(rest),
        '\\' | '\'' | '"' => letter,
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '0'..='7' => {
            let bytes = source.bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
            return coded(source, bytes, 8, text);
        }
        'x' => return coded(rest, 2, 16, text),
        'u' => return coded(rest, 4, 16, text),
        'U' => return coded(rest, 8, 16, text),
        'N' => return Err("a string names a character, which is not supported".to_owned()),
        _ => {
            text.push('\\');
            letter
        }
    };
    text.push(simple);
    Ok(rest)
}

/// Appends the character with the code in the first bytes.
fn coded<'a>(source: &'a str, bytes: usize, radix: u32, text: &mut String) -> Result<&'a str, String> {
    let digits = source.get(..bytes).filter(|digits| digits.chars().all(|digit| digit.is_digit(radix)));
    let code = digits.and_then(|digits| u32::from_str_radix(digits, radix).ok());
    let Some(letter) = code.and_then(char::from_u32) else {
        return Err("a string has a malformed escape".to_owned());
    };
    text.push(letter);
    Ok(source.get(bytes..).unwrap_or_default())
}
