//! Characters of other scripts and of typography in their plain spelling.

use std::iter::Peekable;
use std::str::Chars;

/// Digits of zero in other scripts; the nine others follow each.
const ZEROS: [u32; 18] = [
    0x0660, 0x06f0, 0x0966, 0x09e6, 0x0a66, 0x0ae6, 0x0b66, 0x0be6, 0x0c66, 0x0ce6, 0x0d66, 0x0e50, 0x0ed0, 0x0f20,
    0x1040, 0x17e0, 0x1810, 0xff10,
];
const RAISED: &str = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿⁱ⁽⁾";
const LOWERED: &str = "₀₁₂₃₄₅₆₇₈₉₊₋ₙᵢ₍₎";
/// What raised and lowered characters stand for.
const ON_LINE: &str = "0123456789+-ni()";

/// Text with digits of other scripts, full-width and mathematical letters, raised and lowered characters, and marks of
/// typography in the spelling of a keyboard. Fractions of one character stay.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if let Some(first) = on_line(letter, RAISED) {
            shifted(&mut plain, '^', first, &mut letters, RAISED);
        } else if let Some(first) = on_line(letter, LOWERED) {
            shifted(&mut plain, '_', first, &mut letters, LOWERED);
        } else {
            push(&mut plain, letter);
        }
    }
    plain
}

/// Character on the line for a raised or lowered one.
fn on_line(letter: char, shifted: &str) -> Option<char> {
    shifted.chars().zip(ON_LINE.chars()).find_map(|(one, other)| (one == letter).then_some(other))
}

/// Adds a run of raised or lowered characters as `^{…}` or `_{…}`.
fn shifted(plain: &mut String, sign: char, first: char, letters: &mut Peekable<Chars<'_>>, set: &str) {
    plain.extend([sign, '{', first]);
    while let Some(next) = letters.peek().and_then(|letter| on_line(*letter, set)) {
        plain.push(next);
        letters.next();
    }
    plain.push('}');
}

fn push(plain: &mut String, letter: char) {
    let code = u32::from(letter);
    let digit = ZEROS.iter().find_map(|zero| code.checked_sub(*zero).filter(|digit| *digit < 10));
    let other = match code {
        // Digits and letters of formulas, in several styles.
        0x1d7ce..=0x1d7ff => char::from_digit((code - 0x1d7ce) % 10, 10),
        0x1d400..=0x1d6a3 => {
            let place = (code - 0x1d400) % 52;
            char::from_u32(if place < 26 { u32::from('A') + place } else { u32::from('a') + place - 26 })
        }
        0xff01..=0xff5e => char::from_u32(code - 0xfee0),
        _ => digit.and_then(|digit| char::from_digit(digit, 10)),
    };
    let text = match letter {
        'ℎ' => "h",
        '⁄' | '∕' => "/",
        '٫' | '。' | '．' => ".",
        '٬' | '،' | '、' => ",",
        '‐' | '‑' | '﹣' | '－' => "-",
        '…' => "...",
        '℃' => "°C",
        '℉' => "°F",
        'ℝ' => "\\mathbb{R}",
        '\u{3000}' => " ",
        _ => return plain.push(other.unwrap_or(letter)),
    };
    plain.push_str(text);
}

/// Value of a fraction of one character, as its two parts.
pub fn fraction(letter: char) -> Option<(u32, u32)> {
    Some(match letter {
        '½' => (1, 2),
        '⅓' => (1, 3),
        '⅔' => (2, 3),
        '¼' => (1, 4),
        '¾' => (3, 4),
        '⅕' => (1, 5),
        '⅖' => (2, 5),
        '⅗' => (3, 5),
        '⅘' => (4, 5),
        '⅙' => (1, 6),
        '⅚' => (5, 6),
        '⅐' => (1, 7),
        '⅛' => (1, 8),
        '⅜' => (3, 8),
        '⅝' => (5, 8),
        '⅞' => (7, 8),
        '⅑' => (1, 9),
        '⅒' => (1, 10),
        _ => return None,
    })
}
