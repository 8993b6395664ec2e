//! What an agent program contributed to an episode, played or recorded.

use gymkhana_record::{AgentRun, CallSite, Ending, EpisodeRecord, Failure, PolicyTurn, Segment, Turn};

/// What a program contributed to an episode.
#[derive(Debug, Clone)]
pub struct AgentPlay {
    /// The run of the program.
    pub run: AgentRun,
    /// Messages, calls and answers, in their order.
    pub transcript: Vec<Turn>,
    /// The turns of the policy, with positions in `transcript`.
    pub policy_turns: Vec<PolicyTurn>,
    /// The tokens of the policy.
    pub segments: Vec<Segment>,
    /// The failure that ended the episode.
    pub failure: Option<Failure>,
    /// The ending, if the program has no answer.
    pub ending: Option<Ending>,
}

impl AgentPlay {
    /// What the program contributed to a recorded episode; `None` if none played it.
    pub(crate) fn of(record: &EpisodeRecord) -> Option<Self> {
        let run = record.agent.clone()?;
        let begin = run.begin as usize;
        let transcript = record.turns.get(begin..begin + run.turns as usize).unwrap_or_default().to_vec();
        let mut policy_turns = record.policy_turns.clone();
        policy_turns.iter_mut().for_each(|turn| turn.transcript = turn.transcript.saturating_sub(run.begin));
        let failure = record.failures.iter().find(|failure| failure.call_site == CallSite::Agent).cloned();
        let ending = run.answer.is_none().then_some(record.ending);
        Some(Self { run, transcript, policy_turns, segments: record.segments.clone(), failure, ending })
    }

    /// Ends the episode as the environment did after a call of the program, whose later answer is not an action. A program
    /// that never called the model has failed all the same.
    pub(crate) fn ended_by_environment(&mut self, ending: Ending) {
        let failed = |failure: &Failure| failure.kind.is_hosts() || self.policy_turns.is_empty();
        self.failure = self.failure.take().filter(failed);
        self.run.answer = None;
        if self.failure.is_none() {
            self.ending = Some(ending);
        }
    }

    /// Replaces, by what the calls of tools added on a replay, what they added in the record.
    pub(crate) fn replace_calls(&mut self, again: Vec<Vec<Turn>>) {
        for (call, turns) in self.run.calls.iter_mut().zip(again).rev() {
            let length = self.transcript.len();
            let begin = (call.begin as usize).min(length);
            let end = begin.saturating_add(call.turns as usize).min(length);
            call.turns = turns.len() as u32;
            self.transcript.splice(begin..end, turns);
        }
    }
}
