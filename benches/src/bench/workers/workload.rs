//! The workload of a measured run, for the simulation.

use anyhow::{Context, Result};
use gymkhana_record::EpisodeRecord;
use gymkhana_scaling::{Costs, Episode, Turn, Workload};

use super::played::Played;
use super::shapes::Shape;

/// Most recorded episodes of a workload.
const EPISODES: usize = 64;

/// The workload of a run that one worker played.
///
/// The work of an episode is the processor time that trainer and worker needed for it, spread over its calls; the time in
/// which its environment waited is that of its record.
pub fn workload(shape: &Shape, played: &Played, costs: &Costs) -> Result<Workload> {
    let bus = played.bus.context("a worker played the run")?;
    let (groups, group_size) = shape.step();
    let Played { calls, record_bytes, records, .. } = played;
    // The bus counts each message when it comes and when it goes.
    let call_bytes = ((bus.bytes / 2.0 / shape.episodes() - record_bytes) / calls).max(0.0);
    let work = Workload {
        episodes: vec![],
        group_size,
        groups,
        training: played.training / f64::from(shape.steps()),
        call_bytes,
        record_bytes: *record_bytes,
    };
    let each_call = |seconds: f64| (seconds / shape.episodes() / calls).max(0.0);
    let trainer = costs.trainer_per_call + costs.trainer_per_call_byte * call_bytes;
    let computing = each_call(played.workers_cpu);
    let model = (each_call(played.trainer_cpu - played.training) - trainer).max(0.0);
    let episode = |record: &EpisodeRecord| {
        let turns = record.policy_turns.len();
        let running: f64 = record.costs.iter().map(|cost| cost.cost.running_us / 1e6).sum();
        let waited = (record.timing.environment_ms / 1e3 - running).max(0.0);
        let waiting = if shape.waits { waited / turns.max(1) as f64 } else { 0.0 };
        Episode { turns: vec![Turn { model, computing, waiting }; turns] }
    };
    let every = records.len().div_ceil(EPISODES);
    Ok(Workload { episodes: records.iter().step_by(every).map(episode).collect(), ..work })
}
