//! Long texts, cut at a character.

use gymkhana_sdk::OptionValue;

/// Part of a long text that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
pub enum Keep {
    Start,
    End,
    /// Half of the start and half of the end.
    Both,
}

/// The text with at most this many characters of its own, and a mark in place of the others; 0 keeps the whole text.
pub fn cut(words: &str, most: usize, keep: Keep) -> String {
    let count = words.chars().count();
    if most == 0 || count <= most {
        return words.to_owned();
    }
    let (start, end) = match keep {
        Keep::Start => (most, 0),
        Keep::End => (0, most),
        Keep::Both => (most.div_ceil(2), most / 2),
    };
    let head: String = words.chars().take(start).collect();
    let tail: String = words.chars().skip(count - end).collect();
    format!("{head}[… {} characters omitted …]{tail}", count - most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_at_characters() {
        assert_eq!(cut("äöüß", 4, Keep::Start), "äöüß");
        assert_eq!(cut("äöüß", 0, Keep::Start), "äöüß");
        assert_eq!(cut("äöüß", 1, Keep::Start), "ä[… 3 characters omitted …]");
        assert_eq!(cut("äöüß", 1, Keep::End), "[… 3 characters omitted …]ß");
        assert_eq!(cut("abcdef", 3, Keep::Both), "ab[… 3 characters omitted …]f");
    }
}
