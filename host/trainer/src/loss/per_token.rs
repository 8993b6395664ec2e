//! Numbers of tokens that a forward pass gives.
#![allow(non_snake_case)]

use tch::Tensor;

use super::entropies;

/// Numbers of tokens that a forward pass gives, each `[N]`.
#[derive(Debug)]
pub struct PerToken {
    /// Log-probabilities in nats.
    pub log_probs_N: Tensor,
    /// Entropies of the distributions in nats, where the loss uses them.
    pub entropies_N: Option<Tensor>,
    /// Divergences from a teacher's distributions in nats, where the loss uses them.
    pub divergences_N: Option<Tensor>,
}

impl From<Tensor> for PerToken {
    /// Log-probabilities alone.
    fn from(log_probs_N: Tensor) -> Self {
        Self { log_probs_N, entropies_N: None, divergences_N: None }
    }
}

impl PerToken {
    /// Those of the targets, from the log-probabilities of all tokens, `[N, V]`.
    pub(crate) fn of(log_probs_NV: &Tensor, targets_N: &Tensor, with_entropies: bool) -> Self {
        let log_probs_N = log_probs_NV.gather(-1, &targets_N.unsqueeze(-1), false).squeeze_dim(-1);
        let entropies_N = with_entropies.then(|| entropies(log_probs_NV));
        Self { entropies_N, ..log_probs_N.into() }
    }

    /// All tensors, in a fixed order.
    pub(crate) fn each(&self) -> impl Iterator<Item = Option<&Tensor>> {
        [Some(&self.log_probs_N), self.entropies_N.as_ref(), self.divergences_N.as_ref()].into_iter()
    }

    /// Applies a function to every tensor.
    pub(crate) fn map(self, function: impl Fn(Tensor) -> Tensor) -> Self {
        let Self { log_probs_N, entropies_N, divergences_N } = self;
        Self {
            log_probs_N: function(log_probs_N),
            entropies_N: entropies_N.map(&function),
            divergences_N: divergences_N.map(&function),
        }
    }

    /// The tokens of several parts in order.
    pub(crate) fn cat(parts: &[Self]) -> Self {
        let joined = |of: fn(&Self) -> Option<&Tensor>| {
            let all: Option<Vec<&Tensor>> = parts.iter().map(of).collect();
            all.filter(|all| !all.is_empty()).map(|all| Tensor::cat(&all, 0))
        };
        Self {
            log_probs_N: joined(|part| Some(&part.log_probs_N)).unwrap_or_default(),
            entropies_N: joined(|part| part.entropies_N.as_ref()),
            divergences_N: joined(|part| part.divergences_N.as_ref()),
        }
    }
}
