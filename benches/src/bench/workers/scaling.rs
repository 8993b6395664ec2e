//! Simulation of the runs that the bench `workers` measured, and of more workers than this machine has.
//!
//! The measured runs are simulated on one machine, whose cores trainer, bus and all workers share. For more workers each
//! part has a machine of its own: a bus and a trainer's loop that use one core each, and workers with two cores. Updates
//! of the weights take no time then, and a step has as many groups as all workers play at once. The model answers either
//! any number of calls at once, or one at a time as the measured one.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use gymkhana_benches::Effort;
use gymkhana_benches::figures::{print_in, root};
use gymkhana_scaling::limits::Limits;
use gymkhana_scaling::run::simulate;
use gymkhana_scaling::{Costs, Machines, Workload};

use super::{Measured, MeasuredRun};

/// Numbers of workers.
const WORKERS: [u32; 4] = [1, 10, 100, 1000];
/// Cores of a worker.
const CORES: usize = 2;
/// Groups that a worker plays at once.
const GROUPS_AT_ONCE: u32 = 4;
/// Steps of a simulated run.
const STEPS: u32 = 3;
/// Replies that the trainer's own model computes at once: it has one thread.
const OWN_MODEL: usize = 1;
/// Sequences of a model that does not limit the run.
const ANY: usize = 1 << 32;

/// Runs the bench.
pub fn run(effort: Effort) -> Result<()> {
    let path = measured_file();
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let Measured { costs, cores, runs } = serde_json::from_str(&text)?;
    for (name, run) in &runs {
        print_agreement(name, &costs, run, cores);
        for (model, sequences) in [("any-model", ANY), ("own-model", OWN_MODEL)] {
            for workers in &WORKERS[..effort.pick(WORKERS.len(), 2)] {
                let machines = Machines {
                    workers: *workers,
                    groups_at_once: GROUPS_AT_ONCE,
                    cores: CORES,
                    is_shared: false,
                    sequences,
                };
                print(&format!("scaling-{name}-{model}-{workers}"), &costs, &run.workload, &machines);
            }
        }
    }
    Ok(())
}

/// The costs that the bench `workers` measured last, or those of the documentation.
fn measured_file() -> PathBuf {
    let last = root().join("target/benches/workers.json");
    if last.exists() { last } else { root().join("benches/workers.json") }
}

/// Prints the simulated and the measured rate of each number of workers on the machine of the measurement.
fn print_agreement(name: &str, costs: &Costs, run: &MeasuredRun, cores: usize) {
    let MeasuredRun { workload, groups_at_once, rates } = run;
    for (workers, rate) in rates {
        let (workers, groups_at_once) = (*workers, *groups_at_once);
        let machines = Machines { workers, groups_at_once, cores, is_shared: true, sequences: OWN_MODEL };
        let simulated = simulate(costs, workload, &machines, STEPS).episodes_per_second;
        print_in("episodes/s", &format!("scaling-{name}-here-{workers}"), simulated, "measured", *rate);
    }
}

fn print(name: &str, costs: &Costs, work: &Workload, machines: &Machines) {
    let work = Workload { groups: machines.workers * machines.groups_at_once, training: 0.0, ..work.clone() };
    let simulated = simulate(costs, &work, machines, STEPS);
    let limits = Limits::of(costs, &work, machines);
    print_in("episodes/s", name, simulated.episodes_per_second, "closed formula", limits.least());
    let percent = |share: f64| share * 100.0;
    print_in("% bus", &format!("{name}-bus"), percent(simulated.bus), "% trainer", percent(simulated.trainer));
    print_in("% model", &format!("{name}-load"), percent(simulated.model), "% workers", percent(simulated.workers));
    print_in(
        "workers",
        &format!("{name}-saturation"),
        limits.saturating_workers(machines),
        "workers",
        machines.workers.into(),
    );
}
