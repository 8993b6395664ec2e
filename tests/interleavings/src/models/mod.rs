//! What is run in many orders, with what must hold at the end of each.

pub mod rollouts;
pub mod servers;
pub mod trainer;
pub mod workers;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, MaxSteps, Runner};

/// Orders of each kind that a test runs.
const ORDERS: usize = 1500;
/// Orders of a model that needs fair ones, and takes longer.
const FAIR_ORDERS: usize = 300;
/// Most changes of priority in an order of the second kind: faults need few.
const DEPTH: usize = 3;
/// Steps after which an order counts as one that does not end.
const STEPS: usize = 200_000;

/// Runs a model in random orders, and in orders by random priorities.
///
/// # Panics
/// As [`search_at_random`].
pub fn search(model: fn()) {
    Runner::new(RandomScheduler::new(ORDERS), config()).run(model);
    Runner::new(PctScheduler::new(DEPTH, ORDERS), config()).run(model);
}

/// Runs a model whose waits look again every so often, and which therefore needs fair orders, in random ones.
///
/// # Panics
/// If an order ends in a deadlock, does not end, or panics; with the order, which `shuttle::replay` repeats.
pub fn search_at_random(model: fn()) {
    Runner::new(RandomScheduler::new(FAIR_ORDERS), config()).run(model);
}

fn config() -> Config {
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(STEPS);
    config.stack_size = 1 << 18;
    config
}
