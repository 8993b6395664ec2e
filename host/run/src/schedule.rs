//! Estimate of the time that the rest of a run takes, from the durations of its finished measurements.

use std::time::Duration;

use crate::state::TrainingProgress;
use gymkhana_config::RunFile;
use gymkhana_orchestration::Later;

/// Point in a stage at which success is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EvalPoint {
    Before,
    /// After this number of training steps.
    During(u64),
    After,
}

/// Decoding in a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decoding {
    Greedy,
    Sampled,
}

/// Part of a stage.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StagePart {
    Measurement(EvalPoint, Decoding),
    Training,
}

/// Number of pieces of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Following {
    stages: u32,
    greedy: u32,
    sampled: u32,
}

impl Following {
    /// The work that follows `part` of the first of `stages` stages, `within` evaluations between its training steps
    /// included. An evaluation makes up to two measurements.
    fn of(part: StagePart, stages: u32, within: u32, greedy: bool, sampled: bool) -> Self {
        let later = stages.saturating_sub(1);
        let (stages, evaluations) = match part {
            StagePart::Measurement(EvalPoint::Before | EvalPoint::During(_), _) => (stages, stages + within),
            StagePart::Training => (later, stages + within),
            StagePart::Measurement(EvalPoint::After, _) => (later, later),
        };
        let same_evaluation = matches!(part, StagePart::Measurement(_, Decoding::Greedy));
        let sampled = u32::from(sampled) * (evaluations + u32::from(same_evaluation));
        Self { stages, greedy: u32::from(greedy) * evaluations, sampled }
    }
}

/// Durations of the last measurements in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Durations {
    greedy: Option<f64>,
    sampled: Option<f64>,
}

impl Durations {
    /// Keeps the duration of a finished measurement.
    pub fn measured(&mut self, decoding: Decoding, took: Duration) {
        let kept = match decoding {
            Decoding::Greedy => &mut self.greedy,
            Decoding::Sampled => &mut self.sampled,
        };
        *kept = Some(took.as_secs_f64());
    }

    /// Expected time of the run after this part of the current stage. Training of later stages is unknown.
    pub fn after(self, part: StagePart, file: &RunFile, progress: &TrainingProgress) -> Later {
        let stages = file.stages.len().saturating_sub(progress.stage);
        let greedy = file.evaluates();
        let sampled = greedy && file.evaluation.sampled;
        let at_most = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let evaluations = at_most(evaluations_ahead(file, progress));
        self.later(Following::of(part, at_most(stages as u64), evaluations, greedy, sampled))
    }

    fn later(self, following: Following) -> Later {
        let parts = [(self.greedy, following.greedy), (self.sampled, following.sampled)];
        let known = parts.iter().map(|(seconds, count)| seconds.unwrap_or(0.0) * f64::from(*count));
        let unknown = parts.iter().any(|(seconds, count)| seconds.is_none() && *count > 0);
        Later { seconds: known.sum(), at_least: unknown || following.stages > 0 }
    }
}

/// Number of evaluations between training steps that the current stage may still make.
fn evaluations_ahead(file: &RunFile, progress: &TrainingProgress) -> u64 {
    let (every, done) = (file.evaluation.every, progress.steps_done());
    let Some(stage) = file.stages.get(progress.stage).filter(|_| every > 0) else { return 0 };
    // The evaluation after the last step counts as the one after the stage.
    (stage.steps().saturating_sub(1) / every).saturating_sub(done / every)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of a run of two stages is: G S | train G S | train G S.
    #[test]
    fn the_rest_of_a_run_is_counted() {
        let following = |part, stages| {
            let Following { stages, greedy, sampled } = Following::of(part, stages, 0, true, true);
            (stages, greedy, sampled)
        };
        let measurement = StagePart::Measurement;
        assert_eq!(following(measurement(EvalPoint::Before, Decoding::Greedy), 2), (2, 2, 3));
        assert_eq!(following(measurement(EvalPoint::Before, Decoding::Sampled), 2), (2, 2, 2));
        assert_eq!(following(StagePart::Training, 2), (1, 2, 2));
        assert_eq!(following(measurement(EvalPoint::After, Decoding::Greedy), 2), (1, 1, 2));
        assert_eq!(following(StagePart::Training, 1), (0, 1, 1));
        assert_eq!(following(measurement(EvalPoint::After, Decoding::Sampled), 1), (0, 0, 0));
        // Two evaluations are left within the stage of which this is the first step.
        let Following { greedy, sampled, .. } = Following::of(StagePart::Training, 1, 2, true, true);
        assert_eq!((greedy, sampled), (3, 3));
        let unmeasured = Following::of(StagePart::Training, 1, 0, false, false);
        assert_eq!(unmeasured, Following { stages: 0, greedy: 0, sampled: 0 });
    }

    #[test]
    fn unknown_durations_make_a_lower_bound() {
        let mut durations = Durations::default();
        let last = Following { stages: 0, greedy: 1, sampled: 1 };
        assert_eq!(durations.later(last), Later { seconds: 0.0, at_least: true });
        durations.measured(Decoding::Greedy, Duration::from_secs(3));
        assert_eq!(durations.later(last), Later { seconds: 3.0, at_least: true });
        durations.measured(Decoding::Sampled, Duration::from_secs(5));
        assert_eq!(durations.later(last), Later { seconds: 8.0, at_least: false });
        let with_a_stage = Following { stages: 1, greedy: 2, sampled: 2 };
        assert_eq!(durations.later(with_a_stage), Later { seconds: 16.0, at_least: true });
        assert_eq!(durations.later(Following { stages: 0, greedy: 0, sampled: 0 }), Later::default());
    }
}
