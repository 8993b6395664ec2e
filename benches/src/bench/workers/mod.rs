//! Runs that workers play over a real bus, beside the same runs in one process: cost of an episode, benefit of more
//! workers, time to the first group, and traffic on the bus.
//!
//! All programs are processes on this machine. A round plays each variant once. Wall-clock time, processor time and
//! traffic are those of the training steps after the first ones. The bench also measures what messages cost the bus and a
//! trainer, and writes these costs and the measured runs to `target/benches/workers.json`, from which the bench `scaling`
//! simulates them and more workers.

mod bus;
mod bus_costs;
mod costs;
mod played;
mod process;
pub mod scaling;
mod shapes;
mod slow_model;
mod trainer_costs;
mod workload;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use gymkhana_benches::Effort;
use gymkhana_benches::figures::{median, print_in, root};
use gymkhana_scaling::{Costs, Workload};
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;

use played::{Played, play};
use shapes::Shape;

/// Rounds; each variant is played once in each.
const ROUNDS: usize = 3;
/// Numbers of workers; 0 is the run's own process.
const VARIANTS: [u32; 4] = [0, 1, 2, 4];
/// Time that the model of the shape `waiting` takes for an answer.
const PAUSE: Duration = Duration::from_millis(100);

/// What the bench `scaling` reads.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    pub costs: Costs,
    /// Cores of the machine.
    pub cores: usize,
    /// Runs by the names of their shapes.
    pub runs: BTreeMap<String, MeasuredRun>,
}

/// A shape of run, as one worker played it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRun {
    pub workload: Workload,
    /// Groups that a worker played at once.
    pub groups_at_once: u32,
    /// Episodes per second by the number of workers.
    pub rates: BTreeMap<u32, f64>,
}

/// Runs the bench.
pub fn run(effort: Effort) -> Result<()> {
    // The slow model answers beside the measured programs.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let shared = tempfile::tempdir()?;
    let model = runtime.block_on(slow_model::serve(effort.pick(PAUSE, Duration::from_millis(1))))?;
    let shapes = |effort| [Shape::tokens(effort), Shape::computing(effort), Shape::waiting(effort, model)];
    let costs = costs::measure(&runtime, &Shape::tokens(effort), shared.path(), effort)?;
    let mut runs = BTreeMap::new();
    for (shape, warm_up) in shapes(effort).into_iter().zip(shapes(Effort::Smoke)) {
        // Fills the caches of compiled plugins and of files.
        play(&warm_up, 1, tempfile::tempdir()?.path(), shared.path())?;
        runs.insert(shape.name.to_owned(), measure(&shape, effort, &costs, shared.path())?);
    }
    let cores = std::thread::available_parallelism()?.get();
    write(&Measured { costs, cores, runs }, effort)
}

fn write(measured: &Measured, effort: Effort) -> Result<()> {
    let path = root().join("target/benches").join(effort.pick("workers.json", "workers-smoke.json"));
    fs::create_dir_all(path.parent().context("the file is in a folder")?)?;
    fs::write(&path, serde_json::to_string(measured)?).with_context(|| format!("cannot write `{}`", path.display()))
}

/// Plays all variants of a shape and prints the figures.
fn measure(shape: &Shape, effort: Effort, costs: &Costs, shared: &Path) -> Result<MeasuredRun> {
    let variants = &VARIANTS[..effort.pick(VARIANTS.len(), 2)];
    let mut played: BTreeMap<u32, Vec<Played>> = BTreeMap::new();
    let mut by_one_worker = None;
    for _ in 0..effort.pick(ROUNDS, 1) {
        for workers in variants {
            let folder = tempfile::tempdir()?;
            let one = play(shape, *workers, folder.path(), shared)?;
            if *workers == 1 {
                by_one_worker = Some(one.clone());
            }
            played.entry(*workers).or_default().push(one);
        }
    }
    let one = by_one_worker.context("one of the variants has one worker")?;
    print(shape, &played);
    let rates = variants.iter().filter(|workers| **workers > 0);
    let rates = rates.map(|workers| (*workers, shape.episodes() / middle(&played[workers], |one| one.seconds)));
    Ok(MeasuredRun {
        workload: workload::workload(shape, &one, costs)?,
        groups_at_once: shape.groups_at_once,
        rates: rates.collect(),
    })
}

/// Median of a figure over the rounds.
fn middle(rounds: &[Played], figure: impl Fn(&Played) -> f64) -> f64 {
    median(rounds.iter().map(figure).collect())
}

fn print(shape: &Shape, played: &BTreeMap<u32, Vec<Played>>) {
    let (name, episodes) = (shape.name, shape.episodes());
    let figure = |workers: u32, figure: &dyn Fn(&Played) -> f64| middle(&played[&workers], figure);
    let say = |what: &str, unit: &str, value: f64, versus: &str, versus_value: f64| {
        print_in(unit, &format!("workers-{name}-{what}"), value, versus, versus_value);
    };
    let wall = |workers: u32| figure(workers, &|one| one.seconds) * 1e3 / episodes;
    say("wall", "ms/episode", wall(1), "one process", wall(0));
    let cpu = |one: &Played| (one.trainer_cpu + one.workers_cpu) * 1e3 / episodes;
    say("cpu", "CPU ms/episode", figure(1, &cpu), "one process", figure(0, &cpu));
    let bus = |get: fn(&bus::Traffic) -> f64| move |one: &Played| one.bus.as_ref().map_or(0.0, get) / episodes;
    say("bus-cpu", "CPU ms/episode", figure(1, &bus(|bus| bus.cpu * 1e3)), "trainer and worker", figure(1, &cpu));
    say(
        "messages",
        "messages/episode",
        figure(1, &bus(|bus| bus.messages)),
        "policy calls",
        figure(1, &|one| one.calls),
    );
    let requests = figure(1, &bus(|bus| bus.requests));
    say("jetstream", "requests/episode", requests, "groups", 1.0 / f64::from(shape.step().1));
    say("bytes", "bytes/episode", figure(1, &bus(|bus| bus.bytes)), "record", figure(1, &|one| one.record_bytes));
    say("first-group", "s", figure(1, &|one| one.first_group), "one process", figure(0, &|one| one.first_group));
    for workers in played.keys().filter(|workers| **workers > 1) {
        let rate = |workers| 1e3 / wall(workers);
        say(&format!("rate-{workers}"), "episodes/s", rate(*workers), "one worker", rate(1));
    }
}
