//! The WIT contract that this host implements: its version and the digest of its files.

use std::sync::LazyLock;

use crate::Digest;

/// Version of the WIT package `gymkhana:plugin`.
pub const VERSION: semver::Version = semver::Version::new(0, 2, 0);

/// Name of the WIT package, the prefix of interface names.
pub const PACKAGE: &str = "gymkhana:plugin";

/// Files of the contract, sorted by name.
const FILES: [(&str, &str); 6] = [
    ("environment.wit", include_str!("../../wit/environment.wit")),
    ("imports.wit", include_str!("../../wit/imports.wit")),
    ("reward.wit", include_str!("../../wit/reward.wit")),
    ("tool.wit", include_str!("../../wit/tool.wit")),
    ("types.wit", include_str!("../../wit/types.wit")),
    ("worlds.wit", include_str!("../../wit/worlds.wit")),
];

/// Digest of the contract: SHA-256 over each file's name, a zero byte, its lines with `\n` line ends, a zero byte. Empty
/// lines and comments do not count.
///
/// The version of an unreleased contract stays the same while its text changes, so only the digest tells whether a plugin
/// and this host implement the same contract.
#[must_use]
pub fn digest() -> Digest {
    static DIGEST: LazyLock<Digest> = LazyLock::new(|| {
        let mut bytes = Vec::new();
        for (name, text) in FILES {
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
            for line in text.lines().filter(|line| !is_comment(line)) {
                bytes.extend_from_slice(line.as_bytes());
                bytes.push(b'\n');
            }
            bytes.push(0);
        }
        Digest::of(&bytes)
    });
    *DIGEST
}

/// Whether a line is empty or a comment.
fn is_comment(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_covers_every_wit_file() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .expect("the contract's folder")
            .map(|entry| entry.expect("an entry"))
            // The package for wrappers has a folder of its own.
            .filter(|entry| entry.path().is_file())
            .map(|entry| entry.file_name().into_string().expect("a plain name"))
            .collect();
        names.sort();
        assert_eq!(names, FILES.map(|(name, _)| name));
        for (name, text) in FILES {
            assert!(text.starts_with(&format!("package {PACKAGE}@{VERSION};")), "{name}");
        }
    }

    /// Each line that names an item, a field or a case follows a doc comment, or another line of the same item.
    #[test]
    fn every_item_has_a_doc_comment() {
        let wrapper = include_str!("../../wit/wrapper/inner.wit");
        for (name, text) in FILES.into_iter().chain([("inner.wit", wrapper)]) {
            let mut before = "";
            for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
                let names_none = ["package ", "use ", "import ", "export ", "}", "//", "->"];
                let is_item = !names_none.iter().any(|start| line.starts_with(start));
                assert!(!is_item || before.starts_with("///"), "{name}: `{line}` has no doc comment");
                before = line;
            }
        }
    }
}
