//! Conversion of conversations to tokens and back: chat templates, stop texts and tool-call formats.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod byte_table;
mod encoder;
mod error;
mod format;
mod memo;
mod message;
mod new_reply;
mod python_json;
mod rendering;
mod stop_texts;
mod thoughts;
mod tokenizer_limits;
pub mod tool_call;

pub use error::ChatError;
pub use format::{
    ChatFiles, ChatFormat, EarlierThoughts, Extension, Observed, Rendered, ResultForm, Shown, TemplateReport,
    ToolsPlace,
};
pub use message::{AnsweredCall, Message, ReplyPiece, Role, SpokenCall, SpokenParts};
pub use new_reply::NewReply;
pub use python_json::python_json;
pub use stop_texts::StopTexts;
pub use thoughts::{Begun, MarksError, ReplyParts, SplitReply, ThoughtMarks};
pub use tool_call::{CallPiece, CustomMarks, CustomMarksError, NewCall, ParsedReply, ToolFormat, UnknownToolFormat};
