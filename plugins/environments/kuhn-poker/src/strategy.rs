//! How good a strategy is: exploitability, exactly, and strategies read off recorded hands.
//!
//! A strategy is the probability of betting in each of the twelve information sets, for both seats at once. The plugin
//! itself does not need this; tests and studies use it natively.

use std::collections::BTreeMap;

use crate::rules::{Act, Card, DEALS, information_set, mover, won};

/// What may have been done before a mover's turn, for the first and for the second player.
const BEFORE: [[&[Act]; 2]; 2] = [[&[], &[Act::Pass, Act::Bet]], [&[Act::Pass], &[Act::Bet]]];

/// The probability of betting (or calling) in each information set.
#[derive(Debug, Clone, PartialEq)]
pub struct Strategy {
    bets: BTreeMap<String, f64>,
}

/// An information set that there is not, a set without a probability, or a number that is none.
#[derive(Debug, Clone, PartialEq)]
pub enum StrategyError {
    /// Kuhn poker has no such information set.
    UnknownSet(String),
    /// This set has no probability.
    MissingSet(String),
    /// The probability of betting in this set is not from 0 to 1.
    NoProbability(String, f64),
    /// Not a record's `decisions`, such as `J:p Qp:b Jpb:p`.
    Unreadable(String),
}

impl std::fmt::Display for StrategyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownSet(set) => {
                write!(f, "there is no information set `{set}`; one is a card of J, Q, K and `p` or `b` for each act")
            }
            Self::MissingSet(set) => write!(f, "information set `{set}` has no probability; give all twelve"),
            Self::NoProbability(set, found) => {
                write!(f, "the probability of betting in `{set}` is {found} and must be from 0 to 1")
            }
            Self::Unreadable(text) => write!(f, "`{text}` is no record of decisions; one looks like `J:p Qp:b Jpb:p`"),
        }
    }
}

impl std::error::Error for StrategyError {}

/// The names of the twelve information sets, the first player's before the second's.
#[must_use]
pub fn information_sets() -> Vec<String> {
    (0..2).flat_map(sets_of).map(|(card, acts)| information_set(card, acts)).collect()
}

/// A player's information sets: card and actions.
fn sets_of(player: usize) -> impl Iterator<Item = (Card, &'static [Act])> {
    BEFORE[player].into_iter().flat_map(|acts| Card::DECK.map(|card| (card, acts)))
}

impl Strategy {
    /// A strategy from the probability of betting in each information set.
    ///
    /// # Errors
    ///
    /// When a set is unknown or missing, or a number is no probability.
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

    /// Bets with one probability everywhere, which is held inside 0 to 1.
    #[must_use]
    pub fn everywhere(probability: f64) -> Self {
        Self { bets: information_sets().into_iter().map(|set| (set, probability.clamp(0.0, 1.0))).collect() }
    }

    /// Kuhn's family of equilibria. The first player bets its Jack with the probability `alpha`, which is held inside
    /// 0 to 1/3, and its King three times as often; the second player has one equilibrium strategy alone.
    #[must_use]
    pub fn equilibrium(alpha: f64) -> Self {
        let alpha = alpha.clamp(0.0, 1.0 / 3.0);
        let third = 1.0 / 3.0;
        let first = [("J", alpha), ("Q", 0.0), ("K", 3.0 * alpha), ("Jpb", 0.0), ("Qpb", alpha + third), ("Kpb", 1.0)];
        let second = [("Jp", third), ("Qp", 0.0), ("Kp", 1.0), ("Jb", 0.0), ("Qb", third), ("Kb", 1.0)];
        // Three thirds may be a hair more than one.
        Self { bets: first.into_iter().chain(second).map(|(set, bet)| (set.to_owned(), bet.min(1.0))).collect() }
    }

    /// The probability of betting with this card after these actions.
    #[must_use]
    pub fn bet(&self, card: Card, acts: &[Act]) -> f64 {
        self.bets.get(&information_set(card, acts)).copied().unwrap_or(0.0)
    }

    fn chance(&self, card: Card, acts: &[Act], act: Act) -> f64 {
        let bet = self.bet(card, acts);
        if act == Act::Bet { bet } else { 1.0 - bet }
    }

    /// What the first player wins on average when both seats play this strategy, in antes a hand.
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

    /// The most that a player can win on average against this strategy in the other seat, in antes a hand.
    #[must_use]
    pub fn best_response(&self, player: usize) -> f64 {
        let sum: f64 =
            Card::DECK.into_iter().map(|own| self.respond(player, own, &Self::reach(own), &mut vec![])).sum();
        sum / DEALS.len() as f64
    }

    /// The other's possible cards, each equally likely.
    fn reach(own: Card) -> Vec<(Card, f64)> {
        Card::DECK.into_iter().filter(|other| *other != own).map(|other| (other, 1.0)).collect()
    }

    /// A best response with the card `own`: the sum over the other's cards of what comes, times how likely that card
    /// and what it did are.
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
        // It chooses once for all cards that the other may have: it does not know which.
        if to_move == player { pass.max(bet) } else { pass + bet }
    }

    /// Half of what both seats would gain together by playing best responses, in antes a hand: 0 for an equilibrium and
    /// above 0 for anything else.
    #[must_use]
    pub fn exploitability(&self) -> f64 {
        let value = self.value();
        let gains = [self.best_response(0) - value, self.best_response(1) + value];
        gains.iter().sum::<f64>() / 2.0
    }
}

/// What was done in recorded hands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// How often each information set was met, and how often with a bet.
    sets: BTreeMap<String, (u64, u64)>,
}

impl Tally {
    /// Adds a hand: the fact `decisions` of its record, such as `J:p Qp:b Jpb:p`.
    ///
    /// # Errors
    ///
    /// For other texts; then nothing of it is counted.
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

    /// How often an information set was met.
    #[must_use]
    pub fn met(&self, set: &str) -> u64 {
        self.sets.get(set).map_or(0, |(met, _)| *met)
    }

    /// The strategy that was played: in each information set the share of bets, and `unseen`, from 0 to 1, where there
    /// were no decisions.
    ///
    /// # Errors
    ///
    /// When `unseen` is no probability.
    pub fn strategy(&self, unseen: f64) -> Result<Strategy, StrategyError> {
        let share = |set: &String| self.sets.get(set).map_or(unseen, |(met, bets)| *bets as f64 / *met as f64);
        Strategy::new(information_sets().into_iter().map(|set| (set.clone(), share(&set))))
    }
}

/// The strategy of recorded hands, from the fact `decisions` of each; see [`Tally::strategy`] for `unseen`.
///
/// # Errors
///
/// For a text that is no such fact, or when `unseen` is no probability.
pub fn observed<'a>(decisions: impl IntoIterator<Item = &'a str>, unseen: f64) -> Result<Strategy, StrategyError> {
    let mut tally = Tally::default();
    decisions.into_iter().try_for_each(|hand| tally.add(hand))?;
    tally.strategy(unseen)
}
