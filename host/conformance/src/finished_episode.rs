//! Finished episodes for rewards to score: recorded, played or synthetic.

use gymkhana_record::{
    Call, Content, Ending, EpisodeRecord, Media, NamedValue, Part, SeatRewards, Seed, Stream, TaskRef, Turn, Value,
};
use gymkhana_sandbox::Trajectory;

/// The part of a finished episode that a reward receives.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedEpisode {
    /// Task of the episode.
    pub task: TaskRef,
    /// Messages, calls, answers and observations.
    pub turns: Vec<Turn>,
    /// Ending of the episode.
    pub ending: Ending,
    /// The environment's rewards.
    pub environment_rewards: Vec<SeatRewards>,
    /// The extras of the environment's last step.
    pub extras: Vec<NamedValue>,
    /// The environment's privileged view at the end.
    pub privileged: Vec<NamedValue>,
    /// Each tool's final view, as `tool.field`.
    pub views: Vec<NamedValue>,
}

impl FinishedEpisode {
    /// The part of a record that a reward receives.
    #[must_use]
    pub fn of(record: &EpisodeRecord) -> Self {
        Self {
            task: record.task.clone(),
            turns: record.turns.clone(),
            ending: record.ending,
            environment_rewards: record.environment_rewards.clone(),
            extras: record.extras.clone(),
            privileged: record.privileged.clone(),
            views: record.views.clone(),
        }
    }

    /// The episode as a reward's argument.
    pub(crate) fn trajectory(&self) -> Trajectory<'_> {
        Trajectory {
            task: &self.task,
            turns: &self.turns,
            ending: self.ending,
            environment_rewards: &self.environment_rewards,
            extras: &self.extras,
            privileged: &self.privileged,
            views: &self.views,
        }
    }

    fn made(turns: Vec<Turn>) -> Self {
        let fact = |name: &str, value: Value| NamedValue { name: name.to_owned(), value };
        Self {
            task: TaskRef { split: "train".to_owned(), index: 0 },
            turns,
            ending: Ending::Terminated,
            environment_rewards: vec![SeatRewards { seat: 0, rewards: vec![0.5] }],
            extras: vec![fact("success", Value::Flag(true))],
            privileged: vec![fact("answer", Value::Text("42".to_owned()))],
            views: vec![],
        }
    }
}

/// Number of random synthetic groups.
const RANDOM_GROUPS: u64 = 16;

/// Synthetic groups of episodes of many shapes, each with a name.
pub(crate) fn made_up(seed: Seed) -> Vec<(String, Vec<FinishedEpisode>)> {
    let mut groups: Vec<(String, Vec<FinishedEpisode>)> = vec![("an empty group".to_owned(), vec![])];
    for (name, finished) in shapes() {
        groups.push((format!("an episode with {name}"), vec![finished]));
    }
    for ending in [
        Ending::Truncated,
        Ending::TurnLimit,
        Ending::ContextLimit,
        Ending::CallLimit,
        Ending::TimeLimit,
        Ending::EarlyStopped,
        Ending::EnvironmentFailed,
        Ending::AgentFailed,
    ] {
        let finished =
            FinishedEpisode { ending, ..FinishedEpisode::made(vec![shows(0, "What is 6 times 7?"), says(0, "42")]) };
        groups.push((format!("an episode that ended as {ending}"), vec![finished]));
    }
    groups.push(("a group of all shapes".to_owned(), shapes().into_iter().map(|(_, finished)| finished).collect()));
    groups.push(("a group of eight equal episodes".to_owned(), equal_episodes()));
    for number in 0..RANDOM_GROUPS {
        let mut stream = seed.child(number).stream();
        let group = (0..1 + stream.below(6)).map(|_| random(&mut stream)).collect();
        groups.push((format!("the random group {number}"), group));
    }
    groups
}

/// The same episode eight times.
pub(crate) fn equal_episodes() -> Vec<FinishedEpisode> {
    vec![FinishedEpisode::made(vec![shows(0, "What is 6 times 7?"), says(0, "42")]); 8]
}

/// Turns in random order, which no environment would produce.
fn random(stream: &mut Stream) -> FinishedEpisode {
    const TEXTS: [&str; 8] =
        ["", "42", "41.5", "yes", "\\boxed{42}", "<answer>42</answer>", "{\"answer\": 42}", "4\u{301}2\n\n"];
    let mut turns = Vec::new();
    for number in 0..stream.below(12) {
        let seat = stream.below(3) as u32;
        let text = TEXTS[stream.below(TEXTS.len() as u64) as usize];
        let id = format!("call-{}", stream.below(number + 1));
        turns.push(match stream.below(5) {
            0 | 1 => says(seat, text),
            2 => shows(seat, text),
            3 => calls(seat, &id, text),
            _ => answers(seat, &id, text, stream.below(2) == 0),
        });
    }
    let rewards = (0..stream.below(4)).map(|_| stream.unit() * 4.0 - 2.0).collect();
    let environment_rewards = vec![SeatRewards { seat: 0, rewards }];
    FinishedEpisode { environment_rewards, ..FinishedEpisode::made(turns) }
}

fn shapes() -> Vec<(&'static str, FinishedEpisode)> {
    let question = || shows(0, "What is 6 times 7?");
    let long = "6 times 7 is 42. ".repeat(20_000);
    let image = Part::Image(Media { mime: "image/png".to_owned(), bytes: vec![0x89, b'P', b'N', b'G', 0] });
    let plain = |turns: Vec<Turn>| FinishedEpisode::made(turns);
    let bare = plain(vec![question(), says(0, "42")]);
    vec![
        ("a question and its answer", bare.clone()),
        ("no turns", plain(vec![])),
        ("an observation and no actor", plain(vec![question()])),
        ("an empty message", plain(vec![question(), says(0, "")])),
        ("a message without parts", plain(vec![question(), Turn::Message { seat: 0, content: vec![] }])),
        ("a wrong answer", plain(vec![question(), says(0, "I think that it is 41.")])),
        ("letters of many scripts", plain(vec![question(), says(0, "４２ 漢字 e\u{301} \u{202e}24\u{0} 🙂")])),
        ("a very long message", plain(vec![question(), says(0, &long)])),
        ("a picture", plain(vec![question(), Turn::Message { seat: 0, content: vec![image] }])),
        (
            "a call, its answer and a message",
            plain(vec![
                question(),
                says(0, "<think>6 * 7</think>"),
                calls(0, "call-0", "{\"expression\": \"6*7\"}"),
                answers(0, "call-0", "42", false),
                says(0, "42"),
            ]),
        ),
        (
            "calls alone, which failed",
            plain(vec![
                question(),
                calls(0, "call-0", "{"),
                answers(0, "call-0", "the arguments are not JSON", true),
                calls(0, "call-1", ""),
                answers(0, "call-1", "", true),
            ]),
        ),
        ("a call without an answer", plain(vec![question(), calls(0, "call-0", "{}")])),
        (
            "a hundred messages",
            plain((0..100).flat_map(|turn| [shows(0, "And?"), says(0, &turn.to_string())]).collect()),
        ),
        (
            "two seats",
            FinishedEpisode {
                environment_rewards: [0, 1].map(|seat| SeatRewards { seat, rewards: vec![1.0, -1.0] }).into(),
                ..plain(vec![
                    shows(0, "You begin."),
                    says(0, "5"),
                    shows(1, "They said 5."),
                    says(1, "6"),
                    says(0, "42"),
                ])
            },
        ),
        ("a seat that is not the first", plain(vec![shows(3, "You begin."), says(3, "42")])),
        (
            "no facts at all",
            FinishedEpisode { extras: vec![], privileged: vec![], environment_rewards: vec![], ..bare.clone() },
        ),
        (
            "no rewards but zeros",
            FinishedEpisode {
                environment_rewards: vec![SeatRewards { seat: 0, rewards: vec![0.0; 3] }],
                ..bare.clone()
            },
        ),
        ("facts of every type", FinishedEpisode { extras: facts(), privileged: facts(), views: facts(), ..bare }),
    ]
}

fn facts() -> Vec<NamedValue> {
    let fact = |(name, value): (&str, Value)| NamedValue { name: name.to_owned(), value };
    let facts = [
        ("answer", Value::Integer(42)),
        ("success", Value::Flag(false)),
        ("share", Value::Number(1e300)),
        ("bytes", Value::Bytes(vec![0, 255])),
        ("list", Value::Other("[1, {\"a\": null}]".to_owned())),
        ("", Value::Text(String::new())),
    ];
    facts.map(fact).into()
}

fn content(text: &str) -> Content {
    vec![Part::Text(text.to_owned())]
}

fn says(seat: u32, text: &str) -> Turn {
    Turn::Message { seat, content: content(text) }
}

fn shows(seat: u32, text: &str) -> Turn {
    Turn::Observation { seat, content: content(text) }
}

fn calls(seat: u32, id: &str, arguments: &str) -> Turn {
    let (id, name, arguments) = (id.to_owned(), "calculate".to_owned(), arguments.to_owned());
    Turn::Call { seat, call: Call { id, name, arguments }, cost: 0.25 }
}

fn answers(seat: u32, id: &str, text: &str, failed: bool) -> Turn {
    Turn::Answer { seat, id: id.to_owned(), content: content(text), failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_named_with_the_words_of_records() {
        let names: Vec<String> = made_up(Seed(0)).into_iter().map(|(name, _)| name).collect();
        for ending in ["truncated", "turn-limit", "early-stopped", "environment-failed"] {
            let name = format!("an episode that ended as {ending}");
            assert!(names.contains(&name), "{name}: {names:?}");
        }
    }
}
