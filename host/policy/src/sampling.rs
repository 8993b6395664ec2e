//! Sampling parameters: greedy, or a draw from a distribution that may be truncated.

use serde::{Deserialize, Deserializer, Serialize};

/// Number of tokens that a `top_k` of users and clients keeps: -1, with which vLLM disables the cut, is 0. `None` below -1.
#[must_use]
pub fn kept_tokens(top_k: i64) -> Option<u32> {
    if top_k == -1 { Some(0) } else { u64::try_from(top_k).ok().map(|kept| u32::try_from(kept).unwrap_or(u32::MAX)) }
}

/// Reads a `top_k`.
///
/// # Errors
/// If it is not an integer from -1 up.
pub fn deserialize_top_k<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let top_k = i64::deserialize(deserializer)?;
    kept_tokens(top_k).ok_or_else(|| serde::de::Error::custom(format!("`top_k` is {top_k}; it must be -1 or more")))
}

/// Temperature and truncation of the next token's distribution.
///
/// Logits are divided by the temperature first. Then `top_k` keeps the most probable tokens, `top_p` the most probable
/// of these that reach its share of the probability, and `min_p` those that reach its share of the largest probability.
/// Ties with the last kept token are kept, so the result depends on probabilities alone. The recorded log-probability
/// of a token is that before truncation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Temperature: 0 selects the most probable token (the smallest id among ties), else from 0.01 to 100.
    pub temperature: f32,
    /// Number of tokens kept; 0 keeps all.
    pub top_k: u32,
    /// Share of the probability kept, in (0, 1]; 1 keeps all.
    pub top_p: f32,
    /// Smallest probability kept, as a share of the largest, in [0, 1]; 0 keeps all.
    pub min_p: f32,
}

/// A parameter is out of its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("`{key}` is {value}; it must be {expected}")]
pub struct SamplingError {
    /// The parameter's name.
    pub key: &'static str,
    /// The value.
    pub value: String,
    /// The allowed range.
    pub expected: &'static str,
}

impl Sampling {
    /// Greedy decoding.
    pub const GREEDY: Self = Self::at(0.0);

    /// A draw at a temperature from the complete distribution.
    #[must_use]
    pub const fn at(temperature: f32) -> Self {
        Self { temperature, top_k: 0, top_p: 1.0, min_p: 0.0 }
    }

    /// Whether decoding is greedy.
    #[must_use]
    pub fn is_greedy(self) -> bool {
        self.temperature == 0.0
    }

    /// Whether the distribution is truncated.
    #[must_use]
    pub fn cuts(self) -> bool {
        !self.is_greedy() && (self.top_k > 0 || self.top_p < 1.0 || self.min_p > 0.0)
    }

    /// Checks the ranges of all parameters.
    ///
    /// # Errors
    /// The first parameter out of its range.
    pub fn check(self) -> Result<Self, SamplingError> {
        let Self { temperature, top_p, min_p, .. } = self;
        let require = |holds: bool, key, value: f32, expected| {
            if holds { Ok(()) } else { Err(SamplingError { key, value: value.to_string(), expected }) }
        };
        let warm = temperature == 0.0 || (0.01..=100.0).contains(&temperature);
        require(warm, "temperature", temperature, "0, or from 0.01 to 100")?;
        require(top_p > 0.0 && top_p <= 1.0, "top_p", top_p, "above 0 and at most 1")?;
        require((0.0..=1.0).contains(&min_p), "min_p", min_p, "from 0 to 1")?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minus_one_disables_the_cut() {
        for (top_k, kept) in [(-1, Some(0)), (0, Some(0)), (40, Some(40)), (1 << 40, Some(u32::MAX)), (-2, None)] {
            assert_eq!(kept_tokens(top_k), kept, "{top_k}");
        }
    }

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        let cut = Sampling { temperature: 0.7, top_k: 20, top_p: 0.8, min_p: 0.05 };
        assert_eq!(cut.check(), Ok(cut));
        assert!(cut.cuts() && !Sampling::at(1.0).cuts() && !Sampling { temperature: 0.0, ..cut }.cuts());
        for (wrong, key) in [
            (Sampling { temperature: -1.0, ..cut }, "temperature"),
            (Sampling { temperature: f32::NAN, ..cut }, "temperature"),
            (Sampling { top_p: 0.0, ..cut }, "top_p"),
            (Sampling { top_p: 1.1, ..cut }, "top_p"),
            (Sampling { min_p: f32::INFINITY, ..cut }, "min_p"),
        ] {
            assert_eq!(wrong.check().expect_err(key).key, key);
        }
    }
}
