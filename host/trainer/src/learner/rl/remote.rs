//! Training data for a trainer that is not this crate's: sequences with the numbers of each token, without tensors.

use gymkhana_algorithm::{RlSettings, SftSettings};
use gymkhana_record::{Seed, StepMetrics};
use serde::{Deserialize, Serialize};

use super::minibatches;
use crate::TrainerError;
use crate::advantage::{self, AdvantageState};
use crate::batch::Sequence;
use crate::learner::layout::{Batch, RlData, Weighted, demonstration_sequences};
use crate::learner::minibatch::weigh;
use crate::learner::report::of_batch;
use crate::token_stats::Column;

/// A sequence with the tokens that are trained on.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenSequence {
    /// Tokens up to and including the last one that is trained on.
    pub tokens: Vec<u32>,
    /// The tokens that are trained on, in order.
    pub targets: Vec<TokenTarget>,
}

/// A token that is trained on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenTarget {
    /// Index in the sequence, at least 1.
    pub at: usize,
    /// Share of the token in the loss. The shares of a minibatch add up to 1 or less.
    pub weight: f64,
    /// Advantage. In demonstrations, 1 for tokens that the expert wrote and 0 for others.
    pub advantage: f64,
    /// Log-probability under the policy that sampled it, in nats; 0 for demonstrations.
    pub log_prob: f64,
    /// Weight version that sampled it; 0 for demonstrations.
    pub version: u32,
    /// Whether another episode of the batch has the token, too, so that figures leave it out.
    pub is_copy: bool,
}

/// Minibatches of one step of reinforcement learning, in the order in which they are trained on.
#[derive(Debug, Clone, Default)]
pub struct RlMinibatches {
    /// Sequences of each minibatch. A minibatch without a gradient is left out.
    pub minibatches: Vec<Vec<TokenSequence>>,
    /// Metrics of the batch: its advantages, tokens and entropies.
    pub metrics: StepMetrics,
}

/// State of a stage: what later steps need of earlier ones.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteStageState {
    /// Training steps so far.
    pub steps: u64,
    memory: AdvantageState,
}

impl RemoteStageState {
    /// Advantages and shares of a step's tokens, by the flags that need no model. `version` is the current weight version.
    ///
    /// Flags that need log-probabilities of other models, values or a loss of their own are ignored: callers refuse them.
    pub fn minibatches(&mut self, data: &RlData<'_>, settings: &RlSettings, seed: Seed, version: u32) -> RlMinibatches {
        let algorithm = settings.algorithm.at(self.steps, None);
        let settings = &RlSettings { algorithm, ..settings.clone() };
        let chance = |name: &str| seed.child(name).child(self.steps).stream();
        let mut batch = Batch::of(data, settings);
        let entropy = batch.mean_entropy();
        advantage::compute_each(&mut batch.inputs, settings, &mut self.memory, version, &mut chance("covariance"));
        let mut shuffle = chance("minibatches");
        let mut all = Vec::new();
        for _ in 0..settings.algorithm.epochs {
            for episodes in minibatches(&batch, settings, &mut shuffle) {
                let trained = weigh(&batch, &episodes, settings, 1.0).trained;
                all.push(trained.iter().map(TokenSequence::of).collect());
            }
        }
        all.retain(|sequences: &Vec<TokenSequence>| !sequences.is_empty());
        self.steps += 1;
        RlMinibatches { minibatches: all, metrics: of_batch(&batch, entropy) }
    }
}

/// Demonstrations as sequences, whose shares add up to 1.
///
/// # Errors
/// If a demonstration has no token to imitate.
pub fn demonstrated(
    demonstrations: &[Weighted<'_>],
    settings: &SftSettings,
) -> Result<Vec<TokenSequence>, TrainerError> {
    let sequences = demonstration_sequences(demonstrations, settings)?;
    Ok(sequences.iter().map(TokenSequence::of).collect())
}

impl TokenSequence {
    fn of(sequence: &Sequence) -> Self {
        let stats = &sequence.stats;
        let target = |(row, target): (usize, &crate::batch::Target)| TokenTarget {
            at: target.at,
            weight: stats.get(Column::LossWeight, row),
            advantage: stats.get(Column::Advantage, row),
            log_prob: stats.get(Column::Behaviour, row),
            version: stats.get(Column::Version, row) as u32,
            is_copy: stats.is_copy(row),
        };
        Self { tokens: sequence.tokens.clone(), targets: sequence.targets.iter().enumerate().map(target).collect() }
    }
}
