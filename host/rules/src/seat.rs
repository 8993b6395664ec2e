//! Rules of one seat: its system prompt, limits and sampling, where they differ from the run's.

/// Rules of one seat. What is unset is as in the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeatRules {
    /// First message of the seat's conversation, instead of the run's.
    pub system: Option<String>,
    /// Turns of the seat. The smaller of this limit and the run's ends the episode.
    pub turns: Option<u32>,
    /// Tokens of one reply, at most the run's.
    pub reply_tokens: Option<usize>,
    /// Temperature of sampling. Greedy measurements stay greedy.
    pub temperature: Option<f32>,
}
