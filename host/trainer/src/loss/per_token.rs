//! Numbers of tokens that a forward pass gives.
#![allow(non_snake_case)]

use std::ops::Range;

use gymkhana_engine::{Coefficients, TokenNumbers};
use tch::{Device, Kind, TchError, Tensor};

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

    /// The numbers, without gradients.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn numbers(&self) -> Result<TokenNumbers, TchError> {
        let read = |values_N: &Tensor| {
            let values = Vec::<f32>::try_from(values_N.detach())?;
            Ok::<_, TchError>(values.into_iter().map(f64::from).collect())
        };
        Ok(TokenNumbers {
            log_probs: read(&self.log_probs_N)?,
            entropies: self.entropies_N.as_ref().map(read).transpose()?,
            divergences: self.divergences_N.as_ref().map(read).transpose()?,
        })
    }

    /// Derivatives of a loss by the numbers of a range of tokens.
    pub(crate) fn coefficients(by: &Coefficients, range: Range<usize>, device: Device) -> Self {
        let tensor = |numbers: &Vec<f64>| {
            let numbers: Vec<f32> = numbers[range.clone()].iter().map(|number| *number as f32).collect();
            Tensor::from_slice(&numbers).to_device(device)
        };
        Self {
            log_probs_N: tensor(&by.log_probs),
            entropies_N: by.entropies.as_ref().map(tensor),
            divergences_N: by.divergences.as_ref().map(tensor),
        }
    }

    /// Adds the gradients of a loss, given its derivatives by the numbers of a range of tokens, which are these.
    pub(crate) fn backward(&self, by: &Coefficients, range: Range<usize>) {
        let by = Self::coefficients(by, range, self.log_probs_N.device());
        let both = [
            (Some(&self.log_probs_N), Some(&by.log_probs_N)),
            (self.entropies_N.as_ref(), by.entropies_N.as_ref()),
            (self.divergences_N.as_ref(), by.divergences_N.as_ref()),
        ];
        let pull = |(values_N, by_N): (Option<&Tensor>, Option<&Tensor>)| Some((values_N? * by_N?).sum(Kind::Float));
        if let Some(pulled) = both.into_iter().filter_map(pull).reduce(|sum, more| sum + more) {
            pulled.backward();
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
