//! Input and output of the advantage computation: one seat's part of an episode, turn by turn, as plain numbers.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use gymkhana_engine::{Column, TokenStats};

/// One seat's part of an episode.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AdvantageInput {
    /// Name of its environment, in a run with several environments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Index of its group in the batch.
    pub group: usize,
    /// Index of its episode in the batch.
    pub episode: usize,
    /// The seat.
    pub seat: u32,
    /// Total reward of the seat.
    pub reward: f64,
    /// Part of the total reward that belongs to no single turn.
    pub rest: f64,
    /// Whether the episode ended by itself and was not cut short, by a limit of the run or by its environment.
    pub finished: bool,
    /// The critic's value after the last token; 0 unless the episode was cut short and `critic.bootstrap` is set.
    #[serde(default)]
    pub end_value: f64,
    /// Turns of the seat, in order.
    pub turns: Vec<TurnPart>,
    /// Sampled tokens in the order of their turns. Turns that another input of the batch trains on have no tokens here.
    pub tokens: TokenStats,
}

/// One turn of a seat.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TurnPart {
    /// Reward of the turn, gains measured by probes included.
    pub reward: f64,
    /// Hash of the environment's state before the turn, or of the observations where the environment has no state keys:
    /// turns with equal anchors are compared by `credit.kind = "anchors"`.
    pub anchor: u64,
    /// Whether the turn neither called a tool, where one was offered, nor ended the episode.
    pub void: bool,
    /// Whether a limit of tokens cut the reply.
    #[serde(default)]
    pub cut: bool,
    /// Whether the turn provoked a failure of a plugin. Its tokens get no positive advantage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub provoked_failure: bool,
    /// In a tree of episodes, the input of the batch that trains on this turn for all episodes that share it.
    pub shared_with: Option<usize>,
    /// Tokens of the turn in [`AdvantageInput::tokens`].
    pub tokens: Range<usize>,
}

impl AdvantageInput {
    /// Appends a turn with its tokens, one row each.
    pub fn push_turn(&mut self, mut turn: TurnPart, tokens: &TokenStats) {
        let first = self.tokens.len();
        (0..tokens.len()).for_each(|index| self.tokens.push_row(tokens, index));
        turn.tokens = first..self.tokens.len();
        self.turns.push(turn);
    }

    /// Whether a token enters the loss.
    #[must_use]
    pub fn is_in_loss(&self, token: usize) -> bool {
        self.tokens.is_in_loss(token)
    }

    /// Sets the advantage of every token of a turn.
    pub(super) fn set_turn_advantage(&mut self, turn: usize, advantage: f64) {
        let range = self.turns[turn].tokens.clone();
        self.tokens.fill(Column::Advantage, range, advantage);
    }

    /// Masks every token.
    pub(super) fn mask_all(&mut self) {
        self.tokens.fill(Column::LossMask, 0..self.tokens.len(), 0.0);
    }

    /// Reward of each turn; the last turn also gets the rest.
    pub(super) fn turn_rewards(&self) -> Vec<f64> {
        let mut rewards: Vec<f64> = self.turns.iter().map(|turn| turn.reward).collect();
        if let Some(last) = rewards.last_mut() {
            *last += self.rest;
        }
        rewards
    }
}
