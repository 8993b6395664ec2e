//! From conversations to tokens and back: a model's chat template, stop texts and tool-call formats.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod byte_table;
mod format;
mod message;
mod prompt_cache;
mod stop_texts;
mod template;
pub mod tool_call;

pub use format::{ChatError, ChatFiles, ChatFormat, Extension, Rendered, ReplyPiece};
pub use message::{Message, Role};
pub use stop_texts::StopTexts;
pub use tool_call::{ParsedReply, WrittenCall, parse_reply};
