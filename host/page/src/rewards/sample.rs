//! A sample of a run's episodes, spread evenly over those that meet a filter, with the numbers to compare.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gymkhana_record::{EpisodeId, EpisodeRecord, Phase};
use gymkhana_store::{EpisodeTable, StoreError};

use crate::episodes::filter::EpisodeFilter;

/// Most episodes of a sample.
pub(super) const MOST: usize = 2_000;
/// Records read at a time.
const CHUNK: usize = 128;
/// Time for reading the sample.
const PATIENCE: Duration = Duration::from_secs(3);

/// Numbers of the sampled episodes. A series has one entry per episode; `None` where the episode lacks the number.
#[derive(Debug, Default)]
pub(super) struct EpisodeSample {
    /// Episodes that were read and meet the filter.
    pub ids: Vec<EpisodeId>,
    /// Episodes whose rows meet the filter.
    pub candidates: usize,
    /// Series by name: `reward`, and `PLUGIN` and `PLUGIN.COMPONENT` of each reward plugin, of the first seat.
    pub series: BTreeMap<String, Vec<Option<f64>>>,
    /// Number of episodes by owner and kind of failure, such as "tool `search`: trap".
    pub failures: Vec<(String, usize)>,
    /// Milliseconds of all episodes by boundary.
    pub time: Vec<(&'static str, f64)>,
}

/// What episodes are played for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SamplePurpose {
    Training,
    Evaluation,
    Demonstrations,
    Served,
}

impl SamplePurpose {
    fn of(phase: Phase) -> Self {
        match phase {
            Phase::Train => Self::Training,
            Phase::Demonstration => Self::Demonstrations,
            Phase::Served => Self::Served,
            Phase::Before
            | Phase::BeforeSampled
            | Phase::During
            | Phase::DuringSampled
            | Phase::After
            | Phase::AfterSampled => Self::Evaluation,
        }
    }

    /// Name on the page.
    pub fn name(self) -> &'static str {
        match self {
            Self::Training => "training",
            Self::Evaluation => "evaluation",
            Self::Demonstrations => "demonstrations",
            Self::Served => "served",
        }
    }
}

impl EpisodeSample {
    /// Reads a sample. `stages` are the names of the run's stages.
    pub fn read(table: &EpisodeTable, filter: &EpisodeFilter, stages: &[String]) -> Result<Self, StoreError> {
        let candidates: Vec<usize> =
            table.rows().enumerate().filter(|(_, row)| filter.admits_row(row)).map(|(position, _)| position).collect();
        let mut sample = Self { candidates: candidates.len(), ..Self::default() };
        let start = Instant::now();
        for positions in shuffled_chunks(&spread(&candidates, MOST)) {
            if !sample.ids.is_empty() && start.elapsed() > PATIENCE {
                break;
            }
            for (position, record) in table.outlines(&positions)? {
                if filter.admits(table, position, &record, stages)? {
                    sample.add(&record);
                }
            }
        }
        Ok(sample)
    }

    /// Purposes of the sampled episodes, each once.
    pub fn phases(&self) -> Vec<SamplePurpose> {
        let mut phases: Vec<SamplePurpose> = self.ids.iter().map(|id| SamplePurpose::of(id.phase)).collect();
        phases.sort_unstable();
        phases.dedup();
        phases
    }

    /// The entries of a series for episodes of one purpose.
    pub fn of_phase(&self, series: &[Option<f64>], purpose: SamplePurpose) -> Vec<Option<f64>> {
        let own = self.ids.iter().zip(series).filter(|(id, _)| SamplePurpose::of(id.phase) == purpose);
        own.map(|(_, value)| *value).collect()
    }

    fn add(&mut self, record: &EpisodeRecord) {
        let mut numbers: BTreeMap<String, f64> = BTreeMap::new();
        if let Some(reward) = record.rewards.first() {
            numbers.insert("reward".to_owned(), *reward);
        }
        for plugin in &record.scores {
            let Some(score) = plugin.scores.first() else { continue };
            numbers.insert(plugin.plugin.clone(), score.total);
            for component in &score.components {
                numbers.insert(format!("{}.{}", plugin.plugin, component.name), component.value);
            }
        }
        for (name, number) in numbers {
            let series = self.series.entry(name).or_default();
            series.resize(self.ids.len(), None);
            series.push(Some(number));
        }
        self.ids.push(record.id);
        for series in self.series.values_mut() {
            series.resize(self.ids.len(), None);
        }
        self.add_failures(record);
        let timing = &record.timing;
        let inside = timing.policy_ms + timing.environment_ms + timing.tool_ms;
        for (name, milliseconds) in [
            ("policy", timing.policy_ms),
            ("environment", timing.environment_ms),
            ("tools", timing.tool_ms),
            ("rewards", timing.reward_ms),
            ("waiting and the host", (timing.total_ms - inside).max(0.0)),
        ] {
            match self.time.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += milliseconds,
                None => self.time.push((name, milliseconds)),
            }
        }
    }

    fn add_failures(&mut self, record: &EpisodeRecord) {
        let causes: BTreeSet<String> =
            record.failures.iter().map(|failure| format!("{}: {}", failure.at, failure.kind)).collect();
        for cause in causes {
            match self.failures.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, count)) => *count += 1,
                None => self.failures.push((cause, 1)),
            }
        }
    }
}

/// At most `most` entries, spread evenly from the first to the last.
fn spread(all: &[usize], most: usize) -> Vec<usize> {
    if all.len() <= most {
        return all.to_vec();
    }
    (0..most).map(|place| all[place * all.len() / most]).collect()
}

/// Chunks that are each spread over the whole list, so that a sample that ends early is still even.
fn shuffled_chunks(all: &[usize]) -> Vec<Vec<usize>> {
    let count = all.len().div_ceil(CHUNK);
    (0..count).map(|first| all.iter().skip(first).step_by(count).copied().collect()).collect()
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{Component, Ending, PluginScore, Score, Seed, TaskRef};

    use super::*;

    #[test]
    fn a_spread_is_even_and_its_chunks_hold_each_entry_once() {
        let all: Vec<usize> = (0..1_000).collect();
        assert_eq!(spread(&all, 4), [0, 250, 500, 750]);
        assert_eq!(spread(&all[..3], 4), [0, 1, 2]);
        let chunks = shuffled_chunks(&all);
        assert_eq!((chunks.len(), &chunks[0][..3]), (8, &[0, 8, 16][..]));
        let mut joined = chunks.concat();
        joined.sort_unstable();
        assert_eq!(joined, all);
    }

    #[test]
    fn series_have_an_entry_for_each_episode() {
        let id = EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: 0, member: 0, attempt: 0 };
        let task = TaskRef { split: "train".to_owned(), index: 0 };
        let mut record = EpisodeRecord::new(id, task, Seed(0), Ending::Terminated);
        let mut sample = EpisodeSample::default();
        sample.add(&record);
        record.rewards = vec![0.5, 9.0];
        let components = vec![Component { name: "correct".to_owned(), value: 1.0 }];
        let score = Score { seat: 0, total: 0.25, components, turns: vec![], evidence: vec![] };
        record.scores = vec![PluginScore { plugin: "match".to_owned(), scores: vec![score] }];
        sample.add(&record);
        assert_eq!(sample.series["reward"], [None, Some(0.5)]);
        assert_eq!(sample.series["match"], [None, Some(0.25)]);
        assert_eq!(sample.series["match.correct"], [None, Some(1.0)]);
        record.id = EpisodeId { phase: Phase::Demonstration, ..id };
        record.rewards = vec![1.0];
        sample.add(&record);
        assert_eq!(sample.phases(), [SamplePurpose::Training, SamplePurpose::Demonstrations]);
        let rewards = &sample.series["reward"];
        assert_eq!(sample.of_phase(rewards, SamplePurpose::Training), [None, Some(0.5)]);
        assert_eq!(sample.of_phase(rewards, SamplePurpose::Demonstrations), [Some(1.0)]);
    }
}
