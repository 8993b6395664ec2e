//! Guessing game: the environment says whether a guess is too low or too high.
//!
//! Replace these rules by your own. The host relies on three properties: `Guess` contains the complete state of an
//! episode, randomness comes only from the task or the seed, and errors of the agent are answered by observations.

use gymkhana_sdk::environment::{
    Action, Advice, Environment, Guidance, Info, Oracle, Picture, Privileged, Render, Snapshot, Split, ResetResult,
    StateKey, StepResult,
};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Content, Error, NamedValue, PluginOptions, Rng, Task, hash, named, plugin, text};

/// Splits and their sizes.
const SPLITS: [(&str, u64); 2] = [("train", 1000), ("test", 100)];

/// Options that a run file may set. Their descriptions are the doc comments.
#[derive(PluginOptions)]
pub struct Options {
    /// Largest possible secret
    #[option(default = 100, range = 3..=1_000_000)]
    highest: u64,
    /// Maximum number of guesses
    #[option(default = 7, range = 1..=100)]
    guesses: u64,
}

/// Episode: the secret number and the range that the guesses leave.
pub struct Guess {
    secret: u64,
    low: u64,
    high: u64,
    /// Remaining guesses.
    left: u64,
}

/// Secret of a task. The task alone determines it, so attempts at one task are comparable. Every third number is a secret
/// of `test` only, so splits share no task.
fn secret_of(task: &Task, highest: u64) -> u64 {
    let mut rng = Rng::new(hash(format!("{}/{}", task.split, task.index).as_bytes()));
    loop {
        let secret = 1 + rng.below(highest);
        if (secret % 3 == 0) == (task.split == "test") {
            return secret;
        }
    }
}

impl Environment for Guess {
    type Options = Options;

    fn info() -> Info {
        Info::new("Guess a number from hints", ["agent"]).reward_range(0.0, 1.0)
    }

    fn splits(_options: &Options) -> Result<Vec<Split>, Error> {
        Ok(SPLITS.map(|(name, tasks)| Split::of(name, tasks)).to_vec())
    }

    fn reset(task: &Task, options: &Options, _seed: u64) -> Result<(Self, ResetResult), Error> {
        let Some((_, tasks)) = SPLITS.into_iter().find(|(name, _)| *name == task.split) else {
            return Err(Error::no_split(task, &SPLITS.map(|(name, _)| name)));
        };
        if task.index >= tasks {
            return Err(Error::not_found(format!("split `{}` has {tasks} tasks", task.split)));
        }
        let &Options { highest: high, guesses: left } = options;
        let guess = Self { secret: secret_of(task, high), low: 1, high, left };
        let words = format!("I think of a number from 1 to {high}. You have {left} guesses.");
        Ok((guess, ResetResult::observe(words)))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        let Ok(guess) = action.text().trim().parse::<i64>() else {
            return Ok(StepResult::observe("Answer with a whole number and nothing else."));
        };
        // A negative number is as low as 0.
        let guess = u64::try_from(guess).unwrap_or(0);
        self.left = self.left.saturating_sub(1);
        if guess == self.secret {
            return Ok(StepResult::observe("Right!").reward(1.0).extra("success", true).end());
        }
        let hint = if guess < self.secret {
            self.low = self.low.max(guess + 1);
            "Too low."
        } else {
            self.high = self.high.min(guess - 1);
            "Too high."
        };
        if self.left == 0 {
            let words = format!("{hint} No guess is left.");
            return Ok(StepResult::observe(words).reward(0.0).extra("success", false).end());
        }
        Ok(StepResult::observe(format!("{hint} {} left.", self.left)).reward(0.0))
    }
}

/// Enables forks of episodes: the snapshot contains everything that later turns depend on.
impl Snapshot for Guess {
    fn snapshot(&self) -> Vec<u8> {
        Writer::new().integer(self.secret).integer(self.low).integer(self.high).integer(self.left).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let (secret, low, high, left) = (reader.integer()?, reader.integer()?, reader.integer()?, reader.integer()?);
        reader.end()?;
        // Foreign bytes must not create a state that the rules cannot reach.
        if low < 1 || secret < low || secret > high {
            return Err(Error::bad_snapshot("the numbers are not a state of this environment"));
        }
        Ok(Self { secret, low, high, left })
    }
}

/// Lets the host recognize equal states on different paths.
impl StateKey for Guess {
    fn state_key(&self) -> Vec<u8> {
        self.snapshot()
    }
}

/// Facts for rewards, hidden from agents.
impl Privileged for Guess {
    fn privileged(&self) -> Vec<NamedValue> {
        vec![named("answer", self.secret.to_string())]
    }
}

/// Demonstrations by bisection.
impl Oracle for Guess {
    fn advise(&self, _tools: &[String], _results: &[String]) -> Result<Advice, Error> {
        Ok(Advice::Message((self.low + (self.high - self.low) / 2).to_string()))
    }
}

/// Hint for another attempt.
impl Guidance for Guess {
    fn guidance(&self) -> Content {
        text(format!("The number is {}.", if self.secret % 2 == 0 { "even" } else { "odd" }))
    }
}

/// Picture for people.
impl Render for Guess {
    fn render(&self) -> Picture {
        Picture::Text(format!("{} <= secret <= {}, {} guesses left", self.low, self.high, self.left))
    }
}

plugin! { environment: Guess { snapshot, state_key, privileged, oracle, guidance, render } }

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_sdk::environment::Episode;
    use gymkhana_sdk::text_of;

    fn task(split: &str, index: u64) -> Task {
        Task { split: split.to_owned(), index }
    }

    fn begin(index: u64) -> Episode<Guess> {
        Episode::reset(&task("train", index), vec![], 0).expect("there is such a task").0
    }

    /// Observation of the agent after this message, and the result of the step.
    fn say(episode: &mut Episode<Guess>, words: &str) -> (String, StepResult) {
        let result = episode.step(Action::say(0, words)).expect("every message is answered");
        (text_of(&result.observations[0].content), result)
    }

    #[test]
    fn hints_lead_to_the_number() {
        let mut episode = begin(0);
        let secret = episode.environment().secret;
        assert_eq!(say(&mut episode, &(secret - 1).to_string()).0, "Too low. 6 left.");
        let (seen, result) = say(&mut episode, &secret.to_string());
        assert_eq!((seen.as_str(), result.rewards[0].reward, result.terminated), ("Right!", 1.0, true));
    }

    #[test]
    fn the_expert_needs_seven_guesses_at_most() {
        for index in 0..50 {
            let mut episode = begin(index);
            let won = (0..7).any(|_| {
                let Ok(Advice::Message(guess)) = episode.environment().advise(&[], &[]) else { return false };
                say(&mut episode, &guess).0 == "Right!"
            });
            assert!(won, "task {index}");
        }
    }

    #[test]
    fn splits_share_no_secret() {
        for highest in [3, 100] {
            for index in 0..50 {
                assert_ne!(secret_of(&task("train", index), highest) % 3, 0, "train/{index}");
                assert_eq!(secret_of(&task("test", index), highest) % 3, 0, "test/{index}");
            }
        }
    }

    #[test]
    fn text_without_a_number_costs_no_guess() {
        let mut episode = begin(0);
        assert_eq!(say(&mut episode, "seven").0, "Answer with a whole number and nothing else.");
        assert_eq!(episode.environment().left, 7);
    }

    #[test]
    fn unknown_tasks_and_options_are_refused() {
        let reset = |task: Task, options| Episode::<Guess>::reset(&task, options, 0).err();
        assert!(matches!(reset(task("validation", 0), vec![]), Some(Error::NotFound(_))));
        assert!(matches!(reset(task("train", 1000), vec![]), Some(Error::NotFound(_))));
        let refused = reset(task("train", 0), vec![named("higest", 10)]);
        assert!(matches!(refused, Some(Error::Invalid(message)) if message.contains("`highest`")));
    }
}
