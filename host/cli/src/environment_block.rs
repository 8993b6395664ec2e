//! The block of environment variables with which the system started this process, and which it shows to other processes
//! of the same user in `/proc/PID/environ`.
//!
//! Programs that a run starts get a short list of variables. They must not find the others, which hold keys, one folder
//! further. The variables are therefore copied and the block is cleared; the program reads the copies as before.

/// Clears the block. Must be called before the process has a second thread.
#[cfg(target_os = "linux")]
pub fn clear() {
    let Some((begin, end)) = bounds() else { return };
    let variables: Vec<_> = std::env::vars_os().collect();
    for (name, value) in variables {
        // SAFETY: no other thread reads or changes the environment. The C library never writes into the block: it replaces
        // the pointer to the variable by one to a copy.
        unsafe { std::env::set_var(name, value) };
    }
    // SAFETY: the kernel placed the block at these addresses of the stack's pages, which stay writable; after the loop above
    // no variable points into it.
    unsafe { std::ptr::write_bytes(begin as *mut u8, 0, end - begin) };
}

/// Clears nothing: other systems have no such file.
#[cfg(not(target_os = "linux"))]
pub fn clear() {}

/// Addresses of the block: fields 50 and 51 of `/proc/self/stat`, by proc(5).
#[cfg(target_os = "linux")]
fn bounds() -> Option<(usize, usize)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, a name in brackets, may have spaces and brackets.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(47);
    let begin: usize = fields.next()?.parse().ok()?;
    let end: usize = fields.next()?.parse().ok()?;
    (0 < begin && begin < end).then_some((begin, end))
}
