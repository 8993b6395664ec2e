//! Counts the large pieces of memory that SQLite asks for. They tell of work that its steps do not: one step may make a
//! whole value. Small pieces are left out: how many there are depends on what earlier calls left in SQLite's caches. What
//! small values cost beyond their steps is for the sandbox's budget to bound.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Once, OnceLock};

use rusqlite::ffi;

/// Bytes from which on a piece is large: more than a page with what stands beside it.
const LARGE: c_int = 5_120;

type Malloc = unsafe extern "C" fn(c_int) -> *mut c_void;

/// What SQLite would call without this.
static INNER: OnceLock<Malloc> = OnceLock::new();

thread_local! {
    static COUNTED: Cell<u64> = const { Cell::new(0) };
}

/// Bytes of all large pieces that this thread asked for.
pub(crate) fn counted() -> u64 {
    COUNTED.get()
}

/// Puts the count between SQLite and its memory; before the first database is opened.
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
        // SAFETY: SQLite has not begun, and copies its methods to and from this place.
        unsafe {
            let known = ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, &raw mut methods) == ffi::SQLITE_OK;
            if let Some(inner) = methods.xMalloc.filter(|_| known) {
                INNER.get_or_init(|| inner);
                methods.xMalloc = Some(malloc);
                // Where it fails nothing is counted, and the sandbox's budget is what bounds such work.
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
        // SAFETY: SQLite's own call is passed on.
        Some(inner) => unsafe { inner(size) },
        None => ptr::null_mut(),
    }
}
