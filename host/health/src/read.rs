//! Reads the figures of a run's folder.

use std::collections::{BTreeMap, BTreeSet};

use gymkhana_record::EpisodeId;
use gymkhana_store::{RunReader, StoreError};

use crate::settings::{HealthSettings, RunFileSyntaxError};
use crate::usual::WINDOW;
use crate::{Health, is_counted};

/// The figures of a run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// A file of the run cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run file is not TOML.
    #[error(transparent)]
    RunFile(#[from] RunFileSyntaxError),
}

impl Health {
    /// Reads the run file, the metrics and the episodes of the last steps of each stage; of a run in progress, those so far.
    /// Parts of the records without such an episode are not opened, and the others are read one after the other.
    ///
    /// # Errors
    /// If a file of the run is damaged or newer than this host.
    pub fn read(run: &RunReader) -> Result<Self, HealthError> {
        let mut health = Self::new(HealthSettings::parse(&run.run_text()?)?);
        for line in run.metrics()? {
            let values = line.values.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_f64()?)));
            health.add_metrics(line.stage, line.step, &values);
        }
        let episodes = run.episodes()?;
        let first = first_steps(&episodes.ids());
        let is_wanted = |id: &EpisodeId| is_counted(*id) && first.get(&id.stage).is_some_and(|first| id.step >= *first);
        for record in episodes.read_where(is_wanted) {
            health.add_episode(&record?);
        }
        Ok(health)
    }
}

/// First step of the window of each stage.
fn first_steps(ids: &[EpisodeId]) -> BTreeMap<u32, u64> {
    let mut steps: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for id in ids.iter().filter(|id| is_counted(**id)) {
        let last = steps.entry(id.stage).or_default();
        last.insert(id.step);
        if last.len() > WINDOW {
            last.pop_first();
        }
    }
    steps.into_iter().filter_map(|(stage, last)| Some((stage, last.first().copied()?))).collect()
}
