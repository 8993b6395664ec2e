//! What a plugin's calls take, by the wall clock, as a host sees them.

use std::time::Instant;

use gymkhana_record::Cost;
use gymkhana_registry::Kind;
use gymkhana_sandbox::{Plugin, Scorer};

use crate::acts::Picker;
use crate::bench::Bench;
use crate::finding::{During, Stop};
use crate::stage::{Beginning, Stage};
use crate::suite::SuiteError;
use crate::tale::equal_episodes;
use crate::{FinishedEpisode, Settings};

/// How long one kind of call took, each time.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The kind of plugin and the call, such as `environment step`.
    pub call: String,
    /// In microseconds, sorted.
    pub times_us: Vec<f64>,
    /// The most memory that the instance held after such a call, in bytes; 0 if nothing says.
    pub memory_bytes: u64,
    /// The largest snapshot, in bytes, for calls that make or read one.
    pub snapshot_bytes: Option<usize>,
}

impl Measured {
    fn of(call: impl Into<String>) -> Self {
        Self { call: call.into(), times_us: vec![], memory_bytes: 0, snapshot_bytes: None }
    }

    fn note(&mut self, since: Instant, cost: Cost) {
        self.times_us.push(since.elapsed().as_secs_f64() * 1e6);
        self.memory_bytes = self.memory_bytes.max(cost.memory_bytes.unwrap_or(0));
    }

    /// The time that so large a share of calls did not exceed: 0.5 for the median.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let last = self.times_us.len().saturating_sub(1) as f64;
        self.times_us.get((last * share).round() as usize).copied().unwrap_or(f64::NAN)
    }
}

/// Measures every call that the plugin offers so often, one after the other.
///
/// # Errors
/// If the plugin fails at a call, or no session can be opened.
pub async fn measure(plugin: &Plugin, settings: Settings, times: u32) -> Result<Vec<Measured>, SuiteError> {
    let measured = async {
        let bench = Bench::new(plugin.clone(), settings).await?;
        let beginnings = bench.beginnings();
        let mut all = Vec::new();
        let is_episode = |beginning: &&Beginning| matches!(beginning, Beginning::Episode(_));
        if let Some(first) = beginnings.iter().find(is_episode) {
            all.extend(stages(&bench, first, "environment", ["start", "step"], times).await?);
        }
        if bench.is(Kind::Tool) {
            let first = beginnings.iter().find(|beginning| !is_episode(beginning));
            let first = first.ok_or_else(|| Stop::Plugin(bench.nothing_to_play()))?;
            all.extend(stages(&bench, first, "tool", ["open", "call"], times).await?);
        }
        if bench.is(Kind::Reward) {
            all.push(scorings(&bench, times).await?);
        }
        Ok(all)
    };
    measured.await.map_err(|stop| match stop {
        Stop::Plugin(why) => SuiteError::Plugin(why),
        Stop::Host(error) => SuiteError::Host(error),
    })
}

async fn stages(
    bench: &Bench,
    beginning: &Beginning,
    kind: &str,
    [start, act]: [&str; 2],
    times: u32,
) -> Result<Vec<Measured>, Stop> {
    let saves = Stage::can_be_saved(&bench.plugin, beginning);
    let [mut starts, mut acts, mut snapshots, mut restores] =
        [start, act, "snapshot", "restore"].map(|call| Measured::of(format!("{kind} {call}")));
    let mut picker = Picker::new(bench.seed("measure"));
    let mut stage: Option<Stage> = None;
    for number in 0..times {
        let seed = bench.seed("measure").child(number);
        let since = Instant::now();
        let (fresh, _) = Stage::begin(&bench.plugin, beginning, &bench.options, seed).await.during(start)?;
        starts.note(since, fresh.cost);
        let mut on = stage.take().filter(|stage| !stage.over).unwrap_or(fresh);
        let picked = picker.next(&bench.plugin, &mut on).await.during("the oracle's advice")?;
        let since = Instant::now();
        on.act(&picked).await.during(format!("{picked}"))?;
        acts.note(since, on.cost);
        if saves && !on.over {
            let since = Instant::now();
            let saved = on.save().await.during("snapshot")?;
            snapshots.note(since, on.cost);
            snapshots.snapshot_bytes = snapshots.snapshot_bytes.max(Some(saved.snapshot.bytes.len()));
            restores.snapshot_bytes = snapshots.snapshot_bytes;
            let since = Instant::now();
            let copy = Stage::restore(&bench.plugin, &saved, beginning, seed).await.during("restore")?;
            restores.note(since, copy.cost);
        }
        stage = Some(on);
    }
    let mut all = vec![starts, acts, snapshots, restores];
    all.retain(|measured| !measured.times_us.is_empty());
    all.iter_mut().for_each(|measured| measured.times_us.sort_by(f64::total_cmp));
    Ok(all)
}

/// A group of eight equal episodes, each time in a fresh instance.
async fn scorings(bench: &Bench, times: u32) -> Result<Measured, Stop> {
    let made = equal_episodes();
    let group: Vec<_> = made.iter().map(FinishedEpisode::trajectory).collect();
    let mut scorings = Measured::of("reward score");
    for number in 0..times {
        let since = Instant::now();
        let mut scorer = Scorer::open(&bench.plugin, bench.seed(number)).await.during("the start of a scoring")?;
        let scores = scorer.score(&group, &bench.options, 0).await;
        scores.during("a group of eight made-up episodes")?;
        scorings.note(since, scorer.cost());
    }
    scorings.times_us.sort_by(f64::total_cmp);
    Ok(scorings)
}
