//! Limit of what the rows of a file may take: a file of some hundred bytes can name gigabytes, by compression, by dictionaries
//! and lists that many rows share, or by an index that names one row often.

use std::fs::File;
use std::io;

/// Bytes that the rows of any file may take as JSON.
const ROWS_BYTES: u64 = 256 << 20;
/// Bytes of rows for each byte of the file, beyond that size.
const ROWS_RATIO: u64 = 256;
/// Bytes that a row takes besides its JSON.
const ROW_BYTES: u64 = 64;

/// Bytes that the rows of a file may still take.
pub(super) struct Unfolding {
    most: u64,
    left: u64,
}

impl Unfolding {
    /// The limit of a file.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        Ok(Self::of_size(file.metadata()?.len()))
    }

    fn of_size(size: u64) -> Self {
        let most = ROWS_BYTES.saturating_add(ROWS_RATIO.saturating_mul(size));
        Self { most, left: most }
    }

    /// Takes a row of this many bytes of JSON.
    ///
    /// # Errors
    /// If the rows take more than they may; in words.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), String> {
        let left = self.left.checked_sub(bytes.saturating_add(ROW_BYTES));
        self.left = left.ok_or_else(|| {
            let (mib, most) = (ROWS_BYTES >> 20, self.most);
            format!("its rows take more than {most} bytes: {mib} MiB and {ROWS_RATIO} times its size")
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_take_at_most_a_multiple_of_the_file() {
        let mut small = Unfolding::of_size(905);
        let most = (256 << 20) + 256 * 905;
        assert_eq!(small.take(most - 64), Ok(()));
        assert!(small.take(0).unwrap_err().contains(&format!("more than {most} bytes")));
        let mut rows = Unfolding::of_size(0);
        assert_eq!((0..4 << 20).try_for_each(|_| rows.take(0)), Ok(()), "as many empty rows as take 64 bytes each");
        assert!(rows.take(0).is_err());
        assert_eq!(Unfolding::of_size(u64::MAX).take(u64::MAX - 64), Ok(()));
    }
}
