//! One run, played by its own process or by workers, and what its episodes cost.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use gymkhana_record::EpisodeRecord;
use gymkhana_store::{RunReader, encode_episodes};

use super::bus::{Bus, Traffic};
use super::process::{Process, processor_seconds};
use super::shapes::Shape;

/// Bytes of a journal without episodes.
const EMPTY_JOURNAL: u64 = 8;

/// Figures of the measured steps of a run.
#[derive(Debug, Clone)]
pub struct Played {
    /// Wall-clock time.
    pub seconds: f64,
    /// Time of these steps that went into training.
    pub training: f64,
    /// Processor time of the run's process, and of all workers.
    pub trainer_cpu: f64,
    pub workers_cpu: f64,
    /// What went over the bus; absent if the run's process played.
    pub bus: Option<Traffic>,
    /// Time from the start of the run to its first group.
    pub first_group: f64,
    /// Policy calls of an episode, and bytes of its record.
    pub calls: f64,
    pub record_bytes: f64,
    /// Records of all steps.
    pub records: Vec<EpisodeRecord>,
}

/// Processor times of trainer, workers and bus at one moment.
struct Moment {
    trainer: f64,
    workers: f64,
    bus: Option<Traffic>,
}

/// Plays a run of this shape in `folder`, with `workers` workers or in its own process. The workers wait for the run.
pub fn play(shape: &Shape, workers: u32, folder: &Path, shared: &Path) -> Result<Played> {
    let bus = (workers > 0).then(Bus::start).transpose()?;
    let url = bus.as_ref().map(Bus::url).unwrap_or_default();
    let players = (0..workers).map(|number| worker(shape, number, &url, folder, shared)).collect::<Result<Vec<_>>>()?;
    let remote = ["--workers", &url];
    let begun = Instant::now();
    let mut trainer = shape.start(folder, shared, if bus.is_some() { &remote } else { &[] })?;
    let out = folder.join("out");
    trainer.wait_until(|| Ok(has_episodes(&out)))?;
    let first_group = begun.elapsed().as_secs_f64();

    let moment = |trainer: &Process| -> Result<Moment> {
        Ok(Moment {
            trainer: processor_seconds(trainer.id())?,
            workers: players.iter().map(|worker| processor_seconds(worker.id())).sum::<Result<f64>>()?,
            bus: bus.as_ref().map(Bus::traffic).transpose()?,
        })
    };
    let (first, last) = shape.window();
    trainer.wait_until(|| Ok(lines(&out) >= first))?;
    let before = moment(&trainer)?;
    trainer.wait_until(|| Ok(lines(&out) >= last))?;
    let after = moment(&trainer)?;
    trainer.finish()?;
    players.into_iter().try_for_each(Process::finish)?;

    let read = RunReader::open(&out)?;
    let metrics = read.metrics()?;
    ensure!(metrics.len() == last, "the run has {} training steps", metrics.len());
    let training = metrics[first..].iter().filter_map(|line| line.values.get("seconds_train")?.as_f64());
    let records: Vec<EpisodeRecord> = read.episodes()?.read_all().collect::<Result<_, _>>()?;
    let (count, calls) = (records.len() as f64, records.iter().map(|record| record.policy_turns.len()).sum::<usize>());
    Ok(Played {
        seconds: metrics[last - 1].time - metrics[first - 1].time,
        training: training.sum(),
        trainer_cpu: after.trainer - before.trainer,
        workers_cpu: after.workers - before.workers,
        bus: after.bus.zip(before.bus).map(|(after, before)| after - before),
        first_group,
        calls: calls as f64 / count,
        record_bytes: encode_episodes(&records)?.len() as f64 / count,
        records,
    })
}

fn worker(shape: &Shape, number: u32, url: &str, folder: &Path, shared: &Path) -> Result<Process> {
    let groups = shape.groups_at_once.to_string();
    let arguments = ["worker", url, "--once", "--groups", &groups];
    let mut worker = Process::start(&format!("worker-{number}"), &arguments, folder, shared)?;
    let log = folder.join(format!("worker-{number}.log"));
    worker.wait_until(|| Ok(fs::read_to_string(&log)?.contains("waiting for a run")))?;
    Ok(worker)
}

/// Whether an episode is in the journal.
fn has_episodes(out: &Path) -> bool {
    let entries = fs::read_dir(out.join("episodes")).into_iter().flatten().flatten();
    let mut sizes = entries.filter_map(|entry| Some(entry.metadata().ok()?.len()));
    sizes.any(|size| size > EMPTY_JOURNAL)
}

/// Lines of metrics so far.
fn lines(out: &Path) -> usize {
    fs::read_to_string(out.join("metrics.jsonl")).unwrap_or_default().lines().count()
}
