//! Held-out tasks of an evaluation.

use gymkhana_orchestration::RunResult;
use gymkhana_orchestration::scheduler::GroupTask;
use gymkhana_orchestration::tasks::count_tasks;
use gymkhana_record::TaskRef;
use gymkhana_rollout::PluginSet;

/// The first tasks of a split of the environment with this index, at most `most`. The same tasks each time, once each, so
/// that success rates are comparable.
pub(super) async fn of_environment(
    set: &PluginSet,
    split: &str,
    environment: usize,
    most: u64,
) -> RunResult<Vec<GroupTask>> {
    if most == 0 {
        return Ok(vec![]);
    }
    let count = count_tasks(set, split).await?.map_or(most, |count| count.min(most));
    let task = |index| TaskRef { split: split.to_owned(), index };
    Ok((0..count).map(|index| GroupTask { environment, task: task(index), turns: None, attempts: None }).collect())
}
