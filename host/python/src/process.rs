//! Which process an object belongs to: a forked child must neither use nor drop what its parent made.
//!
//! The threads of the parent's runtime and ticker do not exist in a child, and locks may be held by threads that are gone.

use std::mem::ManuallyDrop;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::errors::FunctionFault;

/// Number of forks between the first process that loaded the module and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Counts a fork. Runs in the child before any other code of it, whatever code forked.
extern "C" fn count_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Begins to count forks of this process.
pub fn watch_forks() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: the handler only changes an atomic number, and the module is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
    });
}

/// The number of this process among its ancestors since the module was loaded.
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// A value that only the process that made it may use. In a forked child it is never dropped.
pub struct Owned<T> {
    value: ManuallyDrop<T>,
    generation: u64,
}

impl<T> Owned<T> {
    /// A value of this process.
    pub fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), generation: generation() }
    }

    /// The value.
    ///
    /// # Errors
    /// In a forked child of the process that made it.
    pub fn get(&self) -> Result<&T, FunctionFault> {
        if self.generation == generation() { Ok(&self.value) } else { Err(FunctionFault::Forked) }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.generation == generation() {
            // SAFETY: the value is dropped here alone and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
