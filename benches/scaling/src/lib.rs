//! Simulation of runs on many workers: which part of the system is saturated by how many workers.
//!
//! [`network`] is a network of queues, [`run`] a run as such a network, and [`limits`] the closed formula for the same
//! figures.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod limits;
pub mod network;
pub mod run;

use serde::{Deserialize, Serialize};

/// Processor time of the bus and of the trainer's loop, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Bus, for a request and its answer.
    pub bus_per_call: f64,
    /// Bus, for a byte of a message.
    pub bus_per_byte: f64,
    /// Bus, to keep a job, give it out, take its acknowledgement and remove it.
    pub bus_per_job: f64,
    /// Trainer, to read a policy call and to send its answer, without the model.
    pub trainer_per_call: f64,
    /// Trainer, for a byte of a call.
    pub trainer_per_call_byte: f64,
    /// Trainer, to read and check a result.
    pub trainer_per_result: f64,
    /// Trainer, for a byte of a result.
    pub trainer_per_result_byte: f64,
}

/// A turn of a recorded episode, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Time of the model.
    pub model: f64,
    /// Processor time of environment and tools.
    pub computing: f64,
    /// Time in which environment and tools wait for something else.
    pub waiting: f64,
}

/// A recorded episode.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Episode {
    /// Turns in their order.
    pub turns: Vec<Turn>,
}

/// What a run plays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Recorded episodes, which are played in their order again and again.
    pub episodes: Vec<Episode>,
    /// Episodes of a group.
    pub group_size: u32,
    /// Groups of a training step.
    pub groups: u32,
    /// Time of an update of the weights, in seconds.
    pub training: f64,
    /// Bytes of a policy call and its answer, together.
    pub call_bytes: f64,
    /// Bytes of the record of an episode.
    pub record_bytes: f64,
}

/// Where a run is played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machines {
    /// Number of workers.
    pub workers: u32,
    /// Groups that a worker plays at once.
    pub groups_at_once: u32,
    /// Cores of each worker, or of the one machine that all share.
    pub cores: usize,
    /// Whether trainer, bus and all workers share one machine.
    pub is_shared: bool,
    /// Replies that the model computes at once. On a shared machine each needs a core meanwhile.
    pub sequences: usize,
}

impl Workload {
    /// Sum over all turns of a figure, for each episode.
    fn mean(&self, figure: impl Fn(&Turn) -> f64) -> f64 {
        let turns = self.episodes.iter().flat_map(|episode| &episode.turns);
        turns.map(figure).sum::<f64>() / self.episodes.len() as f64
    }

    /// Policy calls of an episode.
    #[must_use]
    pub fn calls(&self) -> f64 {
        self.mean(|_| 1.0)
    }
}

impl Costs {
    /// Time of the bus for a call and its answer.
    fn bus_call(&self, work: &Workload) -> f64 {
        self.bus_per_call + self.bus_per_byte * work.call_bytes
    }

    /// Time of the trainer for a call and its answer.
    fn trainer_call(&self, work: &Workload) -> f64 {
        self.trainer_per_call + self.trainer_per_call_byte * work.call_bytes
    }

    /// Time of the bus for the result of a group.
    fn bus_result(&self, work: &Workload) -> f64 {
        self.bus_per_call + self.bus_per_byte * work.record_bytes * f64::from(work.group_size)
    }

    /// Time of the trainer for the result of a group.
    fn trainer_result(&self, work: &Workload) -> f64 {
        self.trainer_per_result + self.trainer_per_result_byte * work.record_bytes * f64::from(work.group_size)
    }
}
