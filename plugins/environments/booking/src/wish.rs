//! Wishes of guests: one value per slot. The splits share no wish.

use gymkhana_sdk::{Rng, hash};

/// Slot of a booking.
pub struct Slot {
    /// Name, as an argument and in records.
    pub name: &'static str,
    /// Example question of the agent.
    pub question: &'static str,
    /// Keywords of a question for this slot.
    cues: &'static [&'static str],
    /// Text of the guest around the value.
    said: [&'static str; 2],
    /// Allowed values.
    pub values: &'static [&'static str],
}

/// Slots, in the order of a wish.
pub const SLOTS: [Slot; 4] = [
    Slot {
        name: "day",
        question: "Which day?",
        cues: &["day", "date", "when"],
        said: ["On ", "."],
        values: &["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"],
    },
    Slot {
        name: "hour",
        question: "At what time?",
        cues: &["hour", "time"],
        said: ["At ", " o'clock."],
        values: &["12", "13", "14", "15", "16", "17", "18", "19", "20", "21"],
    },
    Slot {
        name: "guests",
        question: "How many guests?",
        cues: &["guests", "many", "people"],
        said: ["For ", "."],
        values: &["1", "2", "3", "4", "5", "6", "7", "8"],
    },
    Slot {
        name: "area",
        question: "In which area?",
        cues: &["area", "where"],
        said: ["The ", ", please."],
        values: &["garden", "window", "bar", "terrace"],
    },
];

/// Share of wishes in the test split, as 1 of this many.
const HELD_OUT: u64 = 8;

/// Part of all wishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// Training split.
    Train,
    /// Test split.
    Test,
}

impl Split {
    /// Names of the splits in tasks.
    pub const NAMES: [&str; 2] = ["train", "test"];

    /// Split of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Train, Self::Test].into_iter().zip(Self::NAMES).find_map(|(split, own)| (own == name).then_some(split))
    }
}

/// Index of the wanted value in each slot's list.
pub type Wish = [usize; SLOTS.len()];

/// Wish at an index of a split, and which `told` slots the guest names in the opening.
pub fn draw(split: Split, index: u64, told: usize) -> (Wish, [bool; SLOTS.len()]) {
    let mut rng = Rng::new(hash(format!("{split:?}/{index}").as_bytes()));
    let wish = loop {
        let wish: Wish = SLOTS.map(|slot| rng.below(slot.values.len() as u64) as usize);
        if split_of(&wish) == split {
            break wish;
        }
    };
    let mut order: Vec<usize> = (0..SLOTS.len()).collect();
    rng.shuffle(&mut order);
    let mut named = [false; SLOTS.len()];
    order.into_iter().take(told).for_each(|slot| named[slot] = true);
    (wish, named)
}

/// Split of a wish; it depends only on the wanted values.
pub fn split_of(wish: &Wish) -> Split {
    let held_out = hash(format!("{wish:?}").as_bytes()).is_multiple_of(HELD_OUT);
    if held_out { Split::Test } else { Split::Train }
}

impl Slot {
    /// Text of the guest for this value.
    pub fn said(&self, value: usize) -> String {
        let [before, behind] = self.said;
        format!("{before}{}{behind}", self.values[value])
    }

    /// Index of a value; `None` for an unknown value.
    pub fn find(&self, value: &str) -> Option<usize> {
        let value = value.trim().to_lowercase();
        self.values.iter().position(|known| *known == value)
    }
}

/// First slot that a message asks for.
pub fn asked_in(message: &str) -> Option<usize> {
    let message = message.to_lowercase();
    let mut words = message.split(|symbol: char| !symbol.is_alphanumeric());
    words.find_map(|word| SLOTS.iter().position(|slot| slot.cues.contains(&word)))
}
