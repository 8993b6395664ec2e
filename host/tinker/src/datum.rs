//! Sequences as the server learns from them: each position predicts the next token.

use std::collections::HashMap;

use crate::wire;

/// A sequence with the tokens that are trained on.
#[derive(Debug, Clone, PartialEq)]
pub struct Datum {
    /// Tokens up to and including the last one that is trained on; at least two.
    pub tokens: Vec<u32>,
    /// The tokens that are trained on, in order.
    pub trained: Vec<TrainedToken>,
}

/// A token that is trained on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainedToken {
    /// Index in the sequence, at least 1.
    pub at: usize,
    /// Share of the token in the loss of the optimiser step.
    pub share: f64,
    /// Advantage; not used by [`ServerLoss::Supervised`].
    pub advantage: f64,
    /// Log-probability under the policy that sampled it, in nats; not used by [`ServerLoss::Supervised`].
    pub log_prob: f64,
}

/// Loss of a pass, as the server computes it from the ratio ρ of the current to the sampling policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServerLoss {
    /// Negative log-likelihood.
    Supervised,
    /// `-ρA`.
    Importance,
    /// `-min(ρA, clip(ρ, 1 - low, 1 + high)A)`.
    Clip {
        /// Clip range below 1.
        low: f64,
        /// Clip range above 1.
        high: f64,
    },
    /// `-sg(clip(ρ, 1 - low, 1 + high)) · A · log π`.
    Cispo {
        /// Clip range below 1.
        low: f64,
        /// Clip range above 1.
        high: f64,
    },
}

/// How a server adds up the losses of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Sum over all tokens, as Tinker's own service computes it.
    Sum,
    /// Mean over the positions of a sequence, then over sequences, as SkyRL's engine for JAX computes it.
    SequenceMean,
}

impl ServerLoss {
    /// Name of the loss and its numbers.
    pub(crate) fn named(self) -> (&'static str, HashMap<String, f64>) {
        let bounds = |low: f64, high: f64| {
            [("clip_low_threshold", 1.0 - low), ("clip_high_threshold", 1.0 + high)]
                .map(|(name, bound)| (name.to_owned(), bound))
                .into()
        };
        match self {
            Self::Supervised => ("cross_entropy", HashMap::new()),
            Self::Importance => ("importance_sampling", HashMap::new()),
            Self::Clip { low, high } => ("ppo", bounds(low, high)),
            Self::Cispo { low, high } => ("cispo", bounds(low, high)),
        }
    }
}

impl Datum {
    /// The message of the sequence. Positions without a trained token have an advantage and a weight of 0.
    ///
    /// A server that divides by the positions of a sequence gets advantages that are as many times larger, so that the
    /// shares of tokens in different sequences stay. Weights of a supervised loss are what such a server divides by: it gives
    /// each sequence the same share.
    pub(crate) fn message(&self, loss: ServerLoss, reduction: Reduction) -> wire::Datum {
        let inputs = self.tokens.len().saturating_sub(1);
        let factor = match reduction {
            Reduction::Sum => 1.0,
            Reduction::SequenceMean => inputs as f64,
        };
        let column = |value: &dyn Fn(&TrainedToken) -> f64| {
            let mut column = vec![0.0_f32; inputs];
            for token in &self.trained {
                if let Some(place) = token.at.checked_sub(1).and_then(|place| column.get_mut(place)) {
                    *place = value(token) as f32;
                }
            }
            floats(&column)
        };
        let targets: Vec<u8> = self.tokens.iter().skip(1).flat_map(|token| i64::from(*token).to_le_bytes()).collect();
        let targets = wire::Tensor { dense: Some(targets), dtype: wire::INT64, shape: vec![inputs as i64] };
        let mut numbers = HashMap::from([("target_tokens".to_owned(), targets)]);
        match loss {
            ServerLoss::Supervised => {
                numbers.insert("weights".to_owned(), column(&|token| token.share));
            }
            ServerLoss::Importance | ServerLoss::Clip { .. } | ServerLoss::Cispo { .. } => {
                numbers.insert("advantages".to_owned(), column(&|token| token.advantage * token.share * factor));
                numbers.insert("logprobs".to_owned(), column(&|token| token.log_prob));
            }
        }
        let text = wire::EncodedText { tokens: wire::token_bytes(&self.tokens[..inputs]) };
        wire::Datum { model_input: vec![wire::InputChunk { encoded_text: Some(text) }], loss_fn_inputs: numbers }
    }
}

fn floats(column: &[f32]) -> wire::Tensor {
    let dense = column.iter().flat_map(|number| number.to_le_bytes()).collect();
    wire::Tensor { dense: Some(dense), dtype: wire::FLOAT32, shape: vec![column.len() as i64] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(datum: &wire::Datum, name: &str) -> Vec<f32> {
        wire::floats(datum.loss_fn_inputs[name].dense.as_ref().unwrap()).unwrap()
    }

    /// Four tokens have three inputs; the token at 2 is predicted from place 1.
    #[test]
    fn each_position_predicts_the_next_token() {
        let trained = vec![
            TrainedToken { at: 2, share: 0.25, advantage: 2.0, log_prob: -1.5 },
            TrainedToken { at: 3, share: 0.25, advantage: -2.0, log_prob: -0.5 },
        ];
        let datum = Datum { tokens: vec![7, 8, 9, 10], trained };
        let message = datum.message(ServerLoss::Importance, Reduction::Sum);
        assert_eq!(message.model_input[0].encoded_text.as_ref().unwrap().tokens, wire::token_bytes(&[7, 8, 9]));
        let targets = message.loss_fn_inputs["target_tokens"].dense.as_ref().unwrap();
        assert_eq!(wire::places(targets).unwrap(), [8, 9, 10]);
        assert_eq!(numbers(&message, "advantages"), [0.0, 0.5, -0.5]);
        assert_eq!(numbers(&message, "logprobs"), [0.0, -1.5, -0.5]);
        assert!(!message.loss_fn_inputs.contains_key("weights"), "the losses of policies know no weights");
        // Divided by three positions, the same numbers are left.
        let scaled = datum.message(ServerLoss::Clip { low: 0.2, high: 0.3 }, Reduction::SequenceMean);
        assert_eq!(numbers(&scaled, "advantages"), [0.0, 1.5, -1.5]);
        let supervised = datum.message(ServerLoss::Supervised, Reduction::Sum);
        assert_eq!(numbers(&supervised, "weights"), [0.0, 0.25, 0.25]);
        assert!(!supervised.loss_fn_inputs.contains_key("advantages"));
    }

    #[test]
    fn bounds_of_a_clip_are_those_of_the_ratio() {
        let (name, bounds) = ServerLoss::Clip { low: 0.2, high: 0.28 }.named();
        assert_eq!(name, "ppo");
        assert_eq!(bounds["clip_low_threshold"], 0.8);
        assert_eq!(bounds["clip_high_threshold"], 1.28);
        assert_eq!(ServerLoss::Supervised.named(), ("cross_entropy", HashMap::new()));
    }
}
