//! Two seats in turn. In each turn the oracle calls a calculator and then reports its answer.

use gymkhana_sdk::environment::{Action, Advice, Environment, Info, Oracle, ResetResult, Split, StepResult};
use gymkhana_sdk::{Call, Error, Task, plugin, text};

/// Number of messages of an episode.
const MESSAGES: u32 = 4;

/// Counts the messages.
pub struct Experts {
    messages: u32,
}

impl Environment for Experts {
    type Options = ();

    fn info() -> Info {
        Info::new("Two seats whose oracle calls a tool", ["left", "right"])
    }

    fn splits(_options: &()) -> Result<Vec<Split>, Error> {
        Ok(vec![Split::endless("train")])
    }

    fn reset(_task: &Task, _options: &(), _seed: u64) -> Result<(Self, ResetResult), Error> {
        Ok((Self { messages: 0 }, ResetResult::observe("Begin.")))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        self.messages += 1;
        let other = 1 - action.seat;
        let stepped = StepResult::new().show(other, text("Your turn.")).next_seat(other);
        Ok(if self.messages == MESSAGES { stepped.extra("success", true).end() } else { stepped })
    }
}

impl Oracle for Experts {
    /// The oracle reports only answers to the calls of its own last turn, so a test sees if it receives others.
    fn advise(&self, _tools: &[String], results: &[String]) -> Result<Advice, Error> {
        if !results.is_empty() {
            return Ok(Advice::Message(format!("told {}", results.join(" "))));
        }
        let arguments = format!("{{\"expression\": \"{}*10\"}}", self.messages + 1);
        Ok(Advice::Calls(vec![Call::advised("calculate", arguments)]))
    }
}

plugin! { environment: Experts { oracle } }
