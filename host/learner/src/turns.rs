//! Properties of a seat's turns: rewards, anchors of equal states, and void turns.

use gymkhana_record::{Boundary, Ending, EpisodeRecord, PolicyTurn, Turn, text_of};
use sha2::{Digest, Sha256};

use crate::advantage::TurnPart;

/// The turns of a seat, without their tokens.
pub(crate) fn turn_parts(record: &EpisodeRecord, seat: u32) -> Vec<TurnPart> {
    let of_seat = |numbers: &[Vec<f64>]| numbers.get(seat as usize).cloned().unwrap_or_default();
    let (rewards, gains) = (of_seat(&record.turn_rewards), of_seat(&record.turn_gains));
    let own: Vec<&PolicyTurn> = record.policy_turns.iter().filter(|turn| turn.seat == seat).collect();
    let turns = (0..own.len().max(rewards.len())).map(|turn| {
        let number = |numbers: &[f64]| numbers.get(turn).copied().unwrap_or(0.0);
        TurnPart {
            reward: number(&rewards) + number(&gains),
            anchor: own.get(turn).map_or(0, |policy_turn| {
                state_anchor(policy_turn).unwrap_or_else(|| text_anchor(record, &own, turn, seat))
            }),
            void: own.get(turn).is_some_and(|_| is_void(record, &own, turn, seat)),
            provoked_failure: turn + 1 == own.len() && has_provoked_failure(record, seat),
            ..TurnPart::default()
        }
    });
    turns.collect()
}

/// Whether the last turn of a seat provoked a failure: of the environment if the turn was the last of all, or of the
/// agent program or a reward.
fn has_provoked_failure(record: &EpisodeRecord, seat: u32) -> bool {
    let was_last = || record.policy_turns.last().is_some_and(|last| last.seat == seat);
    let provoked = record.failures.iter().filter(|failure| !failure.kind.is_hosts());
    provoked.map(|failure| &failure.at).any(|at| match at {
        Boundary::Environment(_) => record.ending == Ending::EnvironmentFailed && was_last(),
        Boundary::Agent => record.ending == Ending::AgentFailed,
        Boundary::Reward(_) => true,
        Boundary::Tool(_) | Boundary::Model | Boundary::Host => false,
    })
}

/// The recorded digest of the environment's state.
fn state_anchor(turn: &PolicyTurn) -> Option<u64> {
    u64::from_str_radix(turn.state.as_deref()?, 16).ok()
}

/// Stable hash of the texts that the seat received between its previous turn and this one: the first 8 bytes, little
/// endian, of the SHA-256 over each text's length in bytes (u64, little endian) and its bytes. Checkpoints hold it.
fn text_anchor(record: &EpisodeRecord, own: &[&PolicyTurn], turn: usize, seat: u32) -> u64 {
    let mut texts = Vec::new();
    if turn == 0 {
        let shown = record.opening.observations.iter().filter(|(to, _)| *to == seat);
        texts.extend(shown.map(|(_, content)| text_of(content)));
    }
    let begin = turn.checked_sub(1).map_or(0, |before| own[before].transcript as usize);
    for received in record.turns.get(begin..own[turn].transcript as usize).unwrap_or_default() {
        match received {
            Turn::Answer { seat: to, content, .. } | Turn::Observation { seat: to, content } if *to == seat => {
                texts.push(text_of(content));
            }
            _ => {}
        }
    }
    stable_hash(&texts)
}

fn stable_hash<T: AsRef<str>>(texts: &[T]) -> u64 {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update((text.as_ref().len() as u64).to_le_bytes());
        hasher.update(text.as_ref().as_bytes());
    }
    let digest = hasher.finalize();
    digest.iter().take(8).rev().fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

/// Whether a turn had no effect: the seat was offered tools and called none, and the episode did not end with the turn. A
/// call that cannot be read, such as one that a limit cut, calls nothing.
fn is_void(record: &EpisodeRecord, own: &[&PolicyTurn], turn: usize, seat: u32) -> bool {
    let may_call = record.opening.functions.iter().any(|at| at.seat == seat && !at.functions.is_empty());
    let end = own.get(turn + 1).map_or(record.turns.len(), |next| next.transcript as usize);
    let done = record.turns.get(own[turn].transcript as usize..end).unwrap_or_default();
    let calls = done.iter().any(|turn| matches!(turn, Turn::Call { seat: by, .. } if *by == seat));
    let ended = turn + 1 == own.len() && record.ending == Ending::Terminated;
    may_call && !calls && !ended && own[turn].note.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values come from Python: `int.from_bytes(hashlib.sha256(...).digest()[:8], "little")`.
    #[test]
    fn anchors_are_the_same_in_every_build() {
        assert_eq!(stable_hash(&["a door", ""]), 0x40174d5346d54055);
        assert_eq!(stable_hash::<&str>(&[]), 0x141cfc9842c4b0e3);
        assert_ne!(stable_hash(&["ab", "c"]), stable_hash(&["a", "bc"]), "texts are delimited");
    }
}
