//! An instruction and demonstrations before a task, shown less and less often.
//!
//! The environment's oracle plays the demonstrations on other tasks of the split `train`. Whether an episode has hints is a
//! draw under its seed; its probability falls with the number of the task, which grows during training. Tasks of other splits
//! have no hints, so that an evaluation measures the agent alone.

mod demonstration;

use gymkhana_sdk::environment::{Action, Info, ResetResult, StepResult};
use gymkhana_sdk::wrapper::{Inner, InnerInfo, Wrapper, only};
use gymkhana_sdk::{Error, OptionInfo, Options, Rng, Task, plugin, text};

use demonstration::demonstrations;

/// Split whose tasks have hints.
const TRAIN: &str = "train";

/// Option values of the run.
#[derive(Debug, Clone, PartialEq)]
struct Settings {
    instruction: String,
    demonstrations: u64,
    first: f64,
    last: f64,
    /// Number of tasks after which the probability is `last`.
    fade: u64,
}

impl Settings {
    fn of(options: &Options) -> Self {
        Self {
            instruction: options.text("instruction").to_owned(),
            demonstrations: options.integer("demonstrations") as u64,
            first: options.number("first"),
            last: options.number("last"),
            fade: options.integer("fade") as u64,
        }
    }

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

/// Episode: the environment inside. Hints are part of its start alone.
pub struct Hints {
    inner: Inner,
}

impl Wrapper for Hints {
    fn info(inner: &InnerInfo) -> Info {
        let demonstrations = "Number of tasks that the oracle demonstrates in messages and calls of the environment";
        let first = OptionInfo::new("first", "Probability of hints at the first task", 1.0);
        let last = OptionInfo::new("last", "Probability of hints after `fade` tasks", 0.0);
        let fade =
            "Number of tasks of the split `train` after which the probability is `last`; 0 for `first` at all tasks";
        inner
            .described(format!("{}; hints that fade out", inner.summary()))
            .option(OptionInfo::new("instruction", "Text before the task", ""))
            .option(OptionInfo::new("demonstrations", demonstrations, 1).within(0.0, 8.0))
            .option(first.within(0.0, 1.0))
            .option(last.within(0.0, 1.0))
            .option(OptionInfo::new("fade", fade, 0).within(0.0, 1e9))
    }

    fn reset(task: &Task, options: &Options, seed: u64) -> Result<(Self, ResetResult), Error> {
        let settings = Settings::of(options);
        // The task comes first, so that a missing one is refused in any case.
        let (inner, started) = Inner::reset(task, seed)?;
        if !settings.shows(task, seed) {
            return Ok((Self { inner }, started));
        }
        let mut words: Vec<String> =
            Some(settings.instruction.clone()).filter(|words| !words.is_empty()).into_iter().collect();
        words.extend(demonstrations(task, settings.demonstrations, seed)?);
        let seat = started.next_seat;
        let hints = words.into_iter().fold(ResetResult::default(), |hints, words| hints.show(seat, text(words)));
        Ok((Self { inner }, hints.followed_by(started)))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        self.inner.step(&action)
    }

    fn inner(&self) -> &Inner {
        &self.inner
    }

    fn snapshot(&self) -> Vec<u8> {
        vec![]
    }

    fn restore(state: &[u8], inner: Vec<Inner>) -> Result<Self, Error> {
        if !state.is_empty() {
            return Err(Error::bad_snapshot("the snapshot has a state, and this wrapper has none"));
        }
        Ok(Self { inner: only(inner)? })
    }
}

plugin! { wrapper: Hints }

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(fade: u64) -> Settings {
        Settings { instruction: String::new(), demonstrations: 1, first: 1.0, last: 0.5, fade }
    }

    fn task(split: &str, index: u64) -> Task {
        Task { split: split.into(), index }
    }

    #[test]
    fn hints_fade_with_the_number_of_the_task() {
        let strengths = [0, 50, 100, 1000].map(|index| settings(100).strength(&task("train", index)));
        assert_eq!(strengths, [1.0, 0.75, 0.5, 0.5]);
        assert_eq!(settings(0).strength(&task("train", 1000)), 1.0);
        assert_eq!(settings(0).strength(&task("test", 0)), 0.0);
    }

    #[test]
    fn as_many_episodes_have_hints_as_the_probability_says() {
        let shown = |index| (0..10_000).filter(|seed| settings(100).shows(&task("train", index), *seed)).count();
        assert_eq!(shown(0), 10_000);
        // Three standard deviations are 150.
        assert!((4_850..=5_150).contains(&shown(100)), "{}", shown(100));
    }
}
