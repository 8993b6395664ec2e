//! Losses as numbers of tokens: each takes what a forward pass found and returns its derivative by each number.
//!
//! Aggregation is a weight per token, computed beforehand, so that a batch can be split between any two units without
//! changing its loss.

mod policy;
mod ratio;
mod rows;
mod surrogate;
#[cfg(test)]
mod tests;
mod value;

use gymkhana_algorithm::Algorithm;

pub use rows::{TokenRows, Units};
pub use value::value_loss;

/// What a forward pass found for each token.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TokenNumbers {
    /// Log-probabilities in nats.
    pub log_probs: Vec<f64>,
    /// Entropies of the distributions in nats, where the loss uses them.
    pub entropies: Option<Vec<f64>>,
    /// Divergences from a teacher's distributions in nats, where the loss uses them.
    pub divergences: Option<Vec<f64>>,
}

impl From<Vec<f64>> for TokenNumbers {
    /// Log-probabilities alone.
    fn from(log_probs: Vec<f64>) -> Self {
        Self { log_probs, ..Self::default() }
    }
}

/// Derivative of a loss by each number that a forward pass found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Coefficients {
    /// By log-probabilities.
    pub log_probs: Vec<f64>,
    /// By entropies, where the pass has them.
    pub entropies: Option<Vec<f64>>,
    /// By divergences, where the pass has them.
    pub divergences: Option<Vec<f64>>,
}

/// Sums over tokens that are reported with a loss. All but the loss leave copies out.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LossSums {
    /// The loss.
    pub loss: f64,
    /// The loss of tokens that an expert wrote.
    pub loss_by_expert: f64,
    /// Tokens whose ratio a bound of the surrogate replaced.
    pub clipped: f64,
    /// k3 divergence from the proximal policy, in nats.
    pub from_proximal: f64,
    /// Estimated divergence from the reference policy in nats, where it is known.
    pub from_reference: f64,
    /// Tokens that the current weights sampled.
    pub on_policy: f64,
    /// k3 divergence of these tokens from the policy that sampled them, in nats.
    pub on_policy_divergence: f64,
}

impl std::ops::AddAssign for LossSums {
    fn add_assign(&mut self, more: Self) {
        self.loss += more.loss;
        self.loss_by_expert += more.loss_by_expert;
        self.clipped += more.clipped;
        self.from_proximal += more.from_proximal;
        self.from_reference += more.from_reference;
        self.on_policy += more.on_policy;
        self.on_policy_divergence += more.on_policy_divergence;
    }
}

/// A loss of some tokens.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evaluated {
    /// Its derivatives.
    pub by: Coefficients,
    /// Its value, and what is reported with it.
    pub sums: LossSums,
}

/// A loss over tokens.
#[derive(Debug, Clone, Copy)]
pub enum Loss<'a> {
    /// Negative log-likelihood by [`Column::LossWeight`](crate::Column::LossWeight).
    Supervised,
    /// Surrogate, divergence from the reference policy, and entropy.
    Policy {
        /// Flags of the algorithm.
        flags: &'a Algorithm,
        /// Current weight version, with whose own tokens the policy is compared.
        version: u32,
    },
}

impl Loss<'_> {
    /// Whether the loss is a sum over independent tokens. Otherwise all tokens of a unit must be evaluated together.
    #[must_use]
    pub fn is_separable(self) -> bool {
        self.units().is_none()
    }

    /// Tokens that share a ratio; `None` if each has its own.
    #[must_use]
    pub fn units(self) -> Option<Units> {
        match self {
            Self::Supervised => None,
            Self::Policy { flags, .. } => Units::of(flags.ratio),
        }
    }

    /// The loss of tokens. Units that share a ratio must be complete.
    ///
    /// # Panics
    /// If there is not one row for each number.
    #[must_use]
    pub fn evaluate(self, found: &TokenNumbers, rows: &TokenRows<'_>) -> Evaluated {
        assert_eq!(found.log_probs.len(), rows.len(), "one row per token");
        match self {
            Self::Supervised => policy::supervised(found, rows),
            Self::Policy { flags, version } => policy::policy(flags, version, found, rows),
        }
    }
}
