//! Minimal environment: it answers each message with the same text, without a turn limit.

use gymkhana_sdk::environment::{Action, Environment, Info, ResetResult, Snapshot, Split, StepResult};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Error, Task, plugin};

/// Counts the answered messages.
pub struct Echo {
    answered: u64,
}

impl Environment for Echo {
    type Options = ();

    fn info() -> Info {
        Info::new("Answers every message with the same text", ["speaker"])
    }

    fn splits(_options: &()) -> Result<Vec<Split>, Error> {
        Ok(vec![Split::endless("train")])
    }

    fn reset(_task: &Task, _options: &(), _seed: u64) -> Result<(Self, ResetResult), Error> {
        Ok((Self { answered: 0 }, ResetResult::observe("Say something.")))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        self.answered += 1;
        Ok(StepResult::observe(action.text()))
    }
}

impl Snapshot for Echo {
    fn snapshot(&self) -> Vec<u8> {
        Writer::new().integer(self.answered).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let answered = reader.integer()?;
        reader.end()?;
        Ok(Self { answered })
    }
}

plugin! { environment: Echo { snapshot } }
