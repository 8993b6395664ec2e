//! Reading of Rust source as text: code without comments and texts, what they say, and the paths in the code.

pub mod waits;

/// A path's names, the first of which is `crate`, `self` or `super`.
pub type CodePath = Vec<String>;

/// The code of a source file: comments and the contents of texts are left out.
pub fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    pieces(text, |piece, is_code| code.push_str(if is_code { piece } else { " " }));
    code
}

/// The comments and texts of a source file, each word at its place: code is replaced by semicolons.
pub fn prose(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let blank = |piece: &str, by: &str| -> String {
        let blanked = piece.chars().map(|letter| match letter {
            letter if letter.is_whitespace() => letter.to_string(),
            letter => by.repeat(letter.len_utf8()),
        });
        blanked.collect()
    };
    pieces(text, |piece, is_code| {
        let marks = piece.len() - piece.trim_start_matches(['/', '!']).len();
        match piece.starts_with("//") {
            _ if is_code => prose.push_str(&blank(piece, ";")),
            true => prose.push_str(&(blank(&piece[..marks], " ") + &piece[marks..])),
            false => prose.push_str(piece),
        }
    });
    prose
}

/// Passes on each letter of the code, and each comment and text as a whole.
fn pieces(text: &str, mut visit: impl FnMut(&str, bool)) {
    let (mut rest, mut follows_name) = (text, false);
    while let Some(first) = rest.chars().next() {
        let skipped = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => quoted(rest),
            'r' if !follows_name => raw_text(rest),
            '\'' => character(rest),
            _ => 0,
        };
        let (piece, after) = rest.split_at(skipped.max(first.len_utf8() * usize::from(skipped == 0)));
        visit(piece, skipped == 0);
        follows_name = skipped == 0 && is_of_name(first);
        rest = after;
    }
}

fn ends_in_name(code: &str) -> bool {
    code.chars().next_back().is_some_and(is_of_name)
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Bytes of the block comment at the beginning, with those inside of it.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    loop {
        let rest = &text[at..];
        let Some(next) = rest.find(['/', '*']) else { return text.len() };
        at += next;
        match &text[at..] {
            rest if rest.starts_with("/*") => (depth, at) = (depth + 1, at + 2),
            rest if rest.starts_with("*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
}

/// Bytes of the text in quotes at the beginning.
fn quoted(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '"' if !is_escaped => return at + 1,
            _ => is_escaped = letter == '\\' && !is_escaped,
        }
    }
    text.len()
}

/// Bytes of the raw text at the beginning, such as `r#"…"#`; 0 if there is none.
fn raw_text(text: &str) -> usize {
    let marks = text[1..].bytes().take_while(|byte| *byte == b'#').count();
    if !text[1 + marks..].starts_with('"') {
        return 0;
    }
    let (start, end) = (2 + marks, format!("\"{}", "#".repeat(marks)));
    text[start..].find(&end).map_or(text.len(), |at| start + at + end.len())
}

/// Bytes of the character in quotes at the beginning; 0 for a lifetime.
fn character(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    match letters.next() {
        Some((_, '\\')) => letters.skip(1).find(|(_, letter)| *letter == '\'').map_or(0, |(at, _)| at + 1),
        Some(_) => letters.next().filter(|(_, letter)| *letter == '\'').map_or(0, |(at, _)| at + 1),
        None => 0,
    }
}

/// Code without the modules that are compiled for tests alone.
pub fn without_tests(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(test)]") {
        let (before, item) = rest.split_at(at);
        kept.push_str(before);
        rest = &item[item_end(item)..];
    }
    kept + rest
}

/// Bytes of the item at the beginning, up to its semicolon or its closing brace.
fn item_end(item: &str) -> usize {
    let mut depth = 0;
    for (at, letter) in item.char_indices() {
        match letter {
            ';' if depth == 0 => return at + 1,
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth <= 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    item.len()
}

/// Paths that begin with `crate`, `self` or `super`, those in groups of a `use` one by one.
pub fn paths(code: &str) -> Vec<CodePath> {
    let mut paths = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let rest = &code[at..];
        let name = name_at(rest);
        let is_inner = code[..at].ends_with("::");
        if matches!(name, "crate" | "self" | "super") && !is_inner && rest[name.len()..].trim_start().starts_with("::")
        {
            at += tree(rest, &[], &mut paths);
        } else {
            at += name.len().max(rest.chars().next().map_or(1, char::len_utf8));
        }
    }
    paths
}

/// Paths of `pub use`, whatever their first name, those in groups one by one. Names behind `as` are left out.
pub fn reexports(code: &str) -> Vec<CodePath> {
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("pub") {
        let rest = code[at + "pub".len()..].trim_start();
        let rest = match rest.strip_prefix('(').and_then(|scope| scope.split_once(')')) {
            Some((_, rest)) => rest.trim_start(),
            None => rest,
        };
        if !ends_in_name(&code[..at])
            && let Some(path) = rest.strip_prefix("use ")
        {
            tree(path, &[], &mut paths);
        }
    }
    paths
}

/// The name at the beginning; empty if there is none.
fn name_at(text: &str) -> &str {
    &text[..text.find(|letter: char| !is_of_name(letter)).unwrap_or(text.len())]
}

/// Adds the paths of a path or a group of paths behind `prefix`. Returns the bytes read.
fn tree(text: &str, prefix: &[String], paths: &mut Vec<CodePath>) -> usize {
    let mut path = prefix.to_vec();
    let mut at = 0;
    loop {
        at += space(&text[at..]);
        if text[at..].starts_with('{') {
            return at + group(&text[at..], &path, paths);
        }
        let name = name_at(&text[at..]);
        if name.is_empty() {
            break;
        }
        path.push(name.to_owned());
        at += name.len();
        let next = at + space(&text[at..]);
        if !text[next..].starts_with("::") {
            break;
        }
        at = next + 2;
    }
    paths.push(path);
    at
}

/// Adds the paths of a group in braces. Returns the bytes read.
fn group(text: &str, prefix: &[String], paths: &mut Vec<CodePath>) -> usize {
    let mut at = 1;
    while at < text.len() {
        at += space(&text[at..]);
        match &text[at..] {
            rest if rest.starts_with('}') => return at + 1,
            rest => {
                at += tree(rest, prefix, paths);
                // What follows a path, such as `as _`, is no path.
                at += text[at..].find([',', '}']).unwrap_or(text.len() - at);
                at += usize::from(text[at..].starts_with(','));
            }
        }
    }
    at
}

/// Bytes of white space at the beginning.
fn space(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(text: &str) -> Vec<String> {
        paths(&code(text)).iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn comments_and_texts_are_left_out() {
        let text = "a // b\n/* c /* d */ e */ f(\"g\\\"h\", r#\"i\"j\"#, 'k', '\\'', 'l') for<'m> r";
        let kept: String = code(text).split_whitespace().collect();
        assert_eq!(kept, "af(,,,,)for<'m>r");
    }

    #[test]
    fn prose_keeps_its_place() {
        let text = "let ü = \"one two\"; // three\n    /// four\nf(r#\"five\"#)";
        let prose = prose(text);
        assert_eq!(prose.len(), text.len());
        assert!(
            ["one two", " three", " four", "five"].iter().all(|word| prose.find(word) == text.find(word)),
            "{prose}"
        );
        assert!(!prose.contains("let") && !prose.contains('/'), "{prose}");
    }

    #[test]
    fn items_of_tests_are_left_out() {
        let text = "a;\n#[cfg(test)]\nmod tests {\n    fn b() { c }\n}\nd;\n#[cfg(test)]\nmod e;\nf;";
        assert_eq!(without_tests(text).split_whitespace().collect::<String>(), "a;d;f;");
    }

    #[test]
    fn reexports_are_read_with_every_visibility() {
        let text = "pub use a::{B, c::D};\nuse e::F;\npub(crate) use self::g::H;\npub(in crate::i) use j::K as L;\n\
                    pub mod m;\npub fn use_n() {}";
        let joined: Vec<String> = reexports(&code(text)).iter().map(|path| path.join("::")).collect();
        assert_eq!(joined, ["a::B", "a::c::D", "self::g::H", "j::K"]);
    }

    #[test]
    fn paths_are_read_from_imports_and_code() {
        let text = "use crate::a::{b::C, d::{self, E as F}, g::*};\npub(crate) fn h(x: &super::i::J<crate::k::L>) {\n\
                    self.m(self::n::o());\n std::crate_::p(); crate::\n  q }";
        assert_eq!(
            joined(text),
            [
                "crate::a::b::C",
                "crate::a::d::self",
                "crate::a::d::E",
                "crate::a::g",
                "super::i::J",
                "crate::k::L",
                "self::n::o",
                "crate::q",
            ]
        );
    }
}
