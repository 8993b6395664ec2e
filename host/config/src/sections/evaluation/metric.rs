//! `evaluation.metric`: the figure of evaluations that tells which weights are best.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use gymkhana_nearest::did_you_mean;
use serde::{Deserialize, Serialize};

/// A figure of an evaluation, by its name in `metrics.jsonl`. Higher values are better.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct EvaluationMetric {
    /// Environment whose figure it is; absent for the figure over all environments.
    pub environment: Option<String>,
    /// The figure.
    pub figure: EvaluatedFigure,
}

/// Figures of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EvaluatedFigure {
    /// Share of tasks solved with greedy decoding.
    #[default]
    Success,
    /// Share of tasks solved with sampling.
    SuccessSampled,
    /// Mean reward of the greedy episodes.
    Reward,
}

impl EvaluatedFigure {
    const ALL: [Self; 3] = [Self::Success, Self::SuccessSampled, Self::Reward];

    /// Name in `metrics.jsonl`.
    fn name(self) -> &'static str {
        match self {
            Self::Success => "eval_success",
            Self::SuccessSampled => "eval_success_sampled",
            Self::Reward => "eval_reward",
        }
    }
}

impl Display for EvaluationMetric {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match &self.environment {
            Some(environment) => write!(f, "{environment}/{}", self.figure.name()),
            None => f.write_str(self.figure.name()),
        }
    }
}

impl FromStr for EvaluationMetric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (environment, name) = match text.split_once('/') {
            Some((environment, name)) => (Some(environment.to_owned()), name),
            None => (None, text),
        };
        let figure = EvaluatedFigure::ALL.into_iter().find(|figure| figure.name() == name).ok_or_else(|| {
            let known = EvaluatedFigure::ALL.map(EvaluatedFigure::name);
            format!(
                "`{text}` is not a figure of an evaluation\nhint: use `{}`, alone or after an environment's name and a \
                 `/`{}",
                known.join("`, `"),
                did_you_mean(name, known)
            )
        })?;
        Ok(Self { environment, figure })
    }
}

impl TryFrom<String> for EvaluationMetric {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<EvaluationMetric> for String {
    fn from(metric: EvaluationMetric) -> Self {
        metric.to_string()
    }
}
