//! Attention of a layer: windows of the last positions and bounds of the scores.
#![allow(non_snake_case)]

use tch::{Device, Kind, Tensor};

use crate::ModelConfig;

/// What a layer's attention sees and how its scores are bounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sight {
    /// Number of last positions that a position sees, its own included; `None` for all.
    pub window: Option<i64>,
    /// Bound that scores approach.
    pub cap: Option<f64>,
}

/// Keys that a position sees.
#[derive(Debug, Clone, Copy)]
pub(crate) enum VisibleKeys<'a> {
    /// Those up to its own; there are as many keys as queries.
    Earlier,
    /// Those for which the mask, broadcast to `[R, H, S, T]`, is true or, as a number, 0 instead of minus infinity.
    Mask(&'a Tensor),
}

impl Sight {
    /// Of a layer.
    pub fn of(config: &ModelConfig, layer: usize) -> Self {
        Self { window: config.window(layer), cap: config.decoder.caps.attention }
    }

    /// Whether some position of a sequence of this length does not see all earlier ones.
    pub fn is_short(self, length: i64) -> bool {
        self.window.is_some_and(|window| window < length)
    }

    /// Attention of whole sequences, `[R, H, S, D]`, from queries of that shape and keys and values `[R, K, S, D]`.
    pub fn causal(self, heads: [&Tensor; 3]) -> Tensor {
        let S = heads[0].size()[2];
        match self.window.filter(|_| self.is_short(S)) {
            None => self.attend(heads, VisibleKeys::Earlier),
            Some(window) => self.attend(heads, VisibleKeys::Mask(&band(S, Some(window), heads[0].device()))),
        }
    }

    /// Attention of queries `[R, H, S, D]` to the keys and values that they are shown, `[R, K, T, D]`: `[R, H, S, D]`. Scores
    /// are divided by the square root of D. The window is the caller's part of the mask.
    pub fn attend(self, [query, key, value]: [&Tensor; 3], shown: VisibleKeys<'_>) -> Tensor {
        let grouped = query.size()[1] != key.size()[1];
        let Some(cap) = self.cap else {
            let (mask, causal) = match shown {
                VisibleKeys::Earlier => (None, true),
                VisibleKeys::Mask(mask) => (Some(mask), false),
            };
            return Tensor::scaled_dot_product_attention(query, key, value, mask, 0.0, causal, None, grouped);
        };
        let group = query.size()[1] / key.size()[1];
        let [key, value] = [key, value].map(|heads| {
            if grouped { heads.repeat_interleave_self_int(group, 1, None) } else { heads.shallow_clone() }
        });
        let scores = query.matmul(&key.transpose(2, 3)) / (query.size()[3] as f64).sqrt();
        let capped = (scores / cap).tanh() * cap;
        let mask = match shown {
            VisibleKeys::Earlier => band(query.size()[2], None, query.device()),
            VisibleKeys::Mask(mask) => mask.shallow_clone(),
        };
        let seen = match mask.kind() {
            Kind::Bool => capped.masked_fill(&mask.logical_not(), f64::NEG_INFINITY),
            _ => capped + mask,
        };
        seen.softmax(-1, Kind::Float).to_kind(query.kind()).matmul(&value)
    }
}

/// Whether a position sees another of the same sequence: `[S, S]`.
fn band(S: i64, window: Option<i64>, device: Device) -> Tensor {
    let earlier = Tensor::ones([S, S], (Kind::Bool, device)).tril(0);
    match window {
        None => earlier,
        Some(window) => earlier.triu(1 - window),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the sums written out.
    #[test]
    fn bounded_scores_in_a_window() {
        tch::manual_seed(1);
        let (H, K, S, D) = (4, 2, 7, 6);
        let random = |heads: i64| Tensor::randn([1, heads, S, D], (Kind::Double, Device::Cpu)) * 3.0;
        let [query, key, value] = [random(H), random(K), random(K)];
        for (window, cap) in [(None, None), (Some(3), None), (None, Some(2.0)), (Some(2), Some(1.5))] {
            let found = Sight { window, cap }.causal([&query, &key, &value]);
            for head in 0..H {
                for at in 0..S {
                    let first = window.map_or(0, |window: i64| (at + 1 - window).max(0));
                    let score = |to: i64| {
                        let own = key.get(0).get(head / (H / K)).get(to);
                        let score = (query.get(0).get(head).get(at) * own).sum(Kind::Double).double_value(&[]);
                        let score = score / (D as f64).sqrt();
                        cap.map_or(score, |cap: f64| cap * (score / cap).tanh()).exp()
                    };
                    let all: f64 = (first..=at).map(score).sum();
                    let mut expected = Tensor::zeros([D], (Kind::Double, Device::Cpu));
                    for to in first..=at {
                        expected += value.get(0).get(head / (H / K)).get(to) * (score(to) / all);
                    }
                    let apart = (found.get(0).get(head).get(at) - expected).abs().max().double_value(&[]);
                    assert!(apart < 1e-5, "{window:?} {cap:?}, head {head}, position {at}: {apart}");
                }
            }
        }
    }
}
