//! Tool calls in the text of a reply.

pub mod hermes;

pub use hermes::{CLOSE, OPEN, ParsedReply, WrittenCall, parse_reply};
