//! White space as Python's `str.strip` sees it, and the classes of texts that depend on it.

/// Whether Python counts the character as white space.
pub(crate) fn is_space(letter: char) -> bool {
    letter.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&letter)
}

/// Byte offset of the text without leading white space.
pub(crate) fn first_of_trimmed(text: &str) -> usize {
    text.len() - text.trim_start_matches(is_space).len()
}

/// The property of a text that trimming and truth depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The empty text.
    Empty,
    /// White space only.
    Blank,
    /// A text with another character than white space.
    Solid,
}

impl Class {
    /// The class of a text.
    pub fn of(text: &str) -> Self {
        match text {
            "" => Self::Empty,
            _ if text.chars().all(is_space) => Self::Blank,
            _ => Self::Solid,
        }
    }

    /// The text without leading (`start`) and trailing (`end`) white space, as the methods `lstrip` and `rstrip` do.
    pub fn trim(text: &str, start: bool, end: bool) -> &str {
        let text = if start { text.trim_start_matches(is_space) } else { text };
        if end { text.trim_end_matches(is_space) } else { text }
    }
}
