//! What is run in many orders, with what must hold at the end of each.

pub mod rollouts;
pub mod servers;
pub mod trainer;
pub mod workers;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, MaxSteps, Runner};

/// Orders of each kind that a test runs.
const ORDERS: usize = 1500;
/// Most changes of priority in an order of the second kind: faults need few.
const DEPTH: usize = 3;
/// Steps after which an order counts as one that does not end.
const STEPS: usize = 200_000;

/// Runs a model in random orders, and in orders by random priorities.
///
/// # Panics
/// If an order ends in a deadlock, does not end, or panics; with the order, which `shuttle::replay` repeats.
pub fn search(model: fn()) {
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(STEPS);
    config.stack_size = 1 << 18;
    Runner::new(RandomScheduler::new(ORDERS), config.clone()).run(model);
    Runner::new(PctScheduler::new(DEPTH, ORDERS), config).run(model);
}
