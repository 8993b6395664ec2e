//! Attacks of a plugin on its host. Each function reports its observations.

use std::hint::black_box;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Computes in an infinite loop.
pub fn endless() -> ! {
    let mut count = 0_u64;
    loop {
        count = black_box(count.wrapping_add(1));
    }
}

/// Computes for a limited time.
pub fn work(rounds: usize) -> u64 {
    (0..rounds).fold(0, |count, _| black_box(count + 1))
}

/// Allocates and touches memory until allocation fails.
pub fn take_memory() -> ! {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    loop {
        taken.push(black_box(vec![1; 1 << 20]));
    }
}

/// Fills a large part of the memory in an infinite loop. One `memory.fill` cannot be interrupted.
pub fn fill_memory() -> ! {
    let mut memory = vec![0_u8; 60 << 20];
    let mut byte = 0;
    loop {
        black_box(&mut memory).fill(black_box(byte));
        byte = byte.wrapping_add(1);
    }
}

/// Recurses until the stack overflows.
#[allow(unconditional_recursion, reason = "the point of it")]
pub fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    black_box(recurse(frame[0] + 1)) + frame[63]
}

/// Text that claims the length of the entire address space.
pub fn claim() -> String {
    let mut honest = std::mem::ManuallyDrop::new(String::from("honest"));
    // SAFETY: intentionally invalid. The text is never read here; the test checks the host's reaction.
    unsafe { String::from_raw_parts(honest.as_mut_ptr(), usize::MAX - 15, usize::MAX - 15) }
}

/// Environment variables.
pub fn environment_variables() -> String {
    let names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
    format!("{} environment variables: {}", names.len(), names.join(", "))
}

/// Entries of the root folder, and whether a file can be written.
pub fn files() -> String {
    let listed = match std::fs::read_dir("/") {
        Ok(entries) => format!("listed {} entries", entries.count()),
        Err(error) => format!("denied: {error}"),
    };
    let written = match std::fs::write("/tmp/gymkhana-guest", "was here") {
        Ok(()) => "written".to_owned(),
        Err(error) => format!("denied: {error}"),
    };
    format!("reading {listed}; writing {written}")
}

/// Whether a server can be reached.
pub fn sockets() -> String {
    match TcpStream::connect(("127.0.0.1", 80)) {
        Ok(_) => "connected".to_owned(),
        Err(error) => format!("denied: {error}"),
    }
}

/// Times of the wall clock, the monotonic clock and the contract's clock, in nanoseconds.
pub fn clocks() -> String {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let started = Instant::now();
    (0..1_000_000).for_each(|count| {
        black_box(count);
    });
    format!("wall {wall}, elapsed {}, episode {}", started.elapsed().as_nanos(), gymkhana_sdk::clock::now())
}

/// Sleeps for an hour and reports the elapsed time.
pub fn sleep() -> String {
    let started = Instant::now();
    std::thread::sleep(Duration::from_secs(3600));
    format!("slept {} s", started.elapsed().as_secs())
}

/// Prints lines to both output streams.
pub fn output(lines: usize) -> String {
    let line = "z".repeat(100);
    let written = (0..lines).take_while(|_| {
        writeln!(std::io::stdout(), "{line}").and_then(|()| writeln!(std::io::stderr(), "{line}")).is_ok()
    });
    format!("printed {} lines", written.count())
}
