//! Amount of work: a whole measurement, or one round that only shows that it runs.

/// Amount of work of a bench or a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// The counts of the published results.
    Full,
    /// The smallest counts that run all the code; the results mean nothing.
    Smoke,
}

impl Effort {
    /// `full` or `smoke`, by this effort.
    pub fn pick<T>(self, full: T, smoke: T) -> T {
        match self {
            Self::Full => full,
            Self::Smoke => smoke,
        }
    }
}

impl From<bool> for Effort {
    /// `true` is [`Effort::Smoke`], as a flag `--smoke` has it.
    fn from(smoke: bool) -> Self {
        if smoke { Self::Smoke } else { Self::Full }
    }
}
