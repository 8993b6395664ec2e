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

/// SHA-256 over, per file: name, zero byte, text with LF line ends, zero byte.
fn digest_of(files: &[(&str, &str)]) -> String {
    let mut hasher = Sha256::new();
    for (name, text) in files {
        hasher.update(name.as_bytes());
        hasher.update([0]);
        hasher.update(text.replace("\r\n", "\n").as_bytes());
        hasher.update([0]);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf 'a.wit\0x\ny\n\0b.wit\0z\0' | sha256sum`
    const GOLDEN: &str = "da1a26a1e3e09b1c98e99c63b3fa7cee9d2846547aac266cc8f2455d11a3f1ed";

    #[test]
    fn digest_is_that_of_sha256sum() {
        assert_eq!(digest_of(&[("a.wit", "x\ny\n"), ("b.wit", "z")]), GOLDEN);
    }

    #[test]
    fn line_ends_of_another_system_change_nothing() {
        assert_eq!(digest_of(&[("a.wit", "x\r\ny\r\n"), ("b.wit", "z")]), GOLDEN);
    }
}
