//! Comparisons of two versions of a reward, which `host reward diff --keep` leaves in the run's folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gymkhana_record::Score;
use gymkhana_registry::{Digest, read_regular_file};
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::fs::{names_in, write};

/// Folder of the comparisons in that of a run.
pub(crate) const FOLDER: &str = "reward-diffs";

/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Two versions of a reward on the episodes of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RewardComparison {
    /// Name, version and options of A and of B.
    pub versions: [String; 2],
    /// Number of seats of episodes that both scored.
    pub scored: usize,
    /// Numbers of those that a version failed to score.
    pub failed: Sides<usize>,
    /// Number of equal totals.
    pub equal: usize,
    /// Totals of A.
    pub a: Option<SummaryStats>,
    /// Totals of B.
    pub b: Option<SummaryStats>,
    /// Spearman's rank correlation of the totals; none if a side is constant.
    pub rank_correlation: Option<f64>,
    /// Pairs of members of a group that the versions order differently.
    pub reordered_pairs: u64,
    /// Pairs of members of groups.
    pub pairs: u64,
    /// Means of components by name; none in a version without the component.
    pub components: BTreeMap<String, Sides<Option<f64>>>,
    /// The largest differences, the largest first.
    pub worst: Vec<ComparedEpisode>,
}

/// A value of A and one of B.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sides<T> {
    /// Value of A.
    pub a: T,
    /// Value of B.
    pub b: T,
}

/// Summary statistics of totals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SummaryStats {
    /// Mean.
    pub mean: f64,
    /// Population standard deviation.
    pub deviation: f64,
    /// Minimum, quartiles and maximum.
    pub quartiles: [f64; 5],
}

/// An episode with both scores of a seat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedEpisode {
    /// Id of the episode.
    pub episode: String,
    /// Outcome of A.
    pub a: ScoreOutcome,
    /// Outcome of B.
    pub b: ScoreOutcome,
}

/// A score, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ScoreOutcome {
    /// The score.
    Scored(Score),
    /// No score.
    Failed {
        /// The reason.
        failed: String,
    },
}

impl RewardComparison {
    /// Writes the comparison into the folder of a run. It replaces one of the same versions.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn keep(&self, run: &Path) -> Result<(), StoreError> {
        let folder = run.join(FOLDER);
        fs::create_dir_all(&folder).map_err(|source| StoreError::io(&folder, source))?;
        let path = folder.join(format!("{:.16}.json", Digest::of(self.versions.join("\n").as_bytes()).to_string()));
        let text = serde_json::to_vec_pretty(self).map_err(|error| StoreError::io(&path, error.into()))?;
        write(&path, &text)
    }

    /// The comparisons in the folder of a run, in the order of their versions.
    ///
    /// # Errors
    /// If a file cannot be read, or is not a comparison.
    pub(crate) fn read_all(run: &Path) -> Result<Vec<Self>, StoreError> {
        let folder = run.join(FOLDER);
        if !folder.is_dir() {
            return Ok(vec![]);
        }
        let mut all = Vec::new();
        for name in names_in(&folder)?.iter().filter(|name| is_comparison(name)) {
            all.push(Self::read(&folder.join(name))?);
        }
        all.sort_by(|one, other| one.versions.cmp(&other.versions));
        Ok(all)
    }

    fn read(path: &Path) -> Result<Self, StoreError> {
        let failed = |source| StoreError::io(path, source);
        if fs::metadata(path).map_err(failed)?.len() > MAX_BYTES {
            return Err(StoreError::Altered { path: path.to_owned(), what: "it is larger than 16 MiB" });
        }
        let bytes = read_regular_file(path).map_err(failed)?;
        let unreadable = |_| StoreError::Altered { path: path.to_owned(), what: "it is not a comparison of rewards" };
        serde_json::from_slice(&bytes).map_err(unreadable)
    }
}

/// Whether a name is that of a comparison's file.
pub(crate) fn is_comparison(name: &str) -> bool {
    let digits = name.strip_suffix(".json").unwrap_or_default();
    digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(version: &str) -> RewardComparison {
        let score = Score { seat: 0, total: 0.5, components: vec![], turns: vec![], evidence: vec![] };
        RewardComparison {
            versions: ["a@1.0.0".into(), version.into()],
            scored: 2,
            failed: Sides { a: 0, b: 1 },
            equal: 1,
            a: Some(SummaryStats { mean: 0.5, deviation: 0.0, quartiles: [0.5; 5] }),
            b: None,
            rank_correlation: None,
            reordered_pairs: 0,
            pairs: 1,
            components: [("cost".to_owned(), Sides { a: Some(0.25), b: None })].into(),
            worst: vec![ComparedEpisode {
                episode: "1.train.1.0.0.0".into(),
                a: ScoreOutcome::Scored(score),
                b: ScoreOutcome::Failed { failed: "refused".into() },
            }],
        }
    }

    #[test]
    fn comparisons_are_kept_once_for_each_pair_of_versions() {
        let run = tempfile::tempdir().unwrap();
        assert_eq!(RewardComparison::read_all(run.path()).unwrap(), []);
        comparison("b@2.0.0").keep(run.path()).unwrap();
        comparison("b@1.0.0").keep(run.path()).unwrap();
        let newer = RewardComparison { equal: 2, ..comparison("b@2.0.0") };
        newer.keep(run.path()).unwrap();
        assert_eq!(RewardComparison::read_all(run.path()).unwrap(), [comparison("b@1.0.0"), newer]);
    }

    #[test]
    fn a_file_of_another_kind_is_named() {
        let run = tempfile::tempdir().unwrap();
        fs::create_dir(run.path().join(FOLDER)).unwrap();
        fs::write(run.path().join(FOLDER).join("notes.txt"), "mine").unwrap();
        assert_eq!(RewardComparison::read_all(run.path()).unwrap(), []);
        fs::write(run.path().join(FOLDER).join("0123456789abcdef.json"), "{}").unwrap();
        let refused = RewardComparison::read_all(run.path()).unwrap_err().to_string();
        assert!(refused.contains("0123456789abcdef.json` is damaged: it is not a comparison of rewards"), "{refused}");
    }
}
