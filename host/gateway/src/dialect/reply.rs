//! The reply of the policy, before it takes the form of a protocol.

/// The reason for which a reply ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// The policy ended its turn.
    Stop,
    /// A stop text of the request, which the reply does not hold.
    StopText(String),
    /// The limit of tokens.
    Length,
    /// The policy ended its turn with calls.
    Calls,
}

/// A call of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyCall {
    /// The id, unique in the session.
    pub id: String,
    /// The function's name.
    pub name: String,
    /// JSON text of an object.
    pub arguments: String,
}

/// Number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenCounts {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Tokens of the prompt that an earlier request held.
    pub cached: usize,
    /// Tokens of the reply.
    pub sampled: usize,
}

/// A sampled token with its log-probability.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogProb {
    /// The token's text.
    pub text: String,
    /// Log-probability (nats).
    pub log_prob: f32,
}

/// A reply of the policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyReply {
    /// Number of the reply, unique in the session, without the prefix of a protocol.
    pub id: String,
    /// The model's name as the program knows it.
    pub model: String,
    /// Time of the reply (seconds since 1970).
    pub created: u64,
    /// Text between the marks of reasoning at the start of the reply.
    pub reasoning: Option<String>,
    /// Text outside the reasoning and the calls.
    pub text: String,
    /// Calls, in their order.
    pub calls: Vec<ReplyCall>,
    /// The reason for which the reply ended.
    pub finish: Finish,
    /// Number of tokens.
    pub usage: TokenCounts,
    /// The tokens, if the request asks for log-probabilities.
    pub log_probs: Option<Vec<TokenLogProb>>,
    /// Whether a stream ends with the number of tokens.
    pub stream_usage: bool,
}
