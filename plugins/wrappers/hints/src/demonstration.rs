//! Demonstrations: episodes that the environment's oracle plays.

use gymkhana_sdk::environment::{Action, ActionBody, Advice};
use gymkhana_sdk::wrapper::{Inner, inner_splits};
use gymkhana_sdk::{Call, Error, Task, text, text_of};

use crate::TRAIN;

/// Most turns of a demonstration. A longer one is left out.
const MAX_TURNS: usize = 64;
/// Distance of the first demonstrated task from the task, so that tasks of one group or step seldom demonstrate each other.
const DISTANCE: u64 = 1009;

/// Texts of demonstrations of other tasks. There are fewer, or none, where the oracle is missing, needs tools, or does not
/// reach an end.
pub fn demonstrations(task: &Task, count: u64, seed: u64) -> Result<Vec<String>, Error> {
    let tasks = inner_splits()?.into_iter().find(|split| split.name == TRAIN).and_then(|split| split.tasks);
    let others = (0..count).filter_map(|number| other(task.index, number, tasks));
    let shown = others.enumerate().map(|(place, index)| {
        let played = play(&Task { split: TRAIN.to_owned(), index }, seed)?;
        Ok(played.map(|words| format!("Example {}:\n{words}", place + 1)))
    });
    shown.filter_map(Result::transpose).collect()
}

/// Index of a task that is not the task itself.
fn other(index: u64, number: u64, tasks: Option<u64>) -> Option<u64> {
    let wanted = index.wrapping_add(DISTANCE).wrapping_add(number);
    let found = match tasks {
        Some(0) => return None,
        Some(tasks) => wanted % tasks,
        None => wanted,
    };
    (found != index).then_some(found)
}

/// The transcript of the oracle's episode; `None` if there is none.
fn play(task: &Task, seed: u64) -> Result<Option<String>, Error> {
    let (inner, result) = Inner::reset(task, seed)?;
    let (mut seat, mut results) = (result.next_seat, vec![]);
    let mut lines: Vec<String> = result.observations.iter().map(|seen| text_of(&seen.content)).collect();
    for turn in 0..MAX_TURNS {
        let Ok(advice) = inner.advise(&[], &results) else { return Ok(None) };
        let deeds = match advice {
            Advice::Message(words) => vec![ActionBody::Message(text(words))],
            Advice::Calls(calls) => {
                calls.into_iter().enumerate().map(|(place, call)| called(turn, place, call)).collect()
            }
        };
        results.clear();
        for body in deeds {
            lines.push(format!("> {}", said(&body)));
            let is_call = matches!(body, ActionBody::Call(_));
            let Ok(stepped) = inner.step(&Action { seat, body }) else { return Ok(None) };
            let seen: Vec<String> = stepped.observations.iter().map(|seen| text_of(&seen.content)).collect();
            if is_call {
                results.push(seen.first().cloned().unwrap_or_default());
            }
            lines.extend(seen);
            if stepped.terminated || stepped.truncated {
                return Ok(Some(lines.join("\n")));
            }
            seat = stepped.next_seat;
        }
    }
    Ok(None)
}

fn called(turn: usize, place: usize, call: Call) -> ActionBody {
    ActionBody::Call(Call { id: format!("example-{turn}-{place}"), ..call })
}

fn said(body: &ActionBody) -> String {
    match body {
        ActionBody::Message(content) | ActionBody::Other(content) => text_of(content),
        ActionBody::Call(call) => format!("{}({})", call.name, call.arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_does_not_demonstrate_itself() {
        assert_eq!(other(5, 0, None), Some(1014));
        assert_eq!(other(5, 1, Some(100)), Some(15));
        assert_eq!(other(0, 0, Some(1009)), None);
        assert_eq!(other(0, 0, Some(0)), None);
        assert_eq!(other(u64::MAX, 0, None), Some(1008));
    }
}
