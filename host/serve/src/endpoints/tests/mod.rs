//! OpenEnv and ORS over sockets: the same bytes as in process, and bad input.

mod hostile;
mod same_bytes;
mod server;
