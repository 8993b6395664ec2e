//! Entries of a library that resemble a task, shown before it: recorded successes, or written skills.
//!
//! The library is an asset with JSON lines, as `host data export --format openai` writes them. It grows between runs: the
//! export of a run is appended, and the next run mounts the longer file. An episode sees the library of its run.

mod entry;
mod shelf;

use std::cell::RefCell;
use std::rc::Rc;

use gymkhana_sdk::environment::{Action, Info, ResetResult, Split, StepResult};
use gymkhana_sdk::wrapper::{Inner, InnerInfo, Wrapper, inner_splits, only};
use gymkhana_sdk::{Error, OptionInfo, Options, Rng, Task, plugin, text, text_of};

use entry::{Entry, HEADING};
use shelf::Shelf;

thread_local! {
    /// The latest shelf with the name of its asset. Assets do not change during a run.
    static LAST: RefCell<Option<(String, Rc<Shelf>)>> = const { RefCell::new(None) };
}

/// Tasks that see the library.
const SHOWN: [&str; 2] = ["all", "train"];

/// Option values of the run.
#[derive(Debug, Clone, PartialEq)]
struct Settings {
    file: String,
    entries: usize,
    /// Most characters of an entry.
    characters: usize,
    /// Whether tasks of every split see the library.
    everywhere: bool,
    probability: f64,
    /// Whether the entry of the same task may be shown.
    itself: bool,
}

impl Settings {
    fn of(options: &Options) -> Self {
        let count = |name: &str| usize::try_from(options.integer(name)).unwrap_or(0);
        Self {
            file: options.text("file").to_owned(),
            entries: count("entries"),
            characters: count("characters"),
            everywhere: options.text("splits") == "all",
            probability: options.number("probability"),
            itself: options.flag("same-task"),
        }
    }

    /// Whether an episode sees the library.
    fn shows(&self, task: &Task, seed: u64) -> bool {
        // A stream apart from the one that the environment makes of its seed.
        let draw = Rng::new(gymkhana_sdk::hash(format!("library/{seed}").as_bytes())).unit();
        (self.everywhere || task.split == "train") && draw < self.probability
    }

    /// What the agent sees of the library before a task.
    fn page(&self, entries: &[&Entry]) -> Option<String> {
        let texts = entries.iter().map(|entry| entry.text.chars().take(self.characters).collect::<String>());
        let all: Vec<String> = texts.collect();
        (!all.is_empty()).then(|| format!("{HEADING}\n\n{}", all.join("\n\n")))
    }
}

/// Episode: the environment inside. The library is part of its start alone.
pub struct Library {
    inner: Inner,
}

impl Wrapper for Library {
    fn info(inner: &InnerInfo) -> Info {
        let file = "Asset with JSON lines of `messages`, or of `title` and `text`";
        let splits = "Tasks that see the library: those of all splits, or of `train`";
        let same_task = "Whether the entry with the same task may be shown";
        let characters = OptionInfo::new("characters", "Most characters of an entry", 2000);
        let probability = OptionInfo::new("probability", "Probability that an episode sees the library", 1.0);
        inner
            .described(format!("{}; with entries of a library", inner.summary()))
            .option(OptionInfo::new("file", file, "library.jsonl"))
            .option(OptionInfo::new("entries", "Most entries before a task", 2).within(1.0, 32.0))
            .option(characters.within(1.0, 1e6))
            .option(OptionInfo::new("splits", splits, "all").one_of(&SHOWN))
            .option(probability.within(0.0, 1.0))
            .option(OptionInfo::new("same-task", same_task, false))
    }

    fn splits(options: &Options) -> Result<Vec<Split>, Error> {
        shelf(options.text("file"))?;
        inner_splits()
    }

    fn reset(task: &Task, options: &Options, seed: u64) -> Result<(Self, ResetResult), Error> {
        let settings = Settings::of(options);
        let (inner, started) = Inner::reset(task, seed)?;
        if !settings.shows(task, seed) {
            return Ok((Self { inner }, started));
        }
        let seat = started.next_seat;
        let seen = started.observations.iter().filter(|seen| seen.seat == seat).map(|seen| text_of(&seen.content));
        let words = seen.collect::<Vec<_>>().join("\n");
        let shelf = shelf(&settings.file)?;
        let page = settings.page(&shelf.search(&words, settings.entries, settings.itself));
        let before = page.map_or_else(ResetResult::default, |page| ResetResult::default().show(seat, text(page)));
        Ok((Self { inner }, before.followed_by(started)))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        self.inner.step(&action)
    }

    fn inner(&self) -> &Inner {
        &self.inner
    }

    fn snapshot(&self) -> Vec<u8> {
        vec![]
    }

    fn restore(state: &[u8], inner: Vec<Inner>) -> Result<Self, Error> {
        if !state.is_empty() {
            return Err(Error::bad_snapshot("the snapshot has a state, and this wrapper has none"));
        }
        Ok(Self { inner: only(inner)? })
    }
}

/// The shelf of an asset.
fn shelf(name: &str) -> Result<Rc<Shelf>, Error> {
    let known = LAST.with_borrow(|last| last.as_ref().filter(|(file, _)| file == name).map(|(_, shelf)| shelf.clone()));
    if let Some(shelf) = known {
        return Ok(shelf);
    }
    let shelf = Rc::new(Shelf::open(name)?);
    LAST.set(Some((name.to_owned(), shelf.clone())));
    Ok(shelf)
}

plugin! { wrapper: Library }

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(everywhere: bool, probability: f64) -> Settings {
        Settings { file: String::new(), entries: 2, characters: 5, everywhere, probability, itself: false }
    }

    fn task(split: &str) -> Task {
        Task { split: split.into(), index: 0 }
    }

    #[test]
    fn splits_and_probability_decide_who_sees_the_library() {
        let shown =
            |settings: Settings, split: &str| (0..10_000).filter(|seed| settings.shows(&task(split), *seed)).count();
        assert_eq!(shown(settings(true, 1.0), "test"), 10_000);
        assert_eq!(shown(settings(false, 1.0), "test"), 0);
        assert_eq!(shown(settings(false, 1.0), "train"), 10_000);
        // Three standard deviations are 150.
        assert!((4_850..=5_150).contains(&shown(settings(true, 0.5), "test")));
    }

    #[test]
    fn a_page_has_a_heading_and_entries_of_bounded_length() {
        let entry = |text: &str| Entry { title: "a".into(), text: text.into() };
        let (long, short) = (entry("äöüäöü"), entry("b"));
        let page = settings(true, 1.0).page(&[&long, &short]);
        assert_eq!(page.as_deref(), Some("From the library:\n\näöüäö\n\nb"));
        assert_eq!(settings(true, 1.0).page(&[]), None);
    }
}
