//! From token sequences with targets to tensors of a bounded size, without filling.

mod packed;
mod prefix_group;

pub(crate) use packed::Packed;
use prefix_group::prefix_groups;

/// A token that is learnt from.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Target {
    /// Its index in the sequence, at least 1: something must come before it.
    pub at: usize,
    /// The policy turn in which it was sampled.
    pub turn: u32,
    /// Its share of the minibatch's loss.
    pub weight: f32,
    /// The log-probability to which the new one is to stay near; of no meaning in demonstrations.
    pub proximal: f32,
    /// Its advantage; in demonstrations 1 where the expert wrote it and 0 elsewhere.
    pub advantage: f32,
    /// By what its surrogate is multiplied.
    pub correction: f32,
    /// Its log-probability under the reference, where there is one.
    pub reference: f32,
    /// What its divergence from the reference counts, beside its share.
    pub kl_weight: f32,
    /// Slope and offset of what leaving the entropy band costs.
    pub band: [f32; 2],
    /// What the critic expected before it, and should have expected.
    pub value: [f32; 2],
}

/// A token sequence and what is learnt from it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sequence {
    /// The tokens up to and with the last target.
    pub tokens: Vec<u32>,
    /// In the order of their indices.
    pub targets: Vec<Target>,
}

impl Sequence {
    /// A sequence cut behind its last target, as nothing after it matters; `None` without targets.
    pub fn new(tokens: &[u32], targets: Vec<Target>) -> Option<Self> {
        let last = targets.last()?.at;
        Some(Self { tokens: tokens[..=last].to_vec(), targets })
    }

    /// The tokens that a forward pass computes: all but the last, which is only predicted.
    pub fn inputs(&self) -> &[u32] {
        &self.tokens[..self.tokens.len() - 1]
    }
}

/// Sequences that begin alike: the first `shared` tokens of each are the same and are computed once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PrefixGroup<'a> {
    /// How many tokens all members share; 0 for a sequence alone.
    pub shared: usize,
    /// The members, with their places in the list from which the parts were cut.
    pub members: Vec<(usize, &'a Sequence)>,
}

impl PrefixGroup<'_> {
    /// Positions that a forward pass computes.
    pub fn positions(&self) -> usize {
        self.shared + self.members.iter().map(|(_, member)| member.inputs().len() - self.shared).sum::<usize>()
    }
}

/// Cuts sequences into parts of at most `micro_batch_tokens` computed positions; a longer sequence is a part of its own. With
/// `share` common beginnings are computed once.
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

/// Cuts a group that is too large for one part; each piece computes what it shares again.
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

/// Positions that are computed for these parts.
pub(crate) fn positions(parts: &[Vec<PrefixGroup<'_>>]) -> usize {
    parts.iter().flatten().map(PrefixGroup::positions).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(tokens: &[u32], at: &[usize]) -> Sequence {
        let target = |at: &usize| Target { at: *at, weight: 1.0, ..Target::default() };
        Sequence::new(tokens, at.iter().map(target).collect()).expect("targets")
    }

    #[test]
    fn sequences_end_with_their_last_target() {
        assert_eq!(sequence(&[5, 6, 7, 8, 9], &[1, 3]).tokens, [5, 6, 7, 8]);
        assert_eq!(Sequence::new(&[1, 2], Vec::new()), None);
    }

    #[test]
    fn parts_are_bounded_and_lose_nothing() {
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
