//! Counter of SQLite's large memory allocations. They measure work that instruction counts miss, because a single
//! instruction can create a complete value. Small allocations are excluded, because their number depends on SQLite's
//! caches; the sandbox's budget bounds the cost of small values.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Once, OnceLock};

use rusqlite::ffi;

/// Minimum size of a counted allocation, in bytes: more than a page with its overhead.
const LARGE: c_int = 5_120;

type Malloc = unsafe extern "C" fn(c_int) -> *mut c_void;

/// SQLite's own allocator.
static INNER: OnceLock<Malloc> = OnceLock::new();

thread_local! {
    static COUNTED: Cell<u64> = const { Cell::new(0) };
}

/// Total size of the large allocations of this thread, in bytes.
pub(crate) fn counted() -> u64 {
    COUNTED.get()
}

/// Installs the counter before the first database is opened.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut methods = ffi::sqlite3_mem_methods {
            xMalloc: None,
            xFree: None,
            xRealloc: None,
            xSize: None,
            xRoundup: None,
            xInit: None,
            xShutdown: None,
            pAppData: ptr::null_mut(),
        };
        // SAFETY: SQLite is not initialized yet, and copies its methods to and from this place.
        unsafe {
            let known = ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, &raw mut methods) == ffi::SQLITE_OK;
            if let Some(inner) = methods.xMalloc.filter(|_| known) {
                INNER.get_or_init(|| inner);
                methods.xMalloc = Some(malloc);
                // If this fails, nothing is counted, and the sandbox's budget bounds such work.
                ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const methods);
            }
        }
    });
}

unsafe extern "C" fn malloc(size: c_int) -> *mut c_void {
    if size >= LARGE {
        COUNTED.set(COUNTED.get() + size as u64);
    }
    match INNER.get() {
        // SAFETY: forwards SQLite's own call.
        Some(inner) => unsafe { inner(size) },
        None => ptr::null_mut(),
    }
}
