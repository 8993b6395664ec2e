//! Environment whose steps cost processor time, as many rounds of arithmetic as its option says.

use std::hint::black_box;

use gymkhana_sdk::environment::{Action, Environment, Info, ResetResult, Split, StepResult};
use gymkhana_sdk::{Error, PluginOptions, Task, plugin};

/// Number of steps of an episode.
const STEPS: u32 = 3;

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Rounds of arithmetic in each step
    #[option(default = 1000, range = 0..=1_000_000_000)]
    rounds: u64,
}

/// Counts the steps.
pub struct Busy {
    rounds: u64,
    steps: u32,
}

impl Environment for Busy {
    type Options = Options;

    fn info() -> Info {
        Info::new("Each step costs processor time", ["agent"]).reward_range(0.0, 1.0)
    }

    fn splits(_options: &Options) -> Result<Vec<Split>, Error> {
        Ok(vec![Split::endless("train"), Split::of("test", 8)])
    }

    fn reset(_task: &Task, options: &Options, _seed: u64) -> Result<(Self, ResetResult), Error> {
        Ok((Self { rounds: options.rounds, steps: 0 }, ResetResult::observe("Say something.")))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        self.steps += 1;
        let said = u64::from(action.text().bytes().next().unwrap_or_default());
        // Each round needs the result of the last, so that the compiler can leave none out.
        black_box((0..self.rounds).fold(said, |sum, round| black_box(sum.rotate_left(5) ^ round)));
        if self.steps < STEPS {
            return Ok(StepResult::observe("Go on."));
        }
        // The reward depends on the first letter, so that those of a group differ.
        let lucky = said % 2 == 0;
        Ok(StepResult::new().reward(f64::from(u8::from(lucky))).extra("success", lucky).end())
    }
}

plugin! { environment: Busy }
