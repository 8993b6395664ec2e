//! What a guest wants: one value of each slot. Train and held-out guests never want the same.

use gymkhana_sdk::{Rng, hash};

/// One thing that a table is booked by.
pub struct Slot {
    /// Its name, as an argument and in records.
    pub name: &'static str,
    /// What the agent might ask.
    pub question: &'static str,
    /// Words that ask for it.
    cues: &'static [&'static str],
    /// How a guest says it, around the value.
    said: [&'static str; 2],
    /// What it may be.
    pub values: &'static [&'static str],
}

/// The slots, in the order of a wish.
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

/// One of this many wishes is held out.
const HELD_OUT: u64 = 8;

/// Which part of all wishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// To learn from.
    Train,
    /// Held out.
    Test,
}

impl Split {
    /// As tasks write them.
    pub const NAMES: [&str; 2] = ["train", "test"];

    /// The split of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Train, Self::Test].into_iter().zip(Self::NAMES).find_map(|(split, own)| (own == name).then_some(split))
    }
}

/// The place of the wanted value in each slot's list.
pub type Wish = [usize; SLOTS.len()];

/// The wish at a place of a split, and which slots the guest names without being asked: `told` of them.
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

/// Where a wish belongs: it depends on nothing but what is wanted.
pub fn split_of(wish: &Wish) -> Split {
    let held_out = hash(format!("{wish:?}").as_bytes()).is_multiple_of(HELD_OUT);
    if held_out { Split::Test } else { Split::Train }
}

impl Slot {
    /// How a guest says this value.
    pub fn said(&self, value: usize) -> String {
        let [before, behind] = self.said;
        format!("{before}{}{behind}", self.values[value])
    }

    /// The place of a value; none if there is no such value.
    pub fn find(&self, value: &str) -> Option<usize> {
        let value = value.trim().to_lowercase();
        self.values.iter().position(|known| *known == value)
    }
}

/// The slot for which a message asks first.
pub fn asked_in(message: &str) -> Option<usize> {
    let message = message.to_lowercase();
    let mut words = message.split(|symbol: char| !symbol.is_alphanumeric());
    words.find_map(|word| SLOTS.iter().position(|slot| slot.cues.contains(&word)))
}
