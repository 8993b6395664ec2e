//! Policies without weights, with replies from a script or from a recording.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use gymkhana_record::{EpisodeRecord, Sampled, Segment};

use crate::{Conversation, GenerateRequest, Generated, Policy, PolicyError, PolicyFuture, ScoreRequest, Stop};

/// A policy that computes replies with a function of the request, for tests, upper bounds and fixed opponents.
pub struct ScriptedPolicy<F> {
    script: F,
    context: usize,
}

impl<F> ScriptedPolicy<F>
where
    F: Fn(&GenerateRequest) -> Vec<u32> + Send + Sync,
{
    /// A policy that answers with the tokens that `script` returns, truncated to the request's `max_tokens`.
    pub fn new(context: usize, script: F) -> Self {
        Self { script, context }
    }
}

impl<F> Policy for ScriptedPolicy<F>
where
    F: Fn(&GenerateRequest) -> Vec<u32> + Send + Sync,
{
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated> {
        let mut tokens = (self.script)(&request);
        tokens.truncate(request.max_tokens);
        let stop = match tokens.last() {
            Some(last) if request.stop.contains(last) => Stop::Token,
            _ => Stop::Length,
        };
        let sampled = certain(tokens);
        Box::pin(async move { Ok(Generated { sampled, stop }) })
    }

    fn score(&self, _request: ScoreRequest) -> PolicyFuture<'_, Sampled> {
        Box::pin(async { Err(PolicyError::CannotScore) })
    }

    fn can_score(&self) -> bool {
        false
    }

    fn release(&self, _conversation: Conversation) {}

    fn context(&self) -> usize {
        self.context
    }
}

/// Tokens with log-probability, entropy and version 0.
#[must_use]
pub fn certain(tokens: Vec<u32>) -> Sampled {
    let zeros = vec![0.0; tokens.len()];
    let versions = vec![0; tokens.len()];
    Sampled { tokens, log_probs: zeros.clone(), entropies: zeros, versions }
}

/// A policy that answers with the replies of one recorded episode, in their order for each conversation.
///
/// Every request must hold exactly the tokens that preceded the recorded reply. Other tokens mean that a plugin or the
/// host answered differently, and give [`PolicyError::NoReply`].
pub struct ReplayedPolicy {
    /// Replies by the conversation's place, which is the seat.
    replies: Mutex<HashMap<u32, VecDeque<Recorded>>>,
}

struct Recorded {
    before: Vec<u32>,
    sampled: Sampled,
}

impl ReplayedPolicy {
    /// A policy with all replies of an episode.
    #[must_use]
    pub fn of(record: &EpisodeRecord) -> Self {
        let mut replies: HashMap<u32, VecDeque<Recorded>> = HashMap::new();
        for segment in &record.segments {
            replies.entry(segment.seat()).or_default().extend(replies_of(segment));
        }
        Self { replies: Mutex::new(replies) }
    }

    /// A policy with the replies after the first `turns` of each seat.
    #[must_use]
    pub fn after(record: &EpisodeRecord, turns: &[u32]) -> Self {
        let Self { replies } = Self::of(record);
        let mut replies = replies.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (seat, turns) in (0..).zip(turns) {
            if let Some(replies) = replies.get_mut(&seat) {
                replies.drain(..replies.len().min(*turns as usize));
            }
        }
        Self { replies: Mutex::new(replies) }
    }
}

/// The replies of a segment.
fn replies_of(segment: &Segment) -> impl Iterator<Item = Recorded> {
    segment.replies().map(|place| Recorded {
        before: segment.tokens()[..place.start].to_vec(),
        sampled: Sampled {
            tokens: segment.tokens()[place.clone()].to_vec(),
            log_probs: segment.log_probs()[place.clone()].to_vec(),
            entropies: segment.entropies()[place.clone()].to_vec(),
            versions: segment.versions()[place].to_vec(),
        },
    })
}

impl Policy for ReplayedPolicy {
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated> {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        let next = replies.get_mut(&request.conversation.place).and_then(VecDeque::pop_front);
        let answer = match next {
            None => Err(PolicyError::NoReply("the recorded episode had no further turn here".to_owned())),
            Some(recorded) if recorded.before[..] != request.tokens[..] => Err(PolicyError::NoReply(format!(
                "the context differs from the recorded one at token {}",
                first_difference(&recorded.before, &request.tokens)
            ))),
            Some(recorded) => {
                let last = recorded.sampled.tokens.last();
                let stopped = last.is_some_and(|last| request.stop.contains(last));
                Ok(Generated { sampled: recorded.sampled, stop: if stopped { Stop::Token } else { Stop::Length } })
            }
        };
        Box::pin(async move { answer })
    }

    fn score(&self, _request: ScoreRequest) -> PolicyFuture<'_, Sampled> {
        Box::pin(async { Err(PolicyError::CannotScore) })
    }

    fn can_score(&self) -> bool {
        false
    }

    fn release(&self, _conversation: Conversation) {}

    fn context(&self) -> usize {
        usize::MAX
    }
}

fn first_difference(left: &[u32], right: &[u32]) -> usize {
    left.iter().zip(right).position(|(left, right)| left != right).unwrap_or_else(|| left.len().min(right.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segments_replies_are_its_sampled_runs_with_what_stood_before() {
        let mut segment = Segment::default();
        segment.append_given(&[1, 2], 0);
        segment.append_sampled(&certain(vec![3]), 0).expect("equal columns");
        segment.append_given(&[4], 1);
        segment.append_sampled(&certain(vec![5, 6]), 1).expect("equal columns");
        // Two turns can touch when nothing stands between them.
        segment.append_sampled(&certain(vec![7]), 2).expect("equal columns");
        let replies: Vec<Recorded> = replies_of(&segment).collect();
        let tokens: Vec<_> = replies.iter().map(|reply| reply.sampled.tokens.clone()).collect();
        assert_eq!(tokens, [vec![3], vec![5, 6], vec![7]]);
        assert_eq!(replies[1].before, [1, 2, 3, 4]);
    }
}
