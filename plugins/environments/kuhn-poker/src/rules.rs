//! Kuhn's game (1950): three cards, an ante from each of two players, one bet of an ante.
//!
//! A hand is its two cards and the actions so far. Every action is one of two: to pass (check or fold) or to bet (bet
//! or call).

/// A card; the later of two wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Card {
    /// The lowest.
    Jack,
    /// The middle one.
    Queen,
    /// The highest.
    King,
}

impl Card {
    /// The deck.
    pub const DECK: [Self; 3] = [Self::Jack, Self::Queen, Self::King];

    /// As agents read it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Jack => "Jack",
            Self::Queen => "Queen",
            Self::King => "King",
        }
    }

    /// As information sets are written.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Jack => 'J',
            Self::Queen => 'Q',
            Self::King => 'K',
        }
    }
}

/// What a player does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// Checks, or folds to a bet.
    Pass,
    /// Bets, or calls a bet.
    Bet,
}

impl Act {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Pass, Self::Bet];

    /// As information sets are written.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Pass => 'p',
            Self::Bet => 'b',
        }
    }
}

/// The six ways to deal a card to the first and one to the second player.
pub const DEALS: [[Card; 2]; 6] = [
    [Card::Jack, Card::Queen],
    [Card::Jack, Card::King],
    [Card::Queen, Card::Jack],
    [Card::Queen, Card::King],
    [Card::King, Card::Jack],
    [Card::King, Card::Queen],
];

/// Who moves after these actions, 0 or 1; none when the hand is over.
#[must_use]
pub fn mover(acts: &[Act]) -> Option<usize> {
    match acts {
        [] | [Act::Pass, Act::Bet] => Some(0),
        [_] => Some(1),
        _ => None,
    }
}

/// Whether the mover faces a bet.
#[must_use]
pub fn faces_bet(acts: &[Act]) -> bool {
    acts.last() == Some(&Act::Bet)
}

/// What the first player has won when the hand is over, in antes; the second loses as much. 0 while it goes on.
#[must_use]
pub fn won(cards: [Card; 2], acts: &[Act]) -> f64 {
    let showdown = |stake: f64| if cards[0] > cards[1] { stake } else { -stake };
    match acts {
        [Act::Pass, Act::Pass] => showdown(1.0),
        [Act::Bet, Act::Bet] | [Act::Pass, Act::Bet, Act::Bet] => showdown(2.0),
        [Act::Bet, Act::Pass] => 1.0,
        [Act::Pass, Act::Bet, Act::Pass] => -1.0,
        _ => 0.0,
    }
}

/// What the mover knows: its card and the actions, such as `Kpb`.
#[must_use]
pub fn information_set(card: Card, acts: &[Act]) -> String {
    std::iter::once(card.letter()).chain(acts.iter().map(|act| act.letter())).collect()
}
