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

/// Digest of the names and contents of files, relative to the root. Links to folders have no content of their own.
pub fn digest_of_files(root: &Path, files: &[PathBuf]) -> anyhow::Result<String> {
    let mut parts = Vec::new();
    for file in files.iter().filter(|file| !root.join(file).is_dir()) {
        parts.push(file.as_os_str().as_encoded_bytes().to_vec());
        parts.push(std::fs::read(root.join(file)).with_context(|| format!("cannot read `{}`", file.display()))?);
    }
    Ok(digest(parts.iter().map(Vec::as_slice)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_contents_count_and_links_to_folders_do_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        std::fs::create_dir(root.join("folder")).expect("created");
        std::os::unix::fs::symlink("folder", root.join("link")).expect("linked");
        std::fs::write(root.join("a"), "1").expect("written");
        let of = |names: &[&str]| {
            let files: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
            digest_of_files(root, &files)
        };
        let before = of(&["a", "link"]).expect("read");
        assert_eq!(of(&["a"]).expect("read"), before);
        std::fs::write(root.join("a"), "2").expect("written");
        assert_ne!(of(&["a"]).expect("read"), before);
        let error = of(&["absent"]).expect_err("no file").to_string();
        assert!(error.contains("cannot read `absent`"), "{error}");
    }
}
