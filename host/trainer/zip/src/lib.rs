//! Stands in for the crate `zip` below `tch` and the build script of `torch-sys`.
//!
//! They use it for NumPy's `.npz` files and for a download of libtorch, neither of which Gymkhana does. The crate brings
//! 18 others, with AES and two compressors in C, before the binding of libtorch can be compiled; this one brings none. It
//! has the functions that those two call, and refuses every archive.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::marker::PhantomData;
use std::path::PathBuf;

use result::ZipError;

/// Errors.
pub mod result {
    /// The one error: there are no archives.
    #[derive(Debug)]
    pub struct ZipError;

    impl std::fmt::Display for ZipError {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("archives are left out of this build")
        }
    }

    impl std::error::Error for ZipError {}
}

/// Settings of files.
pub mod write {
    use super::CompressionMethod;

    /// Settings of a file.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct FileOptions;

    impl FileOptions {
        /// The same settings.
        #[must_use]
        pub fn compression_method(self, _method: CompressionMethod) -> Self {
            self
        }
    }
}

/// Compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionMethod {
    /// None.
    Stored,
}

/// An archive to read. There is none.
pub struct ZipArchive<R>(Infallible, PhantomData<R>);

impl<R: Read> ZipArchive<R> {
    /// Refuses the archive.
    ///
    /// # Errors
    /// Always.
    pub fn new(_reader: R) -> Result<Self, ZipError> {
        Err(ZipError)
    }

    /// Number of files.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match self.0 {}
    }

    /// A file.
    ///
    /// # Errors
    /// None, as there is no archive.
    pub fn by_index(&mut self, _index: usize) -> Result<ZipFile<'_>, ZipError> {
        match self.0 {}
    }
}

/// A file of an archive. There is none.
pub struct ZipFile<'a>(Infallible, PhantomData<&'a ()>);

impl ZipFile<'_> {
    /// Name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.0 {}
    }

    /// Size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self.0 {}
    }

    /// Name as a path.
    #[must_use]
    pub fn mangled_name(&self) -> PathBuf {
        match self.0 {}
    }
}

impl Read for ZipFile<'_> {
    fn read(&mut self, _buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.0 {}
    }
}

/// An archive to write.
pub struct ZipWriter<W>(PhantomData<W>);

impl<W: Write> ZipWriter<W> {
    /// An archive that takes no file.
    #[must_use]
    pub fn new(_writer: W) -> Self {
        Self(PhantomData)
    }

    /// Refuses the file.
    ///
    /// # Errors
    /// Always.
    pub fn start_file(&mut self, _name: impl Into<String>, _options: write::FileOptions) -> Result<(), ZipError> {
        Err(ZipError)
    }
}

impl<W> Write for ZipWriter<W> {
    fn write(&mut self, _bytes: &[u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other(ZipError))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
