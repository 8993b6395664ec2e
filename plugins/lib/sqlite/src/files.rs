//! SQLite's operating-system interface in a component: no files, and the host's clock and random numbers.

use std::ffi::{c_char, c_int};
use std::ptr;
use std::time::{SystemTime, UNIX_EPOCH};

use gymkhana_sdk::random;
use rusqlite::ffi;

/// Milliseconds from the start of Julian days (noon of 24 November 4714 BC) to 1970.
const JULIAN: i64 = 210_866_760_000_000;

/// Initialization hook of SQLite, which is built for a custom operating system.
///
/// # Safety
///
/// Only SQLite may call it, once.
#[unsafe(no_mangle)]
unsafe extern "C" fn sqlite3_os_init() -> c_int {
    let files = Box::new(ffi::sqlite3_vfs {
        iVersion: 2,
        szOsFile: size_of::<ffi::sqlite3_file>() as c_int,
        mxPathname: 64,
        pNext: ptr::null_mut(),
        zName: c"none".as_ptr(),
        pAppData: ptr::null_mut(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_path),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: None,
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: Some(time),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    });
    // SAFETY: SQLite keeps the pointer for the life of the instance, and it is never freed.
    unsafe { ffi::sqlite3_vfs_register(Box::into_raw(files), 1) }
}

/// Shutdown hook of SQLite, which is never called here.
#[unsafe(no_mangle)]
extern "C" fn sqlite3_os_end() -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    _: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    _: c_int,
    _: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes a valid file structure; without methods it is not closed.
    unsafe { (*file).pMethods = ptr::null() };
    ffi::SQLITE_CANTOPEN
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, _: *const c_char, _: c_int) -> c_int {
    ffi::SQLITE_IOERR_DELETE
}

unsafe extern "C" fn access(_: *mut ffi::sqlite3_vfs, _: *const c_char, _: c_int, result: *mut c_int) -> c_int {
    // SAFETY: SQLite passes a valid output pointer; no file exists.
    unsafe { *result = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_path(_: *mut ffi::sqlite3_vfs, _: *const c_char, _: c_int, _: *mut c_char) -> c_int {
    ffi::SQLITE_CANTOPEN
}

unsafe extern "C" fn randomness(_: *mut ffi::sqlite3_vfs, length: c_int, to: *mut c_char) -> c_int {
    let length = usize::try_from(length).unwrap_or(0);
    // SAFETY: SQLite passes a buffer of this length.
    let bytes = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), length) };
    bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&random::next().to_le_bytes()[..chunk.len()]));
    length as c_int
}

unsafe extern "C" fn sleep(_: *mut ffi::sqlite3_vfs, _: c_int) -> c_int {
    0
}

unsafe extern "C" fn last_error(_: *mut ffi::sqlite3_vfs, _: c_int, _: *mut c_char) -> c_int {
    0
}

unsafe extern "C" fn time(_: *mut ffi::sqlite3_vfs, now: *mut ffi::sqlite3_int64) -> c_int {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64);
    // SAFETY: SQLite passes a valid output pointer.
    unsafe { *now = JULIAN + since };
    ffi::SQLITE_OK
}
