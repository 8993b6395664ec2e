//! Surprise of sampled tokens by their position in the reply, compared with the entropy.
//!
//! The mean of `-log p - H` is 0 at each position if tokens are drawn from the distribution whose log-probability `log p`
//! and entropy `H` are recorded. Truncated sampling, or an engine that computes other numbers late in a reply, moves it.

use gymkhana_record::Segment;

/// First tokens of the parts of a reply.
const STARTS: [usize; 4] = [0, 16, 64, 256];

/// Difference below which a token's surprise equals its entropy: a policy without entropies reports its surprise instead.
const EQUAL: f64 = 1e-9;

/// Sums at the tokens of one part.
#[derive(Debug, Clone, Copy, Default)]
struct PartSums {
    tokens: u64,
    difference: f64,
    square: f64,
}

/// Difference between surprise and entropy in one part of the replies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PartDifference {
    /// First token of the part, from 0.
    pub start: usize,
    /// Mean in nats per token.
    pub mean: f64,
    /// Standard error of the mean.
    pub error: f64,
}

/// Sums by position.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PositionSums {
    parts: [PartSums; STARTS.len()],
    has_entropies: bool,
}

impl PositionSums {
    pub fn add(&mut self, segment: &Segment) {
        for place in segment.replies() {
            for (position, at) in place.enumerate() {
                let numbers = (segment.log_probs().get(at), segment.entropies().get(at));
                let (Some(log_prob), Some(entropy)) = numbers else { continue };
                let difference = -f64::from(*log_prob) - f64::from(*entropy);
                if difference.is_finite() {
                    self.add_token(position, difference);
                }
            }
        }
    }

    fn add_token(&mut self, position: usize, difference: f64) {
        let part = STARTS.iter().rposition(|start| position >= *start).unwrap_or(0);
        let PartSums { tokens, difference: sum, square } = &mut self.parts[part];
        *tokens += 1;
        *sum += difference;
        *square += difference * difference;
        self.has_entropies |= difference.abs() > EQUAL;
    }

    pub fn merge(&mut self, other: &Self) {
        for (own, more) in self.parts.iter_mut().zip(&other.parts) {
            own.tokens += more.tokens;
            own.difference += more.difference;
            own.square += more.square;
        }
        self.has_entropies |= other.has_entropies;
    }

    /// Parts with at least `least` tokens; none if the policy recorded no entropies.
    pub fn differences(&self, least: u64) -> Vec<PartDifference> {
        let parts =
            STARTS.iter().zip(&self.parts).filter(|(_, sums)| self.has_entropies && sums.tokens >= least.max(2));
        let difference = |(start, sums): (&usize, &PartSums)| {
            let tokens = sums.tokens as f64;
            let mean = sums.difference / tokens;
            let variance = (sums.square / tokens - mean * mean).max(0.0);
            PartDifference { start: *start, mean, error: (variance / tokens).sqrt() }
        };
        parts.map(difference).collect()
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::Sampled;

    use super::*;

    fn segment(numbers: &[(f32, f32)]) -> Segment {
        let (log_probs, entropies): (Vec<f32>, Vec<f32>) = numbers.iter().copied().unzip();
        let (tokens, versions) = (vec![1; numbers.len()], vec![0; numbers.len()]);
        let mut segment = Segment::new(0);
        segment.append_given(&[1, 2], 0);
        segment.append_sampled(&Sampled { tokens, log_probs, entropies, versions }, 0).expect("even columns");
        segment
    }

    #[test]
    fn parts_of_a_reply_have_their_own_means() {
        let mut sums = PositionSums::default();
        let numbers: Vec<(f32, f32)> =
            (0..20).map(|place| if place < 16 { (-1.0, 1.0) } else { (-1.0, 0.25) }).collect();
        sums.add(&segment(&numbers));
        let found: Vec<(usize, f64)> = sums.differences(2).iter().map(|part| (part.start, part.mean)).collect();
        assert_eq!(found, [(0, 0.0), (16, 0.75)]);
        assert_eq!(sums.differences(5).len(), 1);
    }

    #[test]
    fn surprise_in_place_of_entropies_is_not_measured() {
        let mut sums = PositionSums::default();
        sums.add(&segment(&[(-0.5, 0.5), (-2.0, 2.0)]));
        assert_eq!(sums.differences(1), []);
    }
}
