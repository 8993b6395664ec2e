//! Sequences with a common prefix, which is computed only once.

use super::{PrefixGroup, Sequence};

/// Shortest common prefix that gets a separate attention row.
const LEAST_SHARED: usize = 8;

/// Groups sequences by prefix. A group is a run of the sorted sequences; a sequence joins while that saves positions.
/// Without `share` every sequence is a separate group.
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

/// Length of the common prefix once the sequence joins; `None` if joining costs positions.
fn shared_with(group: &PrefixGroup<'_>, sequence: &Sequence) -> Option<usize> {
    let (_, last) = group.members.last()?;
    // Each member keeps one position of its own, so that it is not empty.
    let common = common(last.inputs(), sequence.inputs()).min(last.inputs().len() - 1).min(sequence.inputs().len() - 1);
    let count = group.members.len();
    let shared = if count == 1 { common } else { common.min(group.shared) };
    (shared >= LEAST_SHARED && shared * count >= group.shared * (count - 1)).then_some(shared)
}

/// Length of the common prefix of two sequences.
fn common(left: &[u32], right: &[u32]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_engine::Target;
    use gymkhana_engine::TokenStats;

    fn sequence(tokens: &[u32]) -> Sequence {
        let at = tokens.len() - 1;
        Sequence::new(tokens, vec![Target { at, turn: 0 }], TokenStats::neutral(1)).expect("a target")
    }

    #[test]
    fn common_prefixes_are_found() {
        let begins = |first: u32, last: &[u32]| sequence(&[&[first; 10][..], last].concat());
        let sequences =
            [begins(2, &[5, 6, 7]), begins(1, &[9, 9]), begins(2, &[5, 8, 9]), begins(2, &[4, 4]), sequence(&[2; 4])];
        let found: Vec<(usize, Vec<usize>)> = prefix_groups(&sequences, true)
            .iter()
            .map(|group| (group.shared, group.members.iter().map(|(place, _)| *place).collect()))
            .collect();
        assert_eq!(found, [(0, vec![1]), (0, vec![4]), (10, vec![3, 0, 2])]);
        // Equal sequences keep one position each; the last token is not an input.
        let twins = [sequence(&[3; 12]), sequence(&[3; 12])];
        let prefix_groups = prefix_groups(&twins, true);
        assert_eq!((prefix_groups[0].shared, prefix_groups[0].positions()), (10, 12));
    }
}
