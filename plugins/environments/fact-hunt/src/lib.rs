//! Multi-hop questions: each names one entity of a generated world and asks for another entity some steps away. The
//! world's pages are the set-up data of the tool `search`.
//!
//! The first message without a call ends the episode. A reward judges it from the privileged `answer`. Every question
//! has a separate world, so knowledge of other questions does not help.

mod question;
mod world;

use gymkhana_sdk::environment::{
    Action, Advice, Environment, Guidance, Info, Oracle, Privileged, ResetResult, Snapshot, Split, StateKey, StepResult,
};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Call, Content, Error, NamedValue, PluginOptions, Task, named, plugin, text};

use question::Question;

const SPLITS: [&str; 2] = ["train", "test"];
/// Limits of steps and pages of a question.
const HOPS: u64 = 6;
const PAGES: u64 = 2_000;

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Steps from the named entity to the answer
    #[option(default = 2, range = 1..=HOPS)]
    hops: u64,
    /// Number of pages of the corpus
    #[option(default = 60, range = 10..=PAGES)]
    pages: u64,
}

/// Episode: one question and whether it was answered.
pub struct FactHunt {
    test: bool,
    index: u64,
    hops: u64,
    pages: u64,
    question: Question,
    answered: bool,
}

impl FactHunt {
    fn new(test: bool, index: u64, hops: u64, pages: u64) -> Self {
        let question = Question::at(test, index, hops as usize, pages as usize);
        Self { test, index, hops, pages, question, answered: false }
    }

    /// Calls of a walk from page to page: a search for each entity except the last, and a fetch of the next page.
    fn calls(&self) -> String {
        let walked = 0..self.question.walk.len() - 1;
        let calls = walked.flat_map(|step| {
            let page = self.question.world.id(self.question.walk[step]);
            let search = serde_json::json!({ "name": "search", "arguments": { "query": self.name(step) } });
            [search, serde_json::json!({ "name": "fetch", "arguments": { "id": page } })]
        });
        serde_json::Value::from_iter(calls).to_string()
    }

    fn name(&self, step: usize) -> &str {
        &self.question.world.entities[self.question.walk[step]].name
    }
}

impl Environment for FactHunt {
    type Options = Options;

    fn info() -> Info {
        Info::new("Multi-hop questions over a generated corpus", ["reader"])
    }

    fn splits(_options: &Options) -> Result<Vec<Split>, Error> {
        Ok(SPLITS.map(Split::endless).to_vec())
    }

    fn reset(task: &Task, options: &Options, _seed: u64) -> Result<(Self, ResetResult), Error> {
        let split =
            SPLITS.iter().position(|split| *split == task.split).ok_or_else(|| Error::no_split(task, &SPLITS))?;
        let hunt = Self::new(split == 1, task.index, options.hops, options.pages);
        let started = ResetResult::observe(&hunt.question.text).tool_setup("search", hunt.question.corpus());
        Ok((hunt, started))
    }

    fn step(&mut self, _action: Action) -> Result<StepResult, Error> {
        self.answered = true;
        Ok(StepResult::new().end())
    }
}

impl Snapshot for FactHunt {
    /// The task determines the question, so the snapshot contains only the task.
    fn snapshot(&self) -> Vec<u8> {
        let task = Writer::new().flag(self.test).integer(self.index).integer(self.hops).integer(self.pages);
        task.flag(self.answered).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let (test, index, hops, pages) = (reader.flag()?, reader.integer()?, reader.integer()?, reader.integer()?);
        let answered = reader.flag()?;
        reader.end()?;
        if !(1..=HOPS).contains(&hops) || !(10..=PAGES).contains(&pages) {
            return Err(Error::bad_snapshot("the snapshot's hops or pages are out of range"));
        }
        Ok(Self { answered, ..Self::new(test, index, hops, pages) })
    }
}

impl StateKey for FactHunt {
    fn state_key(&self) -> Vec<u8> {
        Writer::new().text(&self.question.text).text(self.question.answer()).flag(self.answered).finish()
    }
}

impl Privileged for FactHunt {
    fn privileged(&self) -> Vec<NamedValue> {
        let pages = self.question.walk.iter().map(|index| self.question.world.id(*index)).collect::<Vec<_>>();
        vec![named("answer", self.question.answer()), named("pages", pages.join(" ")), named("calls", self.calls())]
    }
}

impl Guidance for FactHunt {
    fn guidance(&self) -> Content {
        text(format!("Begin with the page about {}; each page names what to look for next.", self.name(0)))
    }
}

impl Oracle for FactHunt {
    /// Searches for each entity of the walk, fetches its page and answers with the last entity's name.
    fn advise(&self, tools: &[String], results: &[String]) -> Result<Advice, Error> {
        let has = |name: &str| tools.iter().any(|tool| tool == name);
        if !has("search") || !has("fetch") {
            return Ok(Advice::Message(self.question.answer().to_owned()));
        }
        let call = |name: &str, arguments: serde_json::Value| {
            Ok(Advice::Calls(vec![Call::advised(name, arguments.to_string())]))
        };
        let search = |step: usize| call("search", serde_json::json!({ "query": self.name(step) }));
        let Some(result) = results.last() else { return search(0) };
        let last = self.question.walk.len() - 1;
        let begins = |step: usize, before: &str| {
            result.starts_with(&format!("{before}[{}]", self.question.world.id(self.question.walk[step])))
        };
        if let Some(step) = (0..last).find(|step| begins(*step, "")) {
            // Its fetched page names the next entity.
            return if step + 1 == last {
                Ok(Advice::Message(self.question.answer().to_owned()))
            } else {
                search(step + 1)
            };
        }
        // A search listed its page, possibly after pages that mention it.
        let listed = (0..last).rev().find(|step| result.contains(&format!("] {}\n", self.name(*step))));
        match listed {
            Some(step) => call("fetch", serde_json::json!({ "id": self.question.world.id(self.question.walk[step]) })),
            None => Ok(Advice::Message(self.question.answer().to_owned())),
        }
    }
}

plugin! { environment: FactHunt { snapshot, state_key, privileged, guidance, oracle } }

#[cfg(test)]
mod tests {
    use super::*;

    fn hunt() -> FactHunt {
        FactHunt::new(false, 3, 3, 50)
    }

    fn advised(hunt: &FactHunt, results: &[String]) -> Advice {
        hunt.advise(&["search".to_owned(), "fetch".to_owned()], results).expect("advice")
    }

    #[test]
    fn the_expert_walks_from_page_to_page() {
        let hunt = hunt();
        let Advice::Calls(calls) = advised(&hunt, &[]) else { panic!("a search") };
        assert!(calls[0].name == "search" && calls[0].arguments.contains(hunt.name(0)));
        let page = |step: usize| hunt.question.world.id(hunt.question.walk[step]);
        let listed = format!("1. [{}] {}\n   …", page(1), hunt.name(1));
        let Advice::Calls(calls) = advised(&hunt, &[listed]) else { panic!("a fetch") };
        assert!(calls[0].name == "fetch" && calls[0].arguments.contains(&page(1)));
        let fetched = format!("[{}] {} (page 1 of 1)\n…", page(2), hunt.name(2));
        assert_eq!(advised(&hunt, &[fetched]), Advice::Message(hunt.question.answer().to_owned()));
        let alone = hunt.advise(&[], &[]).expect("advice");
        assert_eq!(alone, Advice::Message(hunt.question.answer().to_owned()));
    }

    #[test]
    fn a_snapshot_contains_the_complete_state() {
        let mut hunt = hunt();
        hunt.step(Action::say(0, "Varno")).expect("a step");
        let again = FactHunt::restore(&hunt.snapshot()).expect("a snapshot");
        assert_eq!((again.state_key(), again.privileged()), (hunt.state_key(), hunt.privileged()));
        assert!(
            FactHunt::restore(&Writer::new().flag(true).integer(1).integer(99).integer(50).flag(false).finish())
                .is_err()
        );
    }
}
