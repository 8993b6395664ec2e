//! Settings of an episode, as read from options and stored in snapshots.

use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Error, OptionInfo, Options};

/// Whole-number options with their defaults and bounds, in the order of the fields of [`Settings`].
const NUMBERS: [(&str, &str, i32, f64, f64); 8] = [
    ("characters", "Length of the document, approximately, in characters", 4_000, 100.0, 524_288.0),
    ("parts", "Number of parts in which the document is shown", 8, 1.0, 256.0),
    ("questions", "Number of questions", 1, 1.0, 16.0),
    ("hops", "Number of facts that lead to an answer", 1, 1.0, 4.0),
    ("distractors", "Number of facts of the same form that lead to no answer", 4, 0.0, 64.0),
    ("changed", "Percentage of the numbers that a later part changes", 0, 0.0, 100.0),
    ("memory-chars", "Maximum length of the memory, in characters", 400, 1.0, 20_000.0),
    (
        "oracle-care",
        "Percentage of parts of which the oracle remembers the facts, not another sentence",
        100,
        0.0,
        100.0,
    ),
];

/// Option that selects when the questions are asked, and its choices.
const ASK: &str = "ask";
const ASKED: [&str; 2] = ["first", "last"];

/// Settings of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Approximate length of the document, in characters.
    pub characters: u64,
    /// Number of parts.
    pub parts: u64,
    /// Number of questions.
    pub questions: u64,
    /// Number of facts that lead to an answer.
    pub hops: u64,
    /// Number of facts of the same form that no question needs.
    pub distractors: u64,
    /// Percentage of numbers that change.
    pub changed: u64,
    /// Maximum length of the memory, in characters.
    pub memory_chars: u64,
    /// Percentage of parts of which the oracle remembers the facts.
    pub oracle_care: u64,
    /// Whether the questions are asked after the last part only.
    pub ask_last: bool,
}

impl Settings {
    /// Declared options.
    pub fn options() -> impl Iterator<Item = OptionInfo> {
        let numbers = NUMBERS
            .into_iter()
            .map(|(name, what, default, low, high)| OptionInfo::new(name, what, default).within(low, high));
        let ask = "Whether the questions come before the first part as well, or only after the last one";
        numbers.chain([OptionInfo::new(ASK, ask, ASKED[0]).one_of(&ASKED)])
    }

    /// Reads validated options.
    pub fn of(options: &Options) -> Self {
        let numbers = NUMBERS.map(|(name, ..)| u64::try_from(options.integer(name)).unwrap_or(0));
        Self::from_numbers(numbers, options.text(ASK) == ASKED[1])
    }

    fn from_numbers(numbers: [u64; NUMBERS.len()], ask_last: bool) -> Self {
        let [characters, parts, questions, hops, distractors, changed, memory_chars, oracle_care] = numbers;
        Self { characters, parts, questions, hops, distractors, changed, memory_chars, oracle_care, ask_last }
    }

    /// Writes the settings into a snapshot.
    pub fn write(&self, writer: Writer) -> Writer {
        let Self { characters, parts, questions, hops, distractors, changed, memory_chars, oracle_care, ask_last } =
            *self;
        let numbers = [characters, parts, questions, hops, distractors, changed, memory_chars, oracle_care];
        numbers.into_iter().fold(writer, Writer::integer).flag(ask_last)
    }

    /// Reads the settings from a snapshot.
    ///
    /// # Errors
    ///
    /// Invalid bytes, and numbers that no option allows.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let mut numbers = [0; NUMBERS.len()];
        for (number, (name, _, _, low, high)) in numbers.iter_mut().zip(NUMBERS) {
            *number = reader.integer()?;
            if !(low as u64..=high as u64).contains(number) {
                return Err(Error::bad_snapshot(format!("the snapshot's `{name}` is not {low} to {high}")));
            }
        }
        Ok(Self::from_numbers(numbers, reader.flag()?))
    }
}
