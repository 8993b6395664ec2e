//! Tasks that a sampler chooses, and the next ones in an order.

use std::collections::BTreeSet;

use gymkhana_record::TaskRef;

use crate::tasks::TaskOrder;

/// A chosen task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    /// The task.
    pub task: TaskRef,
    /// Turn limit per seat, if the sampler sets one.
    pub turns: Option<u32>,
    /// Number of attempts, if it differs from the stage's group size.
    pub attempts: Option<u32>,
}

impl From<TaskRef> for Choice {
    fn from(task: TaskRef) -> Self {
        Self { task, turns: None, attempts: None }
    }
}

/// The next `wanted` tasks in order, distinct as long as the order has others.
pub(super) fn next_tasks(order: &mut TaskOrder, next: &mut u64, wanted: usize) -> Vec<TaskRef> {
    let pass = order.count().unwrap_or(u64::MAX);
    let mut tasks: Vec<TaskRef> = Vec::new();
    let mut seen = BTreeSet::new();
    while tasks.len() < wanted {
        let task = order.at(*next);
        *next += 1;
        // The end of one pass and the begin of the next may hold the same task.
        if seen.insert(task.index) || seen.len() as u64 == pass {
            tasks.push(task);
        }
    }
    tasks
}
