//! Trials that show what the contract does not declare: the facts of an episode's end, and whether a reward needs
//! privileged fields.

use gymkhana_record::{Ending, NamedValue, Part, Seed, TaskRef, Turn};

use crate::{Action, Advice, CallError, EnvironmentEpisode, OptionalInterface, Plugin, Trajectory, score};

/// Maximum number of the oracle's turns: those that the conformance suite allows.
const MAX_TURNS: u32 = 300;

/// Names of the facts at the end of a task, as the oracle plays it without tools.
///
/// # Errors
/// The reason why no end was reached.
pub(super) async fn facts(
    plugin: &Plugin,
    options: &[NamedValue],
    task: Option<&TaskRef>,
) -> Result<Vec<String>, String> {
    let Some(task) = task.filter(|_| plugin.offers(OptionalInterface::Oracle)) else {
        return Err(
            "it has no oracle that reaches an end; `host plugin play` shows them when an episode ends".to_owned()
        );
    };
    let failed = |error: CallError| error.message;
    let (mut episode, started) = EnvironmentEpisode::start(plugin, task, options, Seed(0)).await.map_err(failed)?;
    let own = started.opening.functions.iter().flat_map(|offered| &offered.functions);
    let own: Vec<String> = own.map(|function| function.name.clone()).collect();
    let mut seat = started.seat;
    for _ in 0..MAX_TURNS {
        let step = match episode.advise(&[], &[]).await.map_err(failed)? {
            Advice::Message(text) => episode.step(seat, Action::Message(&[Part::Text(text)])).await,
            Advice::Calls(calls) => {
                let Some(call) = calls.first() else { return Err("its oracle calls nothing".to_owned()) };
                if !own.contains(&call.name) {
                    return Err(format!("its oracle calls `{}`, which is another plugin's", call.name));
                }
                episode.step(seat, Action::Call(call)).await
            }
        };
        let step = step.map_err(failed)?;
        if step.terminated || step.truncated {
            return Ok(step.extras.into_iter().map(|fact| fact.name).collect());
        }
        seat = step.seat;
    }
    Err(format!("its oracle reached no end in {MAX_TURNS} turns"))
}

/// Reason why the reward does not score an episode without privileged fields, if it does not.
pub(super) async fn unscored_without_fields(plugin: &Plugin, options: &[NamedValue]) -> Option<String> {
    let task = TaskRef { split: "train".to_owned(), index: 0 };
    let turns = [Turn::Message { seat: 0, content: vec![Part::Text("0".to_owned())] }];
    let bare = Trajectory {
        task: &task,
        turns: &turns,
        ending: Ending::Terminated,
        environment_rewards: &[],
        extras: &[],
        privileged: &[],
        views: &[],
    };
    score(plugin, &[bare], options, 0, Seed(0)).await.err().map(|error| error.message)
}
