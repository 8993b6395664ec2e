//! Digests of what a check reads: it need not run again while they are the same.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Digest of these bytes, in their order. It protects against forgetting, not against forgery.
pub fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hasher = DefaultHasher::new();
    for part in parts {
        hasher.write_usize(part.len());
        hasher.write(part);
    }
    format!("{:016x}", hasher.finish())
}

/// Digest of the names and contents of files, relative to the root.
pub fn digest_of_files(root: &Path, files: &[PathBuf]) -> anyhow::Result<String> {
    let mut parts = Vec::new();
    for file in files {
        parts.push(file.as_os_str().as_encoded_bytes().to_vec());
        parts.push(std::fs::read(root.join(file)).with_context(|| format!("cannot read `{}`", file.display()))?);
    }
    Ok(digest(parts.iter().map(Vec::as_slice)))
}
