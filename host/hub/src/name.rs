//! Names of models, revisions and files, validated so that they are safe as paths.

use std::fmt;
use std::path::{Component, Path};

/// Maximum length of a model's name on the hub, in bytes.
const MAX_LENGTH: usize = 96;

/// An invalid name of a model or revision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a valid {what}\nhint: write {how}")]
pub struct NameError {
    name: String,
    what: &'static str,
    how: &'static str,
}

/// A model's name on a hub: `name`, or `owner/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Repository(String);

impl Repository {
    /// Parses a name.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        let parts: Vec<&str> = name.split('/').collect();
        let good = |part: &&str| {
            !part.is_empty()
                && !part.starts_with(['.', '-'])
                && !part.ends_with(['.', '-'])
                && part.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter))
        };
        let whole = parts.len() <= 2 && name.len() <= MAX_LENGTH && !name.contains("..") && !name.contains("--");
        if whole && parts.iter().all(good) {
            return Ok(Self(name.to_owned()));
        }
        Err(NameError { name: name.to_owned(), what: "name of a model", how: "OWNER/NAME, as on its page" })
    }

    /// Text of the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A branch, a tag or a commit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(String);

impl Revision {
    /// Parses a revision.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        let good = |part: &str| {
            !part.is_empty()
                && !part.starts_with('.')
                && part.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-+".contains(letter))
        };
        if name.len() <= 2 * MAX_LENGTH && name.split('/').all(good) {
            return Ok(Self(name.to_owned()));
        }
        Err(NameError { name: name.to_owned(), what: "revision", how: "a branch, a tag or a commit, such as main" })
    }

    /// Text of the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the commit if the revision is a full commit hash.
    #[must_use]
    pub fn as_commit(&self) -> Option<Commit> {
        Commit::parse(&self.0)
    }
}

/// Commit hash, which identifies immutable files.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Commit(String);

impl Commit {
    /// Parses a full hash of 40 lower-case hexadecimal digits.
    #[must_use]
    pub fn parse(hash: &str) -> Option<Self> {
        let hex = |letter: char| letter.is_ascii_digit() || ('a'..='f').contains(&letter);
        (hash.len() == 40 && hash.chars().all(hex)).then(|| Self(hash.to_owned()))
    }

    /// The hash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Entity tag of a content, its file name in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tag(String);

impl Tag {
    /// Parses an `ETag` header; `None` if it is not a valid file name.
    pub fn parse(header: &str) -> Option<Self> {
        let tag = header.trim_start_matches("W/").trim_matches('"');
        let good = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        let whole = (1..=128).contains(&tag.len()) && !tag.starts_with('.') && tag.chars().all(good);
        whole.then(|| Self(tag.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// SHA-256 digest of the content, which is the tag of large files.
    pub fn sha256(&self) -> Option<&str> {
        (self.0.len() == 64 && self.0.chars().all(|letter| letter.is_ascii_hexdigit())).then_some(self.0.as_str())
    }
}

/// Returns whether a name is a plain file name without a folder.
pub(super) fn is_file_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name);
    plain && !name.contains(['\\', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safe_names_are_valid() {
        for name in ["gpt2", "Qwen/Qwen2.5-0.5B-Instruct", "a/b_c", "meta-llama/Llama-3.2-1B"] {
            assert_eq!(Repository::parse(name).unwrap().as_str(), name);
        }
        for name in ["", "a/b/c", "../a", "a/..", "a/.b", "a/b--c", "/a", "a/", "a b", "a\\b", "a/b.", "ä/b"] {
            assert!(Repository::parse(name).is_err(), "{name}");
        }
        for name in ["main", "v1.0", "refs/pr/1", "6f8a0ac8f4e3e7b8d9d2a5b2c6d4d1e2f3a4b5c6"] {
            assert_eq!(Revision::parse(name).unwrap().as_str(), name);
        }
        for name in ["", "..", "a/../b", "/main", "main/", "a b", "%2e%2e", ".git"] {
            assert!(Revision::parse(name).is_err(), "{name}");
        }
    }

    #[test]
    fn only_plain_commits_tags_and_files_become_paths() {
        assert!(Commit::parse(&"a1".repeat(20)).is_some());
        for hash in ["main", "../../../../../../../../../../etc/passwd_", &"A1".repeat(20), &"a1".repeat(21)] {
            assert!(Commit::parse(hash).is_none(), "{hash}");
        }
        for (header, tag) in [("\"abc\"", Some("abc")), ("W/\"a-b\"", Some("a-b")), ("\"../a\"", None), ("\"\"", None)]
        {
            assert_eq!(Tag::parse(header).as_ref().map(Tag::as_str), tag, "{header}");
        }
        assert!(is_file_name("model-00001-of-00002.safetensors"));
        for name in ["", ".", "..", "a/b", "/a", "a/", "./a", "a\\b"] {
            assert!(!is_file_name(name), "{name}");
        }
    }
}
