//! Wall-clock time per turn of episodes: the slowest one, and an upper bound of the median.

use gymkhana_record::{EpisodeId, EpisodeRecord};

/// Classes of times: class `n` holds times up to `2^n` milliseconds.
const CLASSES: usize = 32;

/// The episode with the slowest turns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SlowestEpisode {
    /// Milliseconds per turn.
    pub milliseconds: f64,
    pub episode: EpisodeId,
    /// Boundary at which most of the time was spent.
    pub boundary: &'static str,
}

/// Times per turn.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct TurnTimes {
    classes: [u64; CLASSES],
    pub slowest: Option<SlowestEpisode>,
}

impl TurnTimes {
    /// Adds an episode's mean time per turn.
    pub fn add(&mut self, record: &EpisodeRecord) {
        let timing = record.timing;
        let parts = [("policy", timing.policy_ms), ("environment", timing.environment_ms), ("tools", timing.tool_ms)];
        let sum: f64 = parts.iter().map(|(_, milliseconds)| milliseconds).sum();
        let milliseconds = sum / record.policy_turns.len().max(1) as f64;
        if !milliseconds.is_finite() || milliseconds <= 0.0 {
            return;
        }
        let class = milliseconds.log2().ceil().clamp(0.0, (CLASSES - 1) as f64) as usize;
        self.classes[class] += 1;
        let most = parts.iter().max_by(|one, other| one.1.total_cmp(&other.1)).map_or("policy", |(name, _)| *name);
        self.keep_slower(SlowestEpisode { milliseconds, episode: record.id, boundary: most });
    }

    fn keep_slower(&mut self, found: SlowestEpisode) {
        if self.slowest.is_none_or(|slowest| found.milliseconds > slowest.milliseconds) {
            self.slowest = Some(found);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        for (own, more) in self.classes.iter_mut().zip(other.classes) {
            *own += more;
        }
        other.slowest.iter().for_each(|found| self.keep_slower(*found));
    }

    /// Upper bound of the median in milliseconds, at most twice the median.
    pub fn median(&self) -> Option<f64> {
        let count: u64 = self.classes.iter().sum();
        let mut seen = 0;
        let class = self.classes.iter().position(|own| {
            seen += own;
            2 * seen >= count
        });
        class.filter(|_| count > 0).map(|class| 2_f64.powi(class as i32))
    }
}
