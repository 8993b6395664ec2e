//! How the next token is chosen: greedily, or by a draw from a distribution that may be cut short.

/// How the next token is chosen.
///
/// Logits are divided by the temperature first. Of the distribution that this gives, `top_k` keeps the most probable
/// tokens, `top_p` of those the most probable that make up its share, and `min_p` those that are probable enough beside
/// the most probable. Tokens that are as probable as the last one kept are kept too, so that it depends on nothing but the
/// probabilities which are. What is recorded of a token is its probability before anything was cut off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// 0 takes the most probable token, the smallest id of equals; else above 0.
    pub temperature: f32,
    /// How many tokens are kept; 0 keeps all.
    pub top_k: u32,
    /// Which share of the probability is kept, in (0, 1]; 1 keeps all.
    pub top_p: f32,
    /// The least probability that is kept, as a share of the largest, in [0, 1]; 0 keeps all.
    pub min_p: f32,
}

/// A value is out of its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("`{key}` is {value}; it must be {expected}")]
pub struct SamplingError {
    /// The value's name.
    pub key: &'static str,
    /// What it is.
    pub value: String,
    /// What it may be.
    pub expected: &'static str,
}

impl Sampling {
    /// The most probable token.
    pub const GREEDY: Self = Self::at(0.0);

    /// A draw at a temperature from the whole distribution.
    #[must_use]
    pub const fn at(temperature: f32) -> Self {
        Self { temperature, top_k: 0, top_p: 1.0, min_p: 0.0 }
    }

    /// Whether the most probable token is taken.
    #[must_use]
    pub fn is_greedy(self) -> bool {
        self.temperature == 0.0
    }

    /// Whether some tokens are never drawn.
    #[must_use]
    pub fn cuts(self) -> bool {
        !self.is_greedy() && (self.top_k > 0 || self.top_p < 1.0 || self.min_p > 0.0)
    }

    /// Refuses values out of range.
    ///
    /// # Errors
    /// With the value's name.
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
