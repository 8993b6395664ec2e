//! Two seats in turn: a message and the function `pass` pass the turn, the function `stay` keeps it.

use gymkhana_sdk::environment::{Action, Environment, Info, ResetResult, Split, StepResult};
use gymkhana_sdk::{Error, Function, Parameters, Task, plugin, text};

/// Number of steps of an episode.
const STEPS: u32 = 4;

/// Counts the steps. The parity of the task's index determines the first seat.
pub struct TwoSeats {
    steps: u32,
}

impl Environment for TwoSeats {
    type Options = ();

    fn info() -> Info {
        Info::new("Two seats that take turns", ["left", "right"]).reward_range(0.0, 1.0)
    }

    fn splits(_options: &()) -> Result<Vec<Split>, Error> {
        Ok(vec![Split::endless("train"), Split::of("test", 8)])
    }

    fn reset(task: &Task, _options: &(), _seed: u64) -> Result<(Self, ResetResult), Error> {
        let first = u32::from(task.index % 2 == 1);
        let function = |name, description| Function::new(name, description, Parameters::new());
        let functions = || vec![function("pass", "Hands the turn over."), function("stay", "Keeps the turn.")];
        let started = ResetResult::default().show(first, text("Begin.")).next_seat(first);
        Ok((Self { steps: 0 }, started.offer(0, functions()).offer(1, functions())))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        self.steps += 1;
        let (mover, other) = (action.seat, 1 - action.seat);
        let stepped = match action.call().map(|call| call.name.as_str()) {
            Some("stay") => StepResult::new().show(mover, text("You stayed.")).next_seat(mover),
            _ => StepResult::new().show(mover, text("You passed.")).show(other, text("Your turn.")).next_seat(other),
        };
        let over = self.steps == STEPS;
        Ok(if over { stepped.reward_to(0, 1.0).reward_to(1, 1.0).extra("success", true).end() } else { stepped })
    }
}

plugin! { environment: TwoSeats }
