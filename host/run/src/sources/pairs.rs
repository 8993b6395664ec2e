//! Preference pairs: the best and the worst recorded episode of a task.

use std::collections::BTreeMap;

use gymkhana_config::RecordedPreferences;
use gymkhana_orchestration::{RunError, RunResult};
use gymkhana_record::{EpisodeId, EpisodeRecord};

use super::records::named;

/// Episodes of one task, or of one tree of branches.
type PairKey = (usize, Option<String>, String, u64, Option<EpisodeId>);

/// Pairs of recorded episodes, the better episode first. `records` come with the place of their run.
pub(super) fn of_tasks(
    records: impl Iterator<Item = RunResult<(usize, EpisodeRecord)>>,
    recorded: &RecordedPreferences,
) -> RunResult<Vec<Vec<EpisodeRecord>>> {
    let mut ends: BTreeMap<PairKey, [EpisodeRecord; 2]> = BTreeMap::new();
    for record in records {
        let (run, record) = record?;
        add(&mut ends, key(run, &record, recorded.branches), record);
    }
    let differ = |[best, worst]: &[EpisodeRecord; 2]| {
        let difference = reward(best) - reward(worst);
        difference > 0.0 && difference >= recorded.margin
    };
    let found: Vec<Vec<EpisodeRecord>> = ends.into_values().filter(differ).map(Vec::from).collect();
    if found.is_empty() {
        let message = format!(
            "the episodes of {} give no pair: none of their {} differ by {} or more in reward",
            named(&recorded.runs),
            if recorded.branches { "branches of one episode" } else { "episodes of one task" },
            recorded.margin
        );
        let hint = "lower `recorded.margin`, loosen `recorded.where`, or record several episodes of each task";
        return Err(RunError::user(message).with_hint(hint));
    }
    Ok(found)
}

fn key(run: usize, record: &EpisodeRecord, branches: bool) -> PairKey {
    let root = branches.then(|| record.forks.first().map_or(record.id, |fork| fork.parent));
    (run, record.environment.clone(), record.task.split.clone(), record.task.index, root)
}

/// Reward of the first seat.
fn reward(record: &EpisodeRecord) -> f64 {
    record.rewards.first().copied().unwrap_or(0.0)
}

/// Adds an episode to the best and the worst of its key.
fn add(ends: &mut BTreeMap<PairKey, [EpisodeRecord; 2]>, key: PairKey, record: EpisodeRecord) {
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
}
