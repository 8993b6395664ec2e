//! Gates: conditions under which a reward counts (G-RA).
//!
//! Gates nest: a reward counts if its condition holds and the reward in the condition counts itself, to any depth. This
//! builds `R = R1 + [R1 >= d1] (R2 + [R2 >= d2] (R3 + …))`.

use gymkhana_record::EpisodeRecord;

use super::MetricRuleError;
use super::episode_end::EpisodeEnd;
use super::metric_ref::RewardCatalog;
use super::metric_ref::{ENVIRONMENT, MetricRef};

/// Comparison of a metric with the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GateComparison {
    AtLeast,
    Above,
    AtMost,
    Below,
}

/// Operators; longer ones come before their prefixes.
const SIGNS: [(&str, GateComparison); 4] = [
    (">=", GateComparison::AtLeast),
    ("<=", GateComparison::AtMost),
    (">", GateComparison::Above),
    ("<", GateComparison::Below),
];

/// A condition such as `answer-match.correct >= 0.5`.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    metric: MetricRef,
    comparison: GateComparison,
    threshold: f64,
}

impl Gate {
    /// Parses a condition; `of` is the gate's owner: a reward's name, or `environment`.
    ///
    /// # Errors
    /// If it names no metric, or has no comparison with a number.
    pub fn parse(of: &str, text: &str) -> Result<Self, MetricRuleError> {
        let rule = key(of);
        let condition = || MetricRuleError::Condition { rule: rule.clone(), text: text.to_owned() };
        let signs = SIGNS.iter().find_map(|(sign, comparison)| Some((text.split_once(sign)?, *comparison)));
        let ((name, number), comparison) = signs.ok_or_else(condition)?;
        let threshold: f64 = number.trim().parse().map_err(|_| condition())?;
        if !threshold.is_finite() {
            return Err(condition());
        }
        Ok(Self { metric: MetricRef::parse(&rule, name.trim())?, comparison, threshold })
    }

    fn holds(&self, record: &EpisodeRecord, seat: u32) -> bool {
        let passes = |value: f64| match self.comparison {
            GateComparison::AtLeast => value >= self.threshold,
            GateComparison::Above => value > self.threshold,
            GateComparison::AtMost => value <= self.threshold,
            GateComparison::Below => value < self.threshold,
        };
        self.metric.value(record, seat).is_some_and(passes)
    }
}

/// Key of a gate in the run file.
fn key(of: &str) -> String {
    if of == ENVIRONMENT { format!("{of}.gate") } else { format!("plugins.{of}.gate") }
}

/// Gates of a run by owner. No gate waits for itself.
pub(super) struct Gates<'a>(Vec<(&'a str, &'a Gate)>);

impl<'a> Gates<'a> {
    pub(super) fn new(gates: impl Iterator<Item = (&'a str, Option<&'a Gate>)>) -> Self {
        Self(gates.filter_map(|(of, gate)| Some((of, gate?))).collect())
    }

    fn of(&self, source: &str) -> Option<&'a Gate> {
        self.0.iter().find(|(of, _)| *of == source).map(|(_, gate)| *gate)
    }

    /// Checks that the metrics in the gates can exist, and that each gate can open.
    pub(super) fn check(&self, catalog: &RewardCatalog<'_>) -> Result<(), MetricRuleError> {
        for (of, gate) in &self.0 {
            gate.metric.check(&key(of), catalog)?;
            let mut passed = vec![*of];
            let mut next = gate.metric.source.as_str();
            while let Some(gate) = self.of(next) {
                if let Some(first) = passed.iter().position(|passed| *passed == next) {
                    let circle = passed[first..].iter().map(|of| (*of).to_owned()).collect();
                    return Err(MetricRuleError::Circle { circle });
                }
                passed.push(next);
                next = &gate.metric.source;
            }
        }
        Ok(())
    }

    /// Checks that an episode that the environment ended has the facts in the gates.
    pub(super) fn check_facts(&self, end: &EpisodeEnd<'_>) -> Result<(), MetricRuleError> {
        self.0.iter().try_for_each(|(of, gate)| gate.metric.check_facts(&key(of), end))
    }

    /// Whether a gate names a fact of the environment.
    pub(super) fn name_facts(&self) -> bool {
        self.0.iter().any(|(_, gate)| gate.metric.is_fact())
    }

    /// Whether a source of rewards counts for a seat.
    pub(super) fn open(&self, source: &str, record: &EpisodeRecord, seat: u32) -> bool {
        let mut source = source;
        while let Some(gate) = self.of(source) {
            if !gate.holds(record, seat) {
                return false;
            }
            source = &gate.metric.source;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_parsed() {
        let gate = Gate::parse("style", "answer-match.correct >= 0.5").expect("a condition");
        let expected = (GateComparison::AtLeast, 0.5);
        assert_eq!((gate.metric.source.as_str(), (gate.comparison, gate.threshold)), ("answer-match", expected));
        for (text, comparison) in [
            ("a.b>1", GateComparison::Above),
            ("a.b <= -1e3", GateComparison::AtMost),
            (" a.b < 2 ", GateComparison::Below),
        ] {
            assert_eq!(Gate::parse("style", text).expect(text).comparison, comparison, "{text}");
        }
    }

    #[test]
    fn invalid_conditions_are_refused_by_key() {
        for (of, text, message) in [
            ("style", "correct >= 0.5", "plugins.style.gate `correct` is neither `environment.FACT` nor `REWARD.COMP"),
            ("style", "a.b", "plugins.style.gate `a.b` is not a condition\nhint: write one such as"),
            ("style", "a.b == 1", "plugins.style.gate `a.b == 1` is not a condition"),
            ("environment", "a.b >= high", "environment.gate `a.b >= high` is not a condition"),
            ("environment", "a.b >= nan", "environment.gate `a.b >= nan` is not a condition"),
        ] {
            let error = Gate::parse(of, text).expect_err(text).to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
