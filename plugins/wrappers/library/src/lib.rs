//! Entries of a library that resemble a task, shown before it: recorded successes, or written skills.
//!
//! The library is an asset with JSON lines, as `host data export --format openai` writes them. It grows between runs: the
//! export of a run is appended, and the next run mounts the longer file. An episode sees the library of its run.

mod entry;
mod shelf;

use std::cell::RefCell;
use std::rc::Rc;

use gymkhana_sdk::environment::{Info, ResetResult, Split};
use gymkhana_sdk::wrapper::{Inner, InnerInfo, Wrapper, inner_splits};
use gymkhana_sdk::{Error, OptionValue, PluginOptions, Rng, Task, plugin, text, text_of};

use entry::{Entry, HEADING};
use shelf::Shelf;

thread_local! {
    /// The latest shelf with the name of its asset. Assets do not change during a run.
    static LAST: RefCell<Option<(String, Rc<Shelf>)>> = const { RefCell::new(None) };
}

/// Tasks that see the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
enum Shown {
    All,
    Train,
}

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Asset with JSON lines of `messages`, or of `title` and `text`
    #[option(default = "library.jsonl")]
    file: String,
    /// Most entries before a task
    #[option(default = 2, range = 1..=32)]
    entries: usize,
    /// Most characters of an entry
    #[option(default = 2000, range = 1..=1_000_000)]
    characters: usize,
    /// Tasks that see the library: those of all splits, or of `train`
    #[option(default = Shown::All)]
    splits: Shown,
    /// Probability that an episode sees the library
    #[option(default = 1.0, range = 0.0..=1.0)]
    probability: f64,
    /// Whether the entry with the same task may be shown
    #[option(default = false)]
    same_task: bool,
}

impl Options {
    /// Whether an episode sees the library.
    fn shows(&self, task: &Task, seed: u64) -> bool {
        // A stream apart from the one that the environment makes of its seed.
        let draw = Rng::new(gymkhana_sdk::hash(format!("library/{seed}").as_bytes())).unit();
        (self.splits == Shown::All || task.split == "train") && draw < self.probability
    }

    /// What the agent sees of the library before a task.
    fn page(&self, entries: &[&Entry]) -> Option<String> {
        let texts = entries.iter().map(|entry| entry.text.chars().take(self.characters).collect::<String>());
        let all: Vec<String> = texts.collect();
        (!all.is_empty()).then(|| format!("{HEADING}\n\n{}", all.join("\n\n")))
    }
}

/// The library is part of the start of an episode alone.
pub struct Library;

impl Wrapper for Library {
    type Options = Options;
    type State = ();

    fn info(inner: &InnerInfo) -> Info {
        inner.described(format!("{}; with entries of a library", inner.summary()))
    }

    fn splits(options: &Options) -> Result<Vec<Split>, Error> {
        shelf(&options.file)?;
        inner_splits()
    }

    fn reset(task: &Task, options: &Options, seed: u64) -> Result<((), Vec<Inner>, ResetResult), Error> {
        let (inner, result) = Inner::reset(task, seed)?;
        if !options.shows(task, seed) {
            return Ok(((), vec![inner], result));
        }
        let seat = result.next_seat;
        let seen = result.observations.iter().filter(|seen| seen.seat == seat).map(|seen| text_of(&seen.content));
        let words = seen.collect::<Vec<_>>().join("\n");
        let shelf = shelf(&options.file)?;
        let page = options.page(&shelf.search(&words, options.entries, options.same_task));
        let before = page.map_or_else(ResetResult::default, |page| ResetResult::default().show(seat, text(page)));
        Ok(((), vec![inner], before.followed_by(result)))
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

    fn options(splits: Shown, probability: f64) -> Options {
        Options { characters: 5, splits, probability, ..Options::default() }
    }

    fn task(split: &str) -> Task {
        Task { split: split.into(), index: 0 }
    }

    #[test]
    fn splits_and_probability_decide_who_sees_the_library() {
        let shown =
            |options: Options, split: &str| (0..10_000).filter(|seed| options.shows(&task(split), *seed)).count();
        assert_eq!(shown(options(Shown::All, 1.0), "test"), 10_000);
        assert_eq!(shown(options(Shown::Train, 1.0), "test"), 0);
        assert_eq!(shown(options(Shown::Train, 1.0), "train"), 10_000);
        // Three standard deviations are 150.
        assert!((4_850..=5_150).contains(&shown(options(Shown::All, 0.5), "test")));
    }

    #[test]
    fn a_page_has_a_heading_and_entries_of_bounded_length() {
        let entry = |text: &str| Entry { title: "a".into(), text: text.into() };
        let (long, short) = (entry("äöüäöü"), entry("b"));
        let page = options(Shown::All, 1.0).page(&[&long, &short]);
        assert_eq!(page.as_deref(), Some("From the library:\n\näöüäö\n\nb"));
        assert_eq!(options(Shown::All, 1.0).page(&[]), None);
    }
}
