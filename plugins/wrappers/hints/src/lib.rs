//! An instruction and demonstrations before a task, shown less and less often.
//!
//! The environment's oracle plays the demonstrations on other tasks of the split `train`. Whether an episode has hints is a
//! draw under its seed; its probability falls with the number of the task, which grows during training. Tasks of other splits
//! have no hints, so that an evaluation measures the agent alone.

mod demonstration;

use gymkhana_sdk::environment::{Info, ResetResult};
use gymkhana_sdk::wrapper::{Inner, InnerInfo, Wrapper};
use gymkhana_sdk::{Error, PluginOptions, Rng, Task, plugin, text};

use demonstration::demonstrations;

/// Split whose tasks have hints.
const TRAIN: &str = "train";

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Text before the task
    #[option(default = "")]
    instruction: String,
    /// Number of tasks that the oracle demonstrates in messages and calls of the environment
    #[option(default = 1, range = 0..=8)]
    demonstrations: u64,
    /// Probability of hints at the first task
    #[option(default = 1.0, range = 0.0..=1.0)]
    first: f64,
    /// Probability of hints after `fade` tasks
    #[option(default = 0.0, range = 0.0..=1.0)]
    last: f64,
    /// Number of tasks of the split `train` after which the probability is `last`; 0 for `first` at all tasks
    #[option(default = 0, range = 0..=1_000_000_000)]
    fade: u64,
}

impl Options {
    /// Probability that a task has hints.
    fn strength(&self, task: &Task) -> f64 {
        match self.fade {
            _ if task.split != TRAIN => 0.0,
            0 => self.first,
            fade => self.first + (self.last - self.first) * (task.index.min(fade) as f64 / fade as f64),
        }
    }

    /// Whether an episode has hints.
    fn shows(&self, task: &Task, seed: u64) -> bool {
        // A stream apart from the one that the environment makes of its seed.
        let draw = Rng::new(gymkhana_sdk::hash(format!("hints/{seed}").as_bytes())).unit();
        draw < self.strength(task)
    }
}

/// Hints are part of the start of an episode alone.
pub struct Hints;

impl Wrapper for Hints {
    type Options = Options;
    type State = ();

    fn info(inner: &InnerInfo) -> Info {
        inner.described(format!("{}; hints that fade out", inner.summary()))
    }

    fn reset(task: &Task, options: &Options, seed: u64) -> Result<((), Vec<Inner>, ResetResult), Error> {
        // The task comes first, so that a missing one is refused in any case.
        let (inner, result) = Inner::reset(task, seed)?;
        if !options.shows(task, seed) {
            return Ok(((), vec![inner], result));
        }
        let mut words: Vec<String> =
            Some(options.instruction.clone()).filter(|words| !words.is_empty()).into_iter().collect();
        words.extend(demonstrations(task, options.demonstrations, seed)?);
        let seat = result.next_seat;
        let hints = words.into_iter().fold(ResetResult::default(), |hints, words| hints.show(seat, text(words)));
        Ok(((), vec![inner], hints.followed_by(result)))
    }
}

plugin! { wrapper: Hints }

#[cfg(test)]
mod tests {
    use super::*;

    fn options(fade: u64) -> Options {
        Options { last: 0.5, fade, ..Options::default() }
    }

    fn task(split: &str, index: u64) -> Task {
        Task { split: split.into(), index }
    }

    #[test]
    fn hints_fade_with_the_number_of_the_task() {
        let strengths = [0, 50, 100, 1000].map(|index| options(100).strength(&task("train", index)));
        assert_eq!(strengths, [1.0, 0.75, 0.5, 0.5]);
        assert_eq!(options(0).strength(&task("train", 1000)), 1.0);
        assert_eq!(options(0).strength(&task("test", 0)), 0.0);
    }

    #[test]
    fn as_many_episodes_have_hints_as_the_probability_says() {
        let shown = |index| (0..10_000).filter(|seed| options(100).shows(&task("train", index), *seed)).count();
        assert_eq!(shown(0), 10_000);
        // Three standard deviations are 150.
        assert!((4_850..=5_150).contains(&shown(100)), "{}", shown(100));
    }
}
