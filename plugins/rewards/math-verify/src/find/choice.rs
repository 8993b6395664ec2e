//! The letter of a multiple-choice answer, alone or with the text of the choice.

/// The letters that are choices.
const LETTERS: std::ops::RangeInclusive<char> = 'A'..='J';
/// Markup that is not part of a choice.
const MARKUP: [&str; 12] =
    ["\\textbf", "\\text", "\\mathrm", "\\mathbf", "\\quad", "\\ ", "{", "}", "$", "*", "~", "\\"];
/// Words before a letter, in lower case.
const WORDS: [&str; 3] = ["option", "choice", "answer"];

/// The letter of an answer that is only a letter: `B`, `(B)` or `\text{B}`.
pub fn only_letter(text: &str) -> Option<char> {
    let text = without_markup(text);
    let text = text.strip_suffix(['.', ')']).unwrap_or(&text);
    letter(text.strip_prefix('(').unwrap_or(text)).filter(|(_, rest)| rest.is_empty()).map(|(letter, _)| letter)
}

/// The letter at the start of an answer: `(B) 42`, `B. 42`, `option B`. Another choice behind it makes it none.
pub fn leading_letter(text: &str) -> Option<char> {
    let text = without_markup(text);
    let lower = text.to_ascii_lowercase();
    let named = WORDS.iter().find_map(|word| lower.strip_prefix(word).filter(|rest| rest.starts_with(' ')));
    let text = named.map_or(&*text, |rest| text[text.len() - rest.len()..].trim_start());
    let inside = text.strip_prefix('(');
    let (letter, rest) = letter(inside.unwrap_or(text))?;
    let rest = match inside {
        Some(_) => rest.strip_prefix(')')?,
        None if rest.is_empty() => rest,
        None if named.is_some() && rest.starts_with(' ') => rest,
        None => rest.strip_prefix([')', '.', ':'])?,
    };
    (!has_choice(rest)).then_some(letter)
}

fn without_markup(text: &str) -> String {
    let plain =
        MARKUP.iter().fold(text.to_owned(), |text, mark| text.replace(mark, if *mark == "~" { " " } else { "" }));
    plain.trim().to_owned()
}

/// A letter that is a choice, and what follows it.
fn letter(text: &str) -> Option<(char, &str)> {
    let letter = text.chars().next().filter(|letter| LETTERS.contains(letter))?;
    let rest = &text[1..];
    (!rest.starts_with(char::is_alphanumeric)).then_some((letter, rest))
}

/// Whether a text has a letter of a choice as a word, or an alternative. `A` and `I` are also words.
fn has_choice(text: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric();
    text.split(|letter: char| !is_word(letter)).any(|word| word.eq_ignore_ascii_case("or"))
        || text.char_indices().any(|(place, one)| {
            let is_alone = !text[..place].ends_with(is_word) && letter(&text[place..]).is_some();
            is_alone && (!matches!(one, 'A' | 'I') || text[place + 1..].starts_with([')', ':']))
        })
}
