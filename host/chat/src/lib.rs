//! Conversion of conversations to tokens and back: chat templates, stop texts and tool-call formats.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod byte_table;
mod encoder;
mod error;
mod format;
mod message;
mod new_reply;
mod prompt_cache;
mod stop_texts;
mod template;
mod thoughts;
mod tokenizer_limits;
pub mod tool_call;

pub use error::ChatError;
pub use format::{ChatFiles, ChatFormat, Extension, Observed, Rendered};
pub use message::{Message, ReplyPiece, Role};
pub use new_reply::NewReply;
pub use stop_texts::StopTexts;
pub use template::python_json;
pub use thoughts::{Begun, MarksError, ReplyParts, SplitReply, ThoughtMarks};
pub use tool_call::{CallPiece, NewCall, ParsedReply, ToolFormat};
