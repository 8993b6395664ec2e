//! Costs of messages at the bus and at a trainer, printed at increasing load.

use std::path::Path;

use anyhow::Result;
use gymkhana_benches::Effort;
use gymkhana_benches::figures::print_in;
use gymkhana_scaling::Costs;
use tokio::runtime::Runtime;

use super::bus::Bus;
use super::bus_costs::{self, jobs, requests};
use super::played::play;
use super::shapes::Shape;
use super::trainer_costs::{Cost, Trainer};

/// Messages at once.
const LOADS: [usize; 3] = [1, 16, 256];
/// Bytes of small and large requests, and tokens of short and long prompts.
const BYTES: (usize, usize) = (1 << 10, 64 << 10);
const TOKENS: (usize, usize) = (64, 4096);

/// Measures all costs.
pub fn measure(runtime: &Runtime, shape: &Shape, shared: &Path, effort: Effort) -> Result<Costs> {
    let (bus_per_call, bus_per_byte, bus_per_job) = runtime.block_on(bus(effort))?;
    let folder = tempfile::tempdir()?;
    let mut records = play(&Shape::tokens(Effort::Smoke), 0, folder.path(), shared)?.records;
    let trainer_folder = tempfile::tempdir()?;
    let ((call, call_byte), (result, result_byte)) = runtime.block_on(async {
        let mut trainer = Trainer::start(shape, trainer_folder.path(), shared).await?;
        let calls = calls(&mut trainer, effort).await?;
        let small = trainer.results(&records[..1], 16, effort.pick(4000, 20)).await?;
        while records.len() < 64 {
            records.extend_from_within(..1);
        }
        let large = trainer.results(&records, 16, effort.pick(400, 20)).await?;
        print_trainer("result", &small);
        print_trainer("result-large", &large);
        anyhow::Ok((calls, line(&small, &large)))
    })?;
    Ok(Costs {
        bus_per_call,
        bus_per_byte,
        bus_per_job,
        trainer_per_call: call,
        trainer_per_call_byte: call_byte,
        trainer_per_result: result,
        trainer_per_result_byte: result_byte,
    })
}

/// Costs of a call, of a byte and of a job at the bus.
async fn bus(effort: Effort) -> Result<(f64, f64, f64)> {
    let bus = Bus::start()?;
    let mut small = None;
    for load in &LOADS[..effort.pick(LOADS.len(), 1)] {
        let cost = requests(&bus, BYTES.0, *load, effort.pick(40_000, 100)).await?;
        print_bus(&format!("requests-{load}"), &cost);
        small = Some(cost);
    }
    let large = requests(&bus, BYTES.1, 16, effort.pick(8000, 100)).await?;
    print_bus("requests-large", &large);
    let mut job = None;
    for workers in &[1, 8, 32][..effort.pick(3, 1)] {
        let cost = jobs(&bus, *workers, effort.pick(10_000, 64)).await?;
        print_bus(&format!("jobs-{workers}"), &cost);
        job = Some(cost);
    }
    let small = small.ok_or_else(|| anyhow::anyhow!("there is a load"))?;
    let (per_call, per_byte) = bus_costs::line(small, (BYTES.1, large));
    Ok((per_call, per_byte, job.map_or(0.0, |job| job.cpu)))
}

/// Costs of a call and of a byte at the trainer.
async fn calls(trainer: &mut Trainer, effort: Effort) -> Result<(f64, f64)> {
    let mut small = None;
    for load in &LOADS[..effort.pick(LOADS.len(), 1)] {
        let cost = trainer.calls(TOKENS.0, *load, effort.pick(20_000, 100)).await?;
        print_trainer(&format!("calls-{load}"), &cost);
        small = Some(cost);
    }
    let large = trainer.calls(TOKENS.1, 16, effort.pick(4000, 100)).await?;
    print_trainer("calls-large", &large);
    Ok(small.map_or((0.0, 0.0), |small| line(&small, &large)))
}

/// Intercept and slope of the processor time over the bytes.
fn line(small: &Cost, large: &Cost) -> (f64, f64) {
    let per_byte = ((large.cpu - small.cpu) / (large.bytes - small.bytes)).max(0.0);
    ((small.cpu - per_byte * small.bytes).max(0.0), per_byte)
}

fn print_bus(name: &str, cost: &bus_costs::Cost) {
    print_in("1/s", &format!("bus-{name}"), cost.rate, "CPU µs of the bus for one", cost.cpu * 1e6);
}

fn print_trainer(name: &str, cost: &Cost) {
    print_in("1/s", &format!("trainer-{name}"), cost.rate, "CPU µs of the trainer for one", cost.cpu * 1e6);
}
