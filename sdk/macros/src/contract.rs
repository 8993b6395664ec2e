//! Plugin contract of this SDK: its version and digest.

use sha2::{Digest, Sha256};

/// Version of the WIT package `gymkhana:plugin`.
pub const VERSION: &str = "0.2.0";

/// WIT files of the contract, sorted by name.
const FILES: [(&str, &str); 6] = [
    ("environment.wit", include_str!("../wit/environment.wit")),
    ("imports.wit", include_str!("../wit/imports.wit")),
    ("reward.wit", include_str!("../wit/reward.wit")),
    ("tool.wit", include_str!("../wit/tool.wit")),
    ("types.wit", include_str!("../wit/types.wit")),
    ("worlds.wit", include_str!("../wit/worlds.wit")),
];

/// Digest of the contract: SHA-256 as 64 hexadecimal digits.
pub fn digest() -> String {
    digest_of(&FILES)
}

/// SHA-256 over, per file: name, zero byte, lines with LF line ends, zero byte. Empty lines and comments do not count.
fn digest_of(files: &[(&str, &str)]) -> String {
    let mut hasher = Sha256::new();
    for (name, text) in files {
        hasher.update(name.as_bytes());
        hasher.update([0]);
        for line in text.lines().filter(|line| !is_comment(line)) {
            hasher.update(line.as_bytes());
            hasher.update(b"\n");
        }
        hasher.update([0]);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a line is empty or a comment.
fn is_comment(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf 'a.wit\0x\ny\n\0b.wit\0z\n\0' | sha256sum`
    const GOLDEN: &str = "9b6a5cd2793d143613ecdf7c6f3eb7348776286941260d0e89303dff23bedb9d";

    #[test]
    fn digest_is_that_of_sha256sum() {
        assert_eq!(digest_of(&[("a.wit", "x\ny\n"), ("b.wit", "z")]), GOLDEN);
    }

    #[test]
    fn comments_and_line_ends_of_another_system_change_nothing() {
        assert_eq!(digest_of(&[("a.wit", "x\r\n\r\n  /// A comment\r\ny\r\n"), ("b.wit", "z")]), GOLDEN);
    }
}
