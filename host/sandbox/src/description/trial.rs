//! Trials that show what the contract does not declare: an example and the facts of its end, and whether a reward needs
//! privileged fields.

use gymkhana_record::{Ending, NamedValue, Part, Seed, TaskRef, Turn, text_of};
use gymkhana_registry::{ExampleEntry, Speaker};

use crate::{Action, Advice, CallError, EnvironmentEpisode, OptionalInterface, Plugin, Trajectory, score};

/// Maximum number of the oracle's turns: those that the conformance suite allows.
const MAX_TURNS: u32 = 300;

/// Maximum length of an example transcript, in bytes of its texts.
const MAX_EXAMPLE_BYTES: usize = 8 << 10;

/// The first task, as the oracle plays it without tools.
pub(super) struct Trial {
    /// Names of the facts at its end, or the reason why no end was reached.
    pub facts: Result<Vec<String>, String>,
    /// What was seen and done.
    pub example: Vec<ExampleEntry>,
}

/// Plays the first task.
pub(super) async fn trial(plugin: &Plugin, options: &[NamedValue], task: Option<&TaskRef>) -> Trial {
    let mut example = Example::default();
    let facts = play(plugin, options, task, &mut example).await;
    Trial { facts, example: example.entries }
}

async fn play(
    plugin: &Plugin,
    options: &[NamedValue],
    task: Option<&TaskRef>,
    example: &mut Example,
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
    example.see(&started.opening.observations);
    let mut seat = started.seat;
    for _ in 0..MAX_TURNS {
        let step = match episode.advise(&[], &[]).await.map_err(failed)? {
            Advice::Message(text) => {
                example.add(seat, Speaker::Oracle, &text);
                episode.step(seat, Action::Message(&[Part::Text(text)])).await
            }
            Advice::Calls(calls) => {
                let Some(call) = calls.first() else { return Err("its oracle calls nothing".to_owned()) };
                example.add(seat, Speaker::Oracle, &format!("{}({})", call.name, call.arguments));
                if !own.contains(&call.name) {
                    return Err(format!("its oracle calls `{}`, which is another plugin's", call.name));
                }
                episode.step(seat, Action::Call(call)).await
            }
        };
        let step = step.map_err(failed)?;
        example.see(&step.observations);
        if step.terminated || step.truncated {
            return Ok(step.extras.into_iter().map(|fact| fact.name).collect());
        }
        seat = step.seat;
    }
    Err(format!("its oracle reached no end in {MAX_TURNS} turns"))
}

/// A transcript of bounded length.
#[derive(Default)]
struct Example {
    entries: Vec<ExampleEntry>,
    bytes: usize,
}

impl Example {
    fn see(&mut self, observations: &[(u32, Vec<Part>)]) {
        for (seat, parts) in observations {
            self.add(*seat, Speaker::Environment, &text_of(parts));
        }
    }

    /// Adds a text, of which only the begin is kept where the transcript becomes too long.
    fn add(&mut self, seat: u32, by: Speaker, text: &str) {
        if self.bytes >= MAX_EXAMPLE_BYTES {
            return;
        }
        let kept = text.floor_char_boundary(MAX_EXAMPLE_BYTES - self.bytes);
        self.bytes += text.len();
        let end = if kept < text.len() { "…" } else { "" };
        self.entries.push(ExampleEntry { seat, by, text: format!("{}{end}", &text[..kept]) });
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_keeps_the_begin_of_a_long_transcript() {
        let mut example = Example::default();
        example.see(&[(1, vec![Part::Text("ä".repeat(MAX_EXAMPLE_BYTES / 2 - 1))])]);
        example.add(0, Speaker::Oracle, "äöü");
        example.add(0, Speaker::Oracle, "left out");
        let [seen, cut] = &example.entries[..] else { panic!("{:?}", example.entries) };
        assert_eq!((seen.seat, seen.by, seen.text.len()), (1, Speaker::Environment, MAX_EXAMPLE_BYTES - 2));
        assert_eq!((cut.seat, cut.by, cut.text.as_str()), (0, Speaker::Oracle, "ä…"));
    }
}
