//! What there is to share and what it is worth to whom, by the published rules of Deal or No Deal (Lewis et al. 2017).
//!
//! There are five to seven items of three kinds, one of each at least. To either seat all items together are worth ten
//! points, each kind a whole number of them. No kind is worthless to both seats, and some kind is worth something to
//! both, so that not both can have all they want. Each situation is one task. Its split is decided by the hash of what it is, however its
//! kinds and seats are ordered, so that splits never share one.

use std::sync::OnceLock;

use gymkhana_sdk::{Rng, hash};

/// How many kinds of items there are.
pub const KINDS: usize = 3;
/// What all items together are worth to either seat, in points.
pub const WORTH: u64 = 10;
/// One of this many situations is held out.
const HELD_OUT: u64 = 8;
/// How many items there are at least and at most.
const ITEMS: (u64, u64) = (5, 7);

/// A number for each kind: of items, or of points for one item.
pub type PerKind = [u64; KINDS];

/// Which part of all situations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    Train,
    Test,
}

impl Split {
    /// The names, in the order of the variants.
    pub const NAMES: [&'static str; 2] = ["train", "test"];
}

/// The items, and what one of each kind is worth to each seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Situation {
    /// How many items of each kind there are.
    pub counts: PerKind,
    /// What one is worth, by seat.
    pub values: [PerKind; 2],
}

/// What a share is worth under these values.
pub fn points(share: PerKind, values: PerKind) -> u64 {
    share.iter().zip(values).map(|(items, value)| items * value).sum()
}

/// All situations that the rules allow, by split, each in a fixed order that has no order.
fn all() -> &'static [Vec<Situation>; 2] {
    static ALL: OnceLock<[Vec<Situation>; 2]> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut splits = [vec![], vec![]];
        for counts in shares_of([ITEMS.1; KINDS]).filter(|counts| counts.iter().all(|count| *count > 0)) {
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

/// All values of single items that make these items worth `WORTH` together.
fn values_of(counts: PerKind) -> Vec<PerKind> {
    shares_of(counts.map(|count| WORTH / count)).filter(|values| points(counts, *values) == WORTH).collect()
}

/// All numbers for each kind up to these.
fn shares_of(most: PerKind) -> impl Iterator<Item = PerKind> {
    let [a, b, c] = most;
    (0..=a).flat_map(move |a| (0..=b).flat_map(move |b| (0..=c).map(move |c| [a, b, c])))
}

impl Situation {
    /// The situations of a split, each once.
    pub fn of_split(split: Split) -> &'static [Self] {
        &all()[split as usize]
    }

    /// Whether the published rules allow it.
    pub fn keeps_the_rules(&self) -> bool {
        let items: u64 = self.counts.iter().sum();
        let to_whom = |kind: usize| self.values.iter().filter(|values| values[kind] > 0).count();
        (ITEMS.0..=ITEMS.1).contains(&items)
            && self.counts.iter().all(|count| *count > 0)
            && self.values.iter().all(|values| points(self.counts, *values) == WORTH)
            && (0..KINDS).all(|kind| to_whom(kind) > 0)
            && (0..KINDS).any(|kind| to_whom(kind) == 2)
    }

    /// One code for all situations that are this one with its kinds in another order or its seats exchanged.
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

    /// Where it belongs.
    fn split(&self) -> Split {
        let [a, b, c] = self.class().map(|kind| (kind as u16).to_le_bytes());
        if hash([a, b, c].as_flattened()).is_multiple_of(HELD_OUT) { Split::Test } else { Split::Train }
    }

    /// All shares that a seat may have.
    pub fn shares(&self) -> impl Iterator<Item = PerKind> {
        shares_of(self.counts)
    }

    /// What a seat gets when the other has `share`.
    pub fn rest(&self, share: PerKind) -> PerKind {
        std::array::from_fn(|kind| self.counts[kind] - share[kind])
    }

    /// What both seats get when the first has `share`, in points.
    pub fn outcome(&self, share: PerKind) -> [u64; 2] {
        [points(share, self.values[0]), points(self.rest(share), self.values[1])]
    }

    /// The first seat's share in Nash's bargaining solution: that with the largest product of points; of equals the
    /// first in the order of shares.
    pub fn fair_share(&self) -> PerKind {
        let product = |share: &PerKind| self.outcome(*share).iter().product::<u64>();
        self.shares().fold([0; KINDS], |best, share| if product(&share) > product(&best) { share } else { best })
    }

    /// Whether no other shares give one seat more and the other no less.
    pub fn is_efficient(&self, share: PerKind) -> bool {
        let [first, second] = self.outcome(share);
        !self
            .shares()
            .map(|other| self.outcome(other))
            .any(|[a, b]| a >= first && b >= second && a + b > first + second)
    }
}
