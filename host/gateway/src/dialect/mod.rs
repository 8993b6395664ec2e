//! The protocols of agent programs: requests to one common form, replies and errors back to the protocol's form.
//!
//! Everything here is pure: bytes and values in, values out.

mod chat_completions;
mod error;
mod fields;
mod messages;
mod reply;
mod request;
mod responses;
mod sse;

use serde_json::Value as Json;

pub use error::{ApiError, ErrorClass};
pub use reply::{Finish, PolicyReply, ReplyCall, TokenCounts, TokenLogProb};
pub use request::{InputCall, InputMessage, ReplyRequest, RequestedSampling};
pub use sse::{KEEP_ALIVE, SseEvent};

/// A protocol in which programs call models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenAI's chat completions.
    ChatCompletions,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
}

impl Dialect {
    /// Reads the body of a request for a reply.
    ///
    /// # Errors
    /// A body that is malformed or asks for something that the policy cannot do.
    pub fn parse(self, body: &[u8]) -> Result<ReplyRequest, ApiError> {
        let body = fields::parse_body(body)?;
        match self {
            Self::ChatCompletions => chat_completions::parse(&body),
            Self::Responses => responses::parse(&body),
            Self::Messages => messages::parse(&body, true),
        }
    }

    /// Reads the body of a request for the number of its tokens.
    ///
    /// # Errors
    /// As [`Dialect::parse`].
    pub fn parse_count(self, body: &[u8]) -> Result<ReplyRequest, ApiError> {
        let body = fields::parse_body(body)?;
        match self {
            Self::ChatCompletions => chat_completions::parse(&body),
            Self::Responses => responses::parse(&body),
            Self::Messages => messages::parse(&body, false),
        }
    }

    /// The body of an answer that is not streamed.
    #[must_use]
    pub fn reply(self, reply: &PolicyReply) -> Json {
        match self {
            Self::ChatCompletions => chat_completions::reply(reply),
            Self::Responses => responses::reply(reply),
            Self::Messages => messages::reply(reply),
        }
    }

    /// The events of a streamed answer, the last one included.
    #[must_use]
    pub fn stream(self, reply: &PolicyReply) -> Vec<SseEvent> {
        match self {
            Self::ChatCompletions => chat_completions::stream(reply),
            Self::Responses => responses::stream(reply),
            Self::Messages => messages::stream(reply),
        }
    }

    /// The body of the answer to a request for the number of tokens.
    #[must_use]
    pub fn count(self, tokens: usize) -> Json {
        match self {
            Self::ChatCompletions | Self::Responses => {
                serde_json::json!({"object": "response.input_tokens", "input_tokens": tokens})
            }
            Self::Messages => serde_json::json!({"input_tokens": tokens}),
        }
    }

    /// The list of models.
    #[must_use]
    pub fn models(self, names: &[String]) -> Json {
        match self {
            Self::ChatCompletions | Self::Responses => chat_completions::models(names),
            Self::Messages => messages::models(names),
        }
    }

    /// One entry of the list of models.
    #[must_use]
    pub fn model(self, name: &str) -> Json {
        match self {
            Self::ChatCompletions | Self::Responses => chat_completions::model(name),
            Self::Messages => messages::model(name),
        }
    }

    /// The body of an error.
    #[must_use]
    pub fn error(self, error: &ApiError) -> Json {
        match self {
            Self::ChatCompletions | Self::Responses => error.as_openai(),
            Self::Messages => error.as_anthropic(),
        }
    }

    /// The event of an error in a stream that has begun.
    #[must_use]
    pub fn stream_error(self, error: &ApiError) -> SseEvent {
        match self {
            Self::ChatCompletions => SseEvent::unnamed(&error.as_openai()),
            Self::Responses => SseEvent::named(&error.as_responses_event()),
            Self::Messages => SseEvent::named(&error.as_anthropic()),
        }
    }
}

#[cfg(test)]
mod tests;
