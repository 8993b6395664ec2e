//! Environment that shows a letter after the first turn and rewards naming it in the second.
//!
//! The first observation, which every context strategy keeps, does not contain the letter.

use gymkhana_sdk::environment::{Action, Environment, Info, ResetResult, Split, StepResult};
use gymkhana_sdk::{Error, Task, plugin};

/// Letters of the tasks; a task's letter is chosen by its index.
const LETTERS: [char; 2] = ['A', 'B'];

/// The letter, and whether it was shown.
pub struct Recall {
    letter: char,
    shown: bool,
}

impl Environment for Recall {
    type Options = ();

    fn info() -> Info {
        Info::new("A letter to remember for one turn", ["agent"]).reward_range(0.0, 1.0)
    }

    fn splits(_options: &()) -> Result<Vec<Split>, Error> {
        Ok(vec![Split::endless("train")])
    }

    fn reset(task: &Task, _options: &(), _seed: u64) -> Result<(Self, ResetResult), Error> {
        let letter = LETTERS[usize::from(task.index % 2 == 1)];
        Ok((Self { letter, shown: false }, ResetResult::observe("?")))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        if !self.shown {
            self.shown = true;
            return Ok(StepResult::observe(format!(
                "You will need this letter at the end of the episode: {}",
                self.letter
            )));
        }
        let right = action.text().starts_with(self.letter);
        Ok(StepResult::new().reward(f64::from(u8::from(right))).extra("success", right).end())
    }
}

plugin! { environment: Recall }
