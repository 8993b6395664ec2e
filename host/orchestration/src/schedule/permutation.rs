//! A random order of indices without a list of them, for splits whose list would not fit in memory.

use gymkhana_record::Seed;

/// Rounds of the network; four make it indistinguishable from random for one who sees few of its values (Luby and
/// Rackoff), six leave a margin.
const ROUNDS: usize = 6;

/// A permutation of `0..count`: a balanced Feistel network over the next even number of bits, repeated until its value is
/// an index (cycle walking).
#[derive(Debug)]
pub(super) struct Permutation {
    count: u64,
    /// Bits of one half, 1 to 32.
    half: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of a seed; `count` is at least 1.
    pub fn new(count: u64, seed: Seed) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        let mut stream = seed.stream();
        Self { count, half: bits.div_ceil(2).max(1), keys: std::array::from_fn(|_| stream.bits()) }
    }

    /// The index at a place below `count`.
    pub fn at(&self, place: u64) -> u64 {
        let mut index = self.permuted(place);
        // At most four times as many values as indices, so that a few repetitions end.
        while index >= self.count {
            index = self.permuted(index);
        }
        index
    }

    fn permuted(&self, value: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let (mut left, mut right) = (value >> self.half & mask, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mixed(right ^ key) & mask));
        }
        left << self.half | right
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood).
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_index_has_one_place() {
        for count in [1, 2, 3, 5, 64, 1000] {
            let permutation = Permutation::new(count, Seed(count));
            let found: BTreeSet<u64> = (0..count).map(|place| permutation.at(place)).collect();
            assert_eq!(found, (0..count).collect());
        }
    }

    /// The largest split has distinct indices in both halves, in another order for another seed.
    #[test]
    fn orders_of_large_splits_are_random() {
        let taken = |seed| -> Vec<u64> {
            let permutation = Permutation::new(u64::MAX, Seed(seed));
            (0..1000).map(|place| permutation.at(place)).collect()
        };
        let found = taken(1);
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), 1000);
        let upper = found.iter().filter(|index| **index > u64::MAX / 2).count();
        // Five standard deviations of 1000 fair draws are 79.
        assert!((421..=579).contains(&upper), "{upper}");
        let rising = found.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((421..=579).contains(&rising), "{rising}");
        assert_ne!(found, taken(2));
    }
}
