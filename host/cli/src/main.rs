//! The host: runs, replays, shows and inspects.
fn main() {}
