//! The address space that the process may use.
//!
//! A thread or an allocation that gets none ends the process, so it is checked before the first ones.

use crate::errors::FunctionFault;

/// Address space of the threads, the engine and some plugins, in bytes.
const NEEDED: u64 = 512 << 20;

/// A mebibyte in bytes.
const MIB: u64 = 1 << 20;

/// Checks that the process may use enough address space for this package.
///
/// # Errors
/// If `RLIMIT_AS` leaves less than [`NEEDED`].
pub fn check() -> Result<(), FunctionFault> {
    let Some((limit, used)) = limit().zip(used()) else { return Ok(()) };
    let left = limit.saturating_sub(used);
    if left >= NEEDED {
        return Ok(());
    }
    let (limit, left, used) = (limit / MIB, left / MIB, used / MIB);
    let enough = used + NEEDED / MIB;
    Err(FunctionFault::AddressSpace(format!(
        "plugins cannot run in this process: RLIMIT_AS allows {limit} MiB of address space, of which {left} are left\nhint: \
         raise it to at least {enough} MiB, with `ulimit -v {}` or resource.setrlimit",
        enough * 1024
    )))
}

/// The limit in bytes, if there is one.
fn limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is that of a local value.
    let read = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    (read == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Bytes of address space in use, where the system tells.
fn used() -> Option<u64> {
    let pages: u64 = std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').next()?.parse().ok()?;
    // SAFETY: it only reads a number of the system.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages.checked_mul(u64::try_from(size).ok()?)
}
