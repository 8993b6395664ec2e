//! Patterns of text that the agent must not see.

use gymkhana_sdk::Error;

/// Longest list of patterns, in bytes.
const MAX_BYTES: usize = 4096;

/// Element of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    Character(char),
    /// A decimal digit.
    Digit,
    /// The shortest text within a line.
    Any,
}

/// Patterns, of which the first that fits at a place is masked there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask(Vec<Vec<Element>>);

impl Mask {
    /// Patterns, one a line.
    pub fn new(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_BYTES {
            return Err(Error::Invalid(format!("option `mask` must have at most {MAX_BYTES} bytes")));
        }
        let patterns: Vec<Vec<Element>> = text.lines().filter(|line| !line.is_empty()).map(elements).collect();
        if let Some(wild) = text.lines().find(|line| !line.is_empty() && line.chars().all(|letter| letter == '*')) {
            return Err(Error::Invalid(format!("option `mask` must have patterns with a character, not `{wild}`")));
        }
        Ok(Self(patterns))
    }

    /// The text with every match replaced.
    pub fn apply(&self, words: &str, replacement: &str) -> String {
        if self.0.is_empty() {
            return words.to_owned();
        }
        let letters: Vec<char> = words.chars().collect();
        let (mut shown, mut at) = (String::with_capacity(words.len()), 0);
        while at < letters.len() {
            let found = self.0.iter().find_map(|pattern| matched(pattern, &letters[at..]));
            match found {
                Some(length) if length > 0 => {
                    shown.push_str(replacement);
                    at += length;
                }
                _ => {
                    shown.push(letters[at]);
                    at += 1;
                }
            }
        }
        shown
    }
}

fn elements(line: &str) -> Vec<Element> {
    let element = |letter| match letter {
        '*' => Element::Any,
        '#' => Element::Digit,
        other => Element::Character(other),
    };
    let mut elements: Vec<Element> = line.chars().map(element).collect();
    elements.dedup_by(|next, before| (*next, *before) == (Element::Any, Element::Any));
    elements
}

/// Number of characters at the start of a text that match a pattern. A `*` at the end takes the rest of the line.
///
/// Each `*` takes the shortest text after which the next elements fit, so the work is at most the product of both
/// lengths.
fn matched(pattern: &[Element], letters: &[char]) -> Option<usize> {
    let (mut element, mut at) = (0, 0);
    // Place of the last `*`, and of the text after what it takes.
    let mut last: Option<(usize, usize)> = None;
    loop {
        match pattern.get(element) {
            None => return Some(at),
            Some(Element::Any) if element + 1 == pattern.len() => {
                let rest = letters[at..].iter().take_while(|letter| **letter != '\n').count();
                return Some(at + rest);
            }
            Some(Element::Any) => {
                last = Some((element, at));
                element += 1;
            }
            Some(one) if letters.get(at).is_some_and(|letter| fits(*one, *letter)) => {
                element += 1;
                at += 1;
            }
            Some(_) => {
                let (star, taken) = last?;
                // The `*` takes one character more, which must not end the line.
                letters.get(taken).filter(|letter| **letter != '\n')?;
                last = Some((star, taken + 1));
                (element, at) = (star + 1, taken + 1);
            }
        }
    }
}

fn fits(element: Element, letter: char) -> bool {
    match element {
        Element::Character(character) => character == letter,
        Element::Digit => letter.is_ascii_digit(),
        Element::Any => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(patterns: &str, words: &str) -> String {
        Mask::new(patterns).expect("good patterns").apply(words, "_")
    }

    #[test]
    fn characters_digits_and_wildcards_are_masked() {
        assert_eq!(masked("", "as it was"), "as it was");
        assert_eq!(masked("key=*;", "key=a1; key=b2; key"), "_ _ key");
        assert_eq!(masked("##:##", "at 12:30, not at 1:30"), "at _, not at 1:30");
        assert_eq!(masked("secret: *", "secret: x y\nopen"), "_\nopen");
        assert_eq!(masked("a*c\nb", "abc b ab"), "_ _ a_");
        // The wildcard does not cross a line.
        assert_eq!(masked("a*c", "ab\nc"), "ab\nc");
    }

    #[test]
    fn a_pattern_of_wildcards_alone_is_refused() {
        assert!(Mask::new("**").is_err());
        assert!(Mask::new(&"x".repeat(4097)).is_err());
    }
}
