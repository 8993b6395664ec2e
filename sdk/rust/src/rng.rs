//! Seeded random numbers, the same on every platform and in every version.

use crate::hash::finalise;

/// SplitMix64 generator: small and portable; its state is one integer, which a snapshot can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Generator with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// State; `Rng::new(rng.state())` continues the stream of `rng`.
    #[must_use]
    pub fn state(&self) -> u64 {
        self.state
    }

    /// Next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        finalise(self.state)
    }

    /// Uniform integer in `0..bound`.
    ///
    /// # Panics
    ///
    /// `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "empty range: `bound` is 0");
        // Lemire's method: a low half below the threshold would bias the result and is rejected.
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.bits()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// Uniform integer from `low` to `high`, both inclusive.
    ///
    /// # Panics
    ///
    /// `high` is smaller than `low`, or the range contains all 2^64 numbers.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        assert!(low <= high, "empty range: {low} to {high}");
        low.wrapping_add_unsigned(self.below(high.abs_diff(low) + 1))
    }

    /// Uniform number in `0.0..1.0`, a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniformly chosen element of `items`.
    ///
    /// # Panics
    ///
    /// `items` is empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// Shuffles `items` in place.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_is_that_of_splitmix64() {
        // Output of Vigna's splitmix64.c for seed 1234567.
        let mut rng = Rng::new(1_234_567);
        let drawn: Vec<u64> = (0..5).map(|_| rng.bits()).collect();
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    #[test]
    fn state_goes_on_where_it_was() {
        let mut rng = Rng::new(5);
        rng.bits();
        let mut copy = Rng::new(rng.state());
        assert_eq!(rng.bits(), copy.bits());
    }

    #[test]
    fn numbers_below_a_bound_are_even_and_stay_below() {
        let mut rng = Rng::new(1);
        let mut counts = [0_u32; 6];
        for _ in 0..60_000 {
            counts[rng.below(6) as usize] += 1;
        }
        // 10,000 expected per bucket; six standard deviations are 548.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 548), "{counts:?}");
    }

    #[test]
    fn ends_of_a_range_are_reached() {
        let mut rng = Rng::new(2);
        let drawn: Vec<i64> = (0..200).map(|_| rng.between(-1, 2)).collect();
        assert_eq!(drawn.iter().min(), Some(&-1));
        assert_eq!(drawn.iter().max(), Some(&2));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&rng.unit())));
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        Rng::new(3).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
