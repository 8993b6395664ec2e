//! Environment with one defect at a time, selected by the option `crook`: one for each check of the conformance suite.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use gymkhana_sdk::environment::{
    Action, Advice, Environment, Guidance, Info, Oracle, Privileged, ResetResult, Snapshot, Split, StateKey, StepResult,
};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Content, Error, Function, NamedValue, Parameters, PluginOptions, Task, hash, named, plugin, text};

/// Defects; the first option value is `none`.
const CROOKS: [&str; 31] = [
    "none",
    "missing-task",
    "extra-task",
    "same-splits",
    "costly-same-splits",
    "reversed-splits",
    "third-split",
    "endless-train",
    "endless-reversed",
    "alike-openings",
    "alike-splits",
    "bad-schema",
    "idle-schema",
    "counts-starts",
    "talks-across",
    "forgets",
    "trusting",
    "refuses-restore",
    "one-key",
    "counting-key",
    "restless",
    "lost-oracle",
    "hopeless-oracle",
    "fragile",
    "late-trap",
    "greedy",
    "late-work",
    "breaks-at-most",
    "breaks-both",
    "refuses-least",
    "refuses-both",
];

/// Turn limit.
const TURNS: u64 = 30;
/// Turn of the defects that appear only in long episodes.
const LATE: u64 = 20;
/// Greatest value of the option `size`.
const MAX_SIZE: i64 = 5;
/// Splits of six tasks each, of twelve if all open alike, or of 500 if starts are costly. The last exists for one defect only, and some have an endless
/// first split.
const SPLITS: [&str; 3] = ["train", "test", "dev"];

static STARTS: AtomicU64 = AtomicU64::new(0);
static STEPS: AtomicU64 = AtomicU64::new(0);

/// Names of the splits.
fn names(crook: &str) -> &'static [&'static str] {
    if crook == "third-split" { &SPLITS } else { &SPLITS[..2] }
}

/// Whether the first split is endless.
fn is_endless(crook: &str) -> bool {
    crook.starts_with("endless")
}

/// Whether all tasks open alike, so that only privileged facts and snapshots tell them apart.
fn is_alike(crook: &str) -> bool {
    crook.starts_with("alike")
}

/// Tasks of a finite split.
fn count(crook: &str) -> u64 {
    match crook {
        "costly-same-splits" => 500,
        _ if is_alike(crook) => 12,
        _ => 6,
    }
}

/// Counts to a number, with several instructions each.
fn work(most: u64) {
    (0..most).for_each(|number| {
        black_box(number);
    });
}

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Defect
    #[option(default = "none", choices = CROOKS)]
    crook: String,
    /// Unused
    #[option(default = 0)]
    spare_option_x: i64,
    /// Size without effect on the task
    #[option(default = 3, range = 1..=MAX_SIZE)]
    size: i64,
    /// Flag without effect on the task
    #[option(default = false)]
    doubled: bool,
}

/// Hides a word of the task and shows a counter; the episode ends when the agent names the word.
pub struct Crooked {
    crook: String,
    word: u64,
    turns: u64,
    looks: Cell<u64>,
}

impl Crooked {
    fn is(&self, crook: &str) -> bool {
        self.crook == crook
    }

    fn look(&self) {
        self.looks.set(self.looks.get() + 1);
    }
}

impl Environment for Crooked {
    type Options = Options;

    fn info() -> Info {
        Info::new("Environment with a selectable defect", ["agent"]).reward_range(0.0, 1.0)
    }

    fn splits(options: &Options) -> Result<Vec<Split>, Error> {
        let crook = options.crook.as_str();
        let split = |name: &&str| {
            if *name == "train" && is_endless(crook) { Split::endless(*name) } else { Split::of(*name, count(crook)) }
        };
        Ok(names(crook).iter().map(split).collect())
    }

    fn reset(task: &Task, options: &Options, _seed: u64) -> Result<(Self, ResetResult), Error> {
        let (crook, size) = (options.crook.clone(), options.size);
        let is_both = size == MAX_SIZE && options.doubled;
        if (crook == "refuses-least" && size == 1) || (crook == "refuses-both" && is_both) {
            return Err(Error::invalid("there is no such size"));
        }
        if !names(&crook).contains(&task.split.as_str()) {
            return Err(Error::no_split(task, names(&crook)));
        }
        let tasks = match crook.as_str() {
            "missing-task" => 5,
            "extra-task" => 7,
            _ if task.split == "train" && is_endless(&crook) => u64::MAX,
            _ => count(&crook),
        };
        if task.index >= tasks {
            return Err(Error::not_found(format!("there are {tasks} tasks")));
        }
        let (split, index) = match (crook.as_str(), task.split.as_str()) {
            ("same-splits" | "costly-same-splits", _) | ("third-split", "dev") => ("train", task.index),
            ("reversed-splits" | "endless-reversed", "test") => ("train", 5 - task.index),
            ("alike-splits", "test") => ("train", 11 - task.index),
            (_, split) => (split, task.index),
        };
        if crook == "costly-same-splits" {
            work(1_500_000);
        }
        // An endless split would soon have every word of three digits.
        let words = if is_endless(&crook) { 1_000_000_000 } else { 1000 };
        let word = hash(format!("{split}/{index}").as_bytes()) % words;
        let starts = STARTS.fetch_add(1, Ordering::Relaxed);
        let shown = if crook == "counts-starts" { starts } else { word % 10 };
        let mut function = Function::new("guess", "Guesses the word.", Parameters::new().text("word", "three digits"));
        match crook.as_str() {
            "bad-schema" => function.parameters = r#"{"type": "objekt"}"#.to_owned(),
            "idle-schema" => function.parameters = r#"{"type": "object", "required": ["word"]}"#.to_owned(),
            _ => {}
        }
        let words = if is_alike(&crook) {
            "The word is hidden.".to_owned()
        } else {
            format!("The word ends in {shown}; its task is {word}.")
        };
        let started = ResetResult::observe(words).offer(0, vec![function]);
        let is_broken = (crook == "breaks-at-most" && size == MAX_SIZE) || (crook == "breaks-both" && is_both);
        let crook = if is_broken { "broken".to_owned() } else { crook };
        Ok((Self { crook, word, turns: 0, looks: Cell::new(0) }, started))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        self.turns += 1;
        let steps = STEPS.fetch_add(1, Ordering::Relaxed);
        let said = match action.call() {
            Some(call) => call.text("word").unwrap_or_default(),
            None => action.text(),
        };
        assert!(!(self.is("fragile") && said.is_empty()), "nothing was said");
        assert!(!self.is("broken"), "the size is too large");
        assert!(!(self.is("late-trap") && self.turns > LATE), "defect `late-trap`");
        if self.is("late-work") && self.turns > LATE {
            work(4_500_000);
        }
        let shown = match self.crook.as_str() {
            "talks-across" => steps,
            "restless" => self.looks.get(),
            _ => self.turns,
        };
        if said == self.word.to_string() && !self.is("late-trap") && !self.is("late-work") {
            return Ok(StepResult::observe("Yes.").reward(1.0).extra("success", !self.is("hopeless-oracle")).end());
        }
        let stepped = StepResult::observe(format!("No, {shown}.")).extra("success", false);
        let stepped = if self.is("greedy") { stepped.reward(1.0) } else { stepped };
        Ok(if self.turns < TURNS { stepped } else { stepped.truncate() })
    }
}

impl Snapshot for Crooked {
    fn snapshot(&self) -> Vec<u8> {
        self.look();
        let turns = if self.is("forgets") { 0 } else { self.turns };
        Writer::new().text(&self.crook).integer(self.word).integer(turns).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let (crook, word, turns) = (reader.text()?.to_owned(), reader.integer()?, reader.integer()?);
        reader.end()?;
        if crook == "refuses-restore" {
            return Err(Error::bad_snapshot("no state can be restored"));
        }
        assert!(crook != "trusting" || word < 1000, "the host gives back what it was given");
        Ok(Self { crook, word, turns, looks: Cell::new(0) })
    }
}

impl StateKey for Crooked {
    fn state_key(&self) -> Vec<u8> {
        self.look();
        match self.crook.as_str() {
            "one-key" => vec![],
            "counting-key" => Writer::new().integer(self.looks.get()).finish(),
            _ => Writer::new().integer(self.word).integer(self.turns).finish(),
        }
    }
}

impl Privileged for Crooked {
    fn privileged(&self) -> Vec<NamedValue> {
        vec![named("answer", self.word.to_string())]
    }
}

impl Guidance for Crooked {
    fn guidance(&self) -> Content {
        text("Say the word.")
    }
}

impl Oracle for Crooked {
    fn advise(&self, _tools: &[String], _results: &[String]) -> Result<Advice, Error> {
        let word = if self.is("lost-oracle") { "the word".to_owned() } else { self.word.to_string() };
        Ok(Advice::Message(word))
    }
}

plugin! { environment: Crooked { snapshot, state_key, privileged, oracle, guidance } }
