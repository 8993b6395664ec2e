//! Wall-clock times of a plugin's calls, measured by the host.

use std::time::Instant;

use gymkhana_record::Cost;
use gymkhana_registry::Kind;
use gymkhana_sandbox::{Plugin, Scorer};

use crate::action::chooser::Chooser;
use crate::driver::{Driver, Start};
use crate::finding::{CheckPhase, Defect, Stop};
use crate::finished_episode::equal_episodes;
use crate::fixture::Fixture;
use crate::suite::SuiteError;
use crate::{FinishedEpisode, SuiteSettings};

/// Times of one kind of call.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The kind of plugin and the call, such as `environment step`.
    pub call: String,
    /// Times in microseconds, sorted.
    pub times_us: Vec<f64>,
    /// Maximum memory of the instance after such a call, in bytes; 0 if unknown.
    pub memory_bytes: u64,
    /// Size of the largest snapshot in bytes, for calls that make or read one.
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

    /// Time in microseconds that a share of the calls did not exceed: 0.5 for the median.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let last = self.times_us.len().saturating_sub(1) as f64;
        self.times_us.get((last * share).round() as usize).copied().unwrap_or(f64::NAN)
    }
}

/// Receiver of progress: the kind of plugin that is measured, and the number of finished repetitions.
pub type MeasureProgress<'a> = &'a mut (dyn FnMut(&'static str, u32) + Send);

/// Measures every call of the plugin, `times` times in sequence.
///
/// # Errors
/// If a call of the plugin fails, or a session cannot be opened.
pub async fn measure(
    plugin: &Plugin,
    settings: SuiteSettings,
    times: u32,
    progress: MeasureProgress<'_>,
) -> Result<Vec<Measured>, SuiteError> {
    let measured = async {
        let fixture = Fixture::new(plugin.clone(), settings).await?;
        let starts = fixture.starts();
        let mut all = Vec::new();
        let is_episode = |start: &&Start| matches!(start, Start::Episode(_));
        if let Some(first) = starts.iter().find(is_episode) {
            all.extend(measure_calls(&fixture, first, "environment", ["start", "step"], times, progress).await?);
        }
        if fixture.is(Kind::Tool) {
            let first = starts.iter().find(|start| !is_episode(start));
            let first = first.ok_or_else(|| Stop::Plugin(Defect::new(fixture.nothing_to_play())))?;
            all.extend(measure_calls(&fixture, first, "tool", ["open", "call"], times, progress).await?);
        }
        if fixture.is(Kind::Reward) {
            all.push(scorings(&fixture, times, progress).await?);
        }
        Ok(all)
    };
    measured.await.map_err(|stop| match stop {
        Stop::Plugin(defect) => SuiteError::Plugin(defect.to_string()),
        Stop::Host(error) => SuiteError::Host(error),
    })
}

async fn measure_calls(
    fixture: &Fixture,
    start: &Start,
    kind: &'static str,
    [start_call, act_call]: [&str; 2],
    times: u32,
    progress: MeasureProgress<'_>,
) -> Result<Vec<Measured>, Stop> {
    let saves = Driver::can_be_saved(&fixture.plugin, start);
    let [mut starts, mut actions, mut snapshots, mut restores] =
        [start_call, act_call, "snapshot", "restore"].map(|call| Measured::of(format!("{kind} {call}")));
    let mut chooser = Chooser::new(fixture.seed("measure"));
    let mut driver: Option<Driver> = None;
    for number in 0..times {
        let seed = fixture.seed("measure").child(number);
        let since = Instant::now();
        let (fresh, _) = Driver::begin(&fixture.plugin, start, &fixture.options, seed).await.during(start_call)?;
        starts.note(since, fresh.cost);
        let mut on = driver.take().filter(|driver| !driver.over).unwrap_or(fresh);
        let picked = chooser.next(&fixture.plugin, &mut on).await.during("the oracle's advice")?;
        let since = Instant::now();
        on.act(&picked).await.during(format!("{picked}"))?;
        actions.note(since, on.cost);
        if saves && !on.over {
            let since = Instant::now();
            let saved = on.save().await.during("snapshot")?;
            snapshots.note(since, on.cost);
            snapshots.snapshot_bytes = snapshots.snapshot_bytes.max(Some(saved.bytes().len()));
            restores.snapshot_bytes = snapshots.snapshot_bytes;
            let since = Instant::now();
            let copy = Driver::restore(&saved, seed).await.during("restore")?;
            restores.note(since, copy.cost);
        }
        driver = Some(on);
        progress(kind, number + 1);
    }
    let mut all = vec![starts, actions, snapshots, restores];
    all.retain(|measured| !measured.times_us.is_empty());
    all.iter_mut().for_each(|measured| measured.times_us.sort_by(f64::total_cmp));
    Ok(all)
}

/// Scores a group of eight equal episodes, each time in a fresh instance.
async fn scorings(fixture: &Fixture, times: u32, progress: MeasureProgress<'_>) -> Result<Measured, Stop> {
    let made = equal_episodes();
    let group: Vec<_> = made.iter().map(FinishedEpisode::trajectory).collect();
    let mut scorings = Measured::of("reward score");
    for number in 0..times {
        let since = Instant::now();
        let mut scorer = Scorer::open(&fixture.plugin, fixture.seed(number)).await.during("the start of a scoring")?;
        let scores = scorer.score(&group, &fixture.options, 0).await;
        scores.during("a group of eight made-up episodes")?;
        scorings.note(since, scorer.cost());
        progress("reward", number + 1);
    }
    scorings.times_us.sort_by(f64::total_cmp);
    Ok(scorings)
}
