//! Entry point of the fuzz target `data_rows`.

use crate::source::page_header_length;

/// Length of the header of a page at the start of these bytes; `None` if it is refused.
#[must_use]
pub fn page_header(bytes: &[u8]) -> Option<usize> {
    page_header_length(bytes)
}
