//! Which sequences begin alike, so that their beginning need be computed only once.

use super::{PrefixGroup, Sequence};

/// Beginnings that are shorter are not worth an attention of their own.
const LEAST_SHARED: usize = 8;

/// Sorts sequences into prefix_groups. A group is a run of the sorted sequences; one joins as long as that saves positions.
/// Without `share` all are alone.
pub(super) fn prefix_groups(sequences: &[Sequence], share: bool) -> Vec<PrefixGroup<'_>> {
    let mut sorted: Vec<(usize, &Sequence)> = sequences.iter().enumerate().collect();
    sorted.sort_by(|(_, one), (_, other)| one.inputs().cmp(other.inputs()));
    let mut prefix_groups: Vec<PrefixGroup<'_>> = Vec::new();
    for (place, sequence) in sorted {
        if share
            && let Some(group) = prefix_groups.last_mut()
            && let Some(shared) = shared_with(group, sequence)
        {
            group.shared = shared;
            group.members.push((place, sequence));
        } else {
            prefix_groups.push(PrefixGroup { shared: 0, members: vec![(place, sequence)] });
        }
    }
    prefix_groups
}

/// How much the group shares once this sequence is of it; none if it is better left out.
fn shared_with(group: &PrefixGroup<'_>, sequence: &Sequence) -> Option<usize> {
    let (_, last) = group.members.last()?;
    // Each keeps a position of its own, so that no member is empty.
    let common = common(last.inputs(), sequence.inputs()).min(last.inputs().len() - 1).min(sequence.inputs().len() - 1);
    let count = group.members.len();
    let shared = if count == 1 { common } else { common.min(group.shared) };
    (shared >= LEAST_SHARED && shared * count >= group.shared * (count - 1)).then_some(shared)
}

/// How many tokens two sequences begin with in common.
fn common(left: &[u32], right: &[u32]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::super::Target;
    use super::*;

    fn sequence(tokens: &[u32]) -> Sequence {
        let at = tokens.len() - 1;
        Sequence::new(tokens, vec![Target { at, ..Target::default() }]).expect("a target")
    }

    #[test]
    fn beginnings_in_common_are_found() {
        let begins = |first: u32, last: &[u32]| sequence(&[&[first; 10][..], last].concat());
        let sequences =
            [begins(2, &[5, 6, 7]), begins(1, &[9, 9]), begins(2, &[5, 8, 9]), begins(2, &[4, 4]), sequence(&[2; 4])];
        let found: Vec<(usize, Vec<usize>)> = prefix_groups(&sequences, true)
            .iter()
            .map(|group| (group.shared, group.members.iter().map(|(place, _)| *place).collect()))
            .collect();
        assert_eq!(found, [(0, vec![1]), (0, vec![4]), (10, vec![3, 0, 2])]);
        // Equal sequences keep a position each; the last token is no input.
        let twins = [sequence(&[3; 12]), sequence(&[3; 12])];
        let prefix_groups = prefix_groups(&twins, true);
        assert_eq!((prefix_groups[0].shared, prefix_groups[0].positions()), (10, 12));
    }
}
