//! The parts of a run with a model: its files, its chat format, and whether prompts of tasks leave room for a reply.

pub mod chat;
pub mod models;

use gymkhana_orchestration::environments::RunEnvironment;
use gymkhana_orchestration::{RunError, RunResult};
use gymkhana_record::{Seed, TaskRef};
use gymkhana_rollout::NoPrompt;

/// First tasks of a split of which one must have a prompt that fits the context.
const TRIED: u64 = 4;

/// Refuses a context in which no episode could have a turn. `context` is that of the policy.
pub(crate) async fn check_fit(environment: &RunEnvironment, split: &str, seed: Seed, context: usize) -> RunResult<()> {
    let mut too_long = None;
    for index in 0..TRIED {
        let task = TaskRef { split: split.to_owned(), index };
        match environment.rollout.first_prompt(&task, seed, context).await {
            Err(NoPrompt::TooLong { context }) => too_long = Some(context),
            // A split may have fewer tasks.
            Err(_) if index > 0 => break,
            _ => return Ok(()),
        }
    }
    let Some(context) = too_long else { return Ok(()) };
    let message = format!(
        "no episode could have a turn: the prompts of the first tasks of `{split}` are longer than the context of {context} \
         tokens"
    );
    let hint = "raise limits.context_tokens or the context of the policy, or shorten policy.system";
    Err(environment.blame(RunError::user(message).with_hint(hint)))
}
