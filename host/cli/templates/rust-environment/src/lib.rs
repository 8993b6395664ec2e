//! Number search: the agent guesses a number and learns whether the hidden number is higher or lower.
//!
//! Replace these rules by your own. The host relies on three properties: `Hunt` contains the complete state of an
//! episode, randomness comes only from the task or the seed, and errors of the agent are answered by observations.

use gymkhana_sdk::environment::{
    Action, Advice, Environment, Info, Oracle, Privileged, Snapshot, Split, Started, StateKey, Stepped,
};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Error, NamedValue, OptionInfo, Options, Task, hash, named, plugin};

/// Splits. A number depends on the split's name and the task's index, so splits share no task.
const SPLITS: [&str; 2] = ["train", "test"];

/// Episode.
pub struct Hunt {
    hidden: u64,
    /// Candidates for the hidden number, from the agent's view.
    low: u64,
    high: u64,
    /// Remaining guesses.
    left: u64,
}

impl Environment for Hunt {
    fn info() -> Info {
        Info::new("Find a number by asking; say a number alone", ["agent"])
            .option(OptionInfo::new("most", "Largest possible hidden number", 100).within(2.0, 1e6))
            .option(OptionInfo::new("guesses", "Maximum number of guesses", 10).within(1.0, 1000.0))
            .rewards(0.0, 1.0)
    }

    fn splits(_options: &Options) -> Result<Vec<Split>, Error> {
        Ok(SPLITS.map(Split::endless).to_vec())
    }

    fn start(task: &Task, options: &Options, _seed: u64) -> Result<(Self, Started), Error> {
        if !SPLITS.contains(&task.split.as_str()) {
            return Err(Error::no_split(task, &SPLITS));
        }
        let most = options.integer("most") as u64;
        let hidden = 1 + hash(format!("{}/{}", task.split, task.index).as_bytes()) % most;
        let hunt = Self { hidden, low: 1, high: most, left: options.integer("guesses") as u64 };
        Ok((hunt, Started::observe(format!("I hide a number from 1 to {most}. Which one?"))))
    }

    fn step(&mut self, action: Action) -> Result<Stepped, Error> {
        self.left = self.left.saturating_sub(1);
        let stepped = match action.text().trim().parse::<u64>() {
            Ok(guess) if guess == self.hidden => {
                return Ok(Stepped::observe("Found.").reward(1.0).extra("success", true).end());
            }
            Ok(guess) if guess < self.hidden => {
                self.low = self.low.max(guess + 1);
                Stepped::observe("Higher.")
            }
            Ok(guess) => {
                self.high = self.high.min(guess - 1);
                Stepped::observe("Lower.")
            }
            Err(_) => Stepped::observe("Say a number alone, such as 7."),
        };
        let stepped = stepped.extra("success", false);
        Ok(if self.left == 0 { stepped.cut_off() } else { stepped })
    }
}

/// Enables forks of episodes: the snapshot contains everything that later turns depend on.
impl Snapshot for Hunt {
    fn snapshot(&self) -> Vec<u8> {
        Writer::new().integer(self.hidden).integer(self.low).integer(self.high).integer(self.left).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let (hidden, low, high, left) = (reader.integer()?, reader.integer()?, reader.integer()?, reader.integer()?);
        reader.end()?;
        // Foreign bytes must not create a state that the rules cannot reach.
        if low < 1 || hidden < low || hidden > high {
            return Err(Error::bad_snapshot("the numbers are not a state of this environment"));
        }
        Ok(Self { hidden, low, high, left })
    }
}

/// Lets the host recognize equal states on different paths.
impl StateKey for Hunt {
    fn state_key(&self) -> Vec<u8> {
        self.snapshot()
    }
}

/// Facts for rewards, hidden from agents.
impl Privileged for Hunt {
    fn privileged(&self) -> Vec<NamedValue> {
        vec![named("answer", self.hidden.to_string())]
    }
}

/// Demonstrations by bisection.
impl Oracle for Hunt {
    fn advise(&self, _tools: &[String], _results: &[String]) -> Result<Advice, Error> {
        Ok(Advice::Message((self.low + (self.high - self.low) / 2).to_string()))
    }
}

plugin! { environment: Hunt { snapshot, state_key, privileged, oracle } }

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_sdk::environment::Episode;

    fn begin() -> Episode<Hunt> {
        let task = Task { split: "train".to_owned(), index: 0 };
        Episode::start(&task, vec![], 0).expect("there is such a task").0
    }

    #[test]
    fn the_oracle_finds_the_number() {
        let mut episode = begin();
        for _ in 0..7 {
            let Ok(Advice::Message(guess)) = episode.environment().advise(&[], &[]) else { panic!("the oracle always speaks") };
            let stepped = episode.step(Action::say(0, guess)).expect("a number is answered");
            if stepped.terminated {
                return;
            }
        }
        panic!("seven halvings find one of a hundred");
    }

    #[test]
    fn nonsense_is_answered_and_costs_a_guess() {
        let mut episode = begin();
        for guess in 1..=10 {
            let stepped = episode.step(Action::say(0, "a tree")).expect("nonsense is answered");
            assert_eq!(stepped.truncated, guess == 10, "guess {guess}");
        }
    }
}
