//! Free space, checked before a download or a build fills the disk.

use std::path::Path;
use std::process::Command;

use crate::step::{UserError, output_of};

/// Fails if the disk of this folder has less than `needed` bytes free. A system that does not tell is trusted.
pub fn check(folder: &Path, needed: u64) -> anyhow::Result<()> {
    let listed = output_of(Command::new("df").args(["--output=avail", "--block-size=1"]).arg(folder));
    match listed.as_deref().and_then(free) {
        Some(free) if free < needed => Err(UserError(format!(
            "not enough disk space: {:.1} GB are needed and {:.1} GB are free\nhint: free space, or set CARGO_TARGET_DIR to a \
             folder on another disk",
            needed as f64 / 1e9,
            free as f64 / 1e9
        ))
        .into()),
        _ => Ok(()),
    }
}

/// The number below the heading of `df`.
fn free(listed: &str) -> Option<u64> {
    listed.lines().last()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_refused_with_both_sizes() {
        let here = std::env::temp_dir();
        check(&here, 1).expect("a byte is free");
        let error = check(&here, u64::MAX).expect_err("no disk is that large");
        assert!(error.is::<UserError>() && error.to_string().contains("GB are free\nhint:"), "{error}");
        assert_eq!(free("     Avail\n81919000"), Some(81_919_000));
        assert_eq!(free("no table"), None);
    }
}
