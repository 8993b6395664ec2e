//! Figures of preferences: what the policy rewards implicitly, by its log-ratios to the reference policy.

use gymkhana_record::StepMetrics;
use gymkhana_record::step_metrics::rl;

/// Sums over the episodes and pairs of minibatches. An implicit reward is β times an episode's log-ratio.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Preferences {
    better: Mean,
    worse: Mean,
    /// Over pairs: 1 if the better episode has the higher implicit reward.
    ordered: Mean,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1.0;
    }

    fn value(self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

impl Preferences {
    /// Adds the implicit reward of a better or a worse episode.
    pub fn add(&mut self, is_better: bool, reward: f64) {
        let mean = if is_better { &mut self.better } else { &mut self.worse };
        mean.add(reward);
    }

    /// Adds the implicit rewards of a pair.
    pub fn add_pair(&mut self, [better, worse]: [f64; 2]) {
        self.add(true, better);
        self.add(false, worse);
        self.ordered.add(f64::from(u8::from(better > worse)));
    }

    /// Adds the sums of another minibatch.
    pub fn append(&mut self, other: Self) {
        let Self { better, worse, ordered } = self;
        for (own, more) in [(better, other.better), (worse, other.worse), (ordered, other.ordered)] {
            own.sum += more.sum;
            own.count += more.count;
        }
    }

    pub fn metrics(self) -> StepMetrics {
        let mut metrics = StepMetrics::default();
        let rows =
            [(rl::BETTER_REWARD, self.better), (rl::WORSE_REWARD, self.worse), (rl::PREFERENCE_ACCURACY, self.ordered)];
        for (row, mean) in rows {
            if let Some(value) = mean.value() {
                metrics.push(row, value);
            }
        }
        metrics
    }
}
