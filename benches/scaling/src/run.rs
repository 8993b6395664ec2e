//! A run as a network of queues: steps, groups on workers, and their messages.

use std::collections::BTreeMap;

use crate::network::{Network, Phase, ProcessId, StationId};
use crate::{Costs, Machines, Workload};

/// Figures of a simulated run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Simulated {
    /// Episodes per second, updates included.
    pub episodes_per_second: f64,
    /// Shares of the time in which each part works, from 0 to 1.
    pub bus: f64,
    /// The trainer's loop.
    pub trainer: f64,
    /// Places of the model.
    pub model: f64,
    /// Cores of all workers.
    pub workers: f64,
}

/// What a process is.
#[derive(Debug, Clone, Copy)]
enum Role {
    /// The job of a group on its way to a worker.
    Job(usize),
    Episode(usize),
    /// The result of a group on its way to the trainer.
    Result(usize),
    Update,
}

/// A group in a step.
struct Group {
    worker: usize,
    playing: u32,
}

/// A run in progress.
struct Run<'a> {
    costs: &'a Costs,
    work: &'a Workload,
    network: Network,
    roles: BTreeMap<ProcessId, Role>,
    bus: StationId,
    trainer: StationId,
    model: StationId,
    /// Cores of each worker, or of the machine that all share.
    cores: Vec<StationId>,
    is_shared: bool,
    groups: Vec<Group>,
    /// Groups that no worker has yet.
    queued: u32,
    unfinished: u32,
    played: usize,
}

/// Plays this number of training steps.
///
/// # Panics
/// If the workload has no episodes, or there are no workers.
#[must_use]
pub fn simulate(costs: &Costs, work: &Workload, machines: &Machines, steps: u32) -> Simulated {
    assert!(!work.episodes.is_empty() && machines.workers > 0, "a run needs episodes and workers");
    let mut run = Run::new(costs, work, machines);
    for _ in 0..steps {
        run.step(machines);
    }
    let network = &run.network;
    let workers = run.cores.iter().map(|cores| network.utilisation(*cores)).sum::<f64>() / run.cores.len() as f64;
    Simulated {
        episodes_per_second: run.played as f64 / network.now(),
        bus: network.utilisation(run.bus),
        trainer: network.utilisation(run.trainer),
        model: network.utilisation(run.model),
        workers,
    }
}

impl<'a> Run<'a> {
    fn new(costs: &'a Costs, work: &'a Workload, machines: &Machines) -> Self {
        let mut network = Network::default();
        let count = machines.workers as usize;
        let [bus, trainer, model] = [1, 1, machines.sequences].map(|servers| network.station(servers));
        let shared = machines.is_shared.then(|| network.station(machines.cores));
        let cores = (0..count).map(|_| shared.unwrap_or_else(|| network.station(machines.cores))).collect();
        Self {
            costs,
            work,
            network,
            roles: BTreeMap::new(),
            bus,
            trainer,
            model,
            cores,
            is_shared: machines.is_shared,
            groups: vec![],
            queued: 0,
            unfinished: 0,
            played: 0,
        }
    }

    /// Work of a part, which needs a core as well where all share a machine.
    fn at(&self, part: StationId, seconds: f64) -> Phase {
        if self.is_shared { Phase::at_all(&[part, self.cores[0]], seconds) } else { Phase::at(part, seconds) }
    }

    /// Plays the groups of a step and updates the weights.
    fn step(&mut self, machines: &Machines) {
        (self.queued, self.unfinished) = (self.work.groups, self.work.groups);
        self.groups.clear();
        // The queue gives each worker one group after the other.
        for _ in 0..machines.groups_at_once {
            (0..self.cores.len()).for_each(|worker| self.take(worker));
        }
        while self.unfinished > 0 {
            self.pass();
        }
        self.start(Role::Update, vec![Phase::delay(self.work.training)]);
        self.pass();
    }

    /// Lets the time pass until a process ends, and starts what follows.
    fn pass(&mut self) {
        let Some(ended) = self.network.next_end() else { return };
        match self.roles.remove(&ended) {
            Some(Role::Job(group)) => (0..self.work.group_size).for_each(|_| self.episode(group)),
            Some(Role::Episode(group)) => {
                self.groups[group].playing -= 1;
                if self.groups[group].playing == 0 {
                    let (bus, trainer) = (self.costs.bus_result(self.work), self.costs.trainer_result(self.work));
                    self.start(Role::Result(group), vec![self.at(self.bus, bus), self.at(self.trainer, trainer)]);
                }
            }
            Some(Role::Result(group)) => {
                self.unfinished -= 1;
                self.take(self.groups[group].worker);
            }
            Some(Role::Update) | None => {}
        }
    }

    fn start(&mut self, role: Role, phases: Vec<Phase>) {
        let process = self.network.start(phases);
        self.roles.insert(process, role);
    }

    /// Gives a worker the next group of the queue.
    fn take(&mut self, worker: usize) {
        if self.queued > 0 {
            self.queued -= 1;
            self.groups.push(Group { worker, playing: self.work.group_size });
            self.start(Role::Job(self.groups.len() - 1), vec![self.at(self.bus, self.costs.bus_per_job)]);
        }
    }

    /// Starts the next recorded episode in a group.
    fn episode(&mut self, group: usize) {
        let recorded = &self.work.episodes[self.played % self.work.episodes.len()];
        self.played += 1;
        let cores = self.cores[self.groups[group].worker];
        let (bus, trainer) = (self.costs.bus_call(self.work), self.costs.trainer_call(self.work));
        let phases = recorded.turns.iter().flat_map(|turn| {
            [
                self.at(self.bus, bus),
                self.at(self.trainer, trainer),
                self.at(self.model, turn.model),
                Phase::at(cores, turn.computing),
                Phase::delay(turn.waiting),
            ]
        });
        let phases = phases.filter(|phase| !phase.is_empty()).collect();
        self.start(Role::Episode(group), phases);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::{Episode, Turn};

    const COSTS: Costs = Costs {
        bus_per_call: 1e-5,
        bus_per_byte: 1e-9,
        bus_per_job: 1e-4,
        trainer_per_call: 5e-5,
        trainer_per_call_byte: 1e-8,
        trainer_per_result: 1e-4,
        trainer_per_result_byte: 1e-8,
    };

    fn work(turn: Turn, groups: u32) -> Workload {
        let episodes = vec![Episode { turns: vec![turn; 4] }];
        Workload { episodes, group_size: 4, groups, training: 0.0, call_bytes: 4000.0, record_bytes: 20_000.0 }
    }

    fn machines(workers: u32) -> Machines {
        Machines { workers, groups_at_once: 2, cores: 2, is_shared: false, sequences: 1_000_000 }
    }

    #[test]
    fn few_workers_play_as_fast_as_their_places_allow() {
        // 8 episodes at once, each of 4 turns of a second.
        let work = work(Turn { waiting: 0.8, model: 0.2, computing: 0.0 }, 64);
        for workers in [1, 2, 4] {
            let simulated = simulate(&COSTS, &work, &machines(workers), 3);
            let expected = f64::from(workers * 8) / 4.0;
            assert!((simulated.episodes_per_second / expected - 1.0).abs() < 0.01, "{workers}: {simulated:?}");
        }
    }

    #[test]
    fn costly_environments_play_as_fast_as_the_cores_of_workers_allow() {
        let work = work(Turn { computing: 0.5, model: 0.01, waiting: 0.0 }, 64);
        let simulated = simulate(&COSTS, &work, &machines(4), 3);
        // 8 cores, and 2 seconds of an episode on one.
        assert!((simulated.episodes_per_second / 4.0 - 1.0).abs() < 0.05, "{simulated:?}");
        assert!(simulated.workers > 0.95, "{simulated:?}");
        // On one machine the cores are fewer.
        let shared = simulate(&COSTS, &work, &Machines { is_shared: true, ..machines(4) }, 3);
        assert!((shared.episodes_per_second - 1.0).abs() < 0.05, "{shared:?}");
    }

    #[test]
    fn many_workers_reach_the_limit_of_the_closed_formula() {
        let turn = Turn { waiting: 0.08, model: 0.02, computing: 0.0 };
        let many = simulate(&COSTS, &work(turn, 4000), &machines(400), 2);
        let limits = Limits::of(&COSTS, &work(turn, 4000), &machines(400));
        // An episode has 4 calls of 90 µs, and a quarter of a result of 900 µs.
        assert!((limits.trainer - 1.0 / (4.0 * 90e-6 + 900e-6 / 4.0)).abs() < 1e-6, "{limits:?}");
        assert!((many.episodes_per_second / limits.trainer - 1.0).abs() < 0.03, "{many:?} {limits:?}");
        assert!(many.trainer > 0.95 && many.bus < many.trainer, "{many:?}");
    }

    #[test]
    fn a_model_with_few_places_is_the_limit() {
        let work = work(Turn { waiting: 0.0, model: 0.5, computing: 0.0 }, 64);
        let simulated = simulate(&COSTS, &work, &Machines { sequences: 8, ..machines(8) }, 2);
        // 8 places, and 2 seconds of an episode in one.
        assert!((simulated.episodes_per_second / 4.0 - 1.0).abs() < 0.03, "{simulated:?}");
    }

    #[test]
    fn updates_lengthen_the_run() {
        let turn = Turn { waiting: 1.0, model: 0.0, computing: 0.0 };
        let slow = Workload { training: 4.0, ..work(turn, 2) };
        // A step plays for 4 seconds and trains for 4.
        let simulated = simulate(&COSTS, &slow, &machines(1), 5);
        assert!((simulated.episodes_per_second - 1.0).abs() < 0.01, "{simulated:?}");
    }
}
