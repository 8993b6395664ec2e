//! Seeds and random streams: every number that the host draws comes from the run's seed by a labelled path.
//!
//! A child's seed is the hash of its parent's seed and a label, so that a stream depends on what it is for and
//! never on when, or beside what else, it is drawn.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A place in the tree of seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// The seed of what `label` names below this one. Labels may be numbers or words.
    #[must_use]
    pub fn child(self, label: impl std::fmt::Display) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0.to_le_bytes());
        hash.update(label.to_string().as_bytes());
        let digest = hash.finalize();
        let mut word = [0; 8];
        word.copy_from_slice(&digest[..8]);
        Self(u64::from_le_bytes(word))
    }

    /// The stream of random numbers of this seed.
    #[must_use]
    pub fn stream(self) -> Stream {
        Stream(ChaCha8Rng::seed_from_u64(self.0))
    }
}

/// A reproducible stream of random numbers, the same on every machine.
#[derive(Debug, Clone)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// A number in `[0, 1)`, with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A whole number in `[0, bound)`, without bias.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a random number below 0 was asked for");
        let zone = u64::MAX - u64::MAX % bound;
        loop {
            let bits = self.bits();
            if bits < zone {
                return bits % bound;
            }
        }
    }

    /// Puts `items` into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_differ_by_label_and_parent_alone() {
        let root = Seed(7);
        assert_eq!(root.child("a"), root.child("a"));
        assert_ne!(root.child("a"), root.child("b"));
        assert_ne!(root.child("a"), Seed(8).child("a"));
        assert_ne!(root.child("a").child("b"), root.child("b").child("a"));
    }

    #[test]
    fn numbers_below_a_bound_are_even() {
        let mut stream = Seed(1).stream();
        let mut counts = [0_u32; 5];
        for _ in 0..50_000 {
            counts[stream.below(5) as usize] += 1;
        }
        // 10,000 each with a standard deviation of 89: five of them on either side.
        assert!(counts.iter().all(|count| (9_550..10_450).contains(count)), "{counts:?}");
    }
}
