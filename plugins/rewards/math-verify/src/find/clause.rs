//! The end of an answer in a line of text.
//!
//! ```text
//! line     = value WORDS? (BOUNDARY rest)?
//! WORDS    = words of two letters or more: a unit, or a clause        "clips", "dollars a day", "so we are done"
//! BOUNDARY = ("," | ";") " " word | "." | "! " Capital | " (" | " - " word | " – " | "—" | closing markup | "，" | "。"
//! ```
//!
//! A rest that offers another answer makes the whole line the answer, which then equals none: `72 or 73`, `72 (or 73)`,
//! `72. Wait, 73`, `72 apples and 3 pears`. Words that change the value are part of it: `5 million`, `50 percent`.

use crate::parser::read;
use crate::words::{is_function, is_symbol, scale};

/// Longest line that is searched, in bytes: the work grows with its square.
const LONGEST: usize = 1_000;
/// Words at the begin of a rest after which the value does not stand.
const HEDGES: [&str; 40] = [
    "or",
    "and",
    "but",
    "if",
    "unless",
    "else",
    "otherwise",
    "except",
    "when",
    "whenever",
    "where",
    "wait",
    "actually",
    "hmm",
    "maybe",
    "perhaps",
    "possibly",
    "alternatively",
    "rather",
    "instead",
    "sorry",
    "oops",
    "correction",
    "plus",
    "minus",
    "times",
    "over",
    "to",
    "through",
    "divided",
    "multiplied",
    "mod",
    "modulo",
    "out",
    "point",
    "choose",
    "either",
    "hold",
    "no",
    "nor",
];
/// Words behind a value that begin a clause, in which numbers may follow.
const OPENERS: [&str; 12] =
    ["so", "because", "since", "as", "which", "that", "hence", "thus", "therefore", "not", "after", "making"];
/// Markup that ends an answer.
const CLOSING: [char; 6] = ['*', '_', '`', '"', '”', '’'];
/// Signs behind a number that do not change its value.
const SIGNS: [char; 11] = ['€', '$', '£', '¥', '₹', '₽', '°', '℃', '℉', '元', '円'];

/// Length of the value at the start of a line that is not a value as a whole; `None` if there is none, or another answer
/// follows.
pub fn head(text: &str) -> Option<usize> {
    if text.len() > LONGEST {
        return None;
    }
    let mut best = None;
    // Behind markup that ends, words are not part of the value.
    let mut is_over = false;
    let mut depth = 0_i32;
    for (place, letter) in text.char_indices() {
        if depth == 0
            && place > 0
            && let Some(boundary) = boundary(text, place)
        {
            let value = text[..place].trim_end();
            let is_value = !is_over && reads(value);
            match boundary {
                Boundary::Hedge => return None,
                Boundary::Words if is_value => best = Some(value.len()),
                Boundary::Clause if is_value => return Some(value.len()),
                // A remark behind a unit does not make the words before it a value.
                Boundary::Clause if best.is_some() => return best,
                Boundary::Words | Boundary::Clause => {}
            }
            is_over |= CLOSING.contains(&letter) && best.is_some();
        }
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        // A bracket that closes more than was opened ends the search.
        if depth < 0 {
            return best;
        }
    }
    best
}

/// Whether a line that reads as mathematics is a value with a rest all the same: `72 (48 + 24)`, which is not a product,
/// `72! That is it`, which is not a factorial, `72 - as expected`, `72** clips` or `72 m so x = 72`.
pub fn has_rest(text: &str) -> bool {
    if text.len() > LONGEST {
        return false;
    }
    let has_remark = text.split_once(" (").is_some_and(|(_, rest)| {
        let (inside, behind) = rest.split_once(')').unwrap_or((rest, ""));
        !inside.contains(|letter: char| letter.is_alphabetic() || "\\,(".contains(letter))
            && (behind.trim().is_empty() || behind.starts_with(['.', ',', ';', '!']))
    });
    let begins_rest = |(place, letter): (usize, char)| {
        let rest = &text[place..];
        if CLOSING.contains(&letter) {
            return boundary(text, place).is_some();
        }
        let may_begin = match letter {
            '!' => true,
            ' ' => rest.trim_start().starts_with(['-', '–']) || word(rest.trim_start()).is_some_and(opens),
            _ => false,
        };
        may_begin && matches!(boundary(text, place), Some(Boundary::Clause | Boundary::Hedge))
    };
    has_remark || text.char_indices().any(begins_rest)
}

fn opens(word: impl AsRef<str>) -> bool {
    OPENERS.contains(&word.as_ref())
}

/// Whether a value ends before this rest of its line: there is none, or it is a unit or a clause.
pub fn ends(rest: &str) -> bool {
    let rest = rest.trim_start_matches(CLOSING);
    let is_over = |letter: char| letter.is_whitespace() || ".,;:!?".contains(letter) || CLOSING.contains(&letter);
    rest.trim_matches(is_over).is_empty() || matches!(boundary(rest, 0), Some(Boundary::Words | Boundary::Clause))
}

enum Boundary {
    /// Words that may be a unit.
    Words,
    /// A clause, a remark, or the end of a sentence.
    Clause,
    /// A clause with another answer, or with a condition.
    Hedge,
}

fn reads(value: &str) -> bool {
    value.contains(char::is_alphanumeric) && read(value).is_ok()
}

/// Boundary at a place of a text.
fn boundary(text: &str, place: usize) -> Option<Boundary> {
    let rest = &text[place..];
    let mut letters = rest.chars();
    let (letter, next) = (letters.next()?, letters.next());
    let behind = &rest[letter.len_utf8()..];
    let is_spaced = next.is_none_or(char::is_whitespace);
    let after = behind.trim_start().trim_start_matches('*');
    match letter {
        ',' | ';' | ':' if is_spaced && word(after).is_some() => Some(clause(after)),
        '.' if is_spaced => Some(clause(after)),
        '。' => Some(clause(after)),
        '，' if !after.starts_with(char::is_numeric) => Some(clause(after)),
        '!' if is_spaced && begins_sentence(after) => {
            let has_number = after.contains(|letter: char| letter.is_ascii_digit());
            Some(if has_number { Boundary::Hedge } else { clause(after) })
        }
        '（' => Some(clause(behind)),
        '—' if after.starts_with(char::is_alphabetic) => Some(clause(after)),
        letter if CLOSING.contains(&letter) && !text[..place].ends_with(before_operand) => {
            behind_markup(rest.trim_start_matches(CLOSING))
        }
        letter if letter.is_whitespace() => spaced(after),
        _ => None,
    }
}

/// Whether a text begins with a capital letter and a small one, or with `I`; `USD` and `GB` are units.
fn begins_sentence(text: &str) -> bool {
    let mut letters = text.chars();
    let is_capital = letters.next().is_some_and(char::is_uppercase);
    is_capital && (letters.next().is_some_and(char::is_lowercase) || text.starts_with("I "))
}

/// Boundary behind markup that ends: a sign or a word that changes the value, such as `%`, is part of it.
fn behind_markup(rest: &str) -> Option<Boundary> {
    let rest = without_sign(rest);
    let after = rest.trim_start();
    match rest.chars().next() {
        None => Some(Boundary::Clause),
        Some(letter) if letter.is_whitespace() && after.is_empty() => Some(Boundary::Clause),
        Some(letter) if letter.is_whitespace() => spaced(after).or_else(|| {
            let end = after.find(|letter: char| !letter.is_alphabetic()).unwrap_or(after.len());
            is_symbol(&after[..end]).then_some(Boundary::Words)
        }),
        Some('.' | ',' | ';' | ':' | '!' | '?' | ')' | '。' | '，' | '—') => {
            boundary(rest, 0).or(Some(Boundary::Clause))
        }
        Some('^') if rest.starts_with("^\\circ") || rest.starts_with("^{\\circ}") => Some(Boundary::Words),
        Some(_) => None,
    }
}

/// Whether a character comes before a value, so that a star behind it does not end one.
fn before_operand(letter: char) -> bool {
    letter.is_whitespace() || "+-*/=^(,".contains(letter)
}

/// Rest without a currency or a degree at its start.
fn without_sign(rest: &str) -> &str {
    let Some(behind) = rest.trim_start().strip_prefix(SIGNS) else { return rest };
    let scale = behind.strip_prefix(['C', 'F', 'K']).unwrap_or(behind);
    if scale.starts_with(char::is_alphanumeric) { behind } else { scale }
}

/// Boundary behind a space.
fn spaced(after: &str) -> Option<Boundary> {
    if let Some(remark) = after.strip_prefix('(') {
        return Some(clause(remark));
    }
    if let Some(rest) = after.strip_prefix(['-', '–', '—']) {
        let rest = rest.trim_start_matches('-');
        let follows = rest.starts_with(char::is_whitespace) && word(rest.trim_start()).is_some();
        return follows.then(|| clause(rest.trim_start()));
    }
    let first = word(after)?;
    if HEDGES.contains(&&*first) {
        return Some(Boundary::Hedge);
    }
    if scale(&first).is_some() || is_function(&first) {
        return None;
    }
    if opens(&first) {
        return Some(clause(after));
    }
    let has_number = words_before_clause(after).any(|word| word.contains(|letter: char| letter.is_ascii_digit()));
    Some(if has_number || offers_another(after) { Boundary::Hedge } else { Boundary::Words })
}

/// Words up to a clause, a remark or the end of the sentence.
fn words_before_clause(text: &str) -> impl Iterator<Item = &str> {
    let mut is_over = false;
    text.split_whitespace().take_while(move |word| {
        let is_end = is_over || word.starts_with(['(', '—', '–', '-']) || opens(word);
        is_over |= word.ends_with(['.', ',', ';', ':', '!']);
        !is_end
    })
}

/// Kind of a clause.
fn clause(rest: &str) -> Boundary {
    let first = word(rest).unwrap_or_default();
    let is_hedge = HEDGES.contains(&&*first) || offers_another(rest);
    if is_hedge { Boundary::Hedge } else { Boundary::Clause }
}

/// Whether the rest of a line has an alternative, or a later clause that takes the value back.
fn offers_another(rest: &str) -> bool {
    let mut words = rest.split(|letter: char| !letter.is_alphanumeric());
    let takes_back = |(place, _): (usize, &str)| {
        let next = word(rest[place..].trim_start_matches(|letter: char| !letter.is_alphabetic()));
        next.is_some_and(|next| matches!(&*next, "wait" | "actually" | "maybe" | "perhaps" | "correction" | "but"))
    };
    words.any(|word| word.eq_ignore_ascii_case("or")) || rest.match_indices(['.', ',', ';', '!', '(']).any(takes_back)
}

/// The word of two letters or more at the start of a text, in lower case.
fn word(text: &str) -> Option<String> {
    let end = text.find(|letter: char| !letter.is_alphabetic()).unwrap_or(text.len());
    let word = &text[..end];
    // Letters before a bracket are a function: `f(3)`.
    let is_word = word.chars().nth(1).is_some() && !text[end..].starts_with(['(', '_', '^']);
    is_word.then(|| word.to_lowercase())
}
