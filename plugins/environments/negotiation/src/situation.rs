//! Items and their values, by the published rules of Deal or No Deal (Lewis et al. 2017).
//!
//! There are five to seven items of three kinds, at least one of each. All items together are worth ten points to each
//! seat, and each item a whole number of points. Every kind has value for some seat, and some kind has value for both,
//! so that both seats cannot get the maximum. Each situation is one task. Its split depends on a hash of the situation,
//! independent of the order of kinds and seats, so the splits share no situation.

use std::sync::OnceLock;

use gymkhana_sdk::{Rng, hash};

/// Number of kinds of items.
pub const KINDS: usize = 3;
/// Value of all items together for either seat, in points.
pub const WORTH: u64 = 10;
/// Share of situations in the test split, as 1 of this many.
const HELD_OUT: u64 = 8;
/// Minimum and maximum number of items.
const ITEMS: (u64, u64) = (5, 7);

/// A number per kind: of items, or of points for one item.
pub type PerKind = [u64; KINDS];

/// Part of all situations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    Train,
    Test,
}

impl Split {
    /// Names, in the order of the variants.
    pub const NAMES: [&'static str; 2] = ["train", "test"];
}

/// Items and the values of each kind for each seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Situation {
    /// Number of items of each kind.
    pub counts: PerKind,
    /// Points of one item of each kind, by seat.
    pub values: [PerKind; 2],
}

/// Points of a share under these values.
pub fn points(share: PerKind, values: PerKind) -> u64 {
    share.iter().zip(values).map(|(items, value)| items * value).sum()
}

/// All situations that the rules allow, by split, in a fixed shuffled order.
fn all() -> &'static [Vec<Situation>; 2] {
    static ALL: OnceLock<[Vec<Situation>; 2]> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut splits = [vec![], vec![]];
        let enough = |counts: &PerKind| (ITEMS.0..=ITEMS.1).contains(&counts.iter().sum());
        for counts in shares_of([ITEMS.1; KINDS]).filter(|counts| !counts.contains(&0) && enough(counts)) {
            let values = values_of(counts);
            let pairs = values.iter().flat_map(|first| values.iter().map(|second| [*first, *second]));
            for situation in pairs.map(|values| Situation { counts, values }).filter(Situation::keeps_the_rules) {
                splits[situation.split() as usize].push(situation);
            }
        }
        for situations in &mut splits {
            Rng::new(hash(b"negotiation")).shuffle(situations);
        }
        splits
    })
}

/// All item values for which these items are worth `WORTH` in total.
fn values_of(counts: PerKind) -> Vec<PerKind> {
    shares_of(counts.map(|count| WORTH / count)).filter(|values| points(counts, *values) == WORTH).collect()
}

/// All combinations of numbers up to these bounds.
fn shares_of(most: PerKind) -> impl Iterator<Item = PerKind> {
    let [a, b, c] = most;
    (0..=a).flat_map(move |a| (0..=b).flat_map(move |b| (0..=c).map(move |c| [a, b, c])))
}

impl Situation {
    /// Situations of a split, without repetition.
    pub fn of_split(split: Split) -> &'static [Self] {
        &all()[split as usize]
    }

    /// Whether the published rules allow the situation.
    pub fn keeps_the_rules(&self) -> bool {
        let items: u64 = self.counts.iter().sum();
        let to_whom = |kind: usize| self.values.iter().filter(|values| values[kind] > 0).count();
        (ITEMS.0..=ITEMS.1).contains(&items)
            && self.counts.iter().all(|count| *count > 0)
            && self.values.iter().all(|values| points(self.counts, *values) == WORTH)
            && (0..KINDS).all(|kind| to_whom(kind) > 0)
            && (0..KINDS).any(|kind| to_whom(kind) == 2)
    }

    /// Code that is equal for situations that differ only in the order of kinds or seats.
    pub fn class(&self) -> PerKind {
        let [first, second] = self.values;
        let code = |one: PerKind, other: PerKind| {
            let mut kinds: PerKind =
                std::array::from_fn(|kind| (self.counts[kind] * 16 + one[kind]) * 16 + other[kind]);
            kinds.sort_unstable();
            kinds
        };
        code(first, second).min(code(second, first))
    }

    /// Split of the situation.
    fn split(&self) -> Split {
        let [a, b, c] = self.class().map(|kind| (kind as u16).to_le_bytes());
        if hash([a, b, c].as_flattened()).is_multiple_of(HELD_OUT) { Split::Test } else { Split::Train }
    }

    /// All possible shares of a seat.
    pub fn shares(&self) -> impl Iterator<Item = PerKind> {
        shares_of(self.counts)
    }

    /// Share of a seat if the other has `share`.
    pub fn rest(&self, share: PerKind) -> PerKind {
        std::array::from_fn(|kind| self.counts[kind] - share[kind])
    }

    /// Points of both seats if the first has `share`.
    pub fn outcome(&self, share: PerKind) -> [u64; 2] {
        [points(share, self.values[0]), points(self.rest(share), self.values[1])]
    }

    /// First seat's share in Nash's bargaining solution, which maximizes the product of points; the first share in
    /// order wins ties.
    pub fn fair_share(&self) -> PerKind {
        let product = |share: &PerKind| self.outcome(*share).iter().product::<u64>();
        self.shares().fold([0; KINDS], |best, share| if product(&share) > product(&best) { share } else { best })
    }

    /// Whether the shares are Pareto-efficient: no other shares give one seat more and the other seat at least as much.
    pub fn is_efficient(&self, share: PerKind) -> bool {
        let [first, second] = self.outcome(share);
        !self
            .shares()
            .map(|other| self.outcome(other))
            .any(|[a, b]| a >= first && b >= second && a + b > first + second)
    }
}
