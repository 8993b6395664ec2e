//! Preference pairs: the best and the worst recorded episode of a task.

use std::collections::BTreeMap;

use gymkhana_config::RecordedPairs;
use gymkhana_orchestration::recorded_runs::count_matches;
use gymkhana_orchestration::{RunError, RunResult};
use gymkhana_record::{EpisodeId, EpisodeRecord, Segment};

use super::Learner;
use super::records::{named, opened};

/// Weight version of recorded tokens, which is that of no weights of this run.
const OTHER_WEIGHTS: u32 = u32::MAX;

/// Episodes of one task, or of one tree of branches.
type Key = (usize, Option<String>, String, u64, Option<EpisodeId>);

/// Reads the pairs of a stage, the better episode first.
pub(super) fn read(pairs: &RecordedPairs, learner: Learner<'_>) -> RunResult<Vec<Vec<EpisodeRecord>>> {
    let runs = opened(&pairs.runs, learner)?;
    if let Some(filter) = &pairs.filter {
        count_matches(&runs, filter)?;
    }
    let mut ends: BTreeMap<Key, [EpisodeRecord; 2]> = BTreeMap::new();
    for (index, run) in runs.iter().enumerate() {
        for record in run.records() {
            let record = record?;
            if record.sampled_tokens() > 0 && fits(&record, learner) && run.meets(&record, pairs.filter.as_ref()) {
                let key = key(index, &record, pairs.branches);
                add(&mut ends, key, record);
            }
        }
    }
    let differ = |[best, worst]: &[EpisodeRecord; 2]| {
        let difference = reward(best) - reward(worst);
        difference > 0.0 && difference >= pairs.margin
    };
    let found: Vec<Vec<EpisodeRecord>> =
        ends.into_values().filter(differ).map(|ends| ends.into_iter().map(alone).collect()).collect();
    if found.is_empty() {
        let message = format!(
            "the episodes of {} give no pair: none of their {} differ by {} or more in reward",
            named(&pairs.runs),
            if pairs.branches { "branches of one episode" } else { "episodes of one task" },
            pairs.margin
        );
        let hint = "lower `recorded.margin`, loosen `recorded.where`, or record several episodes of each task";
        return Err(RunError::user(message).with_hint(hint));
    }
    Ok(found)
}

fn fits(record: &EpisodeRecord, learner: Learner<'_>) -> bool {
    record.segments.iter().all(|segment| segment.len() <= learner.context)
}

fn key(run: usize, record: &EpisodeRecord, branches: bool) -> Key {
    let root = branches.then(|| record.forks.first().map_or(record.id, |fork| fork.parent));
    (run, record.environment.clone(), record.task.split.clone(), record.task.index, root)
}

/// Reward of the first seat.
fn reward(record: &EpisodeRecord) -> f64 {
    record.rewards.first().copied().unwrap_or(0.0)
}

/// Adds an episode to the best and the worst of its key.
fn add(ends: &mut BTreeMap<Key, [EpisodeRecord; 2]>, key: Key, record: EpisodeRecord) {
    let Some([best, worst]) = ends.get_mut(&key) else {
        ends.insert(key, [record.clone(), record]);
        return;
    };
    if reward(&record) > reward(best) {
        *best = record;
    } else if reward(&record) < reward(worst) {
        *worst = record;
    }
}

/// The episode without its tree: shared turns count in both episodes of a pair, where their log-ratios cancel. Its tokens
/// are those of other weights.
fn alone(mut record: EpisodeRecord) -> EpisodeRecord {
    record.forks.clear();
    record.segments = record.segments.into_iter().map(of_other_weights).collect();
    record
}

fn of_other_weights(segment: Segment) -> Segment {
    let mut columns = segment.into_columns();
    let sampled = columns.sampled.iter();
    columns.versions.iter_mut().zip(sampled).filter(|(_, sampled)| **sampled).for_each(|(version, _)| {
        *version = OTHER_WEIGHTS;
    });
    // The lengths of the columns are unchanged.
    Segment::from_columns(columns).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{Ending, Fork, Phase, Seed, TaskRef};

    use super::*;

    fn episode(task: u64, member: u32, reward: f64, parent: Option<u32>) -> EpisodeRecord {
        let id = |member| EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: task as u32, member, attempt: 0 };
        let task = TaskRef { split: "train".to_owned(), index: task };
        let fork = parent.map(|parent| Fork { parent: id(parent), turns: vec![1], seed: Seed(0) });
        EpisodeRecord {
            rewards: vec![reward],
            forks: fork.into_iter().collect(),
            ..EpisodeRecord::new(id(member), task, Seed(0), Ending::Terminated)
        }
    }

    /// Members of the best and the worst episode of each key, in the order of keys.
    fn ends(branches: bool, records: &[EpisodeRecord]) -> Vec<[u32; 2]> {
        let mut ends = BTreeMap::new();
        for record in records {
            add(&mut ends, key(0, record, branches), record.clone());
        }
        ends.into_values().map(|ends| ends.map(|record| record.id.member)).collect()
    }

    #[test]
    fn ends_are_those_of_a_task_or_of_a_tree() {
        let records = [
            episode(1, 0, 0.5, None),
            episode(1, 1, 1.0, Some(0)),
            episode(1, 2, 0.0, None),
            episode(1, 3, 0.25, Some(2)),
            episode(2, 4, 0.5, None),
        ];
        assert_eq!(ends(false, &records), [[1, 2], [4, 4]]);
        assert_eq!(ends(true, &records), [[1, 0], [3, 2], [4, 4]]);
    }

    #[test]
    fn recorded_tokens_are_of_other_weights() {
        let mut segment = Segment::new(0);
        segment.append_given(&[1], 0);
        let (log_probs, entropies) = (vec![-0.5], vec![0.1]);
        let sampled = gymkhana_record::Sampled { tokens: vec![2], log_probs, entropies, versions: vec![3] };
        segment.append_sampled(&sampled, 0).expect("one token");
        let found = of_other_weights(segment.clone());
        assert_eq!(found.versions(), [0, u32::MAX]);
        assert_eq!((found.tokens(), found.log_probs()), (segment.tokens(), segment.log_probs()));
    }
}
