//! Identifiers of servers, workers, contract and SDK: words that hide the field's term are refused.

use std::path::Path;

use anyhow::Context as _;

use super::{layout, report, source};
use crate::step::step;
use crate::workspace::Workspace;

/// Files to check, as patterns of git.
const FILES: [&str; 5] = ["host/workers/*.rs", "host/serve/*.rs", "host/gateway/*.rs", "sdk/*.rs", "wit/*.wit"];

/// Words of identifiers and their replacements.
const WORDS: [(&str, &str); 10] = [
    ("away", "`remote`, or `unreachable`"),
    ("beat", "`heartbeat`"),
    ("beats", "`heartbeats`"),
    ("deed", "`action`"),
    ("door", "`endpoint`"),
    ("doors", "`endpoints`"),
    ("hear", "`record` or `receive`"),
    ("news", "`change`"),
    ("parcel", "`message`"),
    ("roster", "`members`"),
];

/// Fails on an identifier with such a word.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    step("identifiers", || {
        let mut findings = Vec::new();
        for file in workspace.files(&FILES)? {
            let text = std::fs::read_to_string(workspace.root.join(&file))
                .with_context(|| format!("cannot read `{}`", file.display()))?;
            if !layout::is_generated(&text) {
                findings.extend(check(&file, &text));
            }
        }
        report(&findings, "identifiers", "use the field's term, as the line says")
    })
}

/// Findings of one file, as `FILE:LINE: IDENTIFIER: HINT`.
fn check(file: &Path, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (line, code) in source::code(text).lines().enumerate() {
        for name in code.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '-') {
            let words = words(name);
            for (word, instead) in WORDS.iter().filter(|(word, _)| words.iter().any(|own| own == word)) {
                let place = format!("{}:{}", file.display(), line + 1);
                findings.push(format!("{place}: `{name}`: write {instead} instead of `{word}`"));
            }
        }
    }
    findings
}

/// Words of an identifier in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        let follows_small = words.last().is_some_and(|word| word.ends_with(|last: char| !last.is_uppercase()));
        if matches!(letter, '_' | '-') || (letter.is_uppercase() && follows_small) {
            words.push(String::new());
        }
        if !matches!(letter, '_' | '-') {
            words.last_mut().into_iter().for_each(|word| word.push(letter));
        }
    }
    words.into_iter().map(|word| word.to_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_identifiers_are_found_in_code_alone() {
        let text = "// a roster\nfn take_roster(heartbeat: ParcelHeader) { let beat_0 = \"news\"; hearing(HEAR) }\n";
        assert_eq!(
            check(Path::new("a.rs"), text),
            [
                "a.rs:2: `take_roster`: write `members` instead of `roster`",
                "a.rs:2: `ParcelHeader`: write `message` instead of `parcel`",
                "a.rs:2: `beat_0`: write `heartbeat` instead of `beat`",
                "a.rs:2: `HEAR`: write `record` or `receive` instead of `hear`",
            ]
        );
    }

    #[test]
    fn identifiers_are_split_at_case_and_marks() {
        assert_eq!(words("ParcelOffice"), ["parcel", "office"]);
        assert_eq!(words("MAX_BEATS"), ["max", "beats"]);
        assert_eq!(words("next-seat"), ["next", "seat"]);
    }
}
