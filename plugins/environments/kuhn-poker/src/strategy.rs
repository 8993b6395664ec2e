//! Quality of strategies: exact exploitability, and strategies estimated from recorded hands.
//!
//! A strategy is the probability of betting in each of the twelve information sets, for both seats. Tests and studies
//! use this module natively; the plugin does not.

use std::collections::BTreeMap;

use crate::rules::{Act, Card, DEALS, information_set, mover, won};

/// Possible actions before a turn of the first and of the second player.
const BEFORE: [[&[Act]; 2]; 2] = [[&[], &[Act::Pass, Act::Bet]], [&[Act::Pass], &[Act::Bet]]];

/// Probability of betting (or calling) in each information set.
#[derive(Debug, Clone, PartialEq)]
pub struct Strategy {
    bets: BTreeMap<String, f64>,
}

/// Invalid strategy or record of decisions.
#[derive(Debug, Clone, PartialEq)]
pub enum StrategyError {
    /// Unknown information set.
    UnknownSet(String),
    /// Information set without a probability.
    MissingSet(String),
    /// Probability of betting that is outside of 0 to 1.
    NoProbability(String, f64),
    /// Text that is not a record's `decisions`, such as `J:p Qp:b Jpb:p`.
    Unreadable(String),
}

impl std::fmt::Display for StrategyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownSet(set) => {
                write!(f, "unknown information set `{set}`; a name is J, Q or K followed by `p` or `b` per action")
            }
            Self::MissingSet(set) => write!(f, "information set `{set}` has no probability; set all twelve"),
            Self::NoProbability(set, found) => {
                write!(f, "the probability of betting in `{set}` is {found}; it must be 0 to 1")
            }
            Self::Unreadable(text) => write!(f, "`{text}` is not a record of decisions, such as `J:p Qp:b Jpb:p`"),
        }
    }
}

impl std::error::Error for StrategyError {}

/// Names of the twelve information sets, the first player's before the second's.
#[must_use]
pub fn information_sets() -> Vec<String> {
    (0..2).flat_map(sets_of).map(|(card, acts)| information_set(card, acts)).collect()
}

/// Information sets of a player: card and actions.
fn sets_of(player: usize) -> impl Iterator<Item = (Card, &'static [Act])> {
    BEFORE[player].into_iter().flat_map(|acts| Card::DECK.map(|card| (card, acts)))
}

impl Strategy {
    /// Strategy from the probability of betting in each information set.
    ///
    /// # Errors
    ///
    /// Unknown or missing sets, or numbers that are not probabilities.
    pub fn new<Set: Into<String>>(bets: impl IntoIterator<Item = (Set, f64)>) -> Result<Self, StrategyError> {
        let known = information_sets();
        let mut given = BTreeMap::new();
        for (set, probability) in bets {
            let set = set.into();
            if !known.contains(&set) {
                return Err(StrategyError::UnknownSet(set));
            }
            if !(0.0..=1.0).contains(&probability) {
                return Err(StrategyError::NoProbability(set, probability));
            }
            given.insert(set, probability);
        }
        match known.into_iter().find(|set| !given.contains_key(set)) {
            Some(missing) => Err(StrategyError::MissingSet(missing)),
            None => Ok(Self { bets: given }),
        }
    }

    /// Strategy with the same probability of betting everywhere, clamped to 0 to 1.
    #[must_use]
    pub fn everywhere(probability: f64) -> Self {
        Self { bets: information_sets().into_iter().map(|set| (set, probability.clamp(0.0, 1.0))).collect() }
    }

    /// Member of Kuhn's family of equilibria. The first player bets its Jack with probability `alpha`, clamped to 0 to
    /// 1/3, and its King three times as often. The second player has a unique equilibrium strategy.
    #[must_use]
    pub fn equilibrium(alpha: f64) -> Self {
        let alpha = alpha.clamp(0.0, 1.0 / 3.0);
        let third = 1.0 / 3.0;
        let first = [("J", alpha), ("Q", 0.0), ("K", 3.0 * alpha), ("Jpb", 0.0), ("Qpb", alpha + third), ("Kpb", 1.0)];
        let second = [("Jp", third), ("Qp", 0.0), ("Kp", 1.0), ("Jb", 0.0), ("Qb", third), ("Kb", 1.0)];
        // Rounding can make three thirds exceed one.
        Self { bets: first.into_iter().chain(second).map(|(set, bet)| (set.to_owned(), bet.min(1.0))).collect() }
    }

    /// Probability of betting with this card after these actions.
    #[must_use]
    pub fn bet(&self, card: Card, acts: &[Act]) -> f64 {
        self.bets.get(&information_set(card, acts)).copied().unwrap_or(0.0)
    }

    fn chance(&self, card: Card, acts: &[Act], act: Act) -> f64 {
        let bet = self.bet(card, acts);
        if act == Act::Bet { bet } else { 1.0 - bet }
    }

    /// Expected profit of the first player if both seats play this strategy, in antes per hand.
    #[must_use]
    pub fn value(&self) -> f64 {
        DEALS.iter().map(|cards| self.expected(*cards, &mut vec![])).sum::<f64>() / DEALS.len() as f64
    }

    fn expected(&self, cards: [Card; 2], acts: &mut Vec<Act>) -> f64 {
        let Some(player) = mover(acts) else { return won(cards, acts) };
        let mut sum = 0.0;
        for act in Act::BOTH {
            let chance = self.chance(cards[player], acts, act);
            acts.push(act);
            sum += chance * self.expected(cards, acts);
            acts.pop();
        }
        sum
    }

    /// Maximum expected profit of a player against this strategy in the other seat, in antes per hand.
    #[must_use]
    pub fn best_response(&self, player: usize) -> f64 {
        let sum: f64 =
            Card::DECK.into_iter().map(|own| self.respond(player, own, &Self::reach(own), &mut vec![])).sum();
        sum / DEALS.len() as f64
    }

    /// Possible cards of the other player, equally likely.
    fn reach(own: Card) -> Vec<(Card, f64)> {
        Card::DECK.into_iter().filter(|other| *other != own).map(|other| (other, 1.0)).collect()
    }

    /// Value of a best response with the card `own`, summed over the other player's cards and weighted by the
    /// probability of each card and its actions.
    fn respond(&self, player: usize, own: Card, others: &[(Card, f64)], acts: &mut Vec<Act>) -> f64 {
        let Some(to_move) = mover(acts) else {
            let sign = if player == 0 { 1.0 } else { -1.0 };
            let dealt = |other: Card| if player == 0 { [own, other] } else { [other, own] };
            return others.iter().map(|(other, likely)| likely * sign * won(dealt(*other), acts)).sum();
        };
        let after = |act: Act, acts: &mut Vec<Act>| {
            let others: Vec<(Card, f64)> = if to_move == player {
                others.to_vec()
            } else {
                others.iter().map(|(other, likely)| (*other, likely * self.chance(*other, acts, act))).collect()
            };
            acts.push(act);
            let value = self.respond(player, own, &others, acts);
            acts.pop();
            value
        };
        let [pass, bet] = Act::BOTH.map(|act| after(act, acts));
        // One choice for all cards of the other player, because they are indistinguishable.
        if to_move == player { pass.max(bet) } else { pass + bet }
    }

    /// Exploitability: half of the sum of both seats' gains from best responses, in antes per hand. It is 0 exactly for
    /// an equilibrium.
    #[must_use]
    pub fn exploitability(&self) -> f64 {
        let value = self.value();
        let gains = [self.best_response(0) - value, self.best_response(1) + value];
        gains.iter().sum::<f64>() / 2.0
    }
}

/// Counts of decisions in recorded hands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// For each information set: visits, and bets among them.
    sets: BTreeMap<String, (u64, u64)>,
}

impl Tally {
    /// Adds a hand from the fact `decisions` of its record, such as `J:p Qp:b Jpb:p`.
    ///
    /// # Errors
    ///
    /// Malformed texts, which leave the counts unchanged.
    pub fn add(&mut self, decisions: &str) -> Result<(), StrategyError> {
        let known = information_sets();
        let unreadable = || StrategyError::Unreadable(decisions.to_owned());
        let mut read = Vec::new();
        for decision in decisions.split_whitespace() {
            let (set, act) = decision.split_once(':').ok_or_else(unreadable)?;
            if !known.iter().any(|known| known == set) {
                return Err(StrategyError::UnknownSet(set.to_owned()));
            }
            let act = Act::BOTH.into_iter().find(|known| act.chars().eq([known.letter()])).ok_or_else(unreadable)?;
            read.push((set.to_owned(), act));
        }
        for (set, act) in read {
            let (met, bets) = self.sets.entry(set).or_default();
            *met += 1;
            *bets += u64::from(act == Act::Bet);
        }
        Ok(())
    }

    /// Number of visits of an information set.
    #[must_use]
    pub fn met(&self, set: &str) -> u64 {
        self.sets.get(set).map_or(0, |(met, _)| *met)
    }

    /// Empirical strategy: the share of bets in each information set, or `unseen` (0 to 1) for sets without decisions.
    ///
    /// # Errors
    ///
    /// `unseen` outside of 0 to 1.
    pub fn strategy(&self, unseen: f64) -> Result<Strategy, StrategyError> {
        let share = |set: &String| self.sets.get(set).map_or(unseen, |(met, bets)| *bets as f64 / *met as f64);
        Strategy::new(information_sets().into_iter().map(|set| (set.clone(), share(&set))))
    }
}

/// Empirical strategy from the facts `decisions` of recorded hands; see [`Tally::strategy`] for `unseen`.
///
/// # Errors
///
/// Malformed texts, or `unseen` outside of 0 to 1.
pub fn observed<'a>(decisions: impl IntoIterator<Item = &'a str>, unseen: f64) -> Result<Strategy, StrategyError> {
    let mut tally = Tally::default();
    decisions.into_iter().try_for_each(|hand| tally.add(hand))?;
    tally.strategy(unseen)
}
