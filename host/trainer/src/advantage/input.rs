//! What advantages are computed from and what comes of it: a seat's part of an episode, turn by turn, as plain numbers.

use serde::{Deserialize, Serialize};

/// A seat's part of an episode.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AdvantageInput {
    /// Which group of the batch it is of.
    pub group: usize,
    /// Which episode of the batch it is of.
    pub episode: usize,
    /// Whose part it is.
    pub seat: u32,
    /// What the seat earned in all.
    pub reward: f64,
    /// The part of it that belongs to no single turn.
    pub rest: f64,
    /// Whether no limit of the run ended the episode.
    pub finished: bool,
    /// The seat's turns, in order.
    pub turns: Vec<TurnPart>,
}

/// One turn of a seat.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TurnPart {
    /// What it earned by itself, gains of probes included.
    pub reward: f64,
    /// Names what the seat saw when it began: equal numbers are equal observations.
    pub anchor: u64,
    /// It neither called, where something could be called, nor ended the episode.
    pub void: bool,
    /// In a tree, the trajectory of the batch that learns this turn for all that share it.
    pub shared_with: Option<usize>,
    /// What was sampled in it, in order; nothing in a turn that another trajectory learns.
    pub tokens: Vec<Token>,
}

/// A sampled token: what is known of it, and what is found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Token {
    /// Its log-probability when it was sampled.
    pub behaviour: f64,
    /// Its log-probability under the weights with which the training step begins, where that was asked for; else
    /// `behaviour`.
    pub proximal: f64,
    /// Its log-probability under the reference, where there is one.
    pub reference: f64,
    /// Its log-probability under a teacher, where there is one.
    pub teacher: f64,
    /// Entropy of its distribution when it was sampled, in nats.
    pub entropy: f64,
    /// What a critic expected before it.
    pub value: f64,
    /// The weight version that sampled it.
    pub version: u32,
    /// How much better it did than expected.
    pub advantage: f64,
    /// What the critic should have expected; none where it is not asked.
    pub target: Option<f64>,
    /// By what its surrogate is multiplied.
    pub correction: f64,
    /// What leaving the entropy band costs, as a slope and an offset over its entropy.
    pub band: (f64, f64),
    /// Whether it is learnt from.
    pub learnt: bool,
}

impl Default for Token {
    fn default() -> Self {
        Self {
            behaviour: 0.0,
            proximal: 0.0,
            reference: 0.0,
            teacher: 0.0,
            entropy: 0.0,
            value: 0.0,
            version: 0,
            advantage: 0.0,
            target: None,
            correction: 1.0,
            band: (0.0, 0.0),
            learnt: true,
        }
    }
}

impl AdvantageInput {
    /// All its tokens, in order.
    pub fn tokens(&self) -> impl DoubleEndedIterator<Item = &Token> {
        self.turns.iter().flat_map(|turn| &turn.tokens)
    }

    /// All its tokens, in order.
    pub fn tokens_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Token> {
        self.turns.iter_mut().flat_map(|turn| &mut turn.tokens)
    }

    /// Those that are learnt from.
    pub fn learnt(&self) -> impl Iterator<Item = &Token> {
        self.tokens().filter(|token| token.learnt)
    }

    /// Leaves all of it out of what is learnt.
    pub(super) fn mask_tokens(&mut self) {
        self.tokens_mut().for_each(|token| token.learnt = false);
    }

    /// What each turn earned, the rest with the last one.
    pub(super) fn earnings(&self) -> Vec<f64> {
        let mut earned: Vec<f64> = self.turns.iter().map(|turn| turn.reward).collect();
        if let Some(last) = earned.last_mut() {
            *last += self.rest;
        }
        earned
    }
}
