//! Replay of episodes that an agent from outside played: the transcript holds their turns, and there are no tokens.

use std::time::Instant;

use gymkhana_driver::{Episode, EpisodeSeeds, EpisodeSetup, NoHooks, Reply, StartFailure};
use gymkhana_policy::Sampling;
use gymkhana_record::{Ending, EpisodeRecord, Turn, WrittenCall, text_of};

use crate::Rollout;
use crate::episode::finish::{ended, never_started};
use crate::episode::state::EpisodePlan;
use crate::replay::overrides::ReplayOverrides;

impl Rollout {
    /// Plays a recorded episode again from its transcript. Reward plugins are not called.
    pub(crate) async fn replay_transcript(&self, recorded: &EpisodeRecord) -> EpisodeRecord {
        let plan = EpisodePlan {
            id: recorded.id,
            task: recorded.task.clone(),
            seed: recorded.seed,
            sampling: Sampling::GREEDY,
            place: 0,
            turns: Some(recorded.turn_limit),
            guidance: None,
        };
        let begun = Instant::now();
        let mut episode = match self.start_again(&plan, recorded).await {
            Ok(episode) => episode,
            Err(failed) => return never_started(self, &plan, failed, begun),
        };
        let mut ending = None;
        for reply in replies(&recorded.turns) {
            ending = episode.take_turn(&mut NoHooks, reply, u32::MAX).await;
            if ending.is_some() {
                break;
            }
        }
        // A limit or the client ended the episode after its last turn. Any other ending must come from the environment.
        let of_host = Some(recorded.ending).filter(|ending| ending.is_limit());
        let ending = ending.or(of_host).unwrap_or(Ending::Dropped);
        let unsandboxed = recorded.unsandboxed.clone();
        let record = EpisodeRecord { unsandboxed, ..ended(self, &plan, ending, vec![]) };
        episode.finish(&NoHooks, ending, begun, record).await
    }

    /// Starts the episode with the recorded failures of the clock and the recorded answers from outside.
    async fn start_again(&self, plan: &EpisodePlan, recorded: &EpisodeRecord) -> Result<Episode, StartFailure> {
        let setup = EpisodeSetup {
            environment: &self.plugins.environment,
            tools: &self.plugins.tools,
            task: plan.task.clone(),
            seeds: EpisodeSeeds::of(plan.seed),
            overrides: ReplayOverrides::of(recorded).calls,
            max_bytes: self.limits.episode_bytes,
        };
        Episode::open(setup, self.plugins.seats(), &[], &mut NoHooks).await
    }
}

/// The turns that the seats took, in order. The calls of a turn follow each other and the message of the same turn.
fn replies(turns: &[Turn]) -> Vec<Reply> {
    let mut replies: Vec<Reply> = Vec::new();
    // Whether the last reply can take another call: nothing but calls came since it began.
    let mut is_open = false;
    // Thoughts of the reply that begins with the next message or call.
    let mut thoughts = None;
    for turn in turns {
        let call = match turn {
            Turn::Thought { text, .. } => {
                thoughts = Some(text.clone());
                is_open = false;
                continue;
            }
            Turn::Message { content, .. } => {
                replies.push(Reply { thoughts: thoughts.take(), message: text_of(content), calls: vec![] });
                is_open = true;
                continue;
            }
            Turn::Answer { .. } | Turn::Observation { .. } => {
                is_open = false;
                continue;
            }
            Turn::Call { call, .. } => {
                WrittenCall::Sound { name: call.name.clone(), arguments: call.arguments.clone() }
            }
            Turn::MalformedCall { id, text, .. } => {
                WrittenCall::Malformed { text: text.clone(), reason: answer_to(turns, id) }
            }
        };
        match replies.last_mut().filter(|_| is_open) {
            Some(reply) => reply.calls.push(call),
            None => replies.push(Reply { thoughts: thoughts.take(), message: String::new(), calls: vec![call] }),
        }
        is_open = true;
    }
    replies
}

/// Text that answered a call.
fn answer_to(turns: &[Turn], call: &str) -> String {
    let answer = turns.iter().find_map(|turn| match turn {
        Turn::Answer { id, content, .. } if id == call => Some(content.as_slice()),
        _ => None,
    });
    text_of(answer.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{Call, Content, Part};

    use super::*;

    fn text(text: &str) -> Content {
        vec![Part::Text(text.to_owned())]
    }

    #[test]
    fn turns_of_a_transcript_are_the_replies_that_made_it() {
        let call = |number: u32, name: &str| Turn::Call {
            seat: 0,
            call: Call { id: format!("call-{number}"), name: name.to_owned(), arguments: "{}".to_owned() },
            cost: 0.0,
        };
        let answer = |number: u32, words: &str| Turn::Answer {
            seat: 0,
            id: format!("call-{number}"),
            content: text(words),
            failed: false,
        };
        let message = |words: &str| Turn::Message { seat: 0, content: text(words) };
        let observation = Turn::Observation { seat: 0, content: text("seen") };
        let malformed = Turn::MalformedCall { seat: 0, id: "call-2".to_owned(), text: "{".to_owned() };
        let turns = [
            observation.clone(),
            message("both"),
            call(0, "add"),
            call(1, "sub"),
            answer(0, "1"),
            answer(1, "2"),
            malformed,
            answer(2, "not JSON"),
            message("only words"),
            observation,
            call(3, "add"),
            answer(3, "4"),
        ];
        let sound = |name: &str| WrittenCall::Sound { name: name.to_owned(), arguments: "{}".to_owned() };
        let reply = |message: &str, calls| Reply { thoughts: None, message: message.to_owned(), calls };
        let expected = [
            reply("both", vec![sound("add"), sound("sub")]),
            reply("", vec![WrittenCall::malformed("{", "not JSON")]),
            reply("only words", vec![]),
            reply("", vec![sound("add")]),
        ];
        assert_eq!(replies(&turns), expected);
    }
}
