//! Characters that make a reader see another text than the one that is there.

/// Whether a character is a control character, changes the reading direction, breaks a line, or is invisible: Unicode's
/// property `Default_Ignorable_Code_Point` with the separators of lines and paragraphs, without the variation selectors
/// that emoji need (U+FE00 to U+FE0F). Line ends and tabs are control characters, which a caller may allow.
#[must_use]
pub fn misleads(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_told_from_what_hides() {
        for letter in "aä漢ع א雪🙂\u{fe0f}€‘’–\u{a0}\u{3000}\u{301}".chars() {
            assert!(!misleads(letter), "{letter:?}");
        }
        for letter in
            "\0\n\t\x1b\u{9b}\u{61c}\u{180e}\u{200b}\u{200e}\u{2028}\u{202e}\u{2066}\u{2069}\u{feff}\u{fff9}\u{e0041}"
                .chars()
        {
            assert!(misleads(letter), "{letter:?}");
        }
    }
}
