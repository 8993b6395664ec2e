//! Limits of a memory, as read from options and stored in snapshots.

use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Error, OptionInfo, Options};

/// Greatest length of a query, in characters: a search compares each of its words with each word of the memory.
pub const QUERY_CHARS: usize = 1_000;

/// Options with their defaults and bounds, in the order of the fields of [`Limits`].
const OPTIONS: [(&str, &str, i32, f64); 5] = [
    ("core-chars", "Maximum length of the core memory, in characters", 1_000, 10_000.0),
    ("entries", "Maximum number of entries of the episodic and of the semantic memory", 100, 1_000.0),
    ("entry-chars", "Maximum length of an entry, in characters", 500, 4_000.0),
    ("total-chars", "Maximum length of all memories together, in characters", 20_000, 200_000.0),
    ("results", "Maximum number of entries that a search shows", 5, 50.0),
];

/// Limits of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of the core memory, in characters.
    pub core_chars: usize,
    /// Maximum number of entries of each list.
    pub entries: usize,
    /// Maximum length of an entry, in characters.
    pub entry_chars: usize,
    /// Maximum length of all memories together, in characters.
    pub total_chars: usize,
    /// Maximum number of entries that a search shows.
    pub results: usize,
}

impl Limits {
    /// Options that set the limits.
    pub fn options() -> impl Iterator<Item = OptionInfo> {
        OPTIONS.into_iter().map(|(name, what, default, most)| OptionInfo::new(name, what, default).within(1.0, most))
    }

    /// Reads validated options.
    pub fn of(options: &Options) -> Self {
        Self::from_numbers(OPTIONS.map(|(name, ..)| usize::try_from(options.integer(name)).unwrap_or(1)))
    }

    fn from_numbers([core_chars, entries, entry_chars, total_chars, results]: [usize; OPTIONS.len()]) -> Self {
        Self { core_chars, entries, entry_chars, total_chars, results }
    }

    /// Writes the limits into a snapshot.
    pub fn write(&self, writer: Writer) -> Writer {
        let Self { core_chars, entries, entry_chars, total_chars, results } = *self;
        let numbers = [core_chars, entries, entry_chars, total_chars, results];
        numbers.into_iter().fold(writer, |writer, number| writer.integer(number as u64))
    }

    /// Reads the limits from a snapshot.
    ///
    /// # Errors
    ///
    /// Invalid bytes, and limits that no option allows.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let mut numbers = [0; OPTIONS.len()];
        for (number, (name, _, _, most)) in numbers.iter_mut().zip(OPTIONS) {
            let allowed = usize::try_from(reader.integer()?).ok().filter(|found| (1..=most as usize).contains(found));
            *number =
                allowed.ok_or_else(|| Error::bad_snapshot(format!("the snapshot's `{name}` is not 1 to {most}")))?;
        }
        Ok(Self::from_numbers(numbers))
    }
}
