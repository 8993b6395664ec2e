//! Memory of libtorch, which allocates with the C library.

/// Allocations from this size on are mapped, and returned to the system when they are freed.
const MAPPED_BYTES: i32 = 4 << 20;

/// Keeps the tensors of training passes out of the C library's heaps. It raises its own threshold up to 32 MiB, and heaps
/// with tensors of many sizes have gaps: a run of 6 steps with a model of 135 million parameters grew to 14 GB.
pub fn limit_gaps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number of the allocator, before the first thread starts.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
    }
}
