//! Read-only files that a run mounts for a plugin, with their content digests.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use gymkhana_registry::Digest;
use sha2::{Digest as _, Sha256};

/// Largest asset that is held in memory, in bytes. Larger ones are read from their files.
const IN_MEMORY: u64 = 64 << 20;

/// Bytes that are copied at once.
const CHUNK: usize = 1 << 20;

/// Mounted files by name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Assets {
    files: Arc<BTreeMap<String, AssetContent>>,
}

/// Content of an asset. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AssetContent {
    digest: Digest,
    size: u64,
    source: Source,
}

/// Where the bytes are.
#[derive(Debug, Clone)]
enum Source {
    Memory(Arc<[u8]>),
    /// A file that must not change while it is mounted.
    File(Arc<File>),
}

impl AssetContent {
    /// Content of a file. A file above 64 MiB stays on disk and must not change while it is mounted.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_above(path, IN_MEMORY)
    }

    fn open_above(path: &Path, in_memory: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        if file.metadata()?.len() <= in_memory {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return Ok(Self::from(bytes));
        }
        let (mut hasher, mut chunk, mut size) = (Sha256::new(), vec![0; CHUNK], 0);
        loop {
            let read = file.read(&mut chunk)?;
            if read == 0 {
                break;
            }
            hasher.update(&chunk[..read]);
            size += read as u64;
        }
        Ok(Self { digest: Digest::from_hasher(hasher), size, source: Source::File(Arc::new(file)) })
    }

    /// SHA-256 of the content.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads the content from its begin.
    #[must_use]
    pub fn reader(&self) -> AssetReader {
        AssetReader { content: self.clone(), position: 0 }
    }

    /// Number of bytes of a read of `length` bytes from `offset`.
    pub(crate) fn available(&self, offset: u64, length: u32) -> u64 {
        self.size.saturating_sub(offset).min(length.into())
    }

    /// At most `length` bytes from `offset`.
    pub(crate) fn read(&self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.available(offset, length) as usize];
        self.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Fills `bytes` from an offset at which there are that many.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.source {
            Source::File(file) => file.read_exact_at(bytes, offset),
            Source::Memory(_) if bytes.is_empty() => Ok(()),
            Source::Memory(content) => {
                // The offset is within the content, whose length is a `usize`.
                bytes.copy_from_slice(&content[offset as usize..][..bytes.len()]);
                Ok(())
            }
        }
    }
}

impl From<Vec<u8>> for AssetContent {
    fn from(bytes: Vec<u8>) -> Self {
        Self { digest: Digest::of(&bytes), size: bytes.len() as u64, source: Source::Memory(bytes.into()) }
    }
}

impl From<&[u8]> for AssetContent {
    fn from(bytes: &[u8]) -> Self {
        Self::from(bytes.to_vec())
    }
}

/// Reads an asset from its begin to its end.
#[derive(Debug)]
pub struct AssetReader {
    content: AssetContent,
    position: u64,
}

impl Read for AssetReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let read = self.content.available(self.position, length) as usize;
        self.content.read_exact_at(&mut bytes[..read], self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl FromIterator<(String, AssetContent)> for Assets {
    fn from_iter<I: IntoIterator<Item = (String, AssetContent)>>(files: I) -> Self {
        Self { files: Arc::new(files.into_iter().collect()) }
    }
}

impl Assets {
    /// All files, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &AssetContent)> {
        self.files.iter()
    }

    /// Content of a file; `None` if it is not mounted.
    pub(crate) fn get(&self, name: &str) -> Option<&AssetContent> {
        self.files.get(name)
    }

    /// Names for an error message.
    pub(crate) fn listed(&self) -> String {
        if self.files.is_empty() {
            return "nothing".to_owned();
        }
        self.files.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_on_disk_reads_like_one_in_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, b"0123456789").expect("written");
        let on_disk = AssetContent::open_above(&path, 9).expect("a file");
        let in_memory = AssetContent::open_above(&path, 10).expect("a file");
        assert!(matches!((&on_disk.source, &in_memory.source), (Source::File(_), Source::Memory(_))));
        // `printf 0123456789 | sha256sum`
        let digest = "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882";
        for content in [&on_disk, &in_memory] {
            assert_eq!((content.digest().to_string().as_str(), content.size()), (digest, 10));
            let read = |offset, length| String::from_utf8(content.read(offset, length).expect("read")).expect("digits");
            assert_eq!([read(0, 3), read(8, 5), read(10, 1), read(u64::MAX, 1)], ["012", "89", "", ""]);
            let mut whole = String::new();
            content.reader().read_to_string(&mut whole).expect("read");
            assert_eq!(whole, "0123456789");
        }
    }
}
