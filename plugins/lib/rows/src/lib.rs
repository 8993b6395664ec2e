//! Rows of tasks, and a file of rows by split. A reader finds one row by two short reads, whatever the size of the file.
//!
//! Numbers are little endian, and positions count bytes from the begin of the file:
//!
//! | part | content |
//! | --- | --- |
//! | head | [`MAGIC`] |
//! | rows | each row's bytes and a line feed; a row is one line of JSON |
//! | index | for each split, for each of its rows: position (8 bytes), length (4 bytes) |
//! | splits | number of splits (4); for each: length of its name (4), name in UTF-8, number of rows (8), position of its index (8) |
//! | tail | position of `splits` (8), [`MAGIC`] |

mod message;
#[cfg(unix)]
mod on_disk;
mod reader;
mod row;
mod schema;
mod split;
mod writer;

pub use message::{Message, Role};
#[cfg(unix)]
pub use on_disk::OnDisk;

pub use reader::{ReadAt, ReadError, Reader, Split, is_rows};
pub use row::{COLUMNS, Function, Row, shown};
pub use split::{TEST, TRAIN, split_of};
pub use writer::{WriteError, Writer};

/// First and last bytes of a file.
pub const MAGIC: [u8; 8] = *b"GYMROWS1";

/// Longest row, in bytes.
pub const MAX_ROW_BYTES: u32 = 16 << 20;

/// Most splits of a file.
pub const MAX_SPLITS: usize = 1000;

/// Longest name of a split, in bytes.
pub const MAX_SPLIT_NAME: usize = 200;

/// Bytes of an entry of the index.
const ENTRY: u64 = 12;

/// Bytes of the tail.
const TAIL: u64 = 16;
