//! Stacks on which guests run.

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

use rustix::param::page_size;
use wasmtime::{Error, StackCreator, StackMemory};

use super::{FreeList, Mapping};

/// Bytes at the top of a kept stack that stay resident, to avoid page faults in the next instance.
const KEPT_RESIDENT: usize = 64 << 10;

/// Creator of stacks from mappings of ended instances.
///
/// A kept stack is not cleaned: compiled guests and the host read only what they wrote, and no guest can read its stack by
/// address.
#[derive(Default)]
pub(crate) struct Stacks {
    free: Arc<FreeList>,
}

// SAFETY: a stack owns a mapping whose first page is inaccessible and whose others nothing else uses.
unsafe impl StackCreator for Stacks {
    fn new_stack(&self, size: usize, zeroed: bool) -> Result<Box<dyn StackMemory>, Error> {
        let bytes = size.saturating_add(page_size());
        let make = || {
            let mut mapping = Mapping::new(bytes)?;
            mapping.guard()?;
            Ok(mapping)
        };
        let mapping = if zeroed { make() } else { self.free.take_or(bytes, make) }?;
        Ok(Box::new(Stack { mapping: ManuallyDrop::new(mapping), free: Arc::clone(&self.free) }))
    }
}

/// The stack of one instance.
struct Stack {
    /// Taken when this is dropped.
    mapping: ManuallyDrop<Mapping>,
    free: Arc<FreeList>,
}

// SAFETY: all addresses are in the mapping, which is page-aligned and does not move.
unsafe impl StackMemory for Stack {
    fn top(&self) -> *mut u8 {
        self.mapping.base.as_ptr().wrapping_add(self.mapping.bytes)
    }

    fn range(&self) -> Range<usize> {
        let base = self.mapping.base.as_ptr() as usize;
        base + page_size()..base + self.mapping.bytes
    }

    fn guard_range(&self) -> Range<*mut u8> {
        let base = self.mapping.base.as_ptr();
        base..base.wrapping_add(page_size())
    }
}

impl Drop for Stack {
    /// Keeps the mapping for another instance, without the memory of deep calls.
    fn drop(&mut self) {
        // SAFETY: the mapping is not used after this.
        let mut mapping = unsafe { ManuallyDrop::take(&mut self.mapping) };
        let deep = mapping.bytes.saturating_sub(KEPT_RESIDENT).max(page_size());
        if mapping.discard(page_size(), deep).is_ok() {
            self.free.put(mapping);
        }
    }
}
