//! From token sequences with targets to tensors of bounded size without padding.

mod packed;
mod prefix_group;

pub(crate) use packed::Packed;

use gymkhana_engine::Sequence;
use prefix_group::prefix_groups;

/// Sequences with a common prefix: the first `shared` tokens of each are equal and are computed once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PrefixGroup<'a> {
    /// Number of tokens in the common prefix; 0 for a single sequence.
    pub shared: usize,
    /// Members, each with its index in the list that the parts were cut from.
    pub members: Vec<(usize, &'a Sequence)>,
}

impl PrefixGroup<'_> {
    /// Number of positions that a forward pass computes.
    pub fn positions(&self) -> usize {
        self.shared + self.members.iter().map(|(_, member)| member.inputs().len() - self.shared).sum::<usize>()
    }
}

/// Cuts sequences into parts of at most `micro_batch_tokens` computed positions; a longer sequence is a separate part.
/// With `share`, common prefixes are computed once.
pub(crate) fn parts(sequences: &[Sequence], micro_batch_tokens: usize, share: bool) -> Vec<Vec<PrefixGroup<'_>>> {
    let mut parts: Vec<Vec<PrefixGroup<'_>>> = Vec::new();
    let mut room = 0;
    for group in prefix_groups(sequences, share).into_iter().flat_map(|group| split(group, micro_batch_tokens)) {
        let positions = group.positions();
        match parts.last_mut() {
            Some(part) if positions <= room => {
                room -= positions;
                part.push(group);
            }
            _ => {
                room = micro_batch_tokens.saturating_sub(positions);
                parts.push(vec![group]);
            }
        }
    }
    parts
}

/// Splits a group that is too large for one part; each piece computes the common prefix again.
fn split(group: PrefixGroup<'_>, micro_batch_tokens: usize) -> Vec<PrefixGroup<'_>> {
    if group.positions() <= micro_batch_tokens {
        return vec![group];
    }
    let mut pieces: Vec<PrefixGroup<'_>> = Vec::new();
    for member in group.members {
        let own = member.1.inputs().len() - group.shared;
        match pieces.last_mut() {
            Some(piece) if piece.positions() + own <= micro_batch_tokens => piece.members.push(member),
            _ => pieces.push(PrefixGroup { shared: group.shared, members: vec![member] }),
        }
    }
    pieces
}

/// Number of positions that are computed for these parts.
pub(crate) fn positions(parts: &[Vec<PrefixGroup<'_>>]) -> usize {
    parts.iter().flatten().map(PrefixGroup::positions).sum()
}

#[cfg(test)]
mod tests {
    use gymkhana_engine::{Target, TokenStats};

    use super::*;

    fn sequence(tokens: &[u32], at: &[usize]) -> Sequence {
        let targets: Vec<Target> = at.iter().map(|at| Target { at: *at, turn: 0 }).collect();
        let stats = TokenStats::neutral(targets.len());
        Sequence::new(tokens, targets, stats).expect("targets")
    }

    #[test]
    fn parts_are_bounded_and_keep_every_sequence() {
        let sequences: Vec<Sequence> =
            (2..60).map(|length| sequence(&vec![length as u32 % 3; length], &[length - 1])).collect();
        for most in [1, 64, 100_000] {
            let parts = parts(&sequences, most, true);
            let alone = |part: &Vec<PrefixGroup<'_>>| part.len() == 1 && part[0].members.len() == 1;
            assert!(parts.iter().all(|part| alone(part) || positions(std::slice::from_ref(part)) <= most));
            let mut places: Vec<usize> =
                parts.iter().flatten().flat_map(|group| group.members.iter().map(|(place, _)| *place)).collect();
            places.sort_unstable();
            assert_eq!(places, (0..sequences.len()).collect::<Vec<_>>());
        }
    }
}
