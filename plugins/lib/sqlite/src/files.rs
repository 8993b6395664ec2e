//! The file system that SQLite finds in a component: none. The time is the host's, and so is chance.

use std::ffi::{c_char, c_int};
use std::ptr;
use std::time::{SystemTime, UNIX_EPOCH};

use gymkhana_sdk::random;
use rusqlite::ffi;

/// Milliseconds from noon of 24 November 4714 before our era, where Julian days begin, to 1970.
const JULIAN: i64 = 210_866_760_000_000;

/// SQLite calls this when it begins, since it is built for an operating system of our own.
///
/// # Safety
///
/// SQLite calls it once.
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
    // SAFETY: SQLite keeps the pointer for as long as the instance lives, and it is never given back.
    unsafe { ffi::sqlite3_vfs_register(Box::into_raw(files), 1) }
}

/// SQLite calls this when it ends, which it never does here.
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
    // SAFETY: SQLite gives a place for a file; without methods it is not closed.
    unsafe { (*file).pMethods = ptr::null() };
    ffi::SQLITE_CANTOPEN
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, _: *const c_char, _: c_int) -> c_int {
    ffi::SQLITE_IOERR_DELETE
}

unsafe extern "C" fn access(_: *mut ffi::sqlite3_vfs, _: *const c_char, _: c_int, result: *mut c_int) -> c_int {
    // SAFETY: SQLite gives a place for the answer: there is no such file.
    unsafe { *result = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_path(_: *mut ffi::sqlite3_vfs, _: *const c_char, _: c_int, _: *mut c_char) -> c_int {
    ffi::SQLITE_CANTOPEN
}

unsafe extern "C" fn randomness(_: *mut ffi::sqlite3_vfs, length: c_int, to: *mut c_char) -> c_int {
    let length = usize::try_from(length).unwrap_or(0);
    // SAFETY: SQLite gives a place for so many bytes.
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
    // SAFETY: SQLite gives a place for the answer.
    unsafe { *now = JULIAN + since };
    ffi::SQLITE_OK
}
