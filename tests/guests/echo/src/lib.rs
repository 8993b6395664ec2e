//! Minimal environment: it answers each message with the same text, without a turn limit.

use gymkhana_sdk::environment::{Action, Environment, Info, Snapshot, Split, Started, Stepped};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Error, Options, Task, plugin};

/// Counts the answered messages.
pub struct Echo {
    answered: u64,
}

impl Environment for Echo {
    fn info() -> Info {
        Info::new("Answers every message with the same text", ["speaker"])
    }

    fn splits(_options: &Options) -> Result<Vec<Split>, Error> {
        Ok(vec![Split::endless("train")])
    }

    fn start(_task: &Task, _options: &Options, _seed: u64) -> Result<(Self, Started), Error> {
        Ok((Self { answered: 0 }, Started::observe("Say something.")))
    }

    fn step(&mut self, action: Action) -> Result<Stepped, Error> {
        self.answered += 1;
        Ok(Stepped::observe(action.text()))
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
