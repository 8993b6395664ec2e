//! Read-only files that a run mounts for a plugin, with their content digests.

use std::collections::BTreeMap;
use std::sync::Arc;

use gymkhana_registry::Digest;

/// Mounted files by name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Assets {
    files: Arc<BTreeMap<String, Asset>>,
}

/// A mounted file.
#[derive(Debug)]
pub(crate) struct Asset {
    pub digest: Digest,
    pub bytes: Arc<[u8]>,
}

impl FromIterator<(String, Arc<[u8]>)> for Assets {
    fn from_iter<I: IntoIterator<Item = (String, Arc<[u8]>)>>(files: I) -> Self {
        let asset = |(name, bytes): (String, Arc<[u8]>)| (name, Asset { digest: Digest::of(&bytes), bytes });
        Self { files: Arc::new(files.into_iter().map(asset).collect()) }
    }
}

impl Assets {
    /// All files, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Asset)> {
        self.files.iter()
    }

    /// At most `length` bytes from `offset`; `None` if the file is not mounted.
    pub(crate) fn read(&self, name: &str, offset: u64, length: u32) -> Option<&[u8]> {
        let bytes = &self.files.get(name)?.bytes;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let end = start.saturating_add(length as usize).min(bytes.len());
        Some(&bytes[start..end])
    }

    /// Names for an error message.
    pub(crate) fn listed(&self) -> String {
        if self.files.is_empty() {
            return "nothing".to_owned();
        }
        self.files.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    }
}
