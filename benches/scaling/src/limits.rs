//! The closed formula: most episodes per second of each part, by the utilisation law.
//!
//! A part that works `d` seconds for an episode cannot pass on more than `1 / d` episodes per second. Workers that have
//! `places` episodes at once, each of which takes `z` seconds without queues, ask for `workers · places / z`. The run is
//! as fast as the least of these.

use crate::{Costs, Machines, Workload};

/// Most episodes per second of each part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The bus.
    pub bus: f64,
    /// The trainer's loop.
    pub trainer: f64,
    /// The model.
    pub model: f64,
    /// All workers: their places, or their cores.
    pub workers: f64,
}

impl Limits {
    /// Limits of a run in which each part has its own machine.
    #[must_use]
    pub fn of(costs: &Costs, work: &Workload, machines: &Machines) -> Self {
        let (calls, members) = (work.calls(), f64::from(work.group_size));
        let bus = calls * costs.bus_call(work) + (costs.bus_per_job + costs.bus_result(work)) / members;
        let trainer = calls * costs.trainer_call(work) + costs.trainer_result(work) / members;
        let (model, computing) = (work.mean(|turn| turn.model), work.mean(|turn| turn.computing));
        let alone = model + computing + work.mean(|turn| turn.waiting) + bus + trainer;
        let workers = f64::from(machines.workers);
        let places = f64::from(machines.groups_at_once) * members;
        Self {
            bus: 1.0 / bus,
            trainer: 1.0 / trainer,
            model: machines.sequences as f64 / model,
            workers: workers * (places / alone).min(machines.cores as f64 / computing),
        }
    }

    /// The least limit.
    #[must_use]
    pub fn least(&self) -> f64 {
        self.bus.min(self.trainer).min(self.model).min(self.workers)
    }

    /// Number of workers from which on bus, trainer or model is the limit.
    #[must_use]
    pub fn saturating_workers(&self, machines: &Machines) -> f64 {
        let others = self.bus.min(self.trainer).min(self.model);
        f64::from(machines.workers) * others / self.workers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Episode, Turn};

    #[test]
    fn the_slowest_part_is_the_limit() {
        let costs = Costs {
            bus_per_call: 1e-3,
            bus_per_byte: 0.0,
            bus_per_job: 2e-3,
            trainer_per_call: 4e-3,
            trainer_per_call_byte: 0.0,
            trainer_per_result: 2e-3,
            trainer_per_result_byte: 0.0,
        };
        let turn = Turn { model: 0.5, computing: 0.1, waiting: 0.4 };
        let work = Workload {
            episodes: vec![Episode { turns: vec![turn; 2] }],
            group_size: 2,
            groups: 8,
            training: 0.0,
            call_bytes: 0.0,
            record_bytes: 0.0,
        };
        let machines = Machines { workers: 10, groups_at_once: 1, cores: 1, is_shared: false, sequences: 50 };
        let limits = Limits::of(&costs, &work, &machines);
        let near = |one: f64, other: f64| assert!((one / other - 1.0).abs() < 1e-9, "{one} is not {other}");
        // Two calls of 1 ms, and half of a job of 2 ms and of a result of 1 ms.
        near(limits.bus, 1.0 / 3.5e-3);
        near(limits.trainer, 1.0 / 9e-3);
        near(limits.model, 50.0);
        // Two episodes at once that take 2 s and 12.5 ms, on a core that could play five per second.
        near(limits.workers, 20.0 / 2.0125);
        near(limits.least(), limits.workers);
        near(limits.saturating_workers(&machines), 10.0 * 50.0 / limits.workers);
    }
}
