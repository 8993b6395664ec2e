//! `lint-prose`: fails on archaic phrases in the documentation, in snapshots of help and messages, and in comments and
//! texts of Rust and of the contract.
//!
//! Phrases are compared without regard to case, at word boundaries and across line breaks. Fenced code blocks and
//! code spans are skipped, except in snapshots.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{report, source};
use crate::step::step;
use crate::workspace::Workspace;

/// Files to check, as patterns of git.
const FILES: [&str; 12] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/*.md",
    "studies/*.md",
    "*.snap",
    "host/*.rs",
    "plugins/*.rs",
    "registry/*.rs",
    "sdk/*.rs",
    "*.wit",
];

/// Archaic phrases and their replacements.
const PHRASES: [(&str, &str); 39] = [
    ("anew", "write `again`"),
    ("anybody", "name the person or the program"),
    ("are no", "write `are not`, or state what exists"),
    ("asks nobody", "write `makes no request` or `offline`"),
    ("at a loss", "write `without`, and name what is missing"),
    ("by and by", "write `gradually`"),
    ("came of", "name the result"),
    ("counts no more", "write `is ignored` or `is no longer valid`"),
    ("everybody", "write `all users`, or name them"),
    ("gives way", "write `is replaced`"),
    ("goes on counting", "write `stays valid`"),
    ("hence", "write `therefore`"),
    ("herein", "name the place"),
    ("in the midst", "write `within` or `during`"),
    ("in the place of", "write `instead of`"),
    ("in vain", "state the failure"),
    ("is no", "write `is not`, or state what it is"),
    ("is not let in", "write `is refused`"),
    ("is told", "write `receives`, or name the message"),
    ("learnt", "write `learned` or `trained on`"),
    ("lest", "write `so that … not`"),
    ("let in", "write `accepted`"),
    ("lies beside", "write `is in the same folder as`"),
    ("moreover", "write `also`"),
    ("no more", "write `no longer`, or give the number"),
    ("nobody", "name the person or the program"),
    ("nor does", "write `neither`, or start a new sentence"),
    ("of one's own", "write `your own`"),
    ("save that", "write `except that`"),
    ("shall", "write `must` or `will`"),
    ("so many", "give the number"),
    ("somebody", "name the person or the program"),
    ("stands beside", "write `is next to` or `is part of`"),
    ("thereby", "write `by this`"),
    ("whence", "write `from which`"),
    ("wherein", "write `in which`"),
    ("whoever", "name the person or the program"),
    ("whomever", "name the person or the program"),
    ("whosoever", "name the person or the program"),
];

/// Files whose texts are data that hold a phrase.
const DATA: [(&str, &str); 2] = [
    ("plugins/environments/long-reader/src/document.rs", "somebody"),
    ("plugins/rewards/math-verify/src/find/clause.rs", "hence"),
];

/// Fails if a checked file contains an archaic phrase.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    step("lint-prose", || {
        let mut findings = Vec::new();
        for pattern in FILES {
            anyhow::ensure!(!workspace.files(&[pattern])?.is_empty(), "no file matches `{pattern}`, which is checked");
        }
        let is_test = |file: &PathBuf| file.iter().any(|part| part == "tests" || part == "tests.rs");
        for file in workspace.files(&FILES)?.into_iter().filter(|file| !is_test(file)) {
            let text = std::fs::read_to_string(workspace.root.join(&file))
                .with_context(|| format!("cannot read `{}`", file.display()))?;
            findings.extend(check(&file, &text));
        }
        report(&findings, "lint-prose", "replace each phrase as the line says, or quote it as code")
    })
}

/// Findings of one file, as `FILE:LINE:COLUMN: PHRASE: HINT`.
fn check(file: &Path, text: &str) -> Vec<String> {
    let extension = file.extension().unwrap_or_default();
    let prose =
        if ["rs", "wit"].iter().any(|code| extension == *code) { Cow::from(source::prose(text)) } else { text.into() };
    let words = words(&prose, extension != "snap");
    let mut findings = Vec::new();
    let is_data = |phrase: &str| DATA.iter().any(|(path, data)| file == Path::new(path) && phrase == *data);
    for (phrase, hint) in PHRASES.into_iter().filter(|(phrase, _)| !is_data(phrase)) {
        let wanted: Vec<&str> = phrase.split(' ').collect();
        for (at, found) in words.windows(wanted.len()).enumerate() {
            let is_adjacent = found[1..].iter().all(|word| word.follows);
            // "There is no" states that something does not exist.
            let exists = found[0].follows && at > 0 && words[at - 1].text == "there";
            if is_adjacent && !exists && found.iter().zip(&wanted).all(|(word, wanted)| word.text == **wanted) {
                let (line, column) = position(text, found[0].start);
                findings.push((line, column, format!("{}:{line}:{column}: `{phrase}`: {hint}", file.display())));
            }
        }
    }
    findings.sort();
    findings.into_iter().map(|(_, _, finding)| finding).collect()
}

/// A word of the prose, in lower case.
struct Word {
    text: String,
    /// Byte offset in the file.
    start: usize,
    /// Only spaces, a line break or a line's markers separate it from the word before.
    follows: bool,
}

/// Words of the text; code of Markdown separates words and is left out.
fn words(text: &str, is_markdown: bool) -> Vec<Word> {
    let mut words = Vec::new();
    let (mut offset, mut fence, mut follows) = (0, None, false);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        let marker = ["```", "~~~"].into_iter().find(|marker| is_markdown && trimmed.starts_with(marker));
        if fence.is_some() || marker.is_some() {
            fence = match fence {
                Some(open) if marker == Some(open) => None,
                Some(open) => Some(open),
                None => marker,
            };
            follows = false;
        } else {
            // A new paragraph or list item does not continue the line before.
            let starts_block = trimmed.is_empty() || trimmed.starts_with(['#', '-', '*', '|']);
            follows = words_of_line(line, offset, is_markdown, follows && !starts_block, &mut words);
        }
        offset += line.len();
    }
    words
}

/// Adds the words of a line; returns whether a next line may continue it.
fn words_of_line(line: &str, offset: usize, is_markdown: bool, mut follows: bool, words: &mut Vec<Word>) -> bool {
    let (mut start, mut in_code) = (None, false);
    for (at, sign) in line.char_indices().chain([(line.len(), ' ')]) {
        let is_letter = !in_code && (sign.is_alphanumeric() || matches!(sign, '\'' | '’' | '_' | '-'));
        match (start, is_letter) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                words.push(Word {
                    text: line[from..at].to_lowercase().replace('’', "'"),
                    start: offset + from,
                    follows,
                });
                (start, follows) = (None, true);
            }
            _ => {}
        }
        if is_markdown && sign == '`' {
            in_code = !in_code;
        }
        if !is_letter && !sign.is_whitespace() && !matches!(sign, '>' | '*') {
            follows = false;
        }
    }
    follows
}

/// Line and column, both from 1; columns count characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..offset];
    let line = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[line..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, text: &str) -> Vec<String> {
        let findings = check(Path::new(file), text);
        findings.iter().map(|finding| finding.split(": ").take(2).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn phrases_are_found_with_their_place() {
        assert_eq!(found("a.md", "It is no plugin.\n\nWhoever asks.\n"), ["a.md:1:4 `is no`", "a.md:3:1 `whoever`"]);
        assert_eq!(found("a.md", "ü anew"), ["a.md:1:3 `anew`"]);
        assert_eq!(found("a.md", "> it is\n> no plugin"), ["a.md:1:6 `is no`"], "across a line break");
        assert_eq!(
            found("a.snap", "A key\n  counts no more"),
            ["a.snap:2:3 `counts no more`", "a.snap:2:10 `no more`"]
        );
    }

    #[test]
    fn words_are_compared_whole() {
        for text in [
            "it is not",
            "there is no plugin",
            "this node",
            "is north",
            "renewed",
            "is, no",
            "It is. No plugin",
            "no-more",
            "is 1 no",
        ] {
            assert_eq!(found("a.md", text), Vec::<String>::new(), "{text}");
        }
        assert_eq!(found("a.md", "It is\n\nno plugin, as it is\n- no list").len(), 0, "other paragraphs and items");
    }

    #[test]
    fn code_is_skipped_in_markdown_only() {
        let text = "`whoever` asks\n\n```toml\nx = 1  # nobody\n~~~\nnobody\n```\nnobody\n~~~\nanew\n~~~\n";
        assert_eq!(found("a.md", text), ["a.md:8:1 `nobody`"]);
        assert_eq!(found("a.snap", "error: `nobody`"), ["a.snap:1:9 `nobody`"]);
    }

    #[test]
    fn phrases_are_sorted_and_lower_case() {
        assert!(PHRASES.is_sorted());
        assert!(PHRASES.iter().all(|(phrase, _)| phrase.to_lowercase() == *phrase));
    }
}
