//! Kuhn's game (1950): three cards, one ante from each of two players, and one bet of one ante.
//!
//! A hand consists of its two cards and the actions so far. Every action is a pass (check or fold) or a bet (bet or
//! call).

/// Card; the later variant wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Card {
    /// Lowest card.
    Jack,
    /// Middle card.
    Queen,
    /// Highest card.
    King,
}

impl Card {
    /// Deck.
    pub const DECK: [Self; 3] = [Self::Jack, Self::Queen, Self::King];

    /// Name for agents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Jack => "Jack",
            Self::Queen => "Queen",
            Self::King => "King",
        }
    }

    /// Letter in names of information sets.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Jack => 'J',
            Self::Queen => 'Q',
            Self::King => 'K',
        }
    }
}

/// Action of a player.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// Check, or fold to a bet.
    Pass,
    /// Bet, or call a bet.
    Bet,
}

impl Act {
    /// Both actions.
    pub const BOTH: [Self; 2] = [Self::Pass, Self::Bet];

    /// Letter in names of information sets.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Pass => 'p',
            Self::Bet => 'b',
        }
    }
}

/// All six deals of one card to each player.
pub const DEALS: [[Card; 2]; 6] = [
    [Card::Jack, Card::Queen],
    [Card::Jack, Card::King],
    [Card::Queen, Card::Jack],
    [Card::Queen, Card::King],
    [Card::King, Card::Jack],
    [Card::King, Card::Queen],
];

/// Player to move after these actions, 0 or 1; `None` at the end of the hand.
#[must_use]
pub fn mover(acts: &[Act]) -> Option<usize> {
    match acts {
        [] | [Act::Pass, Act::Bet] => Some(0),
        [_] => Some(1),
        _ => None,
    }
}

/// Whether the player to move faces a bet.
#[must_use]
pub fn faces_bet(acts: &[Act]) -> bool {
    acts.last() == Some(&Act::Bet)
}

/// Profit of the first player at the end of the hand, in antes (0 before the end); the second player's is the negative.
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

/// Information set of the player to move: its card and the actions, such as `Kpb`.
#[must_use]
pub fn information_set(card: Card, acts: &[Act]) -> String {
    std::iter::once(card.letter()).chain(acts.iter().map(|act| act.letter())).collect()
}
